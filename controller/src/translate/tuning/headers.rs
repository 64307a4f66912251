//! What is believed of, added to and taken from heads.

use std::sync::Arc;

use sluice_config::{NamespacedName, ResourceKey, ResourceKind, TrustedPeers, is_own_field};

use super::Key;
use crate::translate::setting::{Reference, Unreadable};
use crate::translate::{replacement, value};

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            "use-forwarded-headers",
            value::bool(),
            "false",
            "Believe the X-Forwarded-* fields of peers in proxy-real-ip-cidr.",
            |draft, value| draft.tuning.forwarded.use_headers = value,
        ),
        Key::served(
            "enable-real-ip",
            value::bool(),
            "false",
            "Believe peers in proxy-real-ip-cidr about the client's address, and about nothing else.",
            |draft, value| draft.tuning.forwarded.real_ip = value,
        ),
        Key::served(
            "forwarded-for-header",
            value::field_name(),
            "X-Forwarded-For",
            "The field that holds the client's address.",
            |draft, value| draft.tuning.forwarded.for_header = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "forwarded-for-proxy-protocol-header",
            value::field_name(),
            "X-Forwarded-For-Proxy-Protocol",
            "The field in which endpoints get the value that the client's address was taken from, where \
             use-proxy-protocol and use-forwarded-headers are both on.",
            |draft, value| draft.tuning.forwarded.for_proxy_protocol_header = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "forwarded-host-header",
            value::field_name(),
            "X-Forwarded-Host",
            "The field whose value endpoints get as X-Original-Forwarded-Host.",
            |draft, value| draft.tuning.forwarded.host_header = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "compute-full-forwarded-for",
            value::bool(),
            "false",
            "With use-forwarded-headers, append the peer's address to X-Forwarded-For in place of replacing it.",
            |draft, value| draft.tuning.forwarded.compute_full = value,
        ),
        Key::served(
            "proxy-real-ip-cidr",
            value::trusted_peers(),
            "0.0.0.0/0",
            "Peers that are believed: their X-Forwarded-* fields and their headers of the PROXY protocol. \
             0.0.0.0/0 is everybody, of either version; while the value cannot be read, nobody is.",
            |draft, value| draft.tuning.forwarded.peers = value,
        )
        .unchecked_by_reference()
        .instead("nobody is trusted", |draft| {
            draft.tuning.forwarded.peers = TrustedPeers::These(Arc::default());
        }),
        Key::served(
            "use-proxy-protocol",
            value::bool(),
            "false",
            "Connections to the http and https ports begin with a header of the PROXY protocol, version 1 or 2; \
             one without it, or from a peer outside of proxy-real-ip-cidr, is closed. Holds for new connections.",
            |draft, value| draft.tuning.forwarded.proxy_protocol = value,
        ),
        Key::served(
            "proxy-add-original-uri-header",
            value::bool(),
            "false",
            "Tell endpoints path and query as the client sent them, in X-Original-URI.",
            |settings, value| settings.tuning.adds_original_uri = value,
        ),
        Key::served(
            "generate-request-id",
            value::bool(),
            "true",
            "Make an X-Request-ID where the client sent none.",
            |settings, value| settings.tuning.generate_request_id = value,
        ),
        Key::served(
            "proxy-set-headers",
            value::config_map(),
            "",
            "ConfigMap with fields that every request to an endpoint gets, in place of the client's; an empty value \
             takes the field out. Values may have variables. A field whose value cannot be used is removed from the \
             request. While the ConfigMap is missing no field is set.",
            |settings, value| settings.tuning.request_headers = Some(global_headers(value)),
        ),
        Key::served(
            "add-headers",
            value::config_map(),
            "",
            "The same for every response, also those of errors and redirects.",
            |settings, value| settings.tuning.response_headers = Some(global_headers(value)),
        ),
        Key::served(
            "hide-headers",
            value::list_of("comma-separated list of header names", hidden),
            "",
            "Fields that are taken out of responses of endpoints.",
            |settings, value| settings.tuning.hidden_headers = value.into(),
        )
        .unchecked_by_reference(),
        Key::served(
            "server-tokens",
            value::bool(),
            "",
            "false: no response has a Server field; true: those without one of an endpoint have `Server: sluice`, as \
             without the key.",
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
            |settings, value| settings.gates.response_headers = value,
        )
        .unreadable(Unreadable::SkipEntries, Reference::SkipEntries, ""),
        Key::served(
            "enable-underscores-in-headers",
            value::bool(),
            "false",
            "Pass request fields on whose names have _; without it they count as invalid.",
            |settings, value| settings.tuning.underscores_in_headers = value,
        ),
        Key::served(
            "ignore-invalid-headers",
            value::bool(),
            "true",
            "Drop request fields whose names have other characters than letters, digits and -.",
            |settings, value| settings.tuning.ignore_invalid_headers = value,
        ),
        Key::served(
            "proxy-cookie-path",
            replacement::cookie_path(),
            "off",
            "The beginning of the path of cookies of endpoints that is replaced, and by what.",
            |settings, value| settings.tuning.replacements.cookie_path = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "proxy-cookie-domain",
            replacement::cookie_domain(),
            "off",
            "The domain of cookies of endpoints that is replaced, and by what.",
            |settings, value| settings.tuning.replacements.cookie_domain = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "proxy-redirect-from",
            replacement::redirect_from(),
            "off",
            "The beginning of Location and Refresh of endpoints that is replaced.",
            |settings, value| settings.tuning.replacements.redirect_from = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "proxy-redirect-to",
            replacement::redirect_to(),
            "off",
            "What replaces it.",
            |settings, value| settings.tuning.replacements.redirect_to = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "relative-redirects",
            value::bool(),
            "false",
            "Redirects without scheme and host.",
            |draft, value| {
                draft.tuning.relative_redirects = value;
            },
        ),
        Key::served(
            "use-port-in-redirects",
            value::bool(),
            "false",
            "Name the port in redirects.",
            |draft, value| {
                draft.tuning.port_in_redirects = value;
            },
        ),
        Key::served(
            "preserve-trailing-slash",
            value::bool(),
            "false",
            "Keep the final slash in the redirect to https.",
            |draft, value| {
                draft.tuning.preserve_trailing_slash = value;
            },
        ),
        Key::no_effect(
            "default-type",
            value::text(),
            "text/html",
            "nginx has it for files and texts of snippets; responses of endpoints stay as they are",
            "Content type of answers without one.",
        )
        .unchecked_by_reference(),
        Key::no_effect(
            "proxy-headers-hash-max-size",
            value::count(),
            "512",
            "there is no nginx underneath",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "proxy-headers-hash-bucket-size",
            value::count(),
            "64",
            "there is no nginx underneath",
            "Tuning of nginx itself.",
        ),
    ]
}

fn global_headers(name: NamespacedName) -> ResourceKey {
    ResourceKey { kind: ResourceKind::GlobalHeaders, name }
}

fn hidden(name: &str) -> Result<Arc<str>, String> {
    if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err(format!("has {name:?}, which is no name of a header field"));
    }
    match is_own_field(name) {
        true => Err(format!("has {name:?}, which belongs to the gateway and cannot be hidden")),
        false => Ok(name.into()),
    }
}
