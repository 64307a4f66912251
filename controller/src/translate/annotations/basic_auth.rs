//! Who gets in by name and password.
//!
//! These annotations mean something together only. What asks for a password and cannot be carried out closes the
//! routes, also a Secret without `auth-type`: somebody meant to protect something.

use std::sync::Arc;

use sluice_config::{BasicAuth, Code, NamespacedName, ResourceKey, ResourceKind};

use super::Annotation;
use crate::translate::setting::{Lack, Risk};
use crate::translate::value;

/// What the annotations of this family say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Auth {
    /// `auth-type: basic`.
    enabled: bool,
    /// `auth-secret`.
    secret: Option<NamespacedName>,
    /// `auth-secret-type: auth-map`.
    is_map: bool,
    /// `auth-realm`.
    realm: Option<Arc<str>>,
}

const SECRET: &str = "auth-secret";

impl Auth {
    /// The policy, where there is one.
    pub fn basic(&self) -> Option<BasicAuth> {
        let secret = self.secret.as_ref().filter(|_| self.enabled)?;
        let kind = if self.is_map { ResourceKind::PasswordMap } else { ResourceKind::PasswordFile };
        let credentials = ResourceKey { kind, name: secret.clone() };
        Some(BasicAuth { credentials, realm: self.realm.clone().unwrap_or_default() })
    }

    /// The resource that it needs, with the annotation that names it.
    pub fn needs(&self) -> Option<(ResourceKey, &'static str)> {
        self.basic().map(|basic| (basic.credentials, SECRET))
    }

    /// What is missing beside what is there.
    pub fn lacks(&self) -> Option<Lack> {
        match (self.enabled, &self.secret) {
            (true, None) => Some(Lack {
                name: "auth-type",
                code: Code::AnnotationInvalid,
                reason: "needs auth-secret, which is not there",
                remedy: "name the Secret with the passwords in auth-secret",
            }),
            (false, Some(_)) => Some(Lack {
                name: SECRET,
                code: Code::AnnotationInvalid,
                reason: "is there without auth-type, which says what it is for",
                remedy: "set auth-type to basic, or remove auth-secret if the routes may be open to \
                         everybody",
            }),
            _ => None,
        }
    }
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "auth-type",
            value::partly(&[("basic", Some(())), ("digest", None)]),
            "",
            "Ask for name and password. The only type that is served is basic; with digest the routes \
             answer 503.",
            |settings, ()| settings.auth.enabled = true,
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
            "Whether the Secret holds an htpasswd file in its key auth, or one key for each user.",
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
