//! Answers in place of the backend's own.

use std::sync::Arc;

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::{self, Value};

/// What the annotations of this family say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// `custom-http-errors`.
    pub(crate) statuses: Option<Arc<[u16]>>,
    /// `disable-proxy-intercept-errors`.
    pub(crate) keeps_responses: Option<bool>,
    /// `default-backend`: a Service of the same namespace.
    pub(crate) backend: Option<Box<str>>,
}

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "custom-http-errors",
        Value::List,
        "",
        "Responses with these statuses, of endpoints and of our own, give way to what the default backend answers to a \
         GET / with X-Code, X-Format, X-Original-URI and others; without one, to a plain page.",
        |text, settings: &mut Settings| {
            settings.errors.statuses = Some(statuses(text)?);
            Ok(())
        },
    )
    .location(Risk::Low)
    .falls_back_to("custom-http-errors"),
    Setting::served(
        "disable-proxy-intercept-errors",
        Value::Bool,
        "false",
        "Leave responses of endpoints as they are, although custom-http-errors names their status.",
        |text, settings: &mut Settings| {
            settings.errors.keeps_responses = Some(value::bool(text)?);
            Ok(())
        },
    )
    .location(Risk::Low)
    .falls_back_to("disable-proxy-intercept-errors"),
    Setting::served(
        "default-backend",
        Value::Text,
        "",
        "Service of the same namespace, at its first port, that is asked for error pages, and that takes all requests while \
         the Service of the rule has no endpoint.",
        |text, settings: &mut Settings| {
            let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
            if !begins || text.len() > 63 || text.ends_with('-') || !text.bytes().all(fits) {
                return Err("must be the name of a Service (RFC 1035 label)".to_owned().into());
            }
            settings.errors.backend = Some(text.into());
            Ok(())
        },
    )
    .location(Risk::Low),
    Setting::not_yet(
        "custom-headers",
        Value::ObjectName,
        "",
        NotYet::ChangesAnswers,
        "ConfigMap whose pairs are set on client responses.",
    )
    .location(Risk::Medium),
];

/// A comma-separated list of error statuses.
pub(crate) fn statuses(text: &str) -> Result<Arc<[u16]>, String> {
    let status = |word: &str| match word.parse() {
        Ok(code @ 400..=599) if word.len() == 3 => Ok(code),
        _ => Err(format!("has {word:?}, which is no status from 400 to 599")),
    };
    value::list(text).map(status).collect()
}
