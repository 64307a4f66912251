//! What is spoken to the endpoints. A value that is no protocol at all means HTTP, as in ingress-nginx; one
//! that Sluice does not speak yet closes the routes, since HTTP would reach the wrong thing.

use sluice_config::UpstreamProtocol;

use super::Annotation;
use crate::translate::setting::Risk;
use crate::translate::value;

const PROTOCOLS: &[(&str, Option<UpstreamProtocol>)] = &[
    ("HTTP", Some(UpstreamProtocol::Http)),
    ("HTTPS", Some(UpstreamProtocol::HttpsUnverified)),
    ("AUTO_HTTP", None),
    ("GRPC", Some(UpstreamProtocol::Grpc)),
    ("GRPCS", Some(UpstreamProtocol::GrpcsUnverified)),
    ("FCGI", None),
];

pub(super) fn settings() -> Vec<Annotation> {
    vec![Annotation::served(
    "backend-protocol",
    value::partly(PROTOCOLS),
    "HTTP",
    "Protocol spoken to the endpoints; HTTP, HTTPS, GRPC and GRPCS are served, certificates not verified.",
    |settings, value| settings.protocol = value,
)
.location(Risk::Low)
.invalid_means_default()]
}
