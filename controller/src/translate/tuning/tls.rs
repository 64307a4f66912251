//! TLS towards clients, and the redirect to it.

use super::Settings;
use crate::translate::setting::{NotYet, Setting};
use crate::translate::value::{self, Value};

/// Codes of a redirect.
const REDIRECTS: &[&str] = &["301", "302", "307", "308"];

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "ssl-protocols",
        Value::Words(&["SSLv2", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"]),
        "TLSv1.2 TLSv1.3",
        NotYet::Harmless,
        "TLS versions that are offered.",
    ),
    Setting::not_yet("ssl-ciphers", Value::Text, "", NotYet::Harmless, "Cipher suites of TLS 1.2."),
    Setting::not_yet("ssl-ecdh-curve", Value::Text, "auto", NotYet::Harmless, "Curves of the key exchange."),
    Setting::no_effect(
        "ssl-dh-param",
        Value::ObjectName,
        "",
        "only ephemeral elliptic curves are offered",
        "Secret ns/name with dhparam.pem.",
    ),
    Setting::not_yet("ssl-session-cache", Value::Bool, "true", NotYet::Harmless, "Keep TLS sessions."),
    Setting::not_yet(
        "ssl-session-cache-size",
        Value::Size,
        "10m",
        NotYet::Harmless,
        "Size of the session cache.",
    ),
    Setting::not_yet(
        "ssl-session-timeout",
        Value::Time,
        "10m",
        NotYet::Harmless,
        "Lifetime of TLS sessions.",
    ),
    Setting::not_yet("ssl-session-tickets", Value::Bool, "false", NotYet::Harmless, "Session tickets."),
    Setting::not_yet("ssl-session-ticket-key", Value::Text, "", NotYet::Harmless, "Base64 ticket key."),
    Setting::no_effect(
        "ssl-buffer-size",
        Value::Size,
        "4k",
        "records are sized by what is to be sent",
        "TLS record buffer.",
    ),
    Setting::not_yet(
        "ssl-early-data",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Accept requests in the first flight of TLS 1.3.",
    ),
    Setting::not_yet(
        "ssl-reject-handshake",
        Value::Bool,
        "false",
        NotYet::ChangesAnswers,
        "Refuse TLS handshakes for unknown SNI instead of default certificate.",
    ),
    Setting::not_yet("enable-ocsp", Value::Bool, "false", NotYet::Harmless, "OCSP stapling."),
    Setting::served(
        "ssl-redirect",
        Value::Bool,
        "true",
        "Redirect to https where the host has TLS.",
        |text, settings: &mut Settings| {
            settings.tuning.ssl_redirect = value::bool(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "force-ssl-redirect",
        Value::Bool,
        "false",
        "Redirect to https everywhere.",
        |text, settings: &mut Settings| {
            settings.tuning.force_ssl_redirect = value::bool(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "http-redirect-code",
        Value::OneOf(REDIRECTS),
        "308",
        "Code of the redirect to https.",
        |text, settings: &mut Settings| {
            settings.tuning.http_redirect_code = value::int(value::one_of(REDIRECTS, text)?)?;
            Ok(())
        },
    ),
    Setting::served(
        "no-tls-redirect-locations",
        Value::List,
        "/.well-known/acme-challenge",
        "Path prefixes that are never redirected to https.",
        |text, settings: &mut Settings| {
            settings.tuning.no_tls_redirect_locations = value::list(text).map(Into::into).collect();
            Ok(())
        },
    ),
    Setting::served(
        "hsts",
        Value::Bool,
        "true",
        "Strict-Transport-Security on answers over https.",
        |text, settings: &mut Settings| {
            settings.hsts_enabled = value::bool(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "hsts-max-age",
        Value::Count,
        "31536000",
        "Its max-age, seconds.",
        |text, settings: &mut Settings| {
            settings.hsts.max_age = value::int(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "hsts-include-subdomains",
        Value::Bool,
        "true",
        "Its includeSubDomains.",
        |text, settings: &mut Settings| {
            settings.hsts.include_subdomains = value::bool(text)?;
            Ok(())
        },
    ),
    Setting::served("hsts-preload", Value::Bool, "false", "Its preload.", |text, settings: &mut Settings| {
        settings.hsts.preload = value::bool(text)?;
        Ok(())
    }),
    Setting::served(
        "use-http2",
        Value::Bool,
        "true",
        "HTTP/2, on the TLS ports and by prior knowledge on the plain ones.",
        |text, settings: &mut Settings| {
            settings.tuning.use_http2 = value::bool(text)?;
            Ok(())
        },
    ),
    Setting::no_effect(
        "proxy-ssl-location-only",
        Value::Bool,
        "false",
        "TLS to endpoints is set per route anyway",
        "Apply proxy-ssl settings per path only.",
    ),
];
