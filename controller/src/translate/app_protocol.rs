//! Services whose `appProtocol` determines the protocol to their endpoints, which ingress-nginx
//! ignores. Only a report before a migration lists them.

use std::collections::BTreeMap;

use sluice_config::{Code, NamespacedName, ObjectRef, Problem, UpstreamProtocol};

use super::Translation;
use super::backend;
use crate::problem::warning;
use crate::store::{BackendRef, ObjectKey};

impl Translation {
    /// Returns a problem for each used Service port to which ingress-nginx would use plain HTTP.
    pub(crate) fn app_protocol_problems(&self) -> Vec<Problem> {
        let mut ports = BTreeMap::new();
        for routes in self.values.routes.values().filter(|routes| routes.settings.protocol.is_none()) {
            let backends = routes.paths().map(|path| &path.backend).chain(routes.default_backend.as_deref());
            for backend in backends {
                let BackendRef::Service { name, port } = backend else { continue };
                let name = routes.in_namespace(name);
                let found = backend::protocol_of(
                    self.store.service(&name).map(|service| &**service),
                    &name,
                    port,
                    &self.options,
                );
                if let Some((number, protocol)) =
                    found.filter(|(_, protocol)| *protocol != UpstreamProtocol::Http)
                {
                    ports.entry((name, number)).or_insert((protocol, routes.object.clone()));
                }
            }
        }
        let problem = |((name, port), (protocol, object)): (
            (NamespacedName, i32),
            (UpstreamProtocol, ObjectKey),
        )| {
            let protocol = match protocol {
                UpstreamProtocol::Http => "HTTP",
                UpstreamProtocol::HttpsUnverified => "HTTPS",
                UpstreamProtocol::Grpc => "gRPC (HTTP/2)",
                UpstreamProtocol::GrpcsUnverified => "gRPC over TLS",
                UpstreamProtocol::FastCgi => "FastCGI",
                UpstreamProtocol::Tcp | UpstreamProtocol::Udp => "unread bytes",
            };
            warning(
                Code::AppProtocolDiffers,
                &ObjectRef { kind: "Service".into(), name },
                "spec.ports[].appProtocol",
                format!(
                    "port {port} has an appProtocol for which its endpoints are sent {protocol}; ingress-nginx ignores the \
                     field and sends plain HTTP for {object}"
                ),
                "set the annotation backend-protocol to the protocol of the appProtocol, or leave it if the \
                 appProtocol is right",
            )
        };
        ports.into_iter().map(problem).collect()
    }
}
