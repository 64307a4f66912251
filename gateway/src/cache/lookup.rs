//! Stored responses that need nothing of Pingora: whole ones that are fresh and in memory.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{HeaderMap, IF_MODIFIED_SINCE, IF_NONE_MATCH, RANGE};
use pingora_cache::key::{CacheHashKey, HashBinary};
use pingora_core::protocols::http::conditional_filter::not_modified_filter;
use pingora_http::RequestHeader;

use super::head::StoredHead;
use super::key::RequestKey;
use super::response_cache::ResponseStore;
use super::storage::cache_key;
use super::store::{StoredBody, StoredResponse};
use crate::message::fields::Fields;
use crate::message::framing::Framing;
use crate::message::head::Head;
use crate::message::response::Response;

/// A response for a client.
#[derive(Debug)]
pub(crate) struct FreshResponse {
    /// Its framing is [`Framing::NONE`] or the length of the body.
    pub(crate) head: Response,
    /// The part of the body that was not passed on.
    pub(crate) rest: Bytes,
    /// Holds the memory of the body, also if the response leaves the store meanwhile.
    _stored: Arc<StoredResponse>,
}

impl ResponseStore {
    /// Returns a response that can be sent at once, as Pingora would send it. `None` says nothing:
    /// Pingora looks again. `select` returns the [`variance`](super::variance()) of the request for
    /// the fields of a response.
    pub(crate) fn fresh(
        &self,
        key: &RequestKey,
        request: &mut Head,
        select: impl FnOnce(&HeaderMap, &mut Head) -> Option<HashBinary>,
    ) -> Option<FreshResponse> {
        if request.fields.has(&RANGE) {
            return None;
        }
        let store = &self.store;
        let mut found = store.get(&store.key_hash(key))?;
        if let Some(fields) = found.head.varying()
            && let Some(variance) = select(fields, request)
            && found.head.variance() != Some(&variance)
        {
            let mut of_variant = cache_key(store, key);
            of_variant.set_variance_key(variance);
            let variant = store.get(&of_variant.combined_bin())?;
            if found.head.outdates(&variant.head) || variant.head.variance() != Some(&variance) {
                return None;
            }
            found = variant;
        }
        let StoredBody::Memory(body) = &found.body else { return None };
        let now = SystemTime::now();
        if !found.head.is_fresh(now) {
            return None;
        }
        let mut head = match is_unmodified(&found.head, request) {
            true => found.head.not_modified(),
            false => found.head.whole(&request.method)?,
        };
        head.fields.push_line(b"Age", itoa::Buffer::new().format(found.head.age(now)).as_bytes());
        let rest = if head.framing == Framing::NONE { Bytes::new() } else { body.clone() };
        Some(FreshResponse { head, rest, _stored: found })
    }
}

/// Returns whether the client has the response already (RFC 9110 §13.1).
fn is_unmodified(stored: &StoredHead, request: &Head) -> bool {
    if !request.fields.has(&IF_NONE_MATCH) && !request.fields.has(&IF_MODIFIED_SINCE) {
        return false;
    }
    let Ok(mut conditions) = RequestHeader::build(request.method.clone(), b"/", None) else { return false };
    for (name, value) in request.fields.parsed() {
        if [IF_NONE_MATCH, IF_MODIFIED_SINCE].contains(&name) {
            // Fails only if there are too many.
            let _ = conditions.append_header(name, value);
        }
    }
    not_modified_filter(&conditions, stored.header())
}

#[cfg(test)]
mod tests;
