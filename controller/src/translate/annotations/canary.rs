//! An Ingress that takes a share of the requests of another one. What cannot be used is ignored with a problem, as in
//! ingress-nginx, but for `canary` itself: an Ingress that may have been meant as a canary is never an ordinary one.

use std::sync::Arc;

use sluice_config::{CanaryHeader, CanaryValue};

use super::{Settings, compile};
use crate::translate::setting::{Risk, Setting};
use crate::translate::value::{self, Value};

/// What the annotations of this family say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Canary {
    header: Option<Arc<str>>,
    header_value: Option<Arc<str>>,
    header_pattern: Option<Arc<str>>,
    /// `canary-by-cookie`.
    pub cookie: Option<Arc<str>>,
    /// `canary-weight`.
    pub weight: u32,
    total: u32,
    /// `affinity-canary-behavior: legacy`: sessions of the main Ingress do not hold for the canary.
    pub legacy: bool,
}

impl Canary {
    /// The header that chooses. A value wins over an expression.
    pub fn header(&self) -> Option<CanaryHeader> {
        let name = self.header.clone()?;
        let value = match (&self.header_value, &self.header_pattern) {
            (Some(value), _) => CanaryValue::Exact(value.clone()),
            (None, Some(pattern)) => CanaryValue::Regex(pattern.clone()),
            (None, None) => CanaryValue::AlwaysOrNever,
        };
        Some(CanaryHeader { name, value })
    }

    /// What the weight is a share of: less than 100 counts as 100.
    pub fn total(&self) -> u32 {
        self.total.max(100)
    }

    /// Whether no request can ever get to it.
    pub fn is_idle(&self) -> bool {
        self.header.is_none() && self.cookie.is_none() && self.weight == 0
    }
}

/// Annotations of other families that count on a canary.
pub(super) const COUNTED: &[&str] = &["affinity-canary-behavior"];

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "canary",
        Value::Bool,
        "false",
        "Marks this Ingress as the alternative backend of a non-canary Ingress with the same host, path and \
         pathType. It takes no requests where the value is invalid.",
        // What it amounts to is decided before all others are read.
        |text, _| {
            value::bool(text)?;
            Ok(())
        },
    )
    .ingress(Risk::Low)
    .invalid_means_default(),
    Setting::served(
        "canary-by-cookie",
        Value::Text,
        "",
        "Cookie whose value always or never chooses the side.",
        |text, settings: &mut Settings| {
            settings.canary.cookie = some(name(text)?);
            Ok(())
        },
    )
    .ingress(Risk::Medium)
    .invalid_means_default(),
    Setting::served(
        "canary-by-header",
        Value::Text,
        "",
        "Header whose value always or never chooses the side, before cookie and weight.",
        |text, settings: &mut Settings| {
            settings.canary.header = some(name(text)?);
            Ok(())
        },
    )
    .ingress(Risk::Medium)
    .invalid_means_default(),
    Setting::served(
        "canary-by-header-pattern",
        Value::Text,
        "",
        "Regular expression that is searched in the header and chooses the canary; not with canary-by-header-value.",
        |text, settings: &mut Settings| {
            if !text.is_empty() {
                compile(text).map_err(|reason| format!("is a regular expression that cannot be read: {reason}"))?;
                settings.canary.header_pattern = some(text);
            }
            Ok(())
        },
    )
    .ingress(Risk::Medium)
    .invalid_means_default(),
    Setting::served(
        "canary-by-header-value",
        Value::Text,
        "",
        "Value of the header that chooses the canary.",
        |text, settings: &mut Settings| {
            settings.canary.header_value = some(text);
            Ok(())
        },
    )
    .ingress(Risk::Medium)
    .invalid_means_default(),
    Setting::served(
        "canary-weight",
        Value::Count,
        "0",
        "Share of the requests that neither header nor cookie decides, out of canary-weight-total.",
        |text, settings: &mut Settings| {
            settings.canary.weight = value::int(text)?;
            Ok(())
        },
    )
    .ingress(Risk::Low)
    .invalid_means_default(),
    Setting::served(
        "canary-weight-total",
        Value::Count,
        "100",
        "What canary-weight is a share of; counts only above 100.",
        |text, settings: &mut Settings| {
            settings.canary.total = value::int(text)?;
            Ok(())
        },
    )
    .ingress(Risk::Low)
    .invalid_means_default(),
];

fn some(text: &str) -> Option<Arc<str>> {
    (!text.is_empty()).then(|| text.into())
}

fn name(text: &str) -> Result<&str, String> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    match text.bytes().all(token) {
        true => Ok(text),
        false => Err("must be a name: letters, digits, - and _".into()),
    }
}
