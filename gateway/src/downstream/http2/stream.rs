//! The byte stream of an HTTP/2 connection, as `h2` gets it.
//!
//! What comes passes by `frames`. What goes out is joined: a head and the first piece of a body leave in one segment
//! and one TLS record. A client may refuse to take it for so long and no longer. And the wire comes home when `h2`
//! drops this, so that the connection can be closed properly.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::frames::Frames;
use crate::io::wire::Wire;

/// Writes up to this size are joined. `h2` has joined frames as far as they are small.
const JOIN: usize = 4 * 1024;
/// How long a write may wait for the client (nginx's `send_timeout`).
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Where the wire is once `h2` has let go of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Home(Arc<Mutex<Option<Box<Wire>>>>);

/// A wire for the time of a connection.
#[derive(Debug)]
pub(super) struct Stream {
    /// `None` only while it is dropped.
    wire: Option<Box<Wire>>,
    frames: Frames,
    /// Written but not sent.
    out: BytesMut,
    /// Runs while the client does not take what is written.
    stalled: Option<Pin<Box<Sleep>>>,
    home: Home,
}

impl Home {
    pub(super) fn take(&self) -> Option<Box<Wire>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Stream {
    pub(super) fn new(wire: Box<Wire>, home: Home) -> Self {
        Self { wire: Some(wire), frames: Frames::new(), out: BytesMut::new(), stalled: None, home }
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
        let sleep = self.stalled.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
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
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        // Somebody who reads has nothing more to write for now.
        if !stream.out.is_empty()
            && let Poll::Ready(Err(error)) = stream.poll_send(cx)
        {
            return Poll::Ready(Err(error));
        }
        match &mut stream.wire {
            Some(wire) => stream.frames.poll_read(cx, &mut **wire, buf),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        let bytes: usize = bufs.iter().map(|buf| buf.len()).sum();
        if stream.out.len() + bytes > JOIN {
            return stream.poll_write_through(cx, bufs);
        }
        bufs.iter().for_each(|buf| stream.out.extend_from_slice(buf));
        Poll::Ready(Ok(bytes))
    }

    /// If so, `h2` would send every piece of a body of more than 256 bytes by itself; if not, it joins those of
    /// up to 1024 with their neighbours.
    fn is_write_vectored(&self) -> bool {
        false
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        ready!(stream.poll_send(cx))?;
        let Some(wire) = stream.wire.as_deref_mut() else { return Poll::Ready(Ok(())) };
        match Pin::new(&mut wire.transport).poll_flush(cx) {
            Poll::Pending => stream.poll_stalled(cx),
            done => {
                stream.stalled = None;
                done
            }
        }
    }

    /// Only sends what waits: the loop closes the connection.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_send(cx)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        *self.home.0.lock().unwrap_or_else(PoisonError::into_inner) = self.wire.take();
    }
}
