//! The protocol of the endpoints. An unknown value means HTTP, as in ingress-nginx.

use std::sync::Arc;

use sluice_config::{NamespacedName, ResourceKey, ResourceKind, UpstreamProtocol};

use super::{Annotation, Settings};
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::value::{self, Type};

const INDEX: &str = "fastcgi-index";
const PARAMS: &str = "fastcgi-params-configmap";
const KEEP: &str = "sluice.dev/fastcgi-keep-conn";

/// The protocol to the endpoints, which overrides that of the Service port (`appProtocol`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BackendProtocol {
    /// This protocol.
    Is(UpstreamProtocol),
    /// HTTPS for clients of https, otherwise HTTP.
    OfClient,
}

const PROTOCOLS: &[(&str, BackendProtocol)] = &[
    ("HTTP", BackendProtocol::Is(UpstreamProtocol::Http)),
    ("HTTPS", BackendProtocol::Is(UpstreamProtocol::HttpsUnverified)),
    ("AUTO_HTTP", BackendProtocol::OfClient),
    ("GRPC", BackendProtocol::Is(UpstreamProtocol::Grpc)),
    ("GRPCS", BackendProtocol::Is(UpstreamProtocol::GrpcsUnverified)),
    ("FCGI", BackendProtocol::Is(UpstreamProtocol::FastCgi)),
];

impl BackendProtocol {
    /// Returns the protocol for clients of https.
    fn endpoints(self) -> UpstreamProtocol {
        match self {
            Self::Is(protocol) => protocol,
            Self::OfClient => UpstreamProtocol::HttpsUnverified,
        }
    }
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "backend-protocol",
            value::one_of(PROTOCOLS),
            "HTTP",
            "Protocol to the endpoints; AUTO_HTTP is HTTPS for clients of https and HTTP for others. If \
             unset, appProtocol of the Service port applies (http, https, grpc, grpcs, kubernetes.io/h2c, \
             -/ws, -/wss), otherwise HTTP. Certificates are verified only with proxy-ssl-verify.",
            |settings, value| {
                settings.policies.follows_scheme = value == BackendProtocol::OfClient;
                settings.routes.protocol = Some(value.endpoints());
            },
        )
        .location(Risk::Low),
        Annotation::served(
            "proxy-http-version",
            value::http_1_0(),
            "1.1",
            value::HTTP_VERSION,
            |settings, value| settings.policies.http_1_0 = Some(value),
        )
        .location(Risk::Low)
        .falls_back_to("proxy-http-version"),
        Annotation::served(
            INDEX,
            script_name(),
            "",
            "With FCGI, the script of a path that ends with a slash, such as index.php.",
            |settings, value| settings.fastcgi.index = Some(value),
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Reject, "the path is sent without a script")
        .location(Risk::Medium),
        Annotation::served(
            PARAMS,
            value::config_map(),
            "",
            "With FCGI, ConfigMap with one key for each parameter, in addition to those of nginx's \
             fastcgi_params, which it overrides. SCRIPT_FILENAME usually belongs in it. Values may have \
             variables, also $fastcgi_script_name and $document_root. While the ConfigMap is missing or \
             unusable, the routes answer 503.",
            |settings, value| {
                settings.fastcgi.params =
                    Some(ResourceKey { kind: ResourceKind::FastCgiParams, name: value });
            },
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::Reject, "another script could run")
        .location(Risk::Medium),
        Annotation::served(
            KEEP,
            value::bool(),
            "false",
            "With FCGI, keep connections to endpoints for further requests (nginx's fastcgi_keep_conn). A \
             process of php-fpm then serves no other connection while it is kept.",
            |settings, value| settings.fastcgi.keeps_connections = value,
        )
        .absent_in_reference()
        .location(Risk::Low),
    ]
}

/// Makes the policy of FastCGI endpoints. The routes cannot be served without the ConfigMap.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    let fastcgi = std::mem::take(&mut settings.fastcgi);
    if settings.routes.protocol == Some(UpstreamProtocol::FastCgi) {
        settings.needs.extend(fastcgi.params.clone().map(|key| (key, PARAMS)));
        settings.policies.fastcgi = Some(Arc::new(fastcgi));
        return;
    }
    let given = [
        (INDEX, fastcgi.index.is_some()),
        (PARAMS, fastcgi.params.is_some()),
        (KEEP, fastcgi.keeps_connections),
    ];
    let idle = given.into_iter().filter(|(_, is_given)| *is_given);
    settings
        .left_out
        .extend(idle.map(|(name, _)| (name, "has no effect without backend-protocol: FCGI".to_owned())));
}

/// The name of a script, with the characters that ingress-nginx permits.
fn script_name() -> Type<Arc<str>> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    Type::of("file name", move |text| text.bytes().all(fits).then(|| text.into()))
}
