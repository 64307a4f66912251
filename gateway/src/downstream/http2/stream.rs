//! The byte stream of an HTTP/2 connection for `h2`.
//!
//! Input passes through the filter in `io/frames.rs`; output is joined (`io/joined.rs`). When `h2`
//! drops the stream, the wire is returned through `Home`, so that the connection can be closed
//! properly.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::hpack;
use crate::io::frames::Frames;
use crate::io::joined::Joined;
use crate::io::wire::Wire;

/// Holds the wire after `h2` has dropped its stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Home(Arc<Mutex<Option<Box<Wire>>>>);

/// The wire while `h2` uses it.
#[derive(Debug)]
pub(super) struct Stream {
    /// `None` only while the stream is dropped.
    wire: Option<Box<Wire>>,
    frames: Frames,
    out: Joined,
    home: Home,
}

impl Home {
    pub(super) fn take(&self) -> Option<Box<Wire>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Stream {
    /// `uninspected` is set as soon as a field block passes without inspection.
    pub(super) fn new(wire: Box<Wire>, home: Home, uninspected: Arc<AtomicBool>) -> Self {
        let frames = Frames::of_client(hpack::repair, uninspected);
        Self { wire: Some(wire), frames, out: Joined::default(), home }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { wire, frames, out, .. } = self.get_mut();
        let Some(wire) = wire.as_deref_mut() else { return Poll::Ready(Ok(())) };
        // `h2` reads only when it has nothing more to write for now, so waiting output is sent.
        if !out.is_empty()
            && let Poll::Ready(Err(error)) = out.poll_send(cx, &mut wire.transport)
        {
            return Poll::Ready(Err(error));
        }
        frames.poll_read(cx, wire, buf)
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
        let Self { wire, out, .. } = self.get_mut();
        match wire {
            Some(wire) => out.poll_write(cx, &mut wire.transport, bufs),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// With vectored writes `h2` would send every body piece of more than 256 bytes separately;
    /// without, it joins those of up to 1024 bytes with their neighbours.
    fn is_write_vectored(&self) -> bool {
        false
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { wire, out, .. } = self.get_mut();
        match wire {
            Some(wire) => out.poll_flush(cx, &mut wire.transport),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Only sends the waiting bytes. The connection loop closes the connection.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { wire, out, .. } = self.get_mut();
        match wire {
            Some(wire) => out.poll_send(cx, &mut wire.transport),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        *self.home.0.lock().unwrap_or_else(PoisonError::into_inner) = self.wire.take();
    }
}
