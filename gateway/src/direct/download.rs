//! The response on its way to the client.

use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use super::backlog::Backlog;
use super::limits::{Limits, STALL};
use super::response::{Delivery, Response};
use crate::connection::framing::{BadChunk, Framing};
use crate::connection::transport::Transport;

/// What leaves in one piece: one TLS record.
const JOIN: usize = 16 * 1024;
/// Interim responses before a final one.
const MAX_INTERIM: u32 = 32;

/// The response of one exchange, over all its tries.
#[derive(Debug, Default)]
pub(super) struct Download {
    pub(super) response: Response,
    pub(super) state: Receiving,
    /// A head that is not complete.
    pub(super) partial: Vec<u8>,
    /// Octets written to the client.
    pub(super) sent: u64,
    /// Octets of the body written to the client, free of their coding.
    pub(super) body_sent: u64,
    /// Octets of the body that the endpoint of this try has sent, free of their coding.
    pub(super) received: u64,
    /// The endpoint has sent something in this try.
    pub(super) heard: bool,
    /// The endpoint has sent more than its response.
    pub(super) excess: bool,
    /// Something of the final response went out.
    pub(super) started: bool,
    interims: u32,
    backlog: Backlog,
    flushed: bool,
}

/// How far a try has come with its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Receiving {
    /// The final head is not there.
    #[default]
    Head,
    /// The body is not complete.
    Body,
    /// All is there.
    Done,
}

impl Download {
    /// Begins a try.
    pub(super) fn begin(&mut self) {
        self.state = Receiving::Head;
        self.partial.clear();
        (self.received, self.heard, self.excess) = (0, false, false);
    }

    /// Counts an interim response; false when there are too many.
    pub(super) fn count_interim(&mut self) -> bool {
        self.interims += 1;
        self.interims <= MAX_INTERIM
    }

    /// Passes octets of the body on, behind what is in `out`. What does not belong to the body is dropped, and
    /// with it, later, the connection.
    pub(super) fn pass(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut Transport,
        out: &mut Vec<u8>,
        octets: &[u8],
    ) -> Result<io::Result<()>, BadChunk> {
        let mut data = 0;
        let framing = &mut self.response.framing;
        let (taken, body) = match self.response.delivery {
            Delivery::AsIs => {
                let taken = framing.read(octets, |piece| data += piece.len())?;
                (taken, &octets[..taken])
            }
            Delivery::UntilClose => {
                let taken = framing.read(octets, |piece| {
                    data += piece.len();
                    out.extend_from_slice(piece);
                })?;
                (taken, &[][..])
            }
            Delivery::Chunked => {
                if !octets.is_empty() {
                    // Writing to a vector does not fail.
                    let _ = write!(out, "{:x}\r\n", octets.len());
                    out.extend_from_slice(octets);
                    out.extend_from_slice(b"\r\n");
                }
                data = octets.len();
                (octets.len(), &[][..])
            }
        };
        self.received += data as u64;
        self.body_sent += data as u64;
        self.excess |= taken < octets.len();
        if framing.is_done() {
            self.state = Receiving::Done;
        }
        Ok(self.send(cx, to, out, body))
    }

    /// The endpoint ended its connection. Says whether that was the end of the response.
    pub(super) fn end(&mut self, cx: &mut Context<'_>, to: &mut Transport) -> Option<io::Result<()>> {
        if self.state != Receiving::Body || self.response.framing != Framing::Opaque {
            return None;
        }
        self.state = Receiving::Done;
        Some(match self.response.delivery {
            Delivery::Chunked => self.send(cx, to, &mut b"0\r\n\r\n".to_vec(), &[]),
            Delivery::AsIs | Delivery::UntilClose => Ok(()),
        })
    }

    /// Writes `head` and `body` behind it; what the client does not take at once waits. Joins what is small.
    pub(super) fn send(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut Transport,
        head: &mut Vec<u8>,
        mut body: &[u8],
    ) -> io::Result<()> {
        if !head.is_empty() && head.len() + body.len() <= JOIN {
            head.extend_from_slice(body);
            body = &[];
        }
        let mut head = &head[..];
        self.flushed = false;
        while self.backlog.is_empty() && head.len() + body.len() > 0 {
            let written = match (head, body) {
                ([], only) | (only, []) => Pin::new(&mut *to).poll_write(cx, only),
                _ => Pin::new(&mut *to).poll_write_vectored(cx, &[IoSlice::new(head), IoSlice::new(body)]),
            };
            match written {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(sent)) => {
                    self.sent += sent as u64;
                    let of_head = sent.min(head.len());
                    (head, body) = (&head[of_head..], &body[sent - of_head..]);
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
        }
        self.backlog.push(head);
        self.backlog.push(body);
        Ok(())
    }

    /// Ready when the client has taken all that was written.
    pub(super) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut Transport,
        limits: &mut Limits,
    ) -> Poll<io::Result<()>> {
        if self.flushed {
            return Poll::Ready(Ok(()));
        }
        let before = self.backlog.len();
        let sent = self.backlog.poll_send(cx, to);
        let moved = before - self.backlog.len();
        if moved > 0 {
            self.sent += moved as u64;
            limits.stall.end();
        }
        let flushed = match sent {
            Poll::Ready(Ok(())) => Pin::new(to).poll_flush(cx),
            other => other,
        };
        if flushed.is_pending() {
            limits.stall.begin(Some(STALL));
        }
        ready!(flushed)?;
        limits.stall.end();
        self.flushed = true;
        Poll::Ready(Ok(()))
    }

    /// Octets of the body that went out, as far as can be told when the client has not taken all.
    pub(super) fn body_out(&self) -> u64 {
        self.body_sent.saturating_sub(self.backlog.len() as u64)
    }
}
