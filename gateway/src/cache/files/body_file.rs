//! A body in a file.

use std::fs::{self, File, OpenOptions};
use std::hash::Hasher;
use std::io;
use std::mem;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;

use bytes::Bytes;
use siphasher::sip128::{Hasher128, SipHasher13};

use super::folder::MODE;
use super::{Files, PIECE};
use crate::body::disk::DiskShare;

/// Unit of the space that a file takes: the block size of common file systems.
const SPACE_UNIT: u64 = 4096;

/// A file with its space. Dropping it removes the file on the thread for files.
#[derive(Debug)]
struct OwnedFile {
    files: Arc<Files>,
    id: u64,
    /// `None` once it is removed.
    space: Option<DiskShare>,
}

/// A body that is whole.
#[derive(Debug)]
pub(in crate::cache) struct BodyFile {
    file: OwnedFile,
    length: u64,
    hashes: Box<[u128]>,
}

/// A body that is being written. Dropping it removes the file.
#[derive(Debug)]
pub(in crate::cache) struct FileWriter {
    file: OwnedFile,
    open: File,
    length: u64,
    hashes: Vec<u128>,
    /// Hash of the last piece, which is not full yet.
    hasher: SipHasher13,
}

/// Why a piece cannot be used.
#[derive(Debug)]
pub(in crate::cache) enum PieceError {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// The content is not what was written.
    Damaged,
}

impl FileWriter {
    pub(super) fn create(files: Arc<Files>) -> io::Result<Self> {
        let id = files.next_id();
        let hasher = files.hash_key.hasher();
        let space = Some(files.space());
        let path = files.folder.file(id);
        let open = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path)?;
        let file = OwnedFile { files, id, space };
        Ok(Self { file, open, length: 0, hashes: Vec::new(), hasher })
    }

    /// Appends bytes. If the space is used up, calls `make_room` until it is not, or until that
    /// returns false. Returns whether there was room. Blocks.
    ///
    /// # Errors
    /// Those of the file system.
    pub(in crate::cache) fn write(
        &mut self,
        bytes: &[u8],
        mut make_room: impl FnMut() -> bool,
    ) -> io::Result<bool> {
        let length = self.length + bytes.len() as u64;
        let more = units(length) - units(self.length);
        while !self.file.space.as_mut().is_some_and(|space| space.grow(more)) {
            if !make_room() {
                return Ok(false);
            }
        }
        self.open.write_all_at(bytes, self.length)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let filled = usize::try_from(self.length % PIECE as u64).unwrap_or(0);
            let (part, others) = rest.split_at(rest.len().min(PIECE - filled));
            self.hasher.write(part);
            self.length += part.len() as u64;
            rest = others;
            if filled + part.len() == PIECE {
                self.end_piece();
            }
        }
        Ok(true)
    }

    /// Ends the body.
    pub(in crate::cache) fn finish(mut self) -> BodyFile {
        if !self.length.is_multiple_of(PIECE as u64) {
            self.end_piece();
        }
        let Self { file, length, hashes, .. } = self;
        BodyFile { file, length, hashes: hashes.into() }
    }

    fn end_piece(&mut self) {
        let next = self.file.files.hash_key.hasher();
        self.hashes.push(mem::replace(&mut self.hasher, next).finish128().as_u128());
    }
}

impl BodyFile {
    /// Returns the length in bytes.
    pub(in crate::cache) fn length(&self) -> u64 {
        self.length
    }

    /// Returns the bytes of the disk that the file takes.
    pub(in crate::cache) fn space(&self) -> u64 {
        units(self.length)
    }

    /// Returns the bytes of memory that a body of this length takes.
    pub(in crate::cache) fn memory(length: u64) -> usize {
        let pieces = usize::try_from(length.div_ceil(PIECE as u64)).unwrap_or(usize::MAX);
        mem::size_of::<Self>() + pieces * mem::size_of::<u128>()
    }

    /// Opens the file. What was opened can be read after the file is removed. Blocks.
    ///
    /// # Errors
    /// Those of the file system.
    pub(in crate::cache) fn open(&self) -> io::Result<File> {
        self.file.files.open_file(self.file.id)
    }

    /// Reads and checks the piece with this index. Blocks.
    ///
    /// # Errors
    /// The piece cannot be read, or is not what was written.
    pub(in crate::cache) fn piece(&self, open: &File, index: usize) -> Result<Bytes, PieceError> {
        let expected = *self.hashes.get(index).ok_or(PieceError::Damaged)?;
        let at = (index * PIECE) as u64;
        let length = usize::try_from(self.length - at).map_or(PIECE, |rest| rest.min(PIECE));
        let mut piece = vec![0; length];
        open.read_exact_at(&mut piece, at).map_err(|error| match error.kind() {
            // The file is shorter than what was written.
            io::ErrorKind::UnexpectedEof => PieceError::Damaged,
            _ => PieceError::Unreadable(error),
        })?;
        let mut hasher = self.file.files.hash_key.hasher();
        hasher.write(&piece);
        match hasher.finish128().as_u128() == expected {
            true => Ok(piece.into()),
            false => Err(PieceError::Damaged),
        }
    }

    /// Removes the file on this thread, and returns its space. Blocks.
    pub(in crate::cache) fn remove(mut self) {
        if let Some(space) = self.file.space.take() {
            remove(&self.file.files, self.file.id, space);
        }
    }
}

impl Drop for OwnedFile {
    fn drop(&mut self) {
        let Some(space) = self.space.take() else { return };
        let (files, id) = (self.files.clone(), self.id);
        self.files.run(move || remove(&files, id, space));
    }
}

fn remove(files: &Files, id: u64, space: DiskShare) {
    if let Err(error) = fs::remove_file(files.folder.file(id)) {
        tracing::debug!(%error, "a file of a stored response cannot be removed");
    }
    drop(space);
}

fn units(length: u64) -> u64 {
    length.div_ceil(SPACE_UNIT) * SPACE_UNIT
}
