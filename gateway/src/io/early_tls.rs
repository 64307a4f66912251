//! TLS to a client that sends early data (RFC 8446 §2.3): its first requests are read, and may be
//! answered, before the handshake has ended.
//!
//! The server stream of tokio-rustls exists only after the handshake, so this one drives rustls
//! itself. It serves only clients that offer early data.

use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use rustls::server::Accepted;
use rustls::{ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Whether the handshake of a connection has ended. Until then, what arrives on it may be a replay
/// (RFC 8446 §8).
#[derive(Clone, Debug, Default)]
pub struct HandshakeProgress(Arc<AtomicBool>);

impl HandshakeProgress {
    /// Returns whether the client has proved that it is present.
    pub fn is_complete(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Records that the client has proved that it is present.
    pub(crate) fn complete(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The stream of a client that has offered early data.
#[derive(Debug)]
pub(crate) struct EarlyTls {
    tcp: TcpStream,
    connection: ServerConnection,
    progress: HandshakeProgress,
}

impl EarlyTls {
    /// Continues the handshake: up to the server's Finished if early data is accepted, and to the
    /// end otherwise.
    ///
    /// # Errors
    /// The handshake fails. The client has then received an alert.
    pub(crate) async fn accept(
        accepted: Accepted,
        tcp: TcpStream,
        config: Arc<ServerConfig>,
    ) -> io::Result<Self> {
        let connection = match accepted.into_connection(config) {
            Ok(connection) => connection,
            Err((error, mut alert)) => {
                // The client may have left.
                let _ = alert.write(&mut Socket(&tcp));
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        };
        let mut stream = Self { tcp, connection, progress: HandshakeProgress::default() };
        poll_fn(|cx| stream.poll_accept(cx)).await?;
        Ok(stream)
    }

    /// Returns the TCP socket.
    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Returns the state of TLS.
    pub(crate) fn connection(&self) -> &ServerConnection {
        &self.connection
    }

    /// Returns the progress of the handshake, which changes with later reads.
    pub(crate) fn progress(&self) -> HandshakeProgress {
        self.progress.clone()
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        while self.connection.is_handshaking() && self.connection.early_data().is_none() {
            ready!(self.poll_receive(cx))?;
            ready!(self.poll_send(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends the records that wait to be sent.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Socket(&self.tcp)) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.tcp.poll_write_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends as much as the socket takes now. The rest follows with the next call for this stream.
    fn try_send(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.poll_send(cx) {
            Poll::Ready(result) => result,
            Poll::Pending => Ok(()),
        }
    }

    /// Receives and decrypts records.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let read = loop {
            ready!(self.tcp.poll_read_ready(cx))?;
            match self.connection.read_tls(&mut Socket(&self.tcp)) {
                // The readiness was stale. The attempt has cleared it.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => break read?,
            }
        };
        if let Err(error) = self.connection.process_new_packets() {
            // The alert; the error matters more than whether it arrives.
            let _ = self.try_send(cx);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        if !self.connection.is_handshaking() {
            self.progress.complete();
        } else if read == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        Poll::Ready(Ok(()))
    }

    /// Reads decrypted bytes, early data first. Returns false if there are none yet.
    fn read_decrypted(&mut self, buf: &mut ReadBuf<'_>) -> io::Result<bool> {
        if let Some(mut early) = self.connection.early_data() {
            let read = early.read(buf.initialize_unfilled())?;
            buf.advance(read);
            if read > 0 {
                return Ok(true);
            }
        }
        match self.connection.reader().read(buf.initialize_unfilled()) {
            Ok(read) => {
                buf.advance(read);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn poll_write_with(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut dyn Write) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        // What rustls holds is bounded, because no byte is added before the last ones have left.
        ready!(self.poll_send(cx))?;
        let written = write(&mut self.connection.writer())?;
        self.try_send(cx)?;
        Poll::Ready(Ok(written))
    }
}

impl AsyncRead for EarlyTls {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while buf.remaining() > 0 && !self.read_decrypted(buf)? {
            ready!(self.poll_receive(cx))?;
            // What rustls sends on its own, like tickets after the handshake.
            self.try_send(cx)?;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for EarlyTls {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |writer| writer.write(buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |writer| writer.write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.send_close_notify();
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

/// The socket for rustls, which reads and writes without waiting.
struct Socket<'s>(&'s TcpStream);

impl Read for Socket<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buf)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.try_write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
