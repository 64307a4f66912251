//! The table of kinds. Each kind is registered here once: its name, API group and resource, its
//! Rust type in the API, its field in the store, and whether the program requires it. Objects,
//! store, sources and messages about access rights are generated from this table. In addition, a
//! kind needs its pruned type and the fields that a watch decodes (`source/kube/wire.rs`).

/// Passes the table to a macro, one line per kind: `Kind: field of the store, type in the API,
/// group, resource, whether it is namespaced, need, doc;`.
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
