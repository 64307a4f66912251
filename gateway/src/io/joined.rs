//! The writing side of an HTTP/2 connection: what `h2` writes in several parts leaves together.
//!
//! `h2` writes a head and the first piece of a body one after the other; here they become one segment and one TLS
//! record. The other side may refuse to take it for so long and no longer.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use smallvec::SmallVec;
use tokio::io::AsyncWrite;
use tokio::time::{Sleep, sleep};

use crate::io::transport::Transport;

/// Writes up to this size are joined. `h2` has joined frames as far as they are small.
const JOIN: usize = 4 * 1024;
/// How long a write may wait for the other side (nginx's `send_timeout`).
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// What was written and not sent.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    out: BytesMut,
    /// Runs while the other side does not take what is written.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Bytes that the transport has taken.
    sent: u64,
}

impl Joined {
    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Bytes that the transport has taken.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Writes `bufs` behind what waits. Gives how many of their bytes were taken.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut Transport,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes: usize = bufs.iter().map(|buf| buf.len()).sum();
        if self.out.len() + bytes > JOIN {
            return self.poll_write_through(cx, to, bufs);
        }
        bufs.iter().for_each(|buf| self.out.extend_from_slice(buf));
        Poll::Ready(Ok(bytes))
    }

    /// Sends what waits. Ready when nothing does.
    pub(crate) fn poll_send(&mut self, cx: &mut Context<'_>, to: &mut Transport) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            match Pin::new(&mut *to).poll_write(cx, &self.out) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(sent)) => {
                    self.out.advance(sent);
                    self.took(sent);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return self.poll_stalled(cx),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what waits, and has the transport do the same.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>, to: &mut Transport) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx, to))?;
        match Pin::new(to).poll_flush(cx) {
            Poll::Pending => self.poll_stalled(cx),
            done => {
                self.stalled = None;
                done
            }
        }
    }

    fn poll_write_through(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut Transport,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            let waiting = self.out.len();
            let mut all: SmallVec<[IoSlice<'_>; 8]> = SmallVec::new();
            if waiting > 0 {
                all.push(IoSlice::new(&self.out));
            }
            all.extend(bufs.iter().map(|buf| IoSlice::new(buf)));
            match Pin::new(&mut *to).poll_write_vectored(cx, &all) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(sent)) => {
                    drop(all);
                    self.took(sent);
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

    fn took(&mut self, sent: usize) {
        self.sent += sent as u64;
        self.stalled = None;
    }

    /// Waits with the other side, but not for ever.
    fn poll_stalled<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let sleep = self.stalled.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}
