//! Keys about trusted, added and removed header fields.

use std::sync::Arc;

use sluice_config::{Moment, NamespacedName, ResourceKey, ResourceKind, TrustedPeers, is_own_field};

use super::Key;
use crate::translate::setting::{ReferenceTreatment, Unreadable};
use crate::translate::{replacement, value};

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            "use-forwarded-headers",
            value::bool(),
            "false",
            "Accept the X-Forwarded-* fields of peers in proxy-real-ip-cidr.",
            |settings, value| settings.global.forwarded.use_headers = value,
        ),
        Key::served(
            "enable-real-ip",
            value::bool(),
            "false",
            "Accept only the client's address from peers in proxy-real-ip-cidr.",
            |settings, value| settings.global.forwarded.real_ip = value,
        ),
        Key::served(
            "forwarded-for-header",
            value::field_name(),
            "X-Forwarded-For",
            "The field that holds the client's address.",
            |settings, value| settings.global.forwarded.for_header = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "forwarded-for-proxy-protocol-header",
            value::field_name(),
            "X-Forwarded-For-Proxy-Protocol",
            "Field that passes the original value of the client's address to endpoints, if \
             use-proxy-protocol and use-forwarded-headers are both on.",
            |settings, value| settings.global.forwarded.for_proxy_protocol_header = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "forwarded-host-header",
            value::field_name(),
            "X-Forwarded-Host",
            "Field whose value endpoints receive as X-Original-Forwarded-Host.",
            |settings, value| settings.global.forwarded.host_header = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "compute-full-forwarded-for",
            value::bool(),
            "false",
            "With use-forwarded-headers, append the peer's address to X-Forwarded-For instead of replacing \
             it.",
            |settings, value| settings.global.forwarded.compute_full = value,
        ),
        Key::served(
            "proxy-real-ip-cidr",
            value::trusted_peers(),
            "0.0.0.0/0",
            "Trusted peers: their X-Forwarded-* fields and PROXY protocol headers are accepted. 0.0.0.0/0 \
             trusts every address of IPv4 and IPv6; while the value is invalid, no peer is trusted.",
            |settings, value| settings.global.forwarded.peers = value,
        )
        .unchecked_by_reference()
        .fallback("no peer is trusted", |settings| {
            settings.global.forwarded.peers = TrustedPeers::These(Arc::default());
        }),
        Key::served(
            "use-proxy-protocol",
            value::bool(),
            "false",
            "Connections to the http and https ports begin with a PROXY protocol header, version 1 or 2; a \
             connection without it, or from a peer outside proxy-real-ip-cidr, is closed. Applies to new \
             connections.",
            |settings, value| settings.global.forwarded.proxy_protocol = value,
        ),
        Key::served(
            "proxy-add-original-uri-header",
            value::bool(),
            "false",
            "Send the client's original path and query to endpoints in X-Original-URI.",
            |settings, value| settings.global.adds_original_uri = value,
        ),
        Key::served(
            "generate-request-id",
            value::bool(),
            "true",
            "Generate an X-Request-ID if the client sent none.",
            |settings, value| settings.global.generate_request_id = value,
        ),
        Key::served(
            "proxy-set-headers",
            value::config_map().evaluated_at(Moment::Request),
            "",
            "ConfigMap with fields for every request to an endpoint, in place of the client's; an empty \
             value removes the field. Values may contain variables. A field with an unusable value is \
             removed from the request. While the ConfigMap is missing, no field is set.",
            |settings, value| {
                settings.global.request_headers = Some(resource(ResourceKind::GlobalHeaders, value))
            },
        ),
        Key::served(
            "add-headers",
            value::config_map().evaluated_at(Moment::Response),
            "",
            "The same for every response, including errors and redirects.",
            |settings, value| {
                settings.global.response_headers = Some(resource(ResourceKind::GlobalResponseHeaders, value))
            },
        ),
        Key::served(
            "hide-headers",
            value::list_of("comma-separated list of header names", hidden),
            "",
            "Fields removed from endpoints' responses, besides X-Pad and X-Accel-Redirect, -Expires, \
             -Limit-Rate, -Buffering and -Charset, which always are.",
            |settings, value| settings.global.hidden_headers = value.into(),
        )
        // Otherwise the fields of the other entries would reach clients.
        .unreadable(Unreadable::SkipEntries, ReferenceTreatment::RefuseAll, ""),
        Key::served(
            "server-tokens",
            value::bool(),
            "",
            "true or unset: responses have `Server: sluice`, unless allow-backend-server-header passes on the \
             endpoint's; false: no Server field, whatever endpoints send.",
            |settings, value| settings.server_tokens = Some(value),
        ),
        Key::served(
            "allow-backend-server-header",
            value::bool(),
            "",
            "Pass on the Server field of endpoints in place of Sluice's.",
            |settings, value| settings.server_of_endpoints = Some(value),
        ),
        Key::served(
            "global-allowed-response-headers",
            value::list(),
            "",
            "Fields that ConfigMaps of the annotation custom-headers may have.",
            |settings, value| settings.annotation_limits.response_headers = value,
        )
        .unreadable(Unreadable::SkipEntries, ReferenceTreatment::SkipEntries, ""),
        Key::served(
            "enable-underscores-in-headers",
            value::bool(),
            "false",
            "Accept request fields with _ in their names; otherwise they count as invalid.",
            |settings, value| settings.global.underscores_in_headers = value,
        ),
        Key::served(
            "ignore-invalid-headers",
            value::bool(),
            "true",
            "Drop request fields whose names contain characters other than letters, digits and -.",
            |settings, value| settings.global.ignore_invalid_headers = value,
        ),
        Key::served(
            "proxy-cookie-path",
            replacement::cookie_path(),
            "off",
            "Prefix of the path of endpoints' cookies to replace, and its replacement.",
            |settings, value| settings.global.replacements.cookie_path = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "proxy-cookie-domain",
            replacement::cookie_domain(),
            "off",
            "Domain of endpoints' cookies to replace, and its replacement.",
            |settings, value| settings.global.replacements.cookie_domain = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "proxy-redirect-from",
            replacement::redirect_from(),
            "off",
            "Prefix of endpoints' Location and Refresh to replace.",
            |settings, value| settings.global.replacements.redirect_from = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "proxy-redirect-to",
            replacement::redirect_to(),
            "off",
            "What replaces it.",
            |settings, value| settings.global.replacements.redirect_to = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "relative-redirects",
            value::bool(),
            "false",
            "Redirects without scheme and host.",
            |settings, value| {
                settings.global.relative_redirects = value;
            },
        ),
        Key::served(
            "use-port-in-redirects",
            value::bool(),
            "false",
            "Include the port in redirects.",
            |settings, value| {
                settings.global.port_in_redirects = value;
            },
        ),
        Key::served(
            "preserve-trailing-slash",
            value::bool(),
            "false",
            "Keep the trailing slash in the redirect to https.",
            |settings, value| {
                settings.global.preserve_trailing_slash = value;
            },
        ),
        Key::no_effect(
            "default-type",
            value::text(),
            "text/html",
            "in nginx it applies to files and to responses of snippets; responses of endpoints are not changed",
            "Content type of answers without one.",
        )
        .unchecked_by_reference(),
        Key::no_effect(
            "proxy-headers-hash-max-size",
            value::count(),
            "512",
            "Sluice does not run nginx",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "proxy-headers-hash-bucket-size",
            value::count(),
            "64",
            "Sluice does not run nginx",
            "Tuning of nginx itself.",
        ),
    ]
}

fn resource(kind: ResourceKind, name: NamespacedName) -> ResourceKey {
    ResourceKey { kind, name }
}

fn hidden(name: &str) -> Result<Arc<str>, String> {
    if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err(format!("has {name:?}, which is not the name of a header field"));
    }
    match is_own_field(name) {
        true => Err(format!("has {name:?}, which belongs to the gateway and cannot be hidden")),
        false => Ok(name.into()),
    }
}
