//! What is believed of, added to and taken from heads.

use super::Settings;
use crate::translate::setting::{Fault, NotYet, Setting};
use crate::translate::value::{self, Value};

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "use-forwarded-headers",
        Value::Bool,
        "false",
        "Trust the X-Forwarded-* fields of clients.",
        |text, settings: &mut Settings| {
            settings.tuning.use_forwarded_headers = value::bool(text)?;
            Ok(())
        },
    ),
    Setting::not_yet(
        "enable-real-ip",
        Value::Bool,
        "false",
        NotYet::ChangesAnswers,
        "Take the client address from a header.",
    ),
    Setting::not_yet(
        "forwarded-for-header",
        Value::Text,
        "X-Forwarded-For",
        NotYet::ChangesAnswers,
        "Header holding the client address.",
    ),
    Setting::not_yet(
        "forwarded-for-proxy-protocol-header",
        Value::Text,
        "X-Forwarded-For-Proxy-Protocol",
        NotYet::Harmless,
        "Header that holds the client address with the PROXY protocol.",
    ),
    Setting::not_yet(
        "forwarded-host-header",
        Value::Text,
        "X-Forwarded-Host",
        NotYet::ChangesAnswers,
        "Header that holds the host a client asked for.",
    ),
    Setting::served(
        "compute-full-forwarded-for",
        Value::Bool,
        "false",
        "Append to X-Forwarded-For in place of replacing it.",
        |text, settings: &mut Settings| {
            settings.tuning.compute_full_forwarded_for = value::bool(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "proxy-real-ip-cidr",
        Value::List,
        "0.0.0.0/0",
        "Peers whose X-Forwarded-* fields are trusted; not implemented yet, so a list trusts nobody.",
        |text, settings: &mut Settings| {
            if value::list(text).all(|network| matches!(network, "0.0.0.0/0" | "::/0")) {
                return Ok(());
            }
            settings.trusted_peers_named = true;
            Err(Fault::NotYet)
        },
    ),
    Setting::not_yet(
        "use-proxy-protocol",
        Value::Bool,
        "false",
        NotYet::ChangesAnswers,
        "The PROXY protocol on both listeners.",
    ),
    Setting::not_yet(
        "proxy-add-original-uri-header",
        Value::Bool,
        "false",
        NotYet::ChangesAnswers,
        "X-Original-URI upstream.",
    ),
    Setting::served(
        "generate-request-id",
        Value::Bool,
        "true",
        "Make an X-Request-ID where the client sent none.",
        |text, settings: &mut Settings| {
            settings.tuning.generate_request_id = value::bool(text)?;
            Ok(())
        },
    ),
    Setting::not_yet(
        "proxy-set-headers",
        Value::ObjectName,
        "",
        NotYet::ChangesAnswers,
        "ConfigMap of fields that are added to requests.",
    ),
    Setting::not_yet(
        "add-headers",
        Value::ObjectName,
        "",
        NotYet::ChangesAnswers,
        "ConfigMap of fields that are added to responses.",
    ),
    Setting::not_yet(
        "hide-headers",
        Value::List,
        "",
        NotYet::ChangesAnswers,
        "Response fields of backends that are dropped.",
    ),
    Setting::no_effect(
        "allow-backend-server-header",
        Value::Bool,
        "false",
        "the Server field of a backend always passes",
        "Let the Server field of backends through.",
    ),
    Setting::no_effect(
        "server-tokens",
        Value::Bool,
        "false",
        "answers carry the Server field of the backend, or sluice",
        "Send nginx Server header (default removes it).",
    ),
    Setting::not_yet(
        "global-allowed-response-headers",
        Value::Text,
        "",
        NotYet::Harmless,
        "Names allowed in custom-headers ConfigMaps.",
    ),
    Setting::served(
        "enable-underscores-in-headers",
        Value::Bool,
        "false",
        "Pass request fields on whose names have _; without it they count as invalid.",
        |text, settings: &mut Settings| {
            settings.tuning.underscores_in_headers = value::bool(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "ignore-invalid-headers",
        Value::Bool,
        "true",
        "Drop request fields whose names have other characters than letters, digits and -.",
        |text, settings: &mut Settings| {
            settings.tuning.ignore_invalid_headers = value::bool(text)?;
            Ok(())
        },
    ),
    Setting::not_yet(
        "proxy-cookie-path",
        Value::Text,
        "off",
        NotYet::ChangesAnswers,
        "Rewrite the Path of cookies.",
    ),
    Setting::not_yet(
        "proxy-cookie-domain",
        Value::Text,
        "off",
        NotYet::ChangesAnswers,
        "Rewrite the Domain of cookies.",
    ),
    Setting::not_yet(
        "proxy-redirect-from",
        Value::Text,
        "off",
        NotYet::ChangesAnswers,
        "Text in Location to replace.",
    )
    .idle_at(&["default"]),
    Setting::not_yet(
        "proxy-redirect-to",
        Value::Text,
        "off",
        NotYet::Harmless,
        "Text that replaces proxy-redirect-from.",
    ),
    Setting::not_yet(
        "relative-redirects",
        Value::Bool,
        "false",
        NotYet::ChangesAnswers,
        "Redirects without scheme and host.",
    ),
    Setting::not_yet(
        "use-port-in-redirects",
        Value::Bool,
        "false",
        NotYet::ChangesAnswers,
        "Name the port in redirects.",
    ),
    Setting::not_yet(
        "preserve-trailing-slash",
        Value::Bool,
        "false",
        NotYet::ChangesAnswers,
        "Keep the final slash in the redirect to https.",
    ),
    Setting::not_yet(
        "default-type",
        Value::Text,
        "text/html",
        NotYet::Harmless,
        "Content type of answers without one.",
    ),
    Setting::no_effect(
        "proxy-headers-hash-max-size",
        Value::Count,
        "512",
        "there is no nginx underneath",
        "Tuning of nginx itself.",
    ),
    Setting::no_effect(
        "proxy-headers-hash-bucket-size",
        Value::Count,
        "64",
        "there is no nginx underneath",
        "Tuning of nginx itself.",
    ),
];
