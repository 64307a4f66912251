//! Buffering of a response for a client that is slower than its endpoint (`proxy-buffering`).
//!
//! The endpoint is read at its own speed, so a slow client does not occupy it. What the client has
//! not accepted is held in memory and then on disk, and passes in order: first what was read back
//! from disk, then the disk, then what arrived last. While the client keeps up, nothing comes here.
//! Where neither memory nor disk have room, the endpoint waits for the client, as without a buffer.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::HeaderMap;
use sluice_config::ResponseBuffering;

use super::disk::Disk;
use super::downstream::Passed;
use super::spill::{Spill, Unwritten};
use crate::io::budget::{self, Reservation};
use crate::io::failure::FailureKind;
use crate::message::response::Response;

/// Minimum number of bytes held in memory, whatever the settings are.
const LEAST: usize = 64 * 1024;
/// Bytes that are read from disk at a time.
const PIECE: usize = 64 * 1024;

/// The part of a response body that the client has not accepted.
#[derive(Debug)]
pub(crate) struct ResponseBuffer {
    /// Maximum number of bytes in memory.
    most: usize,
    /// Bytes that are passed on at a time.
    portion: usize,
    /// Maximum number of bytes on disk.
    most_on_disk: u64,
    /// The next bytes, of which `passed` were passed on.
    front: Vec<u8>,
    passed: usize,
    disk: Arc<Disk>,
    /// Bytes behind those in `front`.
    spill: Option<Spill>,
    /// Bytes of the spill that were read back.
    read: u64,
    /// Bytes behind those on disk.
    back: Vec<u8>,
    /// The trailers of a body that has ended without a framing of its own.
    end: Option<Option<HeaderMap>>,
    /// The whole response is here, or was passed on.
    is_whole: bool,
    share: Reservation,
}

impl ResponseBuffer {
    pub(crate) fn new(settings: &ResponseBuffering, disk: Arc<Disk>) -> Self {
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Self {
            most: bytes(settings.memory()).max(LEAST),
            portion: bytes(settings.portion()).max(1),
            most_on_disk: settings.disk,
            front: Vec::new(),
            passed: 0,
            disk,
            spill: None,
            read: 0,
            back: Vec::new(),
            end: None,
            is_whole: false,
            share: Reservation::default(),
        }
    }

    /// Returns a buffer without a disk.
    pub(crate) fn without_disk() -> Self {
        Self::new(&ResponseBuffering { disk: 0, ..ResponseBuffering::default() }, Arc::default())
    }

    /// Returns whether nothing waits for the client.
    pub(crate) fn is_empty(&self) -> bool {
        self.front.is_empty() && self.spill.is_none() && self.back.is_empty() && self.end.is_none()
    }

    /// Keeps more of the body, in its coding.
    pub(crate) fn pass(&mut self, response: &mut Response, bytes: &[u8]) -> Result<Passed, FailureKind> {
        let mut data = 0;
        let taken = response.framing.read(bytes, |piece| data += piece.len());
        let taken = taken.map_err(|_| FailureKind::InvalidHead)?;
        self.put(&bytes[..taken], response.framing.is_done());
        Ok(Passed { taken, data })
    }

    /// Keeps the end of a body without a framing of its own.
    pub(crate) fn end(&mut self, trailers: Option<&HeaderMap>) {
        self.end = Some(trailers.cloned());
        self.is_whole = true;
    }

    /// Ready when more of the body may arrive. Moves it to disk when memory is full.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FailureKind>> {
        loop {
            let spilled = self.spill.as_ref().map_or(0, Spill::length);
            // Bytes in `front` do not go to disk, but those that arrive now do.
            let is_writing = self.spill.as_ref().is_some_and(Spill::is_writing);
            let spills = self.back.is_empty() && !is_writing && spilled < self.most_on_disk;
            let has_room = (self.in_memory() < self.most || spills) && budget::has_room();
            if self.is_whole || has_room {
                return Poll::Ready(Ok(()));
            }
            if is_writing {
                ready!(self.poll_written(cx))?;
                continue;
            }
            let fits = spilled.saturating_add(self.back.len() as u64) <= self.most_on_disk;
            if !fits || self.back.is_empty() || self.spill.as_ref().is_some_and(Spill::is_reading) {
                // The client's progress wakes the request, and so does the disk.
                return Poll::Pending;
            }
            let disk = &self.disk;
            let spill = self.spill.get_or_insert_with(|| Spill::new(disk.clone()));
            if let Err(unwritten) = spill.write(mem::take(&mut self.back)) {
                self.keep(unwritten)?;
            }
            self.count();
        }
    }

    /// Adds the rest of a body, in its coding, behind what is held. `is_whole`: nothing follows.
    pub(crate) fn put(&mut self, bytes: &[u8], is_whole: bool) {
        self.back.extend_from_slice(bytes);
        self.is_whole = is_whole;
        self.count();
    }

    /// Ready with the next bytes for the client, at most `most`; none if there are none.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<Result<Vec<u8>, FailureKind>> {
        if self.front.is_empty() {
            ready!(self.poll_load(cx))?;
        }
        let end = self.front.len().min(self.passed + most.min(self.portion));
        let next = match (self.passed, end == self.front.len()) {
            (0, true) => mem::take(&mut self.front),
            _ => self.front[self.passed..end].to_vec(),
        };
        self.passed = end;
        if self.passed >= self.front.len() {
            (self.front, self.passed) = (Vec::new(), 0);
        }
        self.count();
        Poll::Ready(Ok(next))
    }

    /// Takes the end of a body without a framing of its own, once all of it was passed on.
    pub(crate) fn take_end(&mut self) -> Option<Option<HeaderMap>> {
        self.end.take()
    }

    /// Ensures that the next bytes are in `front`.
    fn poll_load(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FailureKind>> {
        ready!(self.poll_written(cx))?;
        if let Some(spill) = &mut self.spill
            && self.read < spill.length()
        {
            self.front = ready!(spill.poll_read(cx, self.read, PIECE)).map_err(|error| {
                tracing::warn!(%error, "a response cannot be read back from disk");
                FailureKind::Storage
            })?;
            self.read += self.front.len() as u64;
            return Poll::Ready(Ok(()));
        }
        // The next spill begins with an empty file.
        (self.spill, self.read) = (None, 0);
        self.front = mem::take(&mut self.back);
        Poll::Ready(Ok(()))
    }

    /// Ready when no write is running.
    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FailureKind>> {
        let Some(spill) = &mut self.spill else { return Poll::Ready(Ok(())) };
        match ready!(spill.poll_written(cx)) {
            Ok(spare) => {
                if let (true, Some(spare)) = (self.back.is_empty(), spare) {
                    self.back = spare;
                }
            }
            Err(unwritten) => self.keep(unwritten)?,
        }
        self.count();
        Poll::Ready(Ok(()))
    }

    /// Keeps bytes in memory that the disk did not take. Nothing more is written.
    fn keep(&mut self, unwritten: Unwritten) -> Result<(), FailureKind> {
        let Unwritten { error, bytes } = unwritten;
        tracing::warn!(
            %error,
            "a response cannot be buffered on disk, so its endpoint waits for the client; see \
             --body-temp-path and body-temp-max-size"
        );
        self.most_on_disk = 0;
        let newer = mem::replace(&mut self.back, bytes.ok_or(FailureKind::Storage)?);
        self.back.extend_from_slice(&newer);
        Ok(())
    }

    fn in_memory(&self) -> usize {
        self.front.len() - self.passed + self.back.len() + self.spill.as_ref().map_or(0, Spill::memory)
    }

    /// Updates the reservation.
    fn count(&mut self) {
        let disk = self.spill.as_ref().map_or(0, Spill::memory);
        self.share.hold(self.front.capacity() + self.back.capacity() + disk);
    }
}

#[cfg(test)]
mod tests;
