//! A stream of HTTP/2 as one side of a tunnel: WebSocket over HTTP/2 (RFC 8441).
//!
//! The end of a stream corresponds to the end of a TCP connection, and RST_STREAM(CANCEL) to its
//! reset (RFC 8441 §5).
//!
//! A tunnel that its endpoint does not read holds one read ([`READ`](crate::io::scratch::READ)) and
//! what fits into the window of its stream ([`STREAM_WINDOW`](super::body_flow::STREAM_WINDOW) at
//! most), which is opened again only for bytes that were read. Both are reserved in the memory
//! budget. The bytes in the window count as those of request bodies that wait for an endpoint
//! ([`window`](super::window)): the window of the connection grows by them while other streams
//! read, and if memory is too short for that, the stream that holds most is reset.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use h2::{Reason, RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::OpenStream;
use crate::engine::tunnel::TunnelClient;
use crate::io::budget::Reservation;
use crate::io::counted::counted;

/// The client's side.
pub(super) struct TunnelStream {
    open: OpenStream,
    body: RecvStream,
    stream: SendStream<Bytes>,
    /// Received bytes that were not read. They still occupy the window.
    piece: Bytes,
}

impl TunnelStream {
    pub(super) fn new(open: OpenStream, body: RecvStream, stream: SendStream<Bytes>) -> Self {
        Self { open, body, stream, piece: Bytes::new() }
    }

    /// Records how the tunnel ended, and resets the stream unless both directions have ended.
    pub(super) fn end(mut self, is_whole: bool) {
        let mut cx = Context::from_waker(Waker::noop());
        let is_shed = self.open.is_shed(&cx);
        let by_client = !is_whole && self.stream.poll_reset(&mut cx).is_ready();
        self.open.ended(by_client || is_shed);
        if !is_whole && !by_client {
            self.stream.send_reset(if is_shed { Reason::ENHANCE_YOUR_CALM } else { Reason::CANCEL });
        }
    }
}

impl TunnelClient for TunnelStream {
    fn poll_cancelled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.open.is_shed(cx) {
            return Poll::Ready(());
        }
        self.stream.poll_reset(cx).map(|_| ())
    }
}

impl AsyncRead for TunnelStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { open, body, piece, .. } = self.get_mut();
        // A tunnel may be idle for long, so no window beyond the initial one is opened for it.
        open.reads(Some(0));
        while piece.is_empty() {
            match ready!(body.poll_data(cx)) {
                Some(Ok(data)) => *piece = data,
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => {
                    open.waits();
                    return Poll::Ready(Ok(()));
                }
            }
        }
        // The next call follows once the endpoint has taken these bytes.
        open.waits();
        let length = piece.len().min(buf.remaining());
        buf.put_slice(&piece[..length]);
        piece.advance(length);
        open.count_released(length);
        let released = body.flow_control().release_capacity(length);
        Poll::Ready(released.map_err(io::Error::other))
    }
}

impl AsyncWrite for TunnelStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let stream = &mut self.get_mut().stream;
        stream.reserve_capacity(bytes.len());
        let mut room = stream.capacity();
        while room == 0 && !bytes.is_empty() {
            match ready!(stream.poll_capacity(cx)) {
                Some(Ok(more)) => room = more,
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }
        let length = room.min(bytes.len());
        // Reserved until the socket takes them.
        let mut share = Reservation::of_flow();
        share.hold(length);
        let sent = stream.send_data(counted(bytes[..length].to_vec(), share), false);
        Poll::Ready(sent.map(|()| length).map_err(io::Error::other))
    }

    /// The connection sends what `h2` holds.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = self.get_mut().stream.send_data(Bytes::new(), true);
        Poll::Ready(ended.map_err(io::Error::other))
    }
}

#[cfg(test)]
mod tests;
