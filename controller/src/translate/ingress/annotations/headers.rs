//! Header fields for endpoints and clients.

use sluice_config::{ConnectionHeader, NamespacedName, ResourceKey, ResourceKind};

use super::{Annotation, Settings};
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::{template, value};

const CUSTOM: &str = "custom-headers";

const CONNECTIONS: &[(&str, ConnectionHeader)] =
    &[("keep-alive", ConnectionHeader::KeepAlive), ("close", ConnectionHeader::Close)];

/// Requires the ConfigMap for the routes.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    let response = settings.policies.headers.as_ref().and_then(|headers| headers.response.clone());
    settings.needs.extend(response.map(|key| (key, CUSTOM)));
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            CUSTOM,
            value::config_map_of_any_namespace(),
            "",
            "ConfigMap of any namespace with fields for every response, including errors and redirects; an \
             empty value removes the field, and $ is literal. global-allowed-response-headers must contain \
             the names. While the ConfigMap is missing or unusable, the routes answer 503.",
            |settings, value| {
                settings.headers().response =
                    Some(ResourceKey { kind: ResourceKind::ResponseHeaders, name: value });
            },
        )
        .location(Risk::Medium),
        Annotation::served(
            "upstream-vhost",
            template::host(),
            "$host",
            "Host sent to the endpoint, in place of the client's. A request for which its variables have no \
             value, or one that is not a host, gets 400.",
            |settings, value| settings.headers().host = Some(value),
        )
        .unreadable(Unreadable::Reject, ReferenceTreatment::Reject, "")
        .location(Risk::Low),
        Annotation::served(
            "connection-proxy-header",
            value::one_of(CONNECTIONS),
            "",
            "Value of Connection sent to the endpoint. If set, no upgrade (WebSocket) reaches the \
             endpoint, as with nginx; with close, each request uses a new connection.",
            |settings, value| settings.headers().connection = Some(value),
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Reject, "requests go to the same endpoint")
        .location(Risk::Low),
    ]
}
