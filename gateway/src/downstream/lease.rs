//! The stream that Pingora gets for one HTTP/1 request, or for a whole HTTP/2 connection.
//!
//! It gives out the bytes of that request's body and no more, so that a pipelined request stays ours and
//! passes our checks. It joins small writes: a head and the first piece of a body leave in one segment and
//! one TLS record. It bounds how long a client may refuse to take an answer. And it comes home when Pingora
//! drops it, so that the connection can go on after an error page, and be closed properly when it cannot.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Buf, BytesMut};
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, TimingDigest,
    UniqueID, UniqueIDType,
};
use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::Sleep;

use super::http2::Frames;
use super::link::{Follows, Link, Returned};
use crate::io::wire::Wire;
use crate::message::framing::Framing;

/// Writes up to this size are joined: one TLS record.
const JOIN: usize = 16 * 1024;
/// The same for a connection of HTTP/2, whose frames `h2` has joined as far as they are small.
const JOIN_FRAMES: usize = 4 * 1024;
/// Bytes of the next request that are read while the present one is under way.
const AHEAD: usize = 64 * 1024;
/// How long a write may wait for the client (nginx's `send_timeout`).
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// The end of a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// A stream on loan.
pub(crate) struct Lease {
    /// `None` only while it is dropped.
    wire: Option<Box<Wire>>,
    framing: Framing,
    /// Lent for a whole connection of HTTP/2, whose frames are looked at as they pass.
    frames: Option<Box<Frames>>,
    /// Written but not sent.
    out: BytesMut,
    link: Arc<Link>,
    digest: Arc<ProxyDigest>,
    /// Runs while the client does not take what is written.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Lease {
    /// Lends a wire for as much of it as `framing` says.
    pub(crate) fn new(wire: Box<Wire>, framing: Framing, link: Arc<Link>, digest: Arc<ProxyDigest>) -> Self {
        Self { wire: Some(wire), framing, frames: None, out: BytesMut::new(), link, digest, stalled: None }
    }

    /// Lends a wire for a whole connection of HTTP/2.
    pub(crate) fn of_frames(
        wire: Box<Wire>,
        frames: Frames,
        link: Arc<Link>,
        digest: Arc<ProxyDigest>,
    ) -> Self {
        let mut lease = Self::new(wire, Framing::Opaque, link, digest);
        lease.frames = Some(Box::new(frames));
        lease
    }

    fn wire(&mut self) -> io::Result<&mut Wire> {
        self.wire.as_deref_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// The body is complete: what comes now is the next request, or the client's going away.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wire = self.wire()?;
        while wire.ahead.len() < AHEAD {
            if ready!(wire.poll_fill(cx))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        Poll::Pending
    }

    /// A piece of the body from what was read ahead.
    fn read_ahead(&mut self, buf: &mut ReadBuf<'_>) -> io::Result<()> {
        let Some(wire) = self.wire.as_deref_mut() else { return Ok(()) };
        let offered = wire.ahead.len().min(buf.remaining());
        let taken = self.framing.take(&wire.ahead[..offered]).map_err(|bad| invalid(&self.link, bad))?;
        buf.put_slice(&wire.ahead[..taken]);
        wire.ahead.advance(taken);
        Ok(())
    }

    /// A piece of the body from the network, straight into the reader's buffer. What is beyond the body's end
    /// goes back to the wire.
    fn poll_read_body(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let Some(wire) = self.wire.as_deref_mut() else { return Poll::Ready(Ok(())) };
        ready!(Pin::new(&mut wire.transport).poll_read(cx, buf))?;
        let read = &buf.filled()[before..];
        let taken = self.framing.take(read).map_err(|bad| invalid(&self.link, bad))?;
        if taken < read.len() {
            wire.ahead.extend_from_slice(&read[taken..]);
            buf.set_filled(before + taken);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_read_message(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.wire()?.ahead.is_empty() {
            ready!(self.poll_read_body(cx, buf))?;
        } else {
            self.read_ahead(buf)?;
        }
        self.link.set_unread(&self.framing);
        Poll::Ready(Ok(()))
    }

    /// Sends what waits. Ready when nothing does.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            let Some(wire) = self.wire.as_deref_mut() else { break };
            match Pin::new(&mut wire.transport).poll_write(cx, &self.out) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(sent)) => {
                    self.out.advance(sent);
                    self.stalled = None;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return self.poll_stalled(cx),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Waits with the client, but not for ever.
    fn poll_stalled<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let sleep = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_TIMEOUT)));
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Writes what waits and `bufs` behind it. Gives how many bytes of `bufs` were taken.
    fn poll_write_through(&mut self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            let Some(wire) = self.wire.as_deref_mut() else {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            };
            let waiting = self.out.len();
            let mut all: SmallVec<[IoSlice<'_>; 8]> = SmallVec::new();
            if waiting > 0 {
                all.push(IoSlice::new(&self.out));
            }
            all.extend(bufs.iter().map(|buf| IoSlice::new(buf)));
            match Pin::new(&mut wire.transport).poll_write_vectored(cx, &all) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(sent)) => {
                    drop(all);
                    self.stalled = None;
                    self.out.advance(sent.min(waiting));
                    if sent > waiting {
                        return Poll::Ready(Ok(sent - waiting));
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    drop(all);
                    return self.poll_stalled(cx);
                }
            }
        }
    }

    /// Whether a flush can wait for what is written next anyhow.
    fn more_follows(&self) -> bool {
        match self.link.follows() {
            Follows::Nothing => false,
            Follows::Body => true,
            Follows::End => !self.out.ends_with(LAST_CHUNK),
        }
    }
}

/// Pingora is told of a read that failed, and the proxy why.
fn invalid(link: &Link, error: crate::message::framing::BadChunk) -> io::Error {
    link.set_malformed();
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl AsyncRead for Lease {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let lease = self.get_mut();
        if lease.link.upgraded() {
            lease.framing = Framing::Opaque;
        }
        // Somebody who reads has nothing more to write for now.
        if !lease.out.is_empty()
            && lease.link.follows() == Follows::Nothing
            && let Poll::Ready(Err(error)) = lease.poll_send(cx)
        {
            return Poll::Ready(Err(error));
        }
        if lease.framing.is_done() {
            return lease.poll_gone(cx);
        }
        let Self { wire: Some(wire), frames: Some(frames), .. } = lease else {
            return lease.poll_read_message(cx, buf);
        };
        frames.poll_read(cx, &mut **wire, buf)
    }
}
impl AsyncWrite for Lease {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let lease = self.get_mut();
        let bytes: usize = bufs.iter().map(|buf| buf.len()).sum();
        if !lease.link.began() {
            return Poll::Ready(Ok(bytes));
        }
        let join = if lease.frames.is_some() { JOIN_FRAMES } else { JOIN };
        let taken = if lease.out.len() + bytes <= join {
            bufs.iter().for_each(|buf| lease.out.extend_from_slice(buf));
            bytes
        } else {
            ready!(lease.poll_write_through(cx, bufs))?
        };
        lease.link.add_sent(taken);
        Poll::Ready(Ok(taken))
    }

    /// If so, `h2` would send every piece of a body of more than 256 bytes by itself; if not, it joins those of
    /// up to 1024 with their neighbours.
    fn is_write_vectored(&self) -> bool {
        self.frames.is_none()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let lease = self.get_mut();
        if lease.more_follows() {
            lease.link.flush_waits();
            return Poll::Ready(Ok(()));
        }
        ready!(lease.poll_send(cx))?;
        match Pin::new(&mut lease.wire()?.transport).poll_flush(cx) {
            Poll::Pending => lease.poll_stalled(cx),
            done => {
                lease.stalled = None;
                lease.link.flushed();
                done
            }
        }
    }

    /// Only sends what waits: the loop closes the connection, or goes on with it.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_send(cx)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(wire) = self.wire.take() {
            let out = mem::take(&mut self.out);
            self.link.come_home(Returned { wire, framing: self.framing, out });
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("descriptor", &self.id()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Shutdown for Lease {
    async fn shutdown(&mut self) {
        // A client that has gone needs no farewell.
        let _ = AsyncWriteExt::shutdown(self).await;
    }
}

impl UniqueID for Lease {
    fn id(&self) -> UniqueIDType {
        self.wire.as_ref().map_or(-1, |wire| wire.transport.descriptor())
    }
}

impl Ssl for Lease {}

impl GetTimingDigest for Lease {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl GetProxyDigest for Lease {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        Some(self.digest.clone())
    }
}

impl GetSocketDigest for Lease {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        None
    }
}

impl Peek for Lease {}
