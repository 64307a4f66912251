//! The store as Pingora reads and writes it.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use pingora_cache::key::CacheHashKey;
use pingora_cache::storage::{PurgeOutcome, PurgeTarget};
use pingora_cache::trace::SpanHandle;
use pingora_cache::{CacheKey, CacheMeta, HitHandler, MissHandler, PurgeType, Storage};
use pingora_core::{Error, ErrorType, Result};

use super::body_reader::BodyReader;
use super::body_writer::BodyWriter;
use super::head::StoredHead;
use super::key::{CachedUrl, RequestKey};
use super::store::{Epoch, ResponseId, Store};

/// What a key carries to the store besides its hash.
#[derive(Clone, Debug)]
struct KeyContext {
    url: Arc<CachedUrl>,
    epoch: Epoch,
}

/// Returns Pingora's form of a key, for a request that is made now.
pub(super) fn cache_key(store: &Store, request: &RequestKey) -> CacheKey {
    let mut key = CacheKey::new(request.bytes(), "");
    // Pingora's own hash costs several times as much, and would be computed several times.
    key.set_primary_bin_override(store.key_hash(request));
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
        let found = self.get(&key.combined_bin());
        Ok(found.map(|response| {
            let mut meta = response.head.meta();
            // Pingora carries it over to the metadata of a response that confirms this one.
            meta.extensions_mut().insert(response.id());
            let reader: HitHandler = Box::new(BodyReader::new(self, key.combined_bin(), response));
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
        Ok(Box::new(BodyWriter::new(self, key.combined_bin(), url, epoch, head)))
    }

    /// Finds nothing: Pingora removes a response only for an eviction manager or the method PURGE,
    /// and neither is used.
    async fn purge(&'static self, _: PurgeTarget<'_>, _: PurgeType, _: &SpanHandle) -> Result<PurgeOutcome> {
        Ok(PurgeOutcome::NotFound)
    }

    async fn update_meta(&'static self, key: &CacheKey, meta: &CacheMeta, _: &SpanHandle) -> Result<bool> {
        let KeyContext { url, epoch } = context(key)?;
        let Some(confirmed) = meta.extensions().get::<ResponseId>() else { return Ok(false) };
        let is_current = self.epoch(url) == *epoch;
        Ok(is_current && self.put_head(&key.combined_bin(), *confirmed, StoredHead::of(meta)))
    }

    fn as_any(&self) -> &(dyn Any + Send + Sync + 'static) {
        self
    }
}
