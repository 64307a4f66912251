//! Who gets in by name and password.
//!
//! These annotations mean something together only. What asks for a password and cannot be carried out closes the
//! routes, also a Secret without `auth-type`: somebody meant to protect something.

use std::sync::Arc;

use sluice_config::{BasicAuth, Code, DigestAuth, NamespacedName, ResourceKey, ResourceKind};

use super::Annotation;
use crate::translate::setting::{Lack, Risk};
use crate::translate::value;

/// What the annotations of this family say.
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

/// How a client shows that it knows a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    /// It sends the password.
    Basic,
    /// It sends a digest of the password and of the request.
    Digest,
}

const TYPE: &str = "auth-type";
const SECRET: &str = "auth-secret";

impl Auth {
    /// The policy, where `auth-type` is basic.
    pub fn basic(&self) -> Option<BasicAuth> {
        let credentials = self.users().filter(|_| self.scheme == Some(Scheme::Basic))?;
        Some(BasicAuth { credentials, realm: self.realm.clone().unwrap_or_default() })
    }

    /// The policy, where `auth-type` is digest.
    pub fn digest(&self) -> Option<DigestAuth> {
        let credentials = self.users().filter(|_| self.scheme == Some(Scheme::Digest))?;
        Some(DigestAuth { credentials, realm: self.realm.clone().unwrap_or_default() })
    }

    /// The resource that it needs, with the annotation that names it.
    pub fn needs(&self) -> Option<(ResourceKey, &'static str)> {
        self.users().map(|users| (users, SECRET))
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

    /// What is there in vain, and what is missing beside it.
    pub fn lacks(&self) -> Option<(Lack, &'static str)> {
        let lack = match (self.scheme, &self.secret) {
            (Some(_), None) => Lack {
                name: TYPE,
                code: Code::AnnotationInvalid,
                reason: "needs auth-secret, which is not there",
                remedy: "name the Secret with the passwords in auth-secret",
            },
            (None, Some(_)) => Lack {
                name: SECRET,
                code: Code::AnnotationInvalid,
                reason: "is there without auth-type, which says what it is for",
                remedy: "set auth-type to basic or digest, or remove auth-secret if the routes may be open to \
                         everybody",
            },
            _ => return None,
        };
        let missing = if lack.name == TYPE { SECRET } else { TYPE };
        Some((lack, missing))
    }
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            TYPE,
            value::one_of(&[("basic", Scheme::Basic), ("digest", Scheme::Digest)]),
            "",
            "Ask for name and password. With digest (RFC 7616, MD5 or SHA-256) the password is never sent; the \
             digests in the Secret are made for auth-realm.",
            |settings, value| settings.auth.scheme = Some(value),
        )
        .location(Risk::Low)
        .protects(),
        Annotation::served(
            SECRET,
            value::secret(),
            "",
            "Secret with the passwords. While it is missing or cannot be used, the routes answer 503.",
            |settings, value| settings.auth.secret = Some(value),
        )
        .location(Risk::Medium)
        .protects(),
        Annotation::served(
            "auth-secret-type",
            value::one_of(&[("auth-file", false), ("auth-map", true)]),
            "auth-file",
            "Whether the Secret holds an htpasswd file (for digest: htdigest) in its key auth, or one key for each \
             user, with what follows the name in such a file.",
            |settings, value| settings.auth.is_map = value,
        )
        .location(Risk::Low),
        Annotation::served(
            "auth-realm",
            value::field(),
            "",
            "What the password is for, as browsers show it.",
            |settings, value| settings.auth.realm = Some(value),
        )
        .location(Risk::Medium),
    ]
}
