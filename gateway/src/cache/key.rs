//! What identifies a stored response.

use std::sync::Arc;

/// The URL of a stored response, by which it is purged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CachedUrl {
    /// The host in lower case, without its port.
    pub(crate) host: Box<str>,
    /// The normalised path.
    pub(crate) path: Box<str>,
}

/// The identity of the responses that can answer a request, apart from `Vary`.
///
/// The parts are framed by their lengths, so that no two lists of parts are the same bytes.
#[derive(Clone, Debug)]
pub(crate) struct RequestKey {
    bytes: Vec<u8>,
    url: Arc<CachedUrl>,
}

impl RequestKey {
    /// Creates a key without parts.
    pub(crate) fn new(url: CachedUrl) -> Self {
        Self { bytes: Vec::with_capacity(256), url: Arc::new(url) }
    }

    /// Appends a part.
    pub(crate) fn push(&mut self, part: &[u8]) {
        self.bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        self.bytes.extend_from_slice(part);
    }

    /// Appends a list of parts.
    pub(crate) fn push_list<'p>(&mut self, parts: impl Iterator<Item = impl AsRef<[u8]> + 'p>) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 8]);
        let mut count = 0_u64;
        for part in parts {
            self.push(part.as_ref());
            count += 1;
        }
        self.bytes[at..at + 8].copy_from_slice(&count.to_be_bytes());
    }

    /// Returns all parts.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the URL.
    pub(super) fn url(&self) -> &Arc<CachedUrl> {
        &self.url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(lists: &[&[&str]]) -> Vec<u8> {
        let mut key = RequestKey::new(CachedUrl { host: "a.example".into(), path: "/".into() });
        lists.iter().for_each(|list| key.push_list(list.iter()));
        key.bytes
    }

    #[test]
    fn other_parts_are_another_key() {
        let all: [&[&[&str]]; 7] =
            [&[], &[&[]], &[&[""]], &[&["a", "b"]], &[&["ab"]], &[&["a"], &["b"]], &[&["a", "b"], &[]]];
        for (at, one) in all.iter().enumerate() {
            for other in &all[..at] {
                assert_ne!(key(one), key(other), "{one:?} {other:?}");
            }
        }
        assert_eq!(key(&[&["a", "b"]]), key(&[&["a", "b"]]));
    }
}
