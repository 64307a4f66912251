//! The head of a stored response, with its freshness.

use std::sync::OnceLock;
use std::time::SystemTime;

use http::HeaderMap;
use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, HeaderValue, VARY};
use http::{Method, StatusCode};
use pingora_cache::CacheMeta;
use pingora_cache::key::HashBinary;
use pingora_core::protocols::http::conditional_filter::to_304;
use pingora_http::ResponseHeader;

use super::client_head::client_head;
use crate::message::fields::FieldsMut;
use crate::message::framing::Framing;
use crate::message::response::Response;

/// Bytes that a field takes in addition to its name and value.
const PER_FIELD: usize = 128;
/// Bytes that a stored response takes in addition to its fields and its body: entries of maps and
/// of the list by use.
const PER_RESPONSE: usize = 960;

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
    /// The head for clients, made when the first of them gets it.
    for_clients: OnceLock<Response>,
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
            for_clients: OnceLock::new(),
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

    /// States the length of a body that arrived in chunks. A client gets it with the length, and
    /// may ask for ranges of it.
    pub(super) fn state_length(&mut self, length: u64) {
        if self.has_body() && !self.header.headers.contains_key(CONTENT_LENGTH) {
            // A number is a valid value.
            let _ = self.header.insert_header(CONTENT_LENGTH, length);
        }
    }

    /// Returns whether the response is fresh at this time.
    pub(super) fn is_fresh(&self, now: SystemTime) -> bool {
        self.fresh_until >= now
    }

    /// Returns whether a variant is older than this primary one, so that it is not used any more.
    pub(super) fn outdates(&self, variant: &Self) -> bool {
        variant.provenance < self.provenance
    }

    /// Returns the fields if `Vary` is one of them.
    pub(super) fn varying(&self) -> Option<&HeaderMap> {
        Some(&self.header.headers).filter(|fields| fields.contains_key(VARY))
    }

    pub(super) fn variance(&self) -> Option<&HashBinary> {
        self.variance.as_ref()
    }

    pub(super) fn header(&self) -> &ResponseHeader {
        &self.header
    }

    /// Returns the seconds since the response was made (RFC 9111 §4.2.3).
    pub(super) fn age(&self, now: SystemTime) -> u64 {
        now.duration_since(self.epoch).unwrap_or_default().as_secs()
    }

    /// Returns the head for a client, without `Age`; `None` if the body has no known end.
    pub(super) fn whole(&self, method: &Method) -> Option<Response> {
        let framing = match self.has_body() {
            true => Framing::Length(self.length()? as u64),
            false => Framing::NONE,
        };
        let made = self.for_clients.get_or_init(|| {
            let mut response = client_head(&self.header, framing);
            if response.status == StatusCode::OK {
                response.fields.set(&ACCEPT_RANGES, &HeaderValue::from_static("bytes"));
            }
            response.fields.shrink();
            response
        });
        let mut response = made.clone();
        if *method == Method::HEAD {
            response.framing = Framing::NONE;
        }
        Some(response)
    }

    /// Returns the head for a client that has the response already, without `Age`.
    pub(super) fn not_modified(&self) -> Response {
        let mut header = self.header.clone();
        to_304(&mut header);
        client_head(&header, Framing::NONE)
    }

    /// Returns the bytes of memory that the head takes.
    pub(super) fn size(&self) -> usize {
        let fields = self.header.headers.iter();
        let fields = fields.map(|(name, value)| 3 * name.as_str().len() + 2 * value.len() + PER_FIELD);
        PER_RESPONSE + fields.sum::<usize>()
    }

    /// Returns whether the status permits a body.
    fn has_body(&self) -> bool {
        !matches!(self.header.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
    }

    /// Returns the length of the body, if the response states it.
    pub(super) fn length(&self) -> Option<usize> {
        let length = self.header.headers.get(CONTENT_LENGTH)?;
        length.to_str().ok()?.trim().parse().ok()
    }
}
