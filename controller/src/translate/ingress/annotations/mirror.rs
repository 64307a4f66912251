//! Request mirroring. Invalid settings are ignored with a problem, as in ingress-nginx: a copy is
//! less important than the request.

use sluice_config::NamespacedName;

use super::{Annotation, Settings};
use crate::translate::setting::Risk;
use crate::translate::{mirror, remote, value};

/// Drops settings without a target.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    settings.routes.mirror.take_if(|mirror| mirror.target.is_none());
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "mirror-target",
            remote::url(),
            "",
            "URL that gets a copy of each request; its response is dropped. End it with $request_uri to \
             copy the path; to a URL without variables, the query of the request is appended. Its host may contain $host, $namespace, $ingress_name and $service_name; with \
             other variables, which clients choose freely, it is ignored. A host that differs per request \
             (a wildcard, the catch-all) is looked up then. For Services of the cluster, their endpoints \
             are used; certificates are not verified.",
            |settings, value| settings.mirror().target = Some(value),
        )
        .ingress(Risk::High),
        Annotation::served(
            "mirror-host",
            mirror::host(),
            "",
            "Host field of a copy; by default, the host of mirror-target without its port.",
            |settings, value| settings.mirror().host = Some(value),
        )
        .ingress(Risk::High),
        Annotation::served(
            "mirror-request-body",
            value::switch(),
            "on",
            "Whether a copy includes the request body.",
            |settings, value| settings.mirror().body = value,
        )
        .ingress(Risk::Low),
    ]
}
