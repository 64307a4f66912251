//! HTTP basic authentication (RFC 7617).
//!
//! Password hashes are slow to verify by design, so the check runs on the blocking pool, and its
//! result is remembered for a while. A client with a remembered password costs one HMAC. A client
//! that sends wrong passwords costs one job each, and the number of jobs is bounded. An unknown
//! user is rejected at once, as in nginx.

mod password;
mod verified;

use std::sync::Arc;

use http::HeaderValue;
use sluice_config::{Credentials, PasswordHash};

use super::PolicyError;
use super::resources::{ResourceSlot, Resources};
use crate::message::fields::Fields;
use crate::message::parts::basic_credentials;
pub(crate) use verified::Verified;

/// Maximum length of a password in bytes. The time of some checks grows with its square.
const LONGEST: usize = 1024;

/// The users of a rule and the challenge for other clients.
#[derive(Debug)]
pub struct BasicAuth {
    users: Arc<ResourceSlot<Credentials>>,
    challenge: HeaderValue,
}

/// Result of the check of a request.
pub(crate) enum PasswordDecision {
    /// The user exists and the password is right.
    Granted,
    /// The credentials are missing or wrong.
    Denied,
    /// No decision is possible because the users are not available.
    Closed,
    /// The password must be verified first.
    Unknown(Verification),
}

/// The verification of one password. Too slow for an event loop.
pub(crate) struct Verification {
    hash: PasswordHash,
    password: Box<[u8]>,
    verified: Arc<Verified>,
    tag: verified::Tag,
}

impl BasicAuth {
    /// Compiles the policy.
    ///
    /// # Errors
    /// The realm is not a valid field value, or the key does not refer to users.
    pub fn compile(policy: &sluice_config::BasicAuth, resources: &Resources) -> Result<Self, PolicyError> {
        let realm = policy.realm.replace('\\', "\\\\").replace('"', "\\\"");
        let challenge = HeaderValue::from_bytes(format!("Basic realm=\"{realm}\"").as_bytes());
        let challenge = challenge.map_err(|_| PolicyError::HeaderValue("WWW-Authenticate".into()))?;
        Ok(Self { users: resources.credentials(&policy.credentials)?, challenge })
    }

    /// Returns the value of `WWW-Authenticate`.
    pub(crate) fn challenge(&self) -> &HeaderValue {
        &self.challenge
    }

    /// Checks the `Authorization` field of a request.
    pub(crate) fn access(&self, fields: &impl Fields, verified: &Arc<Verified>) -> PasswordDecision {
        let users = self.users.load();
        let Some(users) = &*users else { return PasswordDecision::Closed };
        let Some((user, password)) = basic_credentials(fields) else { return PasswordDecision::Denied };
        let password = password.as_slice();
        let Ok(at) = users.users.binary_search_by(|(name, _)| name.as_bytes().cmp(&user)) else {
            return PasswordDecision::Denied;
        };
        let hash = &users.users[at].1;
        if password.len() > LONGEST {
            return PasswordDecision::Denied;
        }
        if password::is_quick(hash) {
            return of(password::matches(hash, password));
        }
        let tag = verified.tag(hash, password);
        match verified.recall(&tag) {
            Some(good) => of(good),
            None => PasswordDecision::Unknown(Verification {
                hash: hash.clone(),
                password: password.into(),
                verified: verified.clone(),
                tag,
            }),
        }
    }
}

impl Verification {
    /// Returns whether the password is right. Takes up to one second.
    pub(crate) fn run(self) -> bool {
        // Of several requests with the same new password, the first one computes the hash; the
        // others find its result here.
        if let Some(good) = self.verified.recall(&self.tag) {
            return good;
        }
        let good = password::matches(&self.hash, &self.password);
        self.verified.remember(&self.tag, good);
        good
    }
}

fn of(good: bool) -> PasswordDecision {
    if good { PasswordDecision::Granted } else { PasswordDecision::Denied }
}

#[cfg(test)]
mod tests;
