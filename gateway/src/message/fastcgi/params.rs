//! The parameters of a FastCGI request: name-value pairs (FastCGI 1.0 §3.4) in records.
//!
//! A client's field `X-Name` is the parameter `HTTP_X_NAME`. A client cannot forge a parameter of
//! the gateway:
//!
//! - Names and values have lengths, so no content of a value begins another parameter.
//! - Only fields whose names consist of letters, digits and hyphens become parameters. Two fields
//!   that differ in `-` and `_` would have the same name, and some endpoints use the last one.
//!   nginx drops such fields too, unless `underscores_in_headers` is set.
//! - `Proxy` is never passed: many programs take `HTTP_PROXY` for a setting (CVE-2016-5385).

use http::header::HeaderName;

use super::record::{HEADER, MAX_CONTENT, PARAMS, header};
use crate::message::fields::Fields;
use crate::message::hop_by_hop;

const PREFIX: &[u8] = b"HTTP_";

/// Parameters, in records. A pair is not split between records as far as it fits into one: php-fpm
/// reads each record on its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params {
    bytes: Vec<u8>,
    /// Start of the content of the last record; 0 if there is no record.
    start: usize,
}

impl Params {
    /// Adds a parameter.
    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) {
        let (name_length, value_length) = (Length::of(name), Length::of(value));
        let length = name_length.bytes().len() + value_length.bytes().len() + name.len() + value.len();
        if self.start == 0 || self.bytes.len() - self.start + length > MAX_CONTENT {
            self.open();
        }
        for part in [name_length.bytes(), value_length.bytes(), name, value] {
            self.extend(part);
        }
    }

    /// Adds the fields of a request as parameters, except those whose parameter `is_set` accepts.
    /// Values of equal names are joined.
    pub(crate) fn push_fields(&mut self, fields: &impl Fields, is_set: impl Fn(&[u8]) -> bool) {
        let mut all: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        fields.each(|name, value| {
            if !is_passed(name) {
                return;
            }
            let name = param(name);
            if is_set(&name) {
                return;
            }
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some((name, joined)) => {
                    joined.extend_from_slice(if **name == *b"HTTP_COOKIE" { b"; " } else { b", " });
                    joined.extend_from_slice(value);
                }
                None => all.push((name, value.to_vec())),
            }
        });
        for (name, value) in &all {
            self.push(name, value);
        }
    }

    /// Writes the records, and the empty one that ends them.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
        out.extend_from_slice(&header(PARAMS, 0));
    }

    /// Begins a record.
    fn open(&mut self) {
        self.bytes.extend_from_slice(&header(PARAMS, 0));
        self.start = self.bytes.len();
    }

    /// Appends to the last record. What does not fit goes into further ones.
    fn extend(&mut self, mut part: &[u8]) {
        loop {
            let room = MAX_CONTENT - (self.bytes.len() - self.start);
            let (fits, rest) = part.split_at(room.min(part.len()));
            self.bytes.extend_from_slice(fits);
            let header = header(PARAMS, self.bytes.len() - self.start);
            self.bytes[self.start - HEADER..self.start].copy_from_slice(&header);
            if rest.is_empty() {
                return;
            }
            part = rest;
            self.open();
        }
    }
}

/// The encoded length of a name or value: one byte, or four with the highest bit set.
struct Length {
    bytes: [u8; 4],
    first: usize,
}

impl Length {
    fn of(text: &[u8]) -> Self {
        // Heads are far shorter than 2 GiB.
        let length = text.len() as u32;
        match length {
            0..128 => Self { bytes: length.to_be_bytes(), first: 3 },
            _ => Self { bytes: (length | 1 << 31).to_be_bytes(), first: 0 },
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.first..]
    }
}

/// Whether a field becomes a parameter.
fn is_passed(name: &[u8]) -> bool {
    let is_plain = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    let of_connection = |name: &HeaderName| hop_by_hop::is_connection_field(name);
    is_plain
        && !name.eq_ignore_ascii_case(b"proxy")
        && HeaderName::from_bytes(name).is_ok_and(|name| !of_connection(&name))
}

/// The parameter of a field.
fn param(field: &[u8]) -> Vec<u8> {
    let upper = field.iter().map(|byte| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() });
    PREFIX.iter().copied().chain(upper).collect()
}

#[cfg(test)]
mod tests;
