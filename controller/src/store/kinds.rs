//! The table of kinds. A kind is registered here, once: what it is called, where it is in the API, which type it has
//! there, where the store keeps it, and whether the program can do without it. Objects, store, sources, and the texts
//! about rights come from this table; beside it, a kind needs its pruned type, and the fields that a watch decodes
//! (`source/kube/wire.rs`).

/// Hands the table to a macro, a line for each kind:
/// `Kind: field of the store, type in the API, group, resource, whether it has a namespace, need, doc;`.
macro_rules! for_each_kind {
    ($with:ident) => {
        $with! {
            Ingress: ingresses, k8s_openapi::api::networking::v1::Ingress,
                "networking.k8s.io", "ingresses", true, Required, "`networking.k8s.io/v1` Ingress.";
            IngressClass: classes, k8s_openapi::api::networking::v1::IngressClass,
                "networking.k8s.io", "ingressclasses", false, Required, "`networking.k8s.io/v1` IngressClass.";
            Service: services, k8s_openapi::api::core::v1::Service,
                "", "services", true, Required, "`v1` Service.";
            EndpointSlice: slices, k8s_openapi::api::discovery::v1::EndpointSlice,
                "discovery.k8s.io", "endpointslices", true, Required, "`discovery.k8s.io/v1` EndpointSlice.";
            Secret: secrets, k8s_openapi::api::core::v1::Secret,
                "", "secrets", true, Required, "`v1` Secret.";
            ConfigMap: config_maps, k8s_openapi::api::core::v1::ConfigMap,
                "", "configmaps", true, Required, "`v1` ConfigMap.";
            Namespace: namespaces, k8s_openapi::api::core::v1::Namespace,
                "", "namespaces", false, Required, "`v1` Namespace.";
            Node: nodes, k8s_openapi::api::core::v1::Node,
                "", "nodes", false, Required, "`v1` Node.";
        }
    };
}

pub(crate) use for_each_kind;
