//! The store as Pingora reads and writes it.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use pingora_cache::key::{CacheHashKey, hash_key};
use pingora_cache::storage::{HandleHit, HandleMiss, MissFinishType, PurgeOutcome, PurgeTarget};
use pingora_cache::trace::SpanHandle;
use pingora_cache::{CacheKey, CacheMeta, HitHandler, MissHandler, PurgeType, Storage};
use pingora_core::{Error, ErrorType, Result};

use super::head::StoredHead;
use super::key::{CachedUrl, RequestKey};
use super::store::{Epoch, KeyHash, NewResponse, Store, StoredResponse};
use crate::io::budget::SharedReservation;

/// Bytes of a body that are read at once.
const PIECE: usize = 64 * 1024;

/// What a key carries to the store besides its hash.
#[derive(Clone, Debug)]
struct KeyContext {
    url: Arc<CachedUrl>,
    epoch: Epoch,
}

/// Returns Pingora's form of a key, for a request that is made now.
pub(super) fn cache_key(store: &Store, request: &RequestKey) -> CacheKey {
    let mut key = CacheKey::new(request.bytes(), "");
    // Otherwise Pingora computes it several times.
    key.set_primary_bin_override(hash_key(request.bytes()));
    key.extensions.insert(KeyContext { url: request.url().clone(), epoch: store.epoch(request.url()) });
    key
}

fn context(key: &CacheKey) -> Result<&KeyContext> {
    let missing = || Error::explain(ErrorType::InternalError, "a cache key of another origin");
    key.extensions.get().ok_or_else(missing)
}

#[async_trait]
impl Storage for Store {
    async fn lookup(
        &'static self,
        key: &CacheKey,
        _: &SpanHandle,
    ) -> Result<Option<(CacheMeta, HitHandler)>> {
        let found = self.get(&key.combined_bin(), &context(key)?.url);
        Ok(found.map(|response| {
            let (meta, range) = (response.head.meta(), 0..response.body.len());
            let reader: HitHandler = Box::new(BodyReader { response, range });
            (meta, reader)
        }))
    }

    async fn get_miss_handler(
        &'static self,
        key: &CacheKey,
        meta: &CacheMeta,
        _: &SpanHandle,
    ) -> Result<MissHandler> {
        let KeyContext { url, epoch } = context(key)?.clone();
        let head = StoredHead::of(meta);
        let mut memory = self.reservation();
        let is_kept = memory.try_hold(head.size());
        Ok(Box::new(BodyWriter {
            store: self,
            key: key.combined_bin(),
            url,
            epoch,
            head,
            body: Vec::new(),
            memory,
            is_kept,
        }))
    }

    /// Finds nothing: Pingora removes a response only for an eviction manager or the method PURGE,
    /// and neither is used.
    async fn purge(&'static self, _: PurgeTarget<'_>, _: PurgeType, _: &SpanHandle) -> Result<PurgeOutcome> {
        Ok(PurgeOutcome::NotFound)
    }

    async fn update_meta(&'static self, key: &CacheKey, meta: &CacheMeta, _: &SpanHandle) -> Result<bool> {
        let KeyContext { url, epoch } = context(key)?;
        Ok(self.epoch(url) == *epoch && self.put_head(&key.combined_bin(), url, StoredHead::of(meta)))
    }

    fn as_any(&self) -> &(dyn Any + Send + Sync + 'static) {
        self
    }
}

/// Reads the body of a response, or a range of it.
struct BodyReader {
    response: Arc<StoredResponse>,
    range: Range<usize>,
}

#[async_trait]
impl HandleHit for BodyReader {
    async fn read_body(&mut self) -> Result<Option<Bytes>> {
        if self.range.is_empty() {
            return Ok(None);
        }
        let end = self.range.end.min(self.range.start + PIECE);
        let piece = self.response.body.slice(self.range.start..end);
        self.range.start = end;
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
        let length = self.response.body.len();
        if start >= length {
            return Error::e_explain(ErrorType::InternalError, "a range behind the end of the body");
        }
        self.range = start..end.unwrap_or(length).min(length);
        Ok(())
    }

    fn as_any(&self) -> &(dyn Any + Send + Sync) {
        self
    }

    fn as_any_mut(&mut self) -> &mut (dyn Any + Send + Sync) {
        self
    }
}

/// Collects the body of a response that is stored when it is whole.
struct BodyWriter {
    store: &'static Store,
    key: KeyHash,
    url: Arc<CachedUrl>,
    epoch: Epoch,
    head: StoredHead,
    body: Vec<u8>,
    memory: SharedReservation,
    /// The response is stored; otherwise it is too large, or there is no memory for it.
    is_kept: bool,
}

impl BodyWriter {
    /// Makes room for further bytes. Returns false if there is none.
    fn reserve(&mut self, more: usize) -> bool {
        let (length, most) = (self.body.len() + more, self.store.most());
        if self.head.size() + length > most {
            return false;
        }
        if length <= self.body.capacity() {
            return true;
        }
        let stated = self.head.length().filter(|stated| *stated >= length);
        let capacity = stated.unwrap_or(2 * length).min(most);
        if !self.memory.try_hold(self.head.size() + capacity) {
            return false;
        }
        self.body.reserve_exact(capacity - self.body.len());
        true
    }
}

#[async_trait]
impl HandleMiss for BodyWriter {
    async fn write_body(&mut self, data: Bytes, _: bool) -> Result<()> {
        if self.is_kept && !self.reserve(data.len()) {
            self.is_kept = false;
            self.body = Vec::new();
            let _ = self.memory.try_hold(0);
        }
        if self.is_kept {
            self.body.extend_from_slice(&data);
        }
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<MissFinishType> {
        let Self { store, key, url, epoch, head, body, mut memory, is_kept } = *self;
        // Pingora reports an incomplete body as an error; this is a second line of defence.
        let is_whole = head.length().is_none_or(|length| length == body.len());
        let size = head.size() + body.len();
        if is_kept && is_whole && memory.try_hold(size) {
            let body = Bytes::from(body.into_boxed_slice());
            store.put(NewResponse { key, url, head, body, memory, epoch });
        }
        Ok(MissFinishType::Created(size))
    }
}
