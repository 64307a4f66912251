//! What one side has not taken yet. While there is something in it, nothing more is read for that side: so it
//! never holds more than one read, and a slow reader slows its writer down.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use crate::connection::transport::Transport;

/// A buffer that has grown beyond this is not kept.
const KEPT: usize = 16 * 1024;

/// Octets on their way.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    octets: Vec<u8>,
    sent: usize,
    /// Octets that the other side's socket has taken since the last [`clear`](Self::clear).
    taken: u64,
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.sent == self.octets.len()
    }

    /// How much there is.
    pub(super) fn len(&self) -> usize {
        self.octets.len() - self.sent
    }

    /// Octets that the socket has taken since it was cleared.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Octets that it has room for.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.octets.capacity()
    }

    /// Gives memory back before a long wait.
    pub(super) fn rest(&mut self) {
        if self.is_empty() {
            (self.octets, self.sent) = (Vec::new(), 0);
        }
    }

    /// Adds to it.
    pub(super) fn push(&mut self, octets: &[u8]) {
        self.octets.extend_from_slice(octets);
    }

    /// Forgets it.
    pub(super) fn clear(&mut self) {
        self.octets.clear();
        self.sent = 0;
        self.taken = 0;
    }

    /// Sends these octets, behind what waits. What is not taken at once waits, with whatever error there is.
    pub(super) fn send(&mut self, cx: &mut Context<'_>, to: &mut Transport, octets: &[u8]) {
        let mut sent = 0;
        if self.is_empty()
            && let Poll::Ready(Ok(taken)) = Pin::new(to).poll_write(cx, octets)
        {
            sent = taken;
            self.taken += taken as u64;
        }
        self.push(&octets[sent..]);
    }

    /// Sends as much as the other side takes. Ready when all is gone.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>, to: &mut Transport) -> Poll<io::Result<()>> {
        while !self.is_empty() {
            match Pin::new(&mut *to).poll_write(cx, &self.octets[self.sent..]) {
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
        match self.octets.len() > KEPT {
            true => self.octets = Vec::new(),
            false => self.octets.clear(),
        }
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}
