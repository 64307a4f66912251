//! One direction of a relay between two connections.
//!
//! A direction is read only when its other side has taken everything. It therefore holds no more
//! than one read, and nothing while it waits. The end of the source is passed on, and the other
//! direction goes on.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::io::deadlines::Deadline;
use crate::io::scratch;
use crate::io::write_buffer::WriteBuffer;

/// One direction.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// Read but not taken.
    write_buffer: WriteBuffer,
    /// Bytes that were read.
    bytes: u64,
    state: FlowState,
    /// Something may not have left yet.
    unsent: bool,
    /// Bytes have moved since the last [`Flow::wait`] or [`Flow::take_moved`].
    moved: bool,
}

/// The progress of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FlowState {
    #[default]
    Open,
    /// The source has ended.
    Ending,
    /// The end was passed on.
    Ended,
}

impl Flow {
    /// The rest of a direction after so many bytes.
    pub(crate) fn after(write_buffer: WriteBuffer, bytes: u64) -> Self {
        // What was handed to TLS may wait there, even when nothing does here.
        Self { write_buffer, bytes, unsent: true, ..Self::default() }
    }

    /// Adds bytes that were read before.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.write_buffer.push(bytes);
        self.bytes += bytes.len() as u64;
        self.unsent = true;
    }

    /// Moves what comes, as fast as it is taken. Ready once the end is passed on.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        loop {
            if self.unsent {
                ready!(self.poll_send(cx, to))?;
            }
            match self.state {
                FlowState::Open => ready!(self.poll_read(cx, from, to))?,
                FlowState::Ending => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    self.state = FlowState::Ended;
                }
                FlowState::Ended => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Ready when all that was read has left.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        let before = self.write_buffer.len();
        let sent = self.write_buffer.poll_send(cx, to);
        self.moved |= self.write_buffer.len() < before;
        ready!(sent)?;
        ready!(Pin::new(to).poll_flush(cx))?;
        self.write_buffer.rest();
        self.unsent = false;
        Poll::Ready(Ok(()))
    }

    /// Reads once and passes on what came, or learns of the end.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        scratch::read(|buffer| {
            let mut buf = ReadBuf::new(buffer);
            ready!(Pin::new(from).poll_read(cx, &mut buf))?;
            let bytes = buf.filled();
            self.moved = true;
            match bytes {
                [] => self.state = FlowState::Ending,
                _ => {
                    self.bytes += bytes.len() as u64;
                    self.unsent = true;
                    self.write_buffer.send(cx, to, bytes);
                }
            }
            Poll::Ready(Ok(()))
        })
    }

    /// Returns the number of bytes that were read from the source.
    pub(crate) fn read(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of bytes that wait to be sent.
    pub(crate) fn waiting(&self) -> u64 {
        self.write_buffer.len() as u64
    }

    /// Returns whether bytes have moved since the last call.
    pub(crate) fn take_moved(&mut self) -> bool {
        mem::take(&mut self.moved)
    }

    /// Sets `deadline` while the other side does not take what there is for it. Returns whether
    /// bytes have moved.
    pub(crate) fn wait(&mut self, deadline: &mut Deadline, time_limit: Option<Duration>) -> bool {
        let moved = self.take_moved();
        if moved {
            deadline.end();
        }
        match self.unsent || self.state == FlowState::Ending {
            true => deadline.begin(time_limit),
            false => deadline.end(),
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::io::transport::Transport;
    use crate::io::transport::tests::pair;

    #[tokio::test]
    async fn a_direction_holds_one_read_and_nothing_once_that_is_taken() {
        const ALL: usize = 32 * 1024 * 1024;
        let ((from, mut source), (to, mut sink)) = (pair().await, pair().await);
        let (mut from, mut to) = (Transport::Plain(from), Transport::Plain(to));
        let mut flow = Flow::default();
        let writer = tokio::spawn(async move { source.write_all(&vec![b'x'; ALL]).await });
        // The peer does not read, so the sockets fill up.
        poll_fn(|cx| match flow.poll(cx, &mut from, &mut to) {
            Poll::Pending if !flow.write_buffer.is_empty() => Poll::Ready(()),
            other => other.map(|ended| panic!("{ended:?}")),
        })
        .await;
        assert!(flow.wait(&mut Deadline::default(), None), "something has moved");
        assert!(flow.unsent && (1..=64 * 1024).contains(&flow.write_buffer.len()), "{flow:?}");
        let mut seen = Vec::new();
        let (moved, read) =
            tokio::join!(poll_fn(|cx| flow.poll(cx, &mut from, &mut to)), sink.read_to_end(&mut seen));
        assert_eq!((moved.unwrap(), read.unwrap()), ((), ALL));
        assert_eq!((flow.bytes, flow.write_buffer.capacity()), (ALL as u64, 0));
        writer.await.unwrap().unwrap();
    }
}
