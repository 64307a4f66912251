//! A request body that is there whole before an endpoint is asked (`proxy-request-buffering`, nginx's default).
//!
//! So a slow client keeps no endpoint busy, an endpoint learns the length of every body, and any attempt can have all
//! of it. Memory first, then disk: up to `client-body-buffer-size`, but at least as much as is kept for another attempt
//! anyway, so that the usual body sees no disk. While memory is short, bodies go to disk sooner.
//!
//! Trailers have no place behind a body with a length: with them it goes on in chunks.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::disk::Disk;
use super::spill::Spill;
use crate::body::downstream::Downstream;
use crate::failure::FailureKind;
use crate::io::budget::{self, Reservation, WaitTicket};
use crate::io::deadlines::Deadlines;
use crate::message::framing::Framing;
use crate::message::response::Response;

/// Bytes that wait in memory however small `client-body-buffer-size` is.
const LEAST: usize = 64 * 1024;
/// Bytes that are written to disk, read from it or given out at a time.
const PIECE: usize = 64 * 1024;

/// A request body.
#[derive(Debug)]
pub(crate) struct RequestBuffer {
    /// How it comes.
    framing: Framing,
    /// How many bytes it may have.
    limit: Option<u64>,
    /// How many may wait in memory.
    most: usize,
    /// Before there is anything on disk, all that came; afterwards what is not there yet, or was read from it.
    memory: Vec<u8>,
    share: Reservation,
    ticket: WaitTicket,
    disk: Arc<Disk>,
    spill: Option<Spill>,
    /// Bytes of content that came.
    length: u64,
    /// The trailer section with its end, if it holds any.
    trailers: Vec<u8>,
    /// What was given out: of the content, and what stands before and behind it.
    given: u64,
    /// The most that was ever given out: what comes after it counts.
    counted: u64,
    begun: bool,
    ended: bool,
    /// Bytes of content before what is in memory.
    before: u64,
}

impl RequestBuffer {
    pub(crate) fn new(framing: Framing, limit: Option<u64>, memory: u64, disk: Arc<Disk>) -> Self {
        Self {
            framing,
            limit,
            most: usize::try_from(memory).unwrap_or(usize::MAX).max(LEAST),
            memory: Vec::new(),
            share: Reservation::default(),
            ticket: WaitTicket::default(),
            disk,
            spill: None,
            length: 0,
            trailers: Vec::new(),
            given: 0,
            counted: 0,
            begun: false,
            ended: false,
            before: 0,
        }
    }

    /// Bytes of content that came.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// How it goes on.
    pub(crate) fn coding(&self) -> Framing {
        match self.trailers.is_empty() {
            true => Framing::Length(self.length),
            false => Framing::CHUNKED,
        }
    }

    /// Takes the whole body from the client.
    pub(crate) fn poll_collect(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut impl Downstream,
        deadlines: &mut Deadlines,
        patience: Duration,
    ) -> Poll<Result<(), FailureKind>> {
        ready!(invite(cx, from, deadlines))?;
        loop {
            // What is complete and fits needs no more room.
            if !from.is_spent() || self.memory.len() > self.most {
                ready!(self.poll_make_room(cx, deadlines))?;
            }
            if from.is_spent() {
                return self.poll_finish(cx);
            }
            let mut taken = Ok(());
            let read = from.poll_body(cx, |_, bytes, _| taken = self.take(bytes));
            if read.is_pending() {
                deadlines.body.begin(Some(patience));
            }
            ready!(read)?;
            deadlines.body.end();
            taken?;
        }
    }

    /// Takes a piece in.
    fn take(&mut self, bytes: &[u8]) -> Result<(), FailureKind> {
        let Self { framing, memory, trailers, .. } = self;
        if memory.capacity() == 0 {
            let expected = framing.left().and_then(|left| usize::try_from(left).ok());
            memory.reserve(expected.unwrap_or(bytes.len()).min(PIECE));
        }
        let before = memory.len();
        let read = framing.read_all(
            bytes,
            |piece| memory.extend_from_slice(piece),
            |trailer| trailers.push(trailer),
        );
        read.map_err(|_| FailureKind::ClientMalformed)?;
        self.length += (memory.len() - before) as u64;
        self.count();
        match self.limit.is_some_and(|limit| self.length > limit) {
            true => Err(FailureKind::BodyTooLarge),
            false => Ok(()),
        }
    }

    /// Ready when more may be read. What is too much for memory goes to disk.
    fn poll_make_room(
        &mut self,
        cx: &mut Context<'_>,
        deadlines: &mut Deadlines,
    ) -> Poll<Result<(), FailureKind>> {
        loop {
            let has_room = budget::has_room();
            let most = if self.spill.is_some() { PIECE } else { self.most };
            if has_room && self.memory.len() < most {
                self.ticket = WaitTicket::default();
                deadlines.room.end();
                return Poll::Ready(Ok(()));
            }
            if self.memory.is_empty() {
                if let Some(spill) = &mut self.spill {
                    ready!(spill.poll_written(cx)).map_err(failed)?;
                }
                self.memory = Vec::new();
                self.count();
                // Nobody's memory but that of others is short.
                ready!(deadlines.poll_room(cx, &mut self.ticket));
                continue;
            }
            ready!(self.poll_spill(cx))?;
        }
    }

    /// Sends what is in memory to disk, once what went before is there.
    fn poll_spill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FailureKind>> {
        let disk = &self.disk;
        let spill = self.spill.get_or_insert_with(|| Spill::new(disk.clone()));
        let spare = ready!(spill.poll_written(cx)).map_err(failed)?;
        let full = mem::replace(&mut self.memory, spare.unwrap_or_default());
        spill.write(full).map_err(failed)?;
        self.count();
        Poll::Ready(Ok(()))
    }

    /// The client has sent all.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FailureKind>> {
        if self.spill.is_some() && !self.memory.is_empty() {
            ready!(self.poll_spill(cx))?;
        }
        if let Some(spill) = &mut self.spill {
            ready!(spill.poll_written(cx)).map_err(failed)?;
            self.memory = Vec::new();
            self.count();
        }
        Poll::Ready(Ok(()))
    }

    /// Takes the share for what there is, on its way to disk too: a disk may take as long as it likes.
    fn count(&mut self) {
        let disk = self.spill.as_ref().map_or(0, Spill::memory);
        self.share.hold(self.memory.capacity() + self.trailers.capacity() + disk);
    }

    /// Whether all was given out.
    pub(crate) fn is_given(&self) -> bool {
        match self.trailers.is_empty() {
            true => self.given == self.length,
            false => self.ended,
        }
    }

    /// Goes back to the start.
    pub(crate) fn rewind(&mut self) {
        self.given = 0;
        (self.begun, self.ended) = (false, false);
    }

    /// Gives out the next piece. What is given again does not count.
    pub(crate) fn poll_give(
        &mut self,
        cx: &mut Context<'_>,
        pass: impl FnOnce(&mut Context<'_>, &[u8], usize),
    ) -> Poll<Result<(), FailureKind>> {
        let chunked = !self.trailers.is_empty();
        if chunked && !self.begun && self.length > 0 {
            self.begun = true;
            pass(cx, format!("{:x}\r\n", self.length).as_bytes(), 0);
        } else if self.given < self.length {
            ready!(self.poll_load(cx))?;
            let at = usize::try_from(self.given - self.before).unwrap_or(usize::MAX);
            let piece = self.memory.get(at..).unwrap_or_default();
            let piece = &piece[..piece.len().min(PIECE)];
            let length = piece.len();
            self.given += length as u64;
            let fresh = self.given.saturating_sub(self.counted);
            self.counted = self.counted.max(self.given);
            pass(cx, piece, usize::try_from(fresh).unwrap_or(usize::MAX));
            if self.spill.is_some() && at + length == self.memory.len() {
                // It would keep its own connection from reading on.
                self.memory = Vec::new();
                self.count();
            }
        } else {
            self.ended = true;
            let mut end = if self.length > 0 { b"\r\n0\r\n".to_vec() } else { b"0\r\n".to_vec() };
            end.extend_from_slice(&self.trailers);
            pass(cx, if chunked { &end } else { &[] }, 0);
        }
        Poll::Ready(Ok(()))
    }

    /// Has the next bytes in memory.
    fn poll_load(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FailureKind>> {
        let Some(spill) = &mut self.spill else { return Poll::Ready(Ok(())) };
        let (before, behind) = (self.before, self.before + self.memory.len() as u64);
        if (before..behind).contains(&self.given) {
            return Poll::Ready(Ok(()));
        }
        self.memory = ready!(spill.poll_read(cx, self.given, budget::portion(PIECE))).map_err(failed)?;
        self.before = self.given;
        self.count();
        Poll::Ready(Ok(()))
    }
}

/// Tells a client that waits for it to send its body.
fn invite(
    cx: &mut Context<'_>,
    client: &mut impl Downstream,
    deadlines: &mut Deadlines,
) -> Poll<Result<(), FailureKind>> {
    if client.awaits_continue() {
        client.interim(cx, &mut Response::go_on())?;
    }
    client.poll_flush(cx, deadlines)
}

fn failed(error: std::io::Error) -> FailureKind {
    tracing::warn!(%error, "a request body cannot be kept on disk; see --body-temp-path and body-temp-max-size");
    FailureKind::Storage
}

#[cfg(test)]
mod tests;
