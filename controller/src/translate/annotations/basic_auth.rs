//! Who gets in by name and password.
//!
//! These annotations mean something together only. What asks for a password and cannot be carried out closes the
//! routes, also a Secret without `auth-type`: somebody meant to protect something.

use std::sync::Arc;

use sluice_config::{BasicAuth, NamespacedName, ResourceKey, ResourceKind};

use super::Settings;
use crate::store::Kind;
use crate::translate::setting::{Fault, Lack, Risk, Setting};
use crate::translate::value::{self, Value};

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
                annotation: "auth-type",
                reason: "needs auth-secret, which is not there",
                remedy: "name the Secret with the passwords in auth-secret",
            }),
            (false, Some(_)) => Some(Lack {
                annotation: SECRET,
                reason: "is there without auth-type, which says what it is for",
                remedy: "set auth-type to basic, or remove auth-secret if the routes may be open to everybody",
            }),
            _ => None,
        }
    }
}

const TYPES: &[&str] = &["basic", "digest"];
const SECRET_TYPES: &[&str] = &["auth-file", "auth-map"];

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "auth-type",
        Value::OneOf(TYPES),
        "",
        "Ask for name and password. The only type that is served is basic; with digest the routes answer 503.",
        |text, settings: &mut Settings| match value::one_of(TYPES, text)? {
            "basic" => {
                settings.auth.enabled = true;
                Ok(())
            }
            _ => Err(Fault::NotYet),
        },
    )
    .location(Risk::Low),
    Setting::served(
        SECRET,
        Value::ObjectName,
        "",
        "Secret with the passwords. While it is missing or cannot be used, the routes answer 503.",
        |text, settings: &mut Settings| {
            settings.auth.secret = Some(value::object(text)?);
            Ok(())
        },
    )
    .location(Risk::Medium)
    .refers_to(Kind::Secret),
    Setting::served(
        "auth-secret-type",
        Value::OneOf(SECRET_TYPES),
        "auth-file",
        "Whether the Secret holds an htpasswd file in its key auth, or one key for each user.",
        |text, settings: &mut Settings| {
            settings.auth.is_map = value::one_of(SECRET_TYPES, text)? == "auth-map";
            Ok(())
        },
    )
    .location(Risk::Low),
    Setting::served(
        "auth-realm",
        Value::Text,
        "",
        "What the password is for, as browsers show it.",
        |text, settings: &mut Settings| {
            if text.chars().any(char::is_control) {
                return Err(Fault::Invalid("must be text without control characters".into()));
            }
            settings.auth.realm = Some(text.into());
            Ok(())
        },
    )
    .location(Risk::Medium),
];
