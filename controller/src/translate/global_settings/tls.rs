//! TLS towards clients, and the redirect to it.

use super::Key;
use crate::translate::setting::NotYet;
use crate::translate::value;

/// Codes of a redirect.
const REDIRECTS: &[(&str, u16)] = &[("301", 301), ("302", 302), ("307", 307), ("308", 308)];

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::not_yet(
            "ssl-protocols",
            value::words(&["SSLv2", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"]),
            "TLSv1.2 TLSv1.3",
            NotYet::ChangesAnswers,
            "TLS versions that are offered; always 1.2 and 1.3.",
        )
        .unchecked_by_reference(),
        Key::not_yet("ssl-ciphers", value::text(), "", NotYet::Harmless, "Cipher suites of TLS 1.2.")
            .unchecked_by_reference(),
        Key::not_yet(
            "ssl-ecdh-curve",
            value::text(),
            "auto",
            NotYet::Harmless,
            "Curves of the key exchange.",
        )
        .unchecked_by_reference(),
        Key::no_effect(
            "ssl-dh-param",
            value::secret(),
            "",
            "only ephemeral elliptic curves are offered",
            "Secret ns/name with dhparam.pem.",
        )
        .unchecked_by_reference(),
        Key::not_yet("ssl-session-cache", value::bool(), "true", NotYet::Harmless, "Keep TLS sessions."),
        Key::not_yet(
            "ssl-session-cache-size",
            value::size(),
            "10m",
            NotYet::Harmless,
            "Size of the session cache.",
        )
        .unchecked_by_reference(),
        Key::not_yet(
            "ssl-session-timeout",
            value::time(),
            "10m",
            NotYet::Harmless,
            "Lifetime of TLS sessions.",
        )
        .unchecked_by_reference(),
        Key::not_yet("ssl-session-tickets", value::bool(), "false", NotYet::Harmless, "Session tickets."),
        Key::not_yet("ssl-session-ticket-key", value::text(), "", NotYet::Harmless, "Base64 ticket key.")
            .unchecked_by_reference(),
        Key::no_effect(
            "ssl-buffer-size",
            value::size(),
            "4k",
            "record size follows the data to send",
            "TLS record buffer.",
        )
        .unchecked_by_reference(),
        Key::not_yet(
            "ssl-early-data",
            value::bool(),
            "false",
            NotYet::Harmless,
            "Accept requests in the first flight of TLS 1.3.",
        ),
        Key::not_yet(
            "ssl-reject-handshake",
            value::bool(),
            "false",
            NotYet::ChangesAnswers,
            "Refuse TLS handshakes for unknown SNI instead of default certificate.",
        ),
        Key::not_yet("enable-ocsp", value::bool(), "false", NotYet::Harmless, "OCSP stapling."),
        Key::served(
            "ssl-redirect",
            value::bool(),
            "true",
            "Redirect to https if the host has TLS.",
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
            value::list(),
            "/.well-known/acme-challenge",
            "Path prefixes that are never redirected to https.",
            |settings, value| settings.global.no_tls_redirect_locations = value,
        ),
        Key::served(
            "hsts",
            value::bool(),
            "true",
            "Send Strict-Transport-Security over https.",
            |settings, value| settings.hsts_enabled = value,
        ),
        Key::served(
            "hsts-max-age",
            value::count(),
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
