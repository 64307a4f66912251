//! The body of a stored response that is being sent.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use pingora_cache::storage::{HandleHit, HitHandler};
use pingora_cache::trace::SpanHandle;
use pingora_cache::{CacheKey, Storage};
use pingora_core::{Error, ErrorType, Result};

use super::files::{BodyFile, Files, Operation, PIECE, PieceError};
use super::jobs;
use super::store::{KeyHash, Store, StoredBody, StoredResponse};
use crate::io::budget::SharedReservation;

/// Reads the body of a response, or a range of it.
pub(super) struct BodyReader {
    response: Arc<StoredResponse>,
    range: Range<usize>,
    /// For a body in a file.
    file: Option<FileReader>,
}

/// The part of a reader for a body in a file.
struct FileReader {
    store: &'static Store,
    key: KeyHash,
    body: Arc<BodyFile>,
    /// The open file, once a piece was read.
    open: Option<Arc<File>>,
    /// The piece that was read last, with its index.
    piece: Option<(usize, Bytes)>,
    /// For the memory of a piece.
    memory: SharedReservation,
}

impl BodyReader {
    pub(super) fn new(store: &'static Store, key: KeyHash, response: Arc<StoredResponse>) -> Self {
        let file = match &response.body {
            StoredBody::Memory(_) => None,
            StoredBody::File(body) => Some(FileReader {
                store,
                key,
                body: body.clone(),
                open: None,
                piece: None,
                memory: store.reservation(),
            }),
        };
        Self { range: 0..response.length(), response, file }
    }

    /// Reads the piece that has the byte at `first`. Returns false if the body cannot be sent.
    async fn prepare(&mut self, first: usize) -> bool {
        let (length, Some(file)) = (self.response.length(), &mut self.file) else { return true };
        if length == 0 {
            return true;
        }
        let is_usable = file.files().is_some_and(Files::are_usable) && file.memory.try_hold(PIECE);
        is_usable && file.load(first.min(length - 1) / PIECE, &self.response).await.is_some()
    }
}

/// Reads the beginning of a body from its file, so that a body that cannot be read is no response.
/// `first` returns the first byte to be sent from the length of the body. Returns false if the
/// response must be fetched again.
pub(crate) async fn is_readable(reader: &mut HitHandler, first: impl FnOnce(usize) -> usize) -> bool {
    match reader.as_any_mut().downcast_mut::<BodyReader>() {
        Some(reader) => {
            let first = first(reader.response.length());
            reader.prepare(first).await
        }
        None => true,
    }
}

impl FileReader {
    fn files(&self) -> Option<&Files> {
        self.store.files().map(|files| &**files)
    }

    /// Returns a piece; `None` if it cannot be read. A response that is damaged or gone is removed.
    async fn load(&mut self, index: usize, response: &StoredResponse) -> Option<Bytes> {
        if let Some((_, piece)) = self.piece.as_ref().filter(|(loaded, _)| *loaded == index) {
            return Some(piece.clone());
        }
        let (body, open) = (self.body.clone(), self.open.take());
        let read = move || -> Result<_, PieceError> {
            let open = open.map_or_else(|| body.open().map(Arc::new), Ok);
            let open = open.map_err(PieceError::Unreadable)?;
            Ok((body.piece(&open, index)?, open))
        };
        let read = async { jobs::in_time(jobs::start(read).await?).await };
        let failure = match read.await {
            Ok(Ok((piece, open))) => {
                self.open = Some(open);
                self.piece = Some((index, piece.clone()));
                return Some(piece);
            }
            Ok(Err(failure)) => failure,
            Err(error) => PieceError::Unreadable(error),
        };
        let files = self.files()?;
        match &failure {
            PieceError::Damaged => files.damaged(),
            PieceError::Unreadable(error) => files.failed(Operation::Read, error),
        }
        // A disk that is only slow has lost nothing.
        let is_late =
            matches!(&failure, PieceError::Unreadable(error) if error.kind() == io::ErrorKind::TimedOut);
        if !is_late {
            self.store.remove_unreadable(&self.key, response);
        }
        None
    }
}

impl Drop for FileReader {
    fn drop(&mut self) {
        // Closing a file that was removed frees its blocks, which may take time.
        if let (Some(open), Some(files)) = (self.open.take(), self.files()) {
            files.run(move || drop(open));
        }
    }
}

#[async_trait]
impl HandleHit for BodyReader {
    async fn read_body(&mut self) -> Result<Option<Bytes>> {
        let Range { start, end } = self.range;
        if self.range.is_empty() {
            return Ok(None);
        }
        let piece = match (&self.response.body, &mut self.file) {
            (StoredBody::Memory(body), _) => body.slice(start..end.min(start + PIECE)),
            (StoredBody::File(_), Some(file)) => {
                let (index, offset) = (start / PIECE, start % PIECE);
                let lost = || Error::explain(ErrorType::FileReadError, "a stored response cannot be read");
                let piece = file.load(index, &self.response).await.ok_or_else(lost)?;
                piece.slice(offset..piece.len().min(offset + end - start))
            }
            (StoredBody::File(_), None) => return Ok(None),
        };
        self.range.start += piece.len();
        Ok(Some(piece))
    }

    async fn finish(
        self: Box<Self>,
        _: &'static (dyn Storage + Sync),
        _: &CacheKey,
        _: &SpanHandle,
    ) -> Result<()> {
        Ok(())
    }

    fn can_seek(&self) -> bool {
        true
    }

    fn seek(&mut self, start: usize, end: Option<usize>) -> Result<()> {
        let length = self.response.length();
        if start >= length {
            return Error::e_explain(ErrorType::InternalError, "a range behind the end of the body");
        }
        self.range = start..end.unwrap_or(length).min(length);
        Ok(())
    }

    fn as_any(&self) -> &(dyn std::any::Any + Send + Sync) {
        self
    }

    fn as_any_mut(&mut self) -> &mut (dyn std::any::Any + Send + Sync) {
        self
    }
}
