//! The byte stream of an HTTP/2 connection, as `h2` gets it.
//!
//! What comes passes by `frames`. What goes out is joined (`io/joined.rs`). And the wire comes home when `h2` drops
//! this, so that the connection can be closed properly.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::Frames;
use crate::io::joined::Joined;
use crate::io::wire::Wire;

/// Where the wire is once `h2` has let go of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Home(Arc<Mutex<Option<Box<Wire>>>>);

/// A wire for the time of a connection.
#[derive(Debug)]
pub(super) struct Stream {
    /// `None` only while it is dropped.
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
    pub(super) fn new(wire: Box<Wire>, home: Home) -> Self {
        Self { wire: Some(wire), frames: Frames::new(), out: Joined::default(), home }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { wire, frames, out, .. } = self.get_mut();
        let Some(wire) = wire.as_deref_mut() else { return Poll::Ready(Ok(())) };
        // Somebody who reads has nothing more to write for now.
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

    /// If so, `h2` would send every piece of a body of more than 256 bytes by itself; if not, it joins those of
    /// up to 1024 with their neighbours.
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

    /// Only sends what waits: the loop closes the connection.
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
