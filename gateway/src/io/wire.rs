//! A client's byte stream with the bytes read ahead, and the ways to close it.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, sleep, timeout};

use crate::io::budget::{self, Reservation};
use crate::io::scratch;
use crate::io::transport::{Transport, acknowledged_in_flight};

/// Bytes per read while memory is short: more than most heads have.
pub(crate) const READ_SIZE: usize = 4096;
/// Time limit for writing the end of TLS or TCP.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval of checks whether the client has received everything.
const LOOK: Duration = Duration::from_millis(50);

/// Limits for a client that goes on sending before its connection is closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LingerLimits {
    /// Total time.
    pub(crate) total: Duration,
    /// Time between two reads.
    pub(crate) silence: Duration,
    /// Bytes that it may send.
    pub(crate) bytes: u64,
}

/// Maximum capacity in bytes of a buffer that is kept.
const KEPT: usize = 16 * 1024;
/// Bytes per read while memory is plentiful: most heads with their bodies fit, and the buffer is
/// still kept.
const READ_WITH_BODY: usize = KEPT;

thread_local! {
    static SPARE: Cell<BytesMut> = Cell::new(BytesMut::new());
}

/// A transport with bytes that were read but not yet consumed.
#[derive(Debug)]
pub(crate) struct Wire {
    /// The stream.
    pub(crate) transport: Transport,
    /// Bytes read ahead.
    pub(crate) ahead: BytesMut,
    /// Reservation for them, if they exceed a usual head.
    share: Reservation,
}

impl Wire {
    /// Wraps a transport. Nothing is read yet.
    pub(crate) fn new(transport: Transport) -> Box<Self> {
        Box::new(Self { transport, ahead: BytesMut::new(), share: Reservation::default() })
    }

    /// Reads the available bytes and returns their number, 0 at the end of the stream. Holds no
    /// buffer while it waits: it reads into the buffer shared by all connections of the thread and
    /// copies from there.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let most = if budget::has_plenty() { READ_WITH_BODY } else { READ_SIZE };
        scratch::read(|buffer| {
            let mut buf = ReadBuf::new(&mut buffer[..most]);
            ready!(Pin::new(&mut self.transport).poll_read(cx, &mut buf))?;
            if self.ahead.capacity() == 0 {
                self.ahead = SPARE.take();
                self.ahead.reserve(READ_SIZE);
            }
            self.ahead.extend_from_slice(buf.filled());
            if self.ahead.len() > READ_SIZE {
                self.share.hold(self.ahead.capacity());
            }
            Poll::Ready(Ok(buf.filled().len()))
        })
    }

    /// Returns the next `length` bytes, at most [`scratch::READ`], if they have arrived. Otherwise
    /// the arrived ones stay ahead.
    pub(crate) fn take_arrived(&mut self, cx: &mut Context<'_>, length: usize) -> Option<Bytes> {
        while self.ahead.len() < length {
            let missing = length - self.ahead.len();
            let read = scratch::read(|buffer| {
                let mut buf = ReadBuf::new(&mut buffer[..missing]);
                ready!(Pin::new(&mut self.transport).poll_read(cx, &mut buf))?;
                if self.ahead.capacity() < length {
                    self.ahead.reserve(missing);
                }
                self.ahead.extend_from_slice(buf.filled());
                Poll::Ready(io::Result::Ok(buf.filled().len()))
            });
            if !matches!(read, Poll::Ready(Ok(1..))) {
                if self.ahead.len() > READ_SIZE {
                    self.share.hold(self.ahead.capacity());
                }
                return None;
            }
        }
        let taken = self.ahead.split_to(length).freeze();
        self.share.hold(if self.ahead.len() > READ_SIZE { self.ahead.capacity() } else { 0 });
        Some(taken)
    }

    /// [`poll_fill`](Self::poll_fill) as a future.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        poll_fn(|cx| self.poll_fill(cx)).await
    }

    /// Releases an empty buffer before a wait, for use by other connections of this thread.
    pub(crate) fn rest(&mut self) {
        if self.ahead.is_empty() && self.ahead.capacity() > 0 {
            self.share.hold(0);
            let mut ahead = mem::take(&mut self.ahead);
            if ahead.try_reclaim(READ_SIZE) && ahead.capacity() <= KEPT {
                SPARE.set(ahead);
            }
        }
    }

    /// Ends the sending side and waits until the kernel reports that the client has received
    /// everything, or that it took nothing for `time_limit`. A container that exits discards what
    /// its kernel has not sent.
    pub(crate) async fn deliver(&mut self, time_limit: Duration) {
        // The shutdown comes first: the kernel holds the last bytes until the end of the stream, or
        // for 200 ms ([`Transport::poll_write_last`]).
        let _ = timeout(CLOSE_TIMEOUT, self.transport.shutdown()).await;
        let (mut before, mut since) = (None, Instant::now());
        while let Some(arrived) = acknowledged_in_flight(self.transport.descriptor()) {
            if before.replace(arrived) != Some(arrived) {
                since = Instant::now();
            } else if since.elapsed() > time_limit {
                return;
            }
            sleep(LOOK).await;
        }
    }

    /// Returns whether the client has sent more than was read, as far as the event loop knows.
    pub(crate) fn has_more(&self, cx: &mut Context<'_>) -> bool {
        !self.ahead.is_empty() || self.transport.tcp().poll_read_ready(cx).is_ready()
    }

    /// Closes the connection. TLS sends close_notify (RFC 8446 §6.1), without which the client
    /// would have to assume a truncation attack. TCP sends what the kernel holds
    /// ([`Transport::poll_write_last`]): closing alone would discard it if the client has sent
    /// bytes that were not read.
    pub(crate) async fn close(mut self: Box<Self>) {
        // The result does not matter: the connection closes in any case.
        let _ = match self.transport.is_encrypted() {
            // Boxed, because it is rare and would enlarge the future of every idle connection.
            true => Box::pin(timeout(CLOSE_TIMEOUT, self.transport.shutdown())).await,
            false => Ok(self.transport.shutdown().await),
        };
    }

    /// Closes the connection such that the client can read the last response: closing a socket
    /// while the client still sends causes a reset, which discards data in flight. Reads and drops
    /// input until the client closes its side or `limits` are exhausted.
    pub(crate) async fn linger(mut self: Box<Self>, limits: LingerLimits) {
        self.ahead.clear();
        self.rest();
        let close = async {
            timeout(CLOSE_TIMEOUT, self.transport.shutdown()).await??;
            let mut left = limits.bytes;
            while left > 0 {
                match timeout(limits.silence, poll_fn(|cx| self.poll_discard(cx))).await?? {
                    0 => break,
                    read => left = left.saturating_sub(read as u64),
                }
            }
            io::Result::Ok(())
        };
        // The result does not matter: the connection closes in any case.
        let _ = timeout(limits.total, close).await;
    }

    /// Reads and drops the available bytes. Returns their number, 0 at the end of the stream.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        scratch::read(|buffer| {
            let mut buf = ReadBuf::new(buffer);
            ready!(Pin::new(&mut self.transport).poll_read(cx, &mut buf))?;
            Poll::Ready(Ok(buf.filled().len()))
        })
    }
}

/// Returns the bytes read ahead first.
impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        if wire.ahead.is_empty() {
            return Pin::new(&mut wire.transport).poll_read(cx, buf);
        }
        let taken = wire.ahead.len().min(buf.remaining());
        buf.put_slice(&wire.ahead[..taken]);
        wire.ahead.advance(taken);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use pingora_core::protocols::l4::ext::get_tcp_info;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpStream;

    use super::*;
    use crate::io::transport::tests::pair;

    const HOUR: Duration = Duration::from_secs(3600);
    const SHORT: Duration = Duration::from_millis(50);

    fn limits(total: Duration, silence: Duration) -> LingerLimits {
        LingerLimits { total, silence, bytes: u64::MAX }
    }

    async fn wire() -> (Box<Wire>, TcpStream) {
        let (client, ours) = pair().await;
        (Wire::new(Transport::Plain(ours)), client)
    }

    /// Takes `length` bytes, or reads `ahead` bytes if they have not arrived.
    async fn take(wire: &mut Wire, length: usize, ahead: usize) -> Option<Bytes> {
        poll_fn(|cx| {
            let taken = wire.take_arrived(cx, length);
            match taken.is_some() || wire.ahead.len() == ahead {
                true => Poll::Ready(taken),
                false => Poll::Pending,
            }
        })
        .await
    }

    #[tokio::test]
    async fn bytes_that_have_arrived_are_taken_in_one_piece() {
        let (mut wire, mut client) = wire().await;
        client.write_all(&[b'x'; 30_000]).await.unwrap();
        assert_eq!(take(&mut wire, 20_000, 30_000).await.unwrap().len(), 20_000);
        assert_eq!(wire.ahead.len(), 0, "no more is read than was asked for");
        assert_eq!(take(&mut wire, 40_000, 10_000).await, None);
        client.write_all(&[b'x'; 30_000]).await.unwrap();
        assert_eq!(take(&mut wire, 40_000, 40_001).await.unwrap().len(), 40_000);
        assert!(wire.ahead.is_empty() && wire.share.bytes() == 0);
    }

    #[tokio::test]
    async fn a_body_of_10_kib_comes_with_its_head() {
        let (mut wire, mut client) = wire().await;
        client.write_all(&[b'x'; 10 * 1024]).await.unwrap();
        wire.transport.tcp().readable().await.unwrap();
        assert_eq!(wire.fill().await.unwrap(), 10 * 1024);
    }

    #[tokio::test]
    async fn the_last_bytes_leave_before_the_wait_for_the_client() {
        let (mut wire, _client) = wire().await;
        let socket = wire.transport.descriptor();
        let unsent = || get_tcp_info(socket).unwrap().tcpi_notsent_bytes;
        poll_fn(|cx| wire.transport.poll_write_last(cx, b"ok")).await.unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        let _ = pin!(wire.deliver(Duration::from_secs(60))).poll(&mut cx);
        assert_eq!(unsent(), 0, "the kernel holds them back for 200 ms");
    }

    #[tokio::test]
    async fn the_last_bytes_were_lost_if_the_client_had_sent_more() {
        let (mut wire, mut client) = wire().await;
        client.write_all(b"\r\n").await.unwrap();
        poll_fn(|cx| wire.transport.poll_write_last(cx, b"ok")).await.unwrap();
        wire.close().await;
        let mut read = [0; 2];
        client.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"ok");
    }

    #[tokio::test]
    async fn a_client_that_falls_silent_ends_the_lingering_close() {
        let (wire, mut client) = wire().await;
        let lingers = tokio::spawn(wire.linger(limits(HOUR, SHORT)));
        // More than the socket buffers hold, so that all of it must be read.
        for _ in 0..64 {
            client.write_all(&[0; 1 << 20]).await.expect("no reset while it sends");
        }
        lingers.await.unwrap();
    }

    #[tokio::test]
    async fn a_client_that_sends_without_end_ends_the_lingering_close() {
        let (wire, mut client) = wire().await;
        let lingers = tokio::spawn(wire.linger(limits(SHORT, HOUR)));
        while client.write_all(&[0; 1 << 16]).await.is_ok() {}
        lingers.await.unwrap();
    }
}
