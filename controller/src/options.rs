//! Options of the control plane, one field per flag of ingress-nginx.

use std::net::{Ipv6Addr, SocketAddr};

use sluice_config::{NamespacedName, ResourceKey, ResourceKind};

use crate::label_selector::Selector;

/// Flags that determine the watched objects and their translation. Names, formats and defaults are
/// those of ingress-nginx.
#[derive(Clone, Debug)]
pub struct Options {
    /// `--controller-class`: matched against `IngressClass.spec.controller`.
    pub controller_class: String,
    /// `--ingress-class`: matched against the annotation `kubernetes.io/ingress.class`.
    pub ingress_class: String,
    /// `--ingress-class-by-name`: accepts the IngressClass named `ingress_class`, whatever its
    /// controller.
    pub ingress_class_by_name: bool,
    /// `--watch-ingress-without-class`.
    pub watch_ingress_without_class: bool,
    /// Whether Ingresses without a class get the default IngressClass. API servers write the
    /// default into the object, so this is off with a cluster and on with a folder of manifests.
    pub apply_default_class: bool,
    /// Whether names that resolve to this machine are refused: those of ExternalName Services and
    /// of OCSP responders. They are refused with a cluster. The author of a folder of manifests
    /// owns the machine.
    pub refuse_local_names: bool,
    /// `--watch-namespace`; `None` is all.
    pub watch_namespace: Option<String>,
    /// `--watch-namespace-selector`; `None` is all.
    pub watch_namespace_selector: Option<Selector>,
    /// `--disable-catch-all`.
    pub disable_catch_all: bool,
    /// `--annotations-prefix`, without the slash.
    pub annotations_prefix: String,
    /// `--enable-annotation-validation`.
    pub enable_annotation_validation: bool,
    /// `--enable-ssl-passthrough`.
    pub enable_ssl_passthrough: bool,
    /// `--waf-agent`: the agent of the web application firewall.
    pub waf_agent: Option<SocketAddr>,
    /// `--replica-service`: the Service whose endpoints are the replicas of the gateway.
    pub replica_service: Option<NamespacedName>,
    /// `--replica-secret`: certificate and authorities of the replicas.
    pub replica_secret: Option<NamespacedName>,
    /// `--replica-address`: where this replica publishes its use of limits.
    pub replica_address: Option<SocketAddr>,
    /// `--configmap`.
    pub configmap: Option<NamespacedName>,
    /// `--default-backend-service`.
    pub default_backend_service: Option<NamespacedName>,
    /// `--default-ssl-certificate`.
    pub default_ssl_certificate: Option<NamespacedName>,
    /// `--disable-svc-external-name`.
    pub disable_svc_external_name: bool,
    /// `--enable-topology-aware-routing`.
    pub enable_topology_aware_routing: bool,
    /// Environment variable `NODE_NAME`: the node of this process.
    pub node_name: Option<String>,
    /// `--tcp-services-configmap`.
    pub tcp_services_configmap: Option<NamespacedName>,
    /// `--udp-services-configmap`.
    pub udp_services_configmap: Option<NamespacedName>,
    /// Ports of the program, each with its flag; no TCP or UDP service may have one.
    pub reserved_ports: Vec<(u16, String)>,
    /// `--http-port`.
    pub http_port: u16,
    /// `--https-port`.
    pub https_port: u16,
}

impl Options {
    /// Returns certificate and authorities of the replicas, if a flag names them.
    pub(crate) fn replica_identity(&self) -> Option<ResourceKey> {
        let name = self.replica_secret.clone()?;
        Some(ResourceKey { kind: ResourceKind::EndpointTrust, name })
    }

    /// Returns the Node whose zone is the gateway's, if zones are used.
    pub(crate) fn own_node(&self) -> Option<NamespacedName> {
        let name = self.node_name.as_deref().filter(|_| self.enable_topology_aware_routing)?;
        Some(NamespacedName::new("", name))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controller_class: "k8s.io/ingress-nginx".into(),
            ingress_class: "nginx".into(),
            ingress_class_by_name: false,
            watch_ingress_without_class: false,
            apply_default_class: true,
            refuse_local_names: false,
            watch_namespace: None,
            watch_namespace_selector: None,
            disable_catch_all: false,
            annotations_prefix: "nginx.ingress.kubernetes.io".into(),
            enable_annotation_validation: true,
            enable_ssl_passthrough: false,
            waf_agent: None,
            replica_service: None,
            replica_secret: None,
            replica_address: Some((Ipv6Addr::UNSPECIFIED, 10253).into()),
            configmap: None,
            default_backend_service: None,
            default_ssl_certificate: None,
            disable_svc_external_name: false,
            enable_topology_aware_routing: false,
            node_name: None,
            tcp_services_configmap: None,
            udp_services_configmap: None,
            reserved_ports: Vec::new(),
            http_port: 80,
            https_port: 443,
        }
    }
}
