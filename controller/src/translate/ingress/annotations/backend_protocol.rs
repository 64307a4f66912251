//! The protocol to endpoints. An unknown value means HTTP, as in ingress-nginx; a known but
//! unsupported one closes the routes, because HTTP would reach the wrong service.

use sluice_config::UpstreamProtocol;

use super::Annotation;
use crate::translate::setting::{Reference, Risk, Unreadable};
use crate::translate::value::{self, Wrong};

/// The protocol to the endpoints, which overrides that of the Service port (`appProtocol`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BackendProtocol {
    /// This protocol.
    Is(UpstreamProtocol),
    /// HTTPS for clients of https, otherwise HTTP.
    OfClient,
}

const PROTOCOLS: &[(&str, Option<BackendProtocol>)] = &[
    ("HTTP", Some(BackendProtocol::Is(UpstreamProtocol::Http))),
    ("HTTPS", Some(BackendProtocol::Is(UpstreamProtocol::HttpsUnverified))),
    ("AUTO_HTTP", Some(BackendProtocol::OfClient)),
    ("GRPC", Some(BackendProtocol::Is(UpstreamProtocol::Grpc))),
    ("GRPCS", Some(BackendProtocol::Is(UpstreamProtocol::GrpcsUnverified))),
    ("FCGI", None),
];

/// Values of `proxy-http-version`, also in the ConfigMap, and whether each is HTTP/1.0.
pub(crate) const HTTP_VERSIONS: &[(&str, bool)] = &[("1.0", true), ("1.1", false)];

/// Description of `proxy-http-version`.
pub(crate) const HTTP_VERSION: &str = "HTTP version to endpoints. With 1.0 each connection carries one \
                                       request, request bodies without a length are buffered first, and \
                                       upgrades to other protocols are unavailable. Does not apply to GRPC \
                                       and GRPCS.";

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
            value::one_of(PROTOCOLS).and_then(|protocol| {
                protocol.ok_or_else(|| Wrong::Refused {
                    reason: "is FastCGI, which is not spoken".to_owned(),
                    remedy: "put a web server that serves HTTP in front of the FastCGI server, for instance nginx as \
                             another container of its Pods, and remove the annotation",
                })
            })
            .in_part(),
            "HTTP",
            "Protocol to the endpoints; AUTO_HTTP is HTTPS for clients of https and HTTP for others. If \
             unset, appProtocol of the Service port applies (http, https, grpc, grpcs, kubernetes.io/h2c, \
             -/ws, -/wss), otherwise HTTP. Certificates are verified only with proxy-ssl-verify. With FCGI \
             the routes answer 503.",
            |settings, value| {
                settings.policies.follows_scheme = value == BackendProtocol::OfClient;
                settings.routes.protocol = Some(value.endpoints());
            },
        )
        .location(Risk::Low),
        Annotation::served(
            "proxy-http-version",
            value::one_of(HTTP_VERSIONS),
            "1.1",
            HTTP_VERSION,
            |settings, value| settings.policies.http_1_0 = Some(value),
        )
        .location(Risk::Low)
        .falls_back_to("proxy-http-version"),
        Annotation::no_effect(
            "fastcgi-index",
            value::text(),
            "",
            "FastCGI is not spoken",
            "Index for FastCGI backends.",
        ).unreadable(Unreadable::Default, Reference::Reject, "it has no effect")
        .location(Risk::Medium),
        Annotation::no_effect(
            "fastcgi-params-configmap",
            value::config_map(),
            "",
            "FastCGI is not spoken",
            "FastCGI parameters.",
        ).unreadable(Unreadable::Default, Reference::Reject, "it has no effect")
        .location(Risk::Medium),
    ]
}
