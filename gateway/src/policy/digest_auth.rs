//! HTTP digest authentication (RFC 7616), with `qop=auth` and MD5 or SHA-256.
//!
//! A client proves that it has a password by a digest of the password, a nonce of the gateway and
//! the request. Eavesdroppers thus learn no password and cannot send a different request. The
//! stored hashes determine which algorithms are offered: htdigest writes MD5. A check costs a few
//! digests of short strings, which is less than handing it to another thread.
//!
//! A right digest with an unusable or expired nonce is answered with a new nonce and `stale=true`,
//! and the client repeats its request without prompting the user. A replayed request never gets
//! more than this answer.

mod nonces;
mod response;

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use md5::{Digest, Md5};
use sluice_config::{DigestCredentials, DigestRealm};

use super::PolicyError;
use super::resources::{ResourceSlot, Resources};
use crate::message::field_list::FieldList;
use crate::message::fields::Fields;
pub(crate) use nonces::Nonces;
use response::{Algorithm, Response};

/// The users of a rule and the challenge for other clients.
#[derive(Debug)]
pub struct DigestAuth {
    users: Arc<ResourceSlot<DigestCredentials>>,
    realm: Arc<str>,
    /// Start of each challenge, up to the algorithm.
    challenge: Box<str>,
}

/// Result of the check of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DigestAccess {
    /// The digest is right.
    Granted,
    /// The digest is missing or wrong, or its nonce cannot be used.
    Denied {
        /// The digest is right, but its nonce cannot be used.
        stale: bool,
    },
    /// No decision is possible because the users are not available.
    Closed,
}

impl DigestAuth {
    /// Compiles the policy.
    ///
    /// # Errors
    /// The realm is not a valid field value, or the key does not refer to users.
    pub fn compile(policy: &sluice_config::DigestAuth, resources: &Resources) -> Result<Self, PolicyError> {
        let realm = policy.realm.replace('\\', "\\\\").replace('"', "\\\"");
        let challenge = format!("Digest realm=\"{realm}\", qop=\"auth\"");
        HeaderValue::from_bytes(challenge.as_bytes())
            .map_err(|_| PolicyError::HeaderValue("WWW-Authenticate".into()))?;
        Ok(Self {
            users: resources.digests(&policy.credentials)?,
            realm: policy.realm.clone(),
            challenge: challenge.into(),
        })
    }

    /// Returns the values of `WWW-Authenticate`: one for each algorithm that has users, the
    /// strongest first.
    pub(crate) fn challenges(&self, nonces: &Nonces, stale: bool) -> Vec<HeaderValue> {
        let users = self.users.load();
        let Some(realm) = users.as_ref().and_then(|users| users.realm(&self.realm)) else {
            return Vec::new();
        };
        let nonce = nonces.issue();
        let stale = if stale { ", stale=true" } else { "" };
        let has = [(Algorithm::Sha256, !realm.sha256.is_empty()), (Algorithm::Md5, !realm.md5.is_empty())];
        let offered = has.into_iter().filter(|(_, has)| *has);
        let challenges = offered.filter_map(|(algorithm, _)| {
            let name = algorithm.name();
            let value = format!("{}, algorithm={name}, nonce=\"{nonce}\"{stale}", self.challenge);
            HeaderValue::try_from(value).ok()
        });
        challenges.collect()
    }

    /// Checks the `Authorization` field of a request. `target` is the request target as received.
    pub(crate) fn access(
        &self,
        method: &str,
        target: &str,
        fields: &impl Fields,
        nonces: &Nonces,
    ) -> DigestAccess {
        let users = self.users.load();
        let Some(realm) = users.as_ref().and_then(|users| users.realm(&self.realm)) else {
            return DigestAccess::Closed;
        };
        let response = fields.first(&AUTHORIZATION).and_then(Response::read);
        let Some(response) = response.filter(|response| self.is_right(response, realm, method, target))
        else {
            return DigestAccess::Denied { stale: false };
        };
        match nonces.take(&response.nonce, response.count) {
            true => DigestAccess::Granted,
            false => DigestAccess::Denied { stale: true },
        }
    }

    /// Returns whether the digest matches this request and the password of a user.
    fn is_right(&self, response: &Response, realm: &DigestRealm, method: &str, target: &str) -> bool {
        if response.realm != self.realm.as_bytes() || !response.is_for(target) {
            return false;
        }
        let user = response.user.as_slice();
        let known = match response.algorithm {
            Algorithm::Md5 => find(&realm.md5, user).map(|digest| &digest[..]),
            Algorithm::Sha256 => find(&realm.sha256, user).map(|digest| &digest[..]),
        };
        let Some(known) = known else { return false };
        let of = |parts: &[&[u8]]| response.algorithm.hex(parts);
        let request = of(&[method.as_bytes(), b":", &response.uri]);
        let right = of(&[
            hex(known).as_bytes(),
            b":",
            &response.nonce,
            b":",
            &response.count_text,
            b":",
            &response.client_nonce,
            b":auth:",
            request.as_bytes(),
        ]);
        verify_slices_are_equal(right.as_bytes(), &response.digest.to_ascii_lowercase()).is_ok()
    }
}

/// Returns the user in digest credentials, whether or not they were verified.
pub(crate) fn user(fields: &FieldList) -> Option<Vec<u8>> {
    fields.first(&AUTHORIZATION).and_then(Response::read).map(|response| response.user)
}

fn find<'u, T>(users: &'u [(Arc<str>, T)], user: &[u8]) -> Option<&'u T> {
    let at = users.binary_search_by(|(name, _)| name.as_bytes().cmp(user)).ok()?;
    Some(&users[at].1)
}

impl Algorithm {
    /// Returns the digest of the concatenated parts in hexadecimal.
    fn hex(self, parts: &[&[u8]]) -> String {
        match self {
            Self::Md5 => {
                let mut hasher = Md5::new();
                parts.iter().for_each(|part| hasher.update(part));
                hex(&hasher.finalize())
            }
            Self::Sha256 => {
                let mut context = digest::Context::new(&digest::SHA256);
                parts.iter().for_each(|part| context.update(part));
                hex(context.finish().as_ref())
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits =
        bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    digits.map(char::from).collect()
}

#[cfg(test)]
mod tests;
