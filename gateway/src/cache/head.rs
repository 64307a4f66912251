//! The head of a stored response, with its freshness.

use std::time::SystemTime;

use pingora_cache::CacheMeta;
use pingora_cache::key::HashBinary;
use pingora_http::ResponseHeader;

/// Bytes that a field takes in addition to its name and value.
const PER_FIELD: usize = 96;
/// Bytes that a stored response takes in addition to its fields and its body: entries of maps and
/// of the list by use.
const PER_RESPONSE: usize = 768;

/// What is stored of Pingora's [`CacheMeta`], which cannot be cloned.
#[derive(Debug)]
pub(super) struct StoredHead {
    header: ResponseHeader,
    fresh_until: SystemTime,
    /// When the first response of this family of variants was stored. Variants that are older than
    /// that of the primary one are not used any more.
    provenance: SystemTime,
    /// The time at which the age of the response was 0.
    epoch: SystemTime,
    stale_while_revalidate: u32,
    stale_if_error: u32,
    variance: Option<HashBinary>,
}

impl StoredHead {
    pub(super) fn of(meta: &CacheMeta) -> Self {
        Self {
            header: meta.response_header_copy(),
            fresh_until: meta.fresh_until(),
            provenance: meta.provenance(),
            epoch: meta.epoch(),
            stale_while_revalidate: meta.stale_while_revalidate_sec(),
            stale_if_error: meta.stale_if_error_sec(),
            variance: meta.variance(),
        }
    }

    pub(super) fn meta(&self) -> CacheMeta {
        let mut meta = CacheMeta::new(
            self.fresh_until,
            self.provenance,
            self.stale_while_revalidate,
            self.stale_if_error,
            self.header.clone(),
        );
        meta.set_epoch_override(self.epoch);
        if let Some(variance) = self.variance {
            meta.set_variance(variance);
        }
        meta
    }

    /// Returns the bytes of memory that the head takes.
    pub(super) fn size(&self) -> usize {
        let fields = self.header.headers.iter();
        let fields = fields.map(|(name, value)| 2 * name.as_str().len() + value.len() + PER_FIELD);
        PER_RESPONSE + fields.sum::<usize>()
    }

    /// Returns the length of the body, if the response states it.
    pub(super) fn length(&self) -> Option<usize> {
        let length = self.header.headers.get(http::header::CONTENT_LENGTH)?;
        length.to_str().ok()?.trim().parse().ok()
    }
}
