//! The bytes of a connection to an endpoint, as `h2` gets them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::connection::undelivered;
use super::connection::ConnectionState;
use crate::io::joined::Joined;
use crate::io::transport::Transport;

/// Bytes that are read before others have their turn. `h2` reads as long as there is something, and keeps what it reads
/// for requests that had no chance to look at it: of interim heads and other frames that no window bounds there could
/// be any number.
const TURN: usize = 256 * 1024;

/// A transport for the time of a connection.
#[derive(Debug)]
pub(super) struct Stream {
    transport: Transport,
    out: Joined,
    state: Arc<ConnectionState>,
}

impl Stream {
    pub(super) fn new(transport: Transport, state: Arc<ConnectionState>) -> Self {
        Self { transport, out: Joined::default(), state }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { transport, out, state } = self.get_mut();
        // Somebody who reads has nothing more to write for now.
        if !out.is_empty() {
            let sent = out.poll_send(cx, transport);
            state.written.store(out.sent(), Relaxed);
            if let Poll::Ready(Err(error)) = sent {
                return Poll::Ready(Err(error));
            }
        }
        if state.turn.load(Relaxed) >= TURN {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let read = std::task::ready!(Pin::new(&mut *transport).poll_read(cx, buf));
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
        let Self { transport, out, state } = self.get_mut();
        let written = out.poll_write(cx, transport, bufs);
        state.written.store(out.sent(), Relaxed);
        written
    }

    /// If so, `h2` would send every piece of a body of more than 256 bytes by itself; if not, it joins those of
    /// up to 1024 with their neighbours.
    fn is_write_vectored(&self) -> bool {
        false
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { transport, out, state } = self.get_mut();
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
