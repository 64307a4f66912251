//! Redirects from http to https. An invalid value drops the Ingress: reading it as "no redirect" would put
//! on the wire in plain text what its author wanted hidden.

use super::Settings;
use crate::translate::setting::{Risk, Setting};
use crate::translate::value::{self, Value};

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "ssl-redirect",
        Value::Bool,
        "true",
        "Redirect from http to https where the host has TLS.",
        |text, settings: &mut Settings| {
            settings.https_redirect.ssl = Some(value::bool(text)?);
            Ok(())
        },
    )
    .location(Risk::Low)
    .falls_back_to("ssl-redirect"),
    Setting::served(
        "force-ssl-redirect",
        Value::Bool,
        "false",
        "Redirect from http to https even where the host has no TLS.",
        |text, settings: &mut Settings| {
            settings.https_redirect.force = Some(value::bool(text)?);
            Ok(())
        },
    )
    .location(Risk::Medium)
    .falls_back_to("force-ssl-redirect"),
];
