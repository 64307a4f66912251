//! Output that one side has not taken yet. While it is not empty, nothing more is read for that
//! side. It therefore holds at most one read, and a slow reader slows its sender down.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::AsyncWrite;

use crate::io::budget::Reservation;
use crate::io::deadlines::Deadline;
use crate::io::transport::Transport;

/// Maximum capacity in bytes of a buffer that is kept.
const KEPT: usize = 16 * 1024;

/// Bytes that wait to be written to a socket.
#[derive(Debug)]
pub(crate) struct WriteBuffer {
    bytes: Vec<u8>,
    sent: usize,
    /// Bytes written since the last [`clear`](Self::clear).
    taken: u64,
    /// Reservation for the waiting bytes.
    share: Reservation,
}

impl Default for WriteBuffer {
    fn default() -> Self {
        Self { bytes: Vec::new(), sent: 0, taken: 0, share: Reservation::of_flow() }
    }
}

impl WriteBuffer {
    pub(crate) fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Returns the number of waiting bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Returns the bytes that the socket has taken since the last [`clear`](Self::clear).
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns the capacity in bytes.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Releases the memory before a long wait.
    pub(crate) fn rest(&mut self) {
        if self.is_empty() {
            (self.bytes, self.sent) = (Vec::new(), 0);
            self.share.hold(0);
        }
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.bytes.extend_from_slice(bytes);
        self.share.hold(self.bytes.len());
    }

    /// Discards the waiting bytes and resets the count.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
        self.taken = 0;
        self.share.hold(0);
    }

    /// Sends the waiting bytes, of which the socket must take some within `limit`.
    pub(crate) fn poll_send_within(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut Transport,
        deadline: &mut Deadline,
        limit: Option<Duration>,
    ) -> Poll<io::Result<()>> {
        let before = self.len();
        let sent = self.poll_send(cx, to);
        if self.len() < before {
            deadline.end();
        }
        if sent.is_pending() {
            deadline.begin(limit);
        }
        sent
    }

    /// Sends bytes behind the waiting ones. Bytes not taken at once wait; a later send reports
    /// errors.
    pub(crate) fn send(&mut self, cx: &mut Context<'_>, to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) {
        let mut sent = 0;
        if self.is_empty()
            && let Poll::Ready(Ok(taken)) = Pin::new(to).poll_write(cx, bytes)
        {
            sent = taken;
            self.taken += taken as u64;
        }
        self.push(&bytes[sent..]);
    }

    /// Sends as much as the socket takes. Ready when all is sent.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        while !self.is_empty() {
            match Pin::new(&mut *to).poll_write(cx, &self.bytes[self.sent..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(sent)) => {
                    self.sent += sent;
                    self.taken += sent as u64;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        // Large buffers are rare and not worth keeping.
        match self.bytes.len() > KEPT {
            true => self.bytes = Vec::new(),
            false => self.bytes.clear(),
        }
        self.sent = 0;
        self.share.hold(0);
        Poll::Ready(Ok(()))
    }
}
