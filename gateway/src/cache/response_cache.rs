//! The store of a data plane, with its locks.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pingora_cache::lock::CacheKeyLockImpl;
use pingora_cache::predictor::{CacheablePredictor, Predictor};
use pingora_cache::{CacheKey, CacheOptionOverrides, HttpCache};
use serde::Serialize;
use tokio::sync::watch;

use super::TRANSIENT;
use super::fetch_locks::FetchLocks;
use super::files::{FileUse, Files, FolderFault};
use super::key::RequestKey;
use super::storage::cache_key;
use super::store::{Purge, Store};
use crate::io::budget::Budget;

/// Part of the memory budget that stored responses may take.
const PART: usize = 4;
/// How long a request waits for another one that fetches the same response (nginx's
/// `proxy_cache_lock_timeout`).
const WAIT: Duration = Duration::from_secs(5);
/// How long a request may fetch a response before another one does, too.
const LOCK_AGE: Duration = Duration::from_secs(10);
/// Shards of the list of URLs whose responses are not stored, and URLs in each.
const SHARDS: usize = 16;
const REMEMBERED: usize = 256;

/// Use of memory and disk for stored responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheUse {
    /// Bytes of memory of all responses.
    pub bytes: usize,
    /// Maximum of bytes of memory.
    pub limit: usize,
    /// Number of responses.
    pub responses: usize,
    /// How many responses left because others needed their memory or their space.
    pub evictions: usize,
    /// Bodies in files; all 0 without a folder for them.
    pub files: FileUse,
}

/// The stored responses of a data plane. The store is made when the first request needs it.
pub(crate) struct ResponseCache {
    store: OnceLock<&'static ResponseStore>,
    limit: AtomicUsize,
    /// The folder for bodies, if there is one.
    files: OnceLock<Arc<Files>>,
    file_limit: AtomicU64,
    budget: Arc<Budget>,
}

/// The store, with what Pingora needs to use it.
pub(crate) struct ResponseStore {
    pub(super) store: Store,
    locks: FetchLocks,
    /// URLs whose responses are not stored: their requests do not wait for each other.
    unstored: Predictor<SHARDS>,
}

impl ResponseCache {
    /// Creates an empty cache within this budget.
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self {
            store: OnceLock::new(),
            limit: AtomicUsize::new(0),
            files: OnceLock::new(),
            file_limit: AtomicU64::new(0),
            budget: budget.clone(),
        }
    }

    /// Empties a folder and stores bodies in it that memory has no room for. Returns what makes the
    /// folder unusable later. Blocks. Call it once, before the first request.
    ///
    /// # Errors
    /// The folder is unusable.
    pub(crate) fn keep_files_in(
        &self,
        folder: &Path,
    ) -> Result<watch::Receiver<Option<FolderFault>>, FolderFault> {
        let files = Files::open(folder)?;
        files.set_limit(self.file_limit.load(SeqCst));
        let faults = files.faults();
        // A second call would mean two programs in one process.
        let _ = self.files.set(files);
        Ok(faults)
    }

    /// Sets the limit of files in bytes. 0 stores nothing there.
    pub(crate) fn set_file_limit(&self, bytes: u64) {
        self.file_limit.store(bytes, SeqCst);
        if let Some(files) = self.files.get() {
            files.set_limit(bytes);
        }
        if let Some(made) = self.store.get() {
            made.store.shrink_files();
        }
    }

    /// Sets the limit in bytes: `size`, or a part of the memory budget if that is less. 0 stores
    /// nothing.
    pub(crate) fn set_limit(&self, size: usize) {
        let limit = size.min(self.budget.limit() / PART);
        self.limit.store(limit, SeqCst);
        if let Some(made) = self.store.get() {
            made.store.set_limit(limit);
        }
    }

    /// Returns whether anything may be stored.
    pub(crate) fn is_enabled(&self) -> bool {
        self.limit.load(SeqCst) > 0
    }

    /// Returns the store; `None` if nothing is stored.
    pub(crate) fn store(&self) -> Option<&'static ResponseStore> {
        let limit = self.limit.load(SeqCst);
        if limit == 0 {
            return None;
        }
        Some(self.store.get_or_init(|| {
            // Pingora requires a reference that is valid forever. A process has one data plane, and
            // what the store holds is released with it.
            Box::leak(Box::new(ResponseStore {
                store: Store::new(limit, self.budget.clone(), self.files.get().cloned()),
                locks: FetchLocks::new(LOCK_AGE),
                unstored: Predictor::new(REMEMBERED, Some(|reason| reason == TRANSIENT)),
            }))
        }))
    }

    /// Removes responses, and returns their number.
    pub(crate) fn purge(&self, purge: &Purge) -> usize {
        self.store.get().map_or(0, |made| made.store.purge(purge))
    }

    /// Returns the use of memory and disk.
    pub(crate) fn usage(&self) -> CacheUse {
        let limit = self.limit.load(SeqCst);
        let store = self.store.get().map(|made| &made.store);
        CacheUse {
            limit,
            bytes: store.map_or(0, Store::bytes),
            responses: store.map_or(0, Store::count),
            evictions: store.map_or(0, Store::evictions),
            files: self.files.get().map_or_else(FileUse::default, |files| FileUse {
                bytes: files.used(),
                limit: files.limit(),
                entries: store.map_or(0, Store::count_in_files),
                errors: files.errors(),
            }),
        }
    }
}

impl Drop for ResponseCache {
    fn drop(&mut self) {
        self.purge(&Purge::All);
    }
}

impl ResponseStore {
    /// Lets a request use the store.
    pub(crate) fn enable(&'static self, cache: &mut HttpCache) {
        let mut options = CacheOptionOverrides::default();
        options.wait_timeout = Some(WAIT);
        let unstored: &'static (dyn CacheablePredictor + Sync) = &self.unstored;
        let locks: &'static CacheKeyLockImpl = &self.locks;
        cache.enable(&self.store, None, Some(unstored), Some(locks), Some(options));
    }

    /// Returns Pingora's form of a key, for a request that is made now.
    pub(crate) fn key(&self, request: &RequestKey) -> CacheKey {
        cache_key(&self.store, request)
    }

    /// Returns the maximum of bytes that a response may take.
    pub(crate) fn most(&self) -> usize {
        let in_file = usize::try_from(self.store.most_in_file()).unwrap_or(usize::MAX);
        self.store.most_in_memory().max(in_file)
    }
}

impl fmt::Debug for ResponseStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

impl fmt::Debug for ResponseCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseCache").field("usage", &self.usage()).finish_non_exhaustive()
    }
}
