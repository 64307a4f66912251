//! Copies of requests to another place. What cannot be used is ignored with a problem, as in ingress-nginx: no copy is
//! worth the request.

use super::Annotation;
use crate::translate::setting::Risk;
use crate::translate::{mirror, remote, value};

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "mirror-target",
            remote::url(),
            "",
            "Each request is copied to this URL, whose answer is dropped. The path of the request is copied where the \
             URL says so, with $request_uri at its end. Its host may be $host (for hosts without a wildcard), and no \
             other variable. Services of the cluster get copies at their endpoints; certificates are not verified.",
            |settings, value| settings.mirror.target = Some(value),
        )
        .except("with $host on a wildcard host nothing is copied, with other variables in the host it is ignored")
        .ingress(Risk::High),
        Annotation::served(
            "mirror-host",
            mirror::host(),
            "",
            "Host field of a copy; without it, the host of mirror-target without its port.",
            |settings, value| settings.mirror.host = Some(value),
        )
        .ingress(Risk::High),
        Annotation::served(
            "mirror-request-body",
            value::switch(),
            "on",
            "Whether a copy has the body of the request.",
            |settings, value| settings.mirror.body = value,
        )
        .ingress(Risk::Low),
    ]
}
