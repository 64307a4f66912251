//! Authentication by user and password.
//!
//! `auth-type` enables it; without a usable Secret the routes are closed. The other annotations
//! require it.

use std::sync::Arc;

use sluice_config::{BasicAuth, Code, DigestAuth, NamespacedName, ResourceKey, ResourceKind};

use super::{Annotation, Settings};
use crate::translate::setting::{MissingSetting, ReferenceTreatment, Risk, Unreadable};
use crate::translate::value;

/// Parsed annotations of this family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Auth {
    /// `auth-type`.
    scheme: Option<Scheme>,
    /// `auth-secret`.
    secret: Option<NamespacedName>,
    /// `auth-secret-type: auth-map`.
    is_map: bool,
    /// `auth-realm`.
    realm: Option<Arc<str>>,
}

/// The authentication scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    /// The client sends the password.
    Basic,
    /// The client sends a digest of the password and of the request.
    Digest,
}

const TYPE: &str = "auth-type";
const SECRET: &str = "auth-secret";

impl Auth {
    /// Returns the policy, if `auth-type` is basic.
    fn basic(&self) -> Option<BasicAuth> {
        let credentials = self.users().filter(|_| self.scheme == Some(Scheme::Basic))?;
        Some(BasicAuth { credentials, realm: self.realm.clone().unwrap_or_default() })
    }

    /// Returns the policy, if `auth-type` is digest.
    fn digest(&self) -> Option<DigestAuth> {
        let credentials = self.users().filter(|_| self.scheme == Some(Scheme::Digest))?;
        Some(DigestAuth { credentials, realm: self.realm.clone().unwrap_or_default() })
    }

    fn users(&self) -> Option<ResourceKey> {
        let kind = match (self.scheme?, self.is_map) {
            (Scheme::Basic, false) => ResourceKind::PasswordFile,
            (Scheme::Basic, true) => ResourceKind::PasswordMap,
            (Scheme::Digest, false) => ResourceKind::DigestFile,
            (Scheme::Digest, true) => ResourceKind::DigestMap,
        };
        Some(ResourceKey { kind, name: self.secret.clone()? })
    }

    /// Returns the missing setting, if `auth-type` lacks `auth-secret`.
    fn missing(&self) -> Option<(MissingSetting, &'static str)> {
        let missing = MissingSetting {
            name: TYPE,
            code: Code::AnnotationInvalid,
            reason: "needs auth-secret, which is not there",
            remedy: "name the Secret with the passwords in auth-secret",
        };
        (self.scheme.is_some() && self.secret.is_none()).then_some((missing, SECRET))
    }
}

/// Computes the policies.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    settings.policies.basic_auth = settings.auth.basic();
    settings.policies.digest_auth = settings.auth.digest();
    settings.needs.extend(settings.auth.users().map(|users| (users, SECRET)));
    settings.missing.extend(settings.auth.missing());
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            TYPE,
            value::one_of(&[("basic", Scheme::Basic), ("digest", Scheme::Digest)]),
            "",
            "Require user name and password. With digest (RFC 7616, MD5 or SHA-256) the client never sends \
             the password; the digests in the Secret must be computed for auth-realm.",
            |settings, value| settings.auth.scheme = Some(value),
        )
        .unreadable(Unreadable::Reject, ReferenceTreatment::Reject, "")
        .location(Risk::Low)
        .protects(),
        Annotation::served(
            SECRET,
            value::secret(),
            "",
            "Secret with the passwords. While it is missing or unusable, the routes answer 503.",
            |settings, value| settings.auth.secret = Some(value),
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::Close, "")
        .beside(TYPE)
        .location(Risk::Medium)
        .protects(),
        Annotation::served(
            "auth-secret-type",
            value::one_of(&[("auth-file", false), ("auth-map", true)]),
            "auth-file",
            "auth-file: the Secret's key auth holds an htpasswd file (for digest: htdigest). auth-map: one \
             key per user, with the text that follows the name in such a file.",
            |settings, value| settings.auth.is_map = value,
        )
        .unreadable(Unreadable::Reject, ReferenceTreatment::Reject, "")
        .beside("auth-type")
        .location(Risk::Low),
        Annotation::served(
            "auth-realm",
            value::field(),
            "",
            "Realm that browsers show when they ask for the password.",
            |settings, value| settings.auth.realm = Some(value),
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Reject, "the password is still required")
        .beside("auth-type")
        .location(Risk::Medium),
    ]
}
