//! Keys about TLS of clients and the redirect to https.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sluice_config::TicketKey;

use super::Key;
use crate::translate::setting::{ReferenceTreatment, Unreadable};
use crate::translate::value::{self, Type};

const PROTOCOLS: &str = "ssl-protocols";
const CIPHERS: &str = "ssl-ciphers";
const CURVES: &str = "ssl-ecdh-curve";

/// Permitted status codes of the redirect.
const REDIRECTS: &[(&str, u16)] = &[("301", 301), ("302", 302), ("307", 307), ("308", 308)];

/// Bytes of a ticket key: those of AES-128 and AES-256 in nginx.
const TICKET_KEYS: [usize; 2] = [48, 80];

/// A key of session tickets.
fn ticket_key() -> Type<TicketKey> {
    value::text().called("base64 of 48 or 80 bytes").and_then(|text| match STANDARD.decode(text.as_bytes()) {
        Ok(bytes) if TICKET_KEYS.contains(&bytes.len()) => Ok(TicketKey(bytes)),
        _ => Err(
            "must be base64 of 48 or 80 bytes, such as the output of: openssl rand -base64 80 | tr -d '\\n'",
        ),
    })
}

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            PROTOCOLS,
            value::named_tls_versions(),
            "TLSv1.2 TLSv1.3",
            "TLS versions that are offered; those before TLSv1.2 are skipped, because they are broken (RFC 8996).",
            |settings, value| {
                settings.global.tls.versions = value.versions;
                settings.left_out(PROTOCOLS, &value.skipped);
            },
        )
        .except("older versions are skipped with a warning")
        .unchecked_by_reference(),
        Key::served(
            CIPHERS,
            value::tls_suites(),
            "",
            "TLS 1.2 cipher suites in order of preference, out of the six with forward secrecy and authenticated \
             encryption; without it all, in the client's order. A list with none of them disables TLS 1.2.",
            |settings, value| {
                settings.global.tls.suites.list = Some(value.suites);
                settings.left_out(CIPHERS, &value.skipped);
            },
        )
        .except("unavailable suites are skipped with a warning")
        .unchecked_by_reference(),
        Key::served(
            CURVES,
            value::tls_groups(),
            "auto",
            "Groups of the key exchange in order of preference: X25519MLKEM768, X25519, prime256v1, secp384r1.",
            |settings, value| {
                settings.global.tls.groups = value.groups;
                settings.left_out(CURVES, &value.skipped);
            },
        )
        .except("unavailable groups are skipped with a warning")
        .unchecked_by_reference(),
        Key::no_effect(
            "ssl-dh-param",
            value::secret(),
            "",
            "only ephemeral elliptic curves are offered",
            "Secret ns/name with dhparam.pem.",
        )
        .unchecked_by_reference(),
        Key::served(
            "ssl-session-cache",
            value::bool(),
            "true",
            "Keep TLS sessions, so that clients can resume them.",
            |settings, value| settings.tls_session_cache = value,
        ),
        Key::served(
            "ssl-session-cache-size",
            value::size(),
            "10m",
            "Memory for TLS sessions.",
            |settings, value| settings.global.tls.sessions.cache = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "ssl-session-timeout",
            value::time(),
            "10m",
            "Time after which a TLS session cannot be resumed.",
            |settings, value| settings.global.tls.sessions.timeout = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "ssl-session-tickets",
            value::bool(),
            "false",
            "Let clients keep their TLS sessions in encrypted tickets.",
            |settings, value| settings.global.tls.sessions.tickets = value,
        ),
        Key::served(
            "ssl-session-ticket-key",
            ticket_key(),
            "",
            "Key of tickets, base64 of 48 or 80 random bytes, for all replicas; without it each process makes its own. \
             Tickets of the key before a change are accepted until they expire.",
            |settings, value| settings.global.tls.sessions.ticket_key = Some(value),
        )
        .secret()
        .unchecked_by_reference(),
        Key::no_effect(
            "ssl-buffer-size",
            value::size(),
            "4k",
            "record size follows the data to send",
            "TLS record buffer.",
        )
        .unchecked_by_reference(),
        Key::served(
            "ssl-early-data",
            value::bool(),
            "false",
            "Serve requests with a safe method that arrive in the first flight of TLS 1.3, with `Early-Data: 1` for \
             the endpoint; others get 425 (RFC 8470).",
            |settings, value| settings.global.tls.early_data = value,
        )
        .except(
            "an attacker can replay such a request once to each replica; none is accepted with ssl-session-tickets, \
             without ssl-session-cache, or for hosts with client certificates",
        ),
        Key::served(
            "ssl-reject-handshake",
            value::bool(),
            "false",
            "Refuse TLS handshakes for names that no Ingress has, in place of serving the default certificate.",
            |settings, value| settings.global.tls.rejects_unknown_names = value,
        ),
        Key::served(
            "enable-ocsp",
            value::bool(),
            "false",
            "Staple OCSP responses to certificates that name a responder with an http URL and whose Secret contains \
             the issuer.",
            |settings, value| settings.global.staple_ocsp = value,
        ),
        Key::served(
            "ssl-redirect",
            value::bool(),
            "true",
            "Redirect to https if a certificate is configured for the host, perhaps that of a wildcard.",
            |settings, value| settings.global.ssl_redirect = value,
        ),
        Key::served(
            "force-ssl-redirect",
            value::bool(),
            "false",
            "Redirect to https everywhere.",
            |settings, value| settings.global.force_ssl_redirect = value,
        ),
        Key::served(
            "http-redirect-code",
            value::one_of(REDIRECTS),
            "308",
            "Code of the redirect to https.",
            |settings, value| settings.global.http_redirect_code = value,
        ),
        Key::served(
            "no-tls-redirect-locations",
            value::paths(),
            "/.well-known/acme-challenge",
            "Rules whose path begins with one of these are never redirected to https. The path of the \
             request does not count.",
            |settings, value| settings.global.no_tls_redirect_locations = value,
        )
        .unreadable(
            Unreadable::Default,
            ReferenceTreatment::SkipEntries,
            "an entry that is read otherwise could exempt other rules",
        )
        .fallback("no rule is exempt", |settings| settings.global.no_tls_redirect_locations.clear()),
        Key::served(
            "hsts",
            value::bool(),
            "true",
            "Send Strict-Transport-Security over https.",
            |settings, value| settings.hsts_enabled = value,
        ),
        Key::served(
            "hsts-max-age",
            value::count().decimal(),
            "31536000",
            "Its max-age, seconds.",
            |settings, value| settings.hsts.max_age = value.into(),
        )
        .unchecked_by_reference(),
        Key::served(
            "hsts-include-subdomains",
            value::bool(),
            "true",
            "Its includeSubDomains.",
            |settings, value| settings.hsts.include_subdomains = value,
        ),
        Key::served("hsts-preload", value::bool(), "false", "Its preload.", |settings, value| {
            settings.hsts.preload = value
        }),
        Key::served(
            "use-http2",
            value::bool(),
            "true",
            "HTTP/2, on the TLS ports and by prior knowledge on the plain ones.",
            |settings, value| settings.global.use_http2 = value,
        ),
        Key::served(
            "proxy-ssl-location-only",
            value::bool(),
            "false",
            "The proxy-ssl annotations of an Ingress apply to its own paths only, in place of all Ingresses of its \
             namespace on the same host.",
            |settings, value| settings.endpoint_tls_per_location = value,
        ),
    ]
}
