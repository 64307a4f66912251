//! The byte stream of a connection to a client or an endpoint: TCP, or TLS over TCP.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pingora_core::protocols::l4::ext::get_tcp_info;
use rustix::net::{SendFlags, send};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use super::early_tls::EarlyTls;

/// `MORE`: the end of the stream follows and shares the last segment.
const LAST: SendFlags = SendFlags::MORE.union(SendFlags::NOSIGNAL);

/// TCP, or TLS over TCP. The latter is boxed: rustls holds over a kilobyte per connection.
#[derive(Debug)]
pub(crate) enum Transport {
    /// TCP.
    Plain(TcpStream),
    /// TLS on TCP, after the handshake.
    Tls(Box<TlsStream<TcpStream>>),
    /// TLS on TCP, to a client that has offered early data.
    Early(Box<EarlyTls>),
}

/// Calls the same function on either stream.
macro_rules! either {
    ($transport:expr, $stream:ident => $call:expr) => {
        match $transport.get_mut() {
            Transport::Plain($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
            Transport::Tls($stream) => {
                let $stream = Pin::new($stream.as_mut());
                $call
            }
            Transport::Early($stream) => {
                let $stream = Pin::new($stream.as_mut());
                $call
            }
        }
    };
}

impl Transport {
    /// Returns the TCP socket.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
            Self::Early(stream) => stream.tcp(),
        }
    }

    /// Returns whether the bytes on the socket are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    /// Returns the file descriptor of the socket.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.tcp().as_raw_fd()
    }

    /// Writes the last bytes before the connection is closed. Over TCP the kernel holds them until
    /// the end of the stream and sends both in one segment, which saves a packet. TLS still has to
    /// send its close_notify.
    pub(crate) fn poll_write_last(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self::Plain(stream) = self else { return Pin::new(self).poll_write(cx, bytes) };
        loop {
            ready!(stream.poll_write_ready(cx))?;
            let sent = stream.try_io(Interest::WRITABLE, || Ok(send(&*stream, bytes, LAST)?));
            match sent {
                // The readiness was stale. `try_io` has cleared it.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }
}

/// Returns whether the kernel has reported that the peer closed its side, even if received bytes
/// are still unread.
pub(crate) fn has_left(descriptor: RawFd) -> bool {
    const ESTABLISHED: u8 = 1;
    get_tcp_info(descriptor).is_ok_and(|info| info.tcpi_state != ESTABLISHED)
}

/// Returns how many bytes the peer has acknowledged, or `None` if nothing is unacknowledged or
/// unsent.
pub(crate) fn acknowledged_in_flight(descriptor: RawFd) -> Option<u64> {
    let info = get_tcp_info(descriptor).ok()?;
    (info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0).then_some(info.tcpi_bytes_acked)
}

/// A TLS stream that ends without close_notify ends like TCP, as in nginx: many servers send none.
/// HTTP defines where a message ends. A body that ends with the connection cannot be distinguished
/// from a truncated one.
impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match either!(self, stream => stream.poll_read(cx, buf)) {
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            read => read,
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_shutdown(cx))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    /// Returns both ends of a connection on loopback.
    pub(crate) async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (one, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn the_last_bytes_come_before_the_end() {
        let (mut client, ours) = pair().await;
        let mut ours = Transport::Plain(ours);
        let reader = tokio::spawn(async move {
            let mut all = Vec::new();
            client.read_to_end(&mut all).await.map(|_| all)
        });
        // More than the socket buffers hold.
        let bytes: Vec<u8> = (0..8 * 1024 * 1024).map(|number: u32| number.to_le_bytes()[1]).collect();
        let mut sent = 0;
        while sent < bytes.len() {
            sent += poll_fn(|cx| ours.poll_write_last(cx, &bytes[sent..])).await.unwrap();
        }
        drop(ours);
        assert!(reader.await.unwrap().unwrap() == bytes);
    }
}
