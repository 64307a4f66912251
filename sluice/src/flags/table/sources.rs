//! Sources of the configuration.

use super::super::value::Destination::{Nowhere, To};
use super::super::value::Value::{Bool, Duration, File, Float, Int, Object, OptionalText};
use super::{Flag, flag};

pub(super) const FLAGS: &[Flag] = &[
    flag("configmap", Object(To(|f| &mut f.controller.configmap)), "", "ConfigMap with the global settings"),
    flag(
        "tcp-services-configmap",
        Object(To(|f| &mut f.controller.tcp_services_configmap)),
        "",
        "ConfigMap that maps TCP ports to Services: `\"5432\": \"namespace/name:port[:PROXY][:PROXY]\"`",
    ),
    flag(
        "udp-services-configmap",
        Object(To(|f| &mut f.controller.udp_services_configmap)),
        "",
        "ConfigMap that maps UDP ports to Services: `\"53\": \"namespace/name:port\"`",
    ),
    flag(
        "default-backend-service",
        Object(To(|f| &mut f.controller.default_backend_service)),
        "",
        "Service whose first port answers requests that no Ingress matches",
    ),
    flag(
        "default-ssl-certificate",
        Object(To(|f| &mut f.controller.default_ssl_certificate)),
        "",
        "TLS Secret for hosts without a certificate of their own",
    ),
    flag(
        "apiserver-host",
        OptionalText(To(|f| &mut f.cluster.apiserver_host)),
        "",
        "URL of the Kubernetes API, in place of that of --kubeconfig; without --kubeconfig, no credentials \
         are used",
    ),
    flag(
        "kubeconfig",
        File(To(|f| &mut f.cluster.kubeconfig)),
        "",
        "kubeconfig of the cluster to serve (current context); by default the Pod's ServiceAccount",
    ),
    flag(
        "certificate-authority",
        File(To(|f| &mut f.cluster.certificate_authority)),
        "",
        "CA of --apiserver-host, unless --kubeconfig names one",
    ),
    flag(
        "sync-period",
        Duration(Nowhere("changes are watched and need no periodic reads; remove this flag")),
        "0",
        "Time between two full reads of all objects",
    ),
    flag(
        "sync-rate-limit",
        Float(Nowhere("changes are applied at once, at a cost proportional to the change; remove this flag")),
        "0.3",
        "Configuration changes per second",
    ),
    flag(
        "dynamic-configuration-retries",
        Int(Nowhere("the configuration is passed in memory, which cannot fail; remove this flag")),
        "15",
        "Attempts to pass the configuration to the proxy",
    ),
    flag(
        "enable-topology-aware-routing",
        Bool(To(|f| &mut f.controller.enable_topology_aware_routing)),
        "false",
        "If all endpoints of a Service have hints, use those for the gateway's own node (NODE_NAME) or zone",
    ),
    flag(
        "disable-svc-external-name",
        Bool(To(|f| &mut f.controller.disable_svc_external_name)),
        "false",
        "Refuse Services of type ExternalName",
    ),
];
