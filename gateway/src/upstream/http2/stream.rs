//! The byte stream of a connection to an endpoint, as an I/O type for `h2`.
//!
//! Input passes through the filter in `io/frames.rs`; output is joined (`io/joined.rs`).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::connection::undelivered;
use super::connection_state::ConnectionState;
use crate::io::frames::Frames;
use crate::io::joined::Joined;
use crate::io::transport::Transport;

/// Maximum number of bytes read per turn of the connection's task. `h2` reads until no data is left
/// and buffers it for requests that have had no chance to process it; the number of interim heads
/// and other frames without flow control would be unbounded.
const TURN: usize = 256 * 1024;

/// The transport of a connection, for as long as it is open.
#[derive(Debug)]
pub(super) struct Stream {
    transport: Transport,
    frames: Frames,
    out: Joined,
    state: Arc<ConnectionState>,
}

/// The input of a connection, counted before it is filtered.
struct Input<'s> {
    transport: &'s mut Transport,
    state: &'s ConnectionState,
}

impl Stream {
    pub(super) fn new(transport: Transport, state: Arc<ConnectionState>) -> Self {
        Self { transport, frames: Frames::of_endpoint(), out: Joined::default(), state }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { transport, frames, out, state } = self.get_mut();
        // Sends buffered output first: while `h2` reads, it has nothing more to add.
        if !out.is_empty() {
            let sent = out.poll_send(cx, transport);
            state.written.store(out.sent(), Relaxed);
            if let Poll::Ready(Err(error)) = sent {
                return Poll::Ready(Err(error));
            }
        }
        let read = frames.poll_read(cx, Input { transport, state }, buf);
        state.signs_of_life.store(frames.signs_of_life(), Relaxed);
        read
    }
}

impl AsyncRead for Input<'_> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { transport, state } = self.get_mut();
        if state.turn.load(Relaxed) >= TURN {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let read = std::task::ready!(Pin::new(&mut **transport).poll_read(cx, buf));
        let came = buf.filled().len() - before;
        state.turn.fetch_add(came, Relaxed);
        state.heard.fetch_add(came as u64, Relaxed);
        if read.is_ok() && came == 0 {
            state.undelivered.store(undelivered(transport.descriptor()), Relaxed);
        }
        Poll::Ready(read)
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
        let Self { transport, out, state, .. } = self.get_mut();
        let written = out.poll_write(cx, transport, bufs);
        state.written.store(out.sent(), Relaxed);
        written
    }

    /// If this returned true, `h2` would send each body piece of more than 256 bytes separately.
    /// With false, it joins pieces of up to 1024 bytes with their neighbours.
    fn is_write_vectored(&self) -> bool {
        false
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { transport, out, state, .. } = self.get_mut();
        let flushed = out.poll_flush(cx, transport);
        state.written.store(out.sent(), Relaxed);
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { transport, out, .. } = self.get_mut();
        std::task::ready!(out.poll_flush(cx, transport))?;
        Pin::new(transport).poll_shutdown(cx)
    }
}
