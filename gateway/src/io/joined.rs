//! The writing side of an HTTP/2 connection, which joins small writes of `h2`.
//!
//! `h2` writes a head and the first piece of a body separately. Joined, they need one segment and
//! one TLS record. A write that the peer does not take within [`WRITE_TIMEOUT`] fails.

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

/// Bytes up to which writes are joined. `h2` itself joins only small frames.
const JOIN: usize = 4 * 1024;
/// Time that a write may wait for the peer (nginx's `send_timeout`).
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes written by `h2` but not yet sent.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    out: BytesMut,
    /// Runs while the peer takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Bytes that the transport has taken.
    sent: u64,
}

impl Joined {
    /// Returns whether all bytes were sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Returns the bytes that the transport has taken.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Writes `bufs` behind the waiting bytes. Returns how many of their bytes were taken.
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

    /// Sends the waiting bytes. Ready when all are sent.
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

    /// Sends the waiting bytes and flushes the transport.
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

    /// Waits for the peer, at most [`WRITE_TIMEOUT`].
    fn poll_stalled<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let sleep = self.stalled.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}
