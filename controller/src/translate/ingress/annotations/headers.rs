//! Fields of heads that an Ingress wants for its endpoints and its clients.

use std::sync::Arc;

use sluice_config::{BackendHeaders, ConnectionHeader, NamespacedName, ResourceKey, ResourceKind, Template};

use super::Annotation;
use crate::translate::setting::{Reference, Risk, Unreadable};
use crate::translate::{template, value};

const CUSTOM: &str = "custom-headers";

const CONNECTIONS: &[(&str, ConnectionHeader)] =
    &[("keep-alive", ConnectionHeader::KeepAlive), ("close", ConnectionHeader::Close)];

/// What the annotations of this family say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderSettings {
    host: Option<Template>,
    connection: Option<ConnectionHeader>,
    /// A ConfigMap.
    response: Option<NamespacedName>,
}

impl HeaderSettings {
    /// The policy, if there is one.
    pub(crate) fn policy(&self) -> Option<Arc<BackendHeaders>> {
        let headers = BackendHeaders {
            host: self.host.clone(),
            connection: self.connection,
            response: self.response_headers(),
        };
        (headers != BackendHeaders::default()).then(|| Arc::new(headers))
    }

    /// The ConfigMap without which the routes cannot be served, with the annotation that names it.
    pub(super) fn needs(&self) -> Option<(ResourceKey, &'static str)> {
        Some((self.response_headers()?, CUSTOM))
    }

    fn response_headers(&self) -> Option<ResourceKey> {
        let name = self.response.clone()?;
        Some(ResourceKey { kind: ResourceKind::ResponseHeaders, name })
    }
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
            |settings, value| settings.heads.response = Some(value),
        )
        .location(Risk::Medium),
        Annotation::served(
            "upstream-vhost",
            template::host(),
            "$host",
            "Host sent to the endpoint, in place of the client's; allowed variables: $host, $http_host, \
             $server_port and those of the Ingress and its Service.",
            |settings, value| settings.heads.host = Some(value),
        )
        .except("variables that a client chooses, such as $http_x, reject the Ingress")
        .unreadable(Unreadable::Reject, Reference::Reject, "")
        .location(Risk::Low),
        Annotation::served(
            "connection-proxy-header",
            value::one_of(CONNECTIONS),
            "",
            "Value of Connection sent to the endpoint. If set, no upgrade (WebSocket) reaches the \
             endpoint, as with nginx; with close, each request uses a new connection.",
            |settings, value| settings.heads.connection = Some(value),
        )
        .unreadable(Unreadable::Default, Reference::Reject, "requests go to the same endpoint")
        .location(Risk::Low),
    ]
}
