//! HTTP basic authentication (RFC 7617).
//!
//! To check a password is meant to be slow, so it is work for the blocking pool, and what was found is remembered for
//! a while. A client whose password is remembered costs one HMAC; one that sends wrong passwords costs one job each,
//! and jobs are bounded. An unknown user is refused at once, as nginx does it.

mod password;
mod verified;

use std::sync::Arc;

use http::HeaderValue;
use sluice_config::{Credentials, PasswordHash};

use super::PolicyError;
use super::resources::{Resources, Slot};
use crate::message::fields::Fields;
use crate::message::parts::basic_credentials;
pub(crate) use verified::Verified;

/// Bytes of a password. The time that some checks take grows with its square.
const LONGEST: usize = 1024;

/// Who gets in, and what others are asked for.
#[derive(Debug)]
pub struct BasicAuth {
    users: Arc<Slot<Credentials>>,
    challenge: HeaderValue,
}

/// What a request may do.
pub(crate) enum Access {
    /// Its user is known and the password is right.
    Granted,
    /// It must show a name and a password, or others.
    Denied,
    /// Nobody can tell, because there are no users.
    Closed,
    /// The password has to be checked first.
    Unknown(Verification),
}

/// The check of one password. Not for an event loop.
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
    /// The realm cannot stand in a header field, or the key is none of users.
    pub fn compile(policy: &sluice_config::BasicAuth, resources: &Resources) -> Result<Self, PolicyError> {
        let realm = policy.realm.replace('\\', "\\\\").replace('"', "\\\"");
        let challenge = HeaderValue::from_bytes(format!("Basic realm=\"{realm}\"").as_bytes());
        let challenge = challenge.map_err(|_| PolicyError::HeaderValue("WWW-Authenticate".into()))?;
        Ok(Self { users: resources.credentials(&policy.credentials)?, challenge })
    }

    /// The value of `WWW-Authenticate`.
    pub(crate) fn challenge(&self) -> &HeaderValue {
        &self.challenge
    }

    /// What a request with these fields may do.
    pub(crate) fn access(&self, fields: &impl Fields, verified: &Arc<Verified>) -> Access {
        let users = self.users.load();
        let Some(users) = &*users else { return Access::Closed };
        let Some((user, password)) = basic_credentials(fields) else { return Access::Denied };
        let password = password.as_slice();
        let Ok(at) = users.users.binary_search_by(|(name, _)| name.as_bytes().cmp(&user)) else {
            return Access::Denied;
        };
        let hash = &users.users[at].1;
        if password.len() > LONGEST {
            return Access::Denied;
        }
        if password::is_quick(hash) {
            return of(password::matches(hash, password));
        }
        let tag = verified.tag(hash, password);
        match verified.recall(&tag) {
            Some(good) => of(good),
            None => Access::Unknown(Verification {
                hash: hash.clone(),
                password: password.into(),
                verified: verified.clone(),
                tag,
            }),
        }
    }
}

impl Verification {
    /// Whether the password is right. Takes up to a second.
    pub(crate) fn run(self) -> bool {
        // Of many requests with one new password the first does the work, and the others waited for it.
        if let Some(good) = self.verified.recall(&self.tag) {
            return good;
        }
        let good = password::matches(&self.hash, &self.password);
        self.verified.remember(&self.tag, good);
        good
    }
}

fn of(good: bool) -> Access {
    if good { Access::Granted } else { Access::Denied }
}

#[cfg(test)]
mod tests;
