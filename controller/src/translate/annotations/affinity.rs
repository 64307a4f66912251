//! Sticky sessions by cookie. A setting that cannot be used is ignored with a problem, as in ingress-nginx: the
//! Ingress stays served, with the default in its place.

use std::sync::Arc;

use sluice_config::{AffinityMode, CookieAffinity, SameSite};

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::{self, Value};

/// What the annotations of this family say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affinity {
    /// `affinity: cookie`.
    enabled: bool,
    /// `session-cookie-path`; without it, each rule's own path.
    path: Option<Arc<str>>,
    /// The rest, whose own `path` is filled in per rule.
    cookie: CookieAffinity,
}

impl Default for Affinity {
    fn default() -> Self {
        let cookie = CookieAffinity {
            mode: AffinityMode::Balanced,
            name: "INGRESSCOOKIE".into(),
            path: "/".into(),
            domain: None,
            secure: false,
            same_site: None,
            expires: None,
            max_age: None,
            change_on_failure: false,
        };
        Self { enabled: false, path: None, cookie }
    }
}

impl Affinity {
    /// Whether sessions stick.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether the policy differs from path to path.
    pub fn depends_on_path(&self) -> bool {
        self.enabled && self.path.is_none()
    }

    /// The policy of a rule with this path.
    pub fn for_path(&self, path: &str) -> Option<CookieAffinity> {
        // A path that no cookie can have must not cost the Ingress its sessions, nor its host its routes.
        let path = self.path.clone().unwrap_or_else(|| attribute(path).unwrap_or("/").into());
        self.enabled.then(|| CookieAffinity { path, ..self.cookie.clone() })
    }
}

const SAME_SITE: &[&str] = &["None", "Lax", "Strict"];
const KINDS: &[&str] = &["cookie"];
const CANARY_BEHAVIORS: &[&str] = &["sticky", "legacy"];
const MODES: &[&str] = &["balanced", "persistent"];

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "affinity",
        Value::OneOf(KINDS),
        "",
        "Sticky sessions; the only kind is cookie.",
        |text, settings: &mut Settings| {
            value::one_of(KINDS, text)?;
            settings.affinity.enabled = true;
            Ok(())
        },
    )
    .ingress(Risk::Low)
    .invalid_means_default(),
    Setting::served(
        "affinity-mode",
        Value::OneOf(MODES),
        "balanced",
        "Whether sessions may move when endpoints come and go, or stay while their endpoint lives.",
        |text, settings: &mut Settings| {
            settings.affinity.cookie.mode = match value::one_of(MODES, text)? {
                "persistent" => AffinityMode::Persistent,
                _ => AffinityMode::Balanced,
            };
            Ok(())
        },
    )
    .ingress(Risk::Medium)
    .invalid_means_default(),
    Setting::served(
        "affinity-canary-behavior",
        Value::OneOf(CANARY_BEHAVIORS),
        "sticky",
        "On a canary: whether a client stays on the side that it first met, or the side is chosen for each request.",
        |text, settings: &mut Settings| {
            settings.canary.legacy = value::one_of(CANARY_BEHAVIORS, text)? == "legacy";
            Ok(())
        },
    )
    .ingress(Risk::Low)
    .invalid_means_default(),
    Setting::served(
        "session-cookie-name",
        Value::Text,
        "INGRESSCOOKIE",
        "Name of the cookie.",
        |text, settings: &mut Settings| {
            settings.affinity.cookie.name = cookie_name(text)?.into();
            Ok(())
        },
    )
    .ingress(Risk::Medium)
    .invalid_means_default(),
    Setting::served(
        "session-cookie-path",
        Value::Text,
        "",
        "Path attribute of the cookie; the path of the rule by default.",
        |text, settings: &mut Settings| {
            settings.affinity.path = Some(attribute(text)?.into());
            Ok(())
        },
    )
    .ingress(Risk::Medium)
    .invalid_means_default(),
    Setting::served(
        "session-cookie-domain",
        Value::Text,
        "",
        "Domain attribute of the cookie.",
        |text, settings: &mut Settings| {
            settings.affinity.cookie.domain = Some(attribute(text)?.into());
            Ok(())
        },
    )
    .ingress(Risk::Medium)
    .invalid_means_default(),
    Setting::served(
        "session-cookie-secure",
        Value::Bool,
        "false",
        "Secure attribute of the cookie on answers over http too; over https it is always there.",
        |text, settings: &mut Settings| {
            settings.affinity.cookie.secure = value::bool(text)?;
            Ok(())
        },
    )
    .ingress(Risk::Low)
    .invalid_means_default(),
    Setting::served(
        "session-cookie-samesite",
        Value::OneOf(SAME_SITE),
        "",
        "SameSite attribute of the cookie.",
        |text, settings: &mut Settings| {
            settings.affinity.cookie.same_site = Some(match value::one_of(SAME_SITE, text)? {
                "None" => SameSite::None,
                "Lax" => SameSite::Lax,
                _ => SameSite::Strict,
            });
            Ok(())
        },
    )
    .ingress(Risk::Low)
    .invalid_means_default(),
    Setting::not_yet(
        "session-cookie-conditional-samesite-none",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Leave SameSite=None out for browsers known to mishandle it.",
    )
    .ingress(Risk::Low),
    Setting::served(
        "session-cookie-expires",
        Value::Int,
        "",
        "Expires attribute of the cookie, seconds from now.",
        |text, settings: &mut Settings| {
            settings.affinity.cookie.expires = Some(value::int(text)?);
            Ok(())
        },
    )
    .ingress(Risk::Medium)
    .invalid_means_default(),
    Setting::served(
        "session-cookie-max-age",
        Value::Int,
        "",
        "Max-Age attribute of the cookie, seconds.",
        |text, settings: &mut Settings| {
            settings.affinity.cookie.max_age = Some(value::int(text)?);
            Ok(())
        },
    )
    .ingress(Risk::Medium)
    .invalid_means_default(),
    Setting::served(
        "session-cookie-change-on-failure",
        Value::Bool,
        "false",
        "Pick another endpoint and set a new cookie after a failed try.",
        |text, settings: &mut Settings| {
            settings.affinity.cookie.change_on_failure = value::bool(text)?;
            Ok(())
        },
    )
    .ingress(Risk::Low)
    .invalid_means_default(),
];

/// A token (RFC 6265 §4.1.1).
fn cookie_name(text: &str) -> Result<&str, String> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if text.bytes().all(token) {
        Ok(text)
    } else {
        Err("must be a cookie name: letters, digits, - and _".into())
    }
}

/// A text that cannot end its attribute (RFC 6265 §4.1.1, `av-byte`).
fn attribute(text: &str) -> Result<&str, String> {
    let good = |b: u8| b.is_ascii_graphic() && b != b';' && b != b',';
    if text.bytes().all(good) {
        Ok(text)
    } else {
        Err("must be text without blanks, commas and semicolons".into())
    }
}
