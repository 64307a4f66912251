//! Session cookies that identify their endpoint (ingress-nginx `affinity-mode: persistent`).
//!
//! A cookie holds the MD5 of backend name and endpoint address. The endpoint is found by looking up
//! the hash among those of the current members. Hashes are computed once per member, and the index
//! is rebuilt only when the set has changed.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use md5::{Digest, Md5};

use super::endpoint::Endpoint;
use super::endpoint_set::{EndpointSet, SetGeneration};
use crate::message::hex::hex;

type Hash = [u8; 16];

/// The cookie hashes of one endpoint set under one backend name.
pub struct Sessions {
    set: Arc<EndpointSet>,
    backend: Box<str>,
    index: ArcSwapOption<Index>,
}

/// The hashes of one generation.
struct Index {
    generation: Arc<SetGeneration>,
    /// In the order of the generation's endpoints.
    hashes: Box<[Hash]>,
    places: HashMap<Hash, usize>,
}

impl Sessions {
    pub(super) fn new(set: Arc<EndpointSet>, backend: &str) -> Self {
        Self { set, backend: backend.into(), index: ArcSwapOption::empty() }
    }

    /// Returns the endpoint of a cookie, a lowercase hexadecimal MD5. `None` if it is gone or the
    /// cookie is not one of ours.
    pub fn endpoint(&self, hash: &str) -> Option<Arc<Endpoint>> {
        let hash = parse(hash)?;
        let generation = self.set.current();
        let index = self.index.load();
        if let Some(index) = index.as_ref().filter(|index| Arc::ptr_eq(&index.generation, &generation)) {
            return index.get(hash);
        }
        let built = Arc::new(Index::build(&self.backend, &generation, index.as_deref()));
        let found = built.get(hash);
        self.index.store(Some(built));
        found
    }

    /// Returns the cookie value for this endpoint.
    pub fn hash(&self, endpoint: &Endpoint) -> String {
        hex(&hash(&self.backend, endpoint.address()))
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("backend", &self.backend).field("set", self.set.key()).finish()
    }
}

impl Index {
    fn build(backend: &str, generation: &Arc<SetGeneration>, before: Option<&Index>) -> Self {
        let known = |address| {
            let before = before?;
            let endpoints = &before.generation.endpoints;
            let at = endpoints.binary_search_by_key(&address, |endpoint| endpoint.address()).ok()?;
            Some(before.hashes[at])
        };
        let addresses = generation.endpoints.iter().map(|endpoint| endpoint.address());
        let hashes: Box<[Hash]> =
            addresses.map(|address| known(address).unwrap_or_else(|| hash(backend, address))).collect();
        let places = hashes.iter().copied().zip(0..).collect();
        Self { generation: generation.clone(), hashes, places }
    }

    fn get(&self, hash: Hash) -> Option<Arc<Endpoint>> {
        self.places.get(&hash).map(|place| self.generation.endpoints[*place].clone())
    }
}

fn hash(backend: &str, address: SocketAddr) -> Hash {
    let mut hasher = Md5::new();
    hasher.update(backend);
    hasher.update(address.to_string());
    hasher.finalize().into()
}

fn parse(text: &str) -> Option<Hash> {
    let digits = text.as_bytes();
    let mut hash = Hash::default();
    if digits.len() != 2 * hash.len() {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(hash)
}

/// Lowercase only: other spellings were not issued by the gateway.
fn digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}
