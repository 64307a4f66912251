//! The responses whose bodies are in files, in the order of their use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use pingora_lru::Lru;

use super::Slot;
use crate::cache::files::Files;

/// Their bookkeeping. Their heads and hashes are in memory.
pub(super) struct FileTier {
    pub(super) files: Arc<Files>,
    /// By id, with the bytes of the disk that each takes. One shard, as [`Order`](super::Order).
    order: Lru<FileSlot, 1>,
    /// Bytes of memory of all.
    memory: AtomicUsize,
    /// Bytes of memory of responses that are being written to files.
    moving: AtomicUsize,
}

struct FileSlot {
    slot: Slot,
    memory: usize,
}

impl FileTier {
    pub(super) fn new(files: Arc<Files>) -> Self {
        Self {
            files,
            order: Lru::with_capacity(usize::MAX, 64),
            memory: AtomicUsize::new(0),
            moving: AtomicUsize::new(0),
        }
    }

    /// Adds a response that takes these bytes of the disk and of memory.
    pub(super) fn admit(&self, slot: Slot, space: u64, memory: usize) {
        self.memory.fetch_add(memory, SeqCst);
        let space = usize::try_from(space).unwrap_or(usize::MAX);
        self.order.admit(slot.id, FileSlot { slot, memory }, space);
    }

    /// Counts a use.
    pub(super) fn promote(&self, id: u64, recent: usize) {
        self.order.promote_top_n(id, recent);
    }

    pub(super) fn remove(&self, id: u64) {
        if let Some((removed, _)) = self.order.remove(id) {
            self.memory.fetch_sub(removed.memory, SeqCst);
        }
    }

    /// Removes the least recently used response.
    pub(super) fn pop(&self) -> Option<Slot> {
        let (FileSlot { slot, memory }, _) = self.order.evict_shard(0)?;
        self.memory.fetch_sub(memory, SeqCst);
        Some(slot)
    }

    /// Begins to write a response that takes these bytes of memory. Returns false if others that
    /// are being written take too many: at most `most`, together.
    pub(super) fn begin_move(&self, memory: usize, most: usize) -> bool {
        let fits = |moving: usize| Some(moving + memory).filter(|sum| *sum <= most);
        self.moving.fetch_update(SeqCst, SeqCst, fits).is_ok()
    }

    pub(super) fn end_move(&self, memory: usize) {
        self.moving.fetch_sub(memory, SeqCst);
    }

    /// Returns the bytes of memory of responses in files.
    pub(super) fn memory(&self) -> usize {
        self.memory.load(SeqCst)
    }

    /// Returns the bytes of memory of responses that are being written.
    pub(super) fn moving(&self) -> usize {
        self.moving.load(SeqCst)
    }

    /// Returns the bytes of the disk that all take, without files that are about to be removed.
    pub(super) fn space(&self) -> u64 {
        self.order.weight() as u64
    }

    /// Returns their number.
    pub(super) fn count(&self) -> usize {
        self.order.len()
    }
}

impl std::fmt::Debug for FileTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileTier")
            .field("files", &self.files)
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}
