//! What one side has not taken yet. While there is something in it, nothing more is read for that side: so it
//! never holds more than one read, and a slow reader slows its writer down.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use crate::io::budget::Reservation;
use crate::io::transport::Transport;

/// A buffer that has grown beyond this is not kept.
const KEPT: usize = 16 * 1024;

/// Bytes that wait to be written to a socket.
#[derive(Debug)]
pub(crate) struct WriteBuffer {
    bytes: Vec<u8>,
    sent: usize,
    /// Bytes written since the last [`clear`](Self::clear).
    taken: u64,
    /// Of the memory for what waits.
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

    /// How much there is.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Bytes that the socket has taken since it was cleared.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Bytes that it has room for.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Gives memory back before a long wait.
    pub(crate) fn rest(&mut self) {
        if self.is_empty() {
            (self.bytes, self.sent) = (Vec::new(), 0);
            self.share.hold(0);
        }
    }

    /// Adds to it.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.bytes.extend_from_slice(bytes);
        self.share.hold(self.bytes.len());
    }

    /// Forgets it.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
        self.taken = 0;
        self.share.hold(0);
    }

    /// Sends these bytes, behind what waits. What is not taken at once waits, with whatever error there is.
    pub(crate) fn send(&mut self, cx: &mut Context<'_>, to: &mut Transport, bytes: &[u8]) {
        let mut sent = 0;
        if self.is_empty()
            && let Poll::Ready(Ok(taken)) = Pin::new(to).poll_write(cx, bytes)
        {
            sent = taken;
            self.taken += taken as u64;
        }
        self.push(&bytes[sent..]);
    }

    /// Sends as much as the other side takes. Ready when all is gone.
    pub(crate) fn poll_send(&mut self, cx: &mut Context<'_>, to: &mut Transport) -> Poll<io::Result<()>> {
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
        // A large one is rare and not worth keeping.
        match self.bytes.len() > KEPT {
            true => self.bytes = Vec::new(),
            false => self.bytes.clear(),
        }
        self.sent = 0;
        self.share.hold(0);
        Poll::Ready(Ok(()))
    }
}
