//! The watches that the flags require: one per kind, limited to a namespace if configured, such
//! that a Role in that namespace permits the requests. Objects named by flags are watched by name.

use std::fmt;
use std::sync::Arc;

use sluice_config::NamespacedName;

use crate::options::Options;
use crate::store::{Kind, Need};

/// Excludes types of Secrets that a gateway never needs but that account for most bytes in a
/// cluster with Helm.
const NO_BULK: &str = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token";

/// One watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    /// The kind of object.
    pub(super) kind: Kind,
    /// The namespace; `None` for all.
    pub(super) namespace: Option<Arc<str>>,
    /// A field selector.
    pub(super) fields: Option<String>,
    /// A label selector.
    pub(super) labels: Option<String>,
    /// The name, if the watch is limited to one object.
    pub(super) only: Option<Arc<str>>,
    /// Whether only referenced objects are kept.
    pub(super) referred: bool,
    /// Whether the program requires the kind.
    pub(super) need: Need,
}

/// Returns all watches for these flags.
pub(super) fn plan(options: &Options) -> Vec<Scope> {
    let namespace: Option<Arc<str>> = options.watch_namespace.as_deref().map(Arc::from);
    let secrets = Scope { fields: Some(NO_BULK.to_owned()), ..Scope::referred(Kind::Secret, &namespace) };
    let mut scopes = vec![
        Scope::all(Kind::Ingress, &namespace),
        Scope::all(Kind::IngressClass, &None),
        Scope::all(Kind::Service, &namespace),
        Scope::all(Kind::EndpointSlice, &namespace),
        secrets,
        Scope::referred(Kind::ConfigMap, &namespace),
    ];
    if options.watch_namespace_selector.is_some() {
        scopes.push(Scope::all(Kind::Namespace, &None));
    }
    if let Some(name) = &options.own_node() {
        scopes.push(Scope { namespace: None, ..Scope::named(Kind::Node, name) });
    }
    if let Some(name) = &options.configmap {
        scopes.push(Scope::named(Kind::ConfigMap, name));
    }
    let elsewhere = |name: &&NamespacedName| namespace.as_ref().is_some_and(|only| *only != name.namespace);
    let of_streams = [&options.tcp_services_configmap, &options.udp_services_configmap];
    for name in of_streams.into_iter().flatten().filter(elsewhere) {
        // The program's own ConfigMap is watched already.
        if options.configmap.as_ref() != Some(name) {
            scopes.push(Scope { referred: true, ..Scope::named(Kind::ConfigMap, name) });
        }
    }
    if let Some(name) = options.default_backend_service.as_ref().filter(elsewhere) {
        scopes.push(Scope::named(Kind::Service, name));
        scopes.push(Scope {
            labels: Some(format!("kubernetes.io/service-name={}", name.name)),
            ..Scope::all(Kind::EndpointSlice, &Some(name.namespace.clone()))
        });
    }
    if let Some(name) = options.default_ssl_certificate.as_ref().filter(elsewhere) {
        let named = Scope::named(Kind::Secret, name);
        let fields = named.fields.iter().map(|fields| format!("{fields},{NO_BULK}")).next();
        scopes.push(Scope { fields, referred: true, ..named });
    }
    scopes
}

impl Scope {
    fn all(kind: Kind, namespace: &Option<Arc<str>>) -> Self {
        Self {
            kind,
            namespace: namespace.clone(),
            fields: None,
            labels: None,
            only: None,
            referred: false,
            need: kind.need(),
        }
    }

    fn referred(kind: Kind, namespace: &Option<Arc<str>>) -> Self {
        Self { referred: true, ..Self::all(kind, namespace) }
    }

    fn named(kind: Kind, name: &NamespacedName) -> Self {
        Self {
            fields: Some(format!("metadata.name={}", name.name)),
            only: Some(name.name.clone()),
            ..Self::all(kind, &Some(name.namespace.clone()))
        }
    }

    /// Returns whether the watch would deliver an object of this name.
    pub(super) fn covers(&self, name: &NamespacedName) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == name.namespace)
            && self.only.as_ref().is_none_or(|only| *only == name.name)
    }

    /// Returns whether the program can work without the right: routes that need such an object are
    /// closed, or class membership is decided otherwise, or endpoints of all zones are used.
    pub(super) fn may_be_withheld(&self) -> bool {
        matches!(self.kind, Kind::IngressClass | Kind::Node) || self.is_lazy()
    }

    /// Returns whether the watch starts only at the first reference: many clusters never need it.
    pub(super) fn is_lazy(&self) -> bool {
        self.kind == Kind::ConfigMap && self.referred
    }

    /// Returns the field selector for a single object of the watch.
    pub(super) fn fields_of_one(&self, name: &str) -> String {
        let rest = self.fields.as_deref().filter(|_| self.only.is_none());
        let rest = rest.map(|fields| format!(",{fields}")).unwrap_or_default();
        match (&self.only, &self.fields) {
            (Some(_), Some(fields)) => fields.clone(),
            _ => format!("metadata.name={name}{rest}"),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.resource())?;
        if let Some(only) = &self.only {
            write!(f, " {only}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None if self.kind.is_namespaced() => f.write_str(" in all namespaces"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(options: &Options) -> Vec<String> {
        plan(options).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_cluster_is_watched_everywhere_but_for_what_flags_name() {
        let options = Options {
            configmap: Some(NamespacedName::new("system", "sluice")),
            default_backend_service: Some(NamespacedName::new("system", "default")),
            ..Options::default()
        };
        assert_eq!(
            shown(&options),
            [
                "ingresses in all namespaces",
                "ingressclasses",
                "services in all namespaces",
                "endpointslices in all namespaces",
                "secrets in all namespaces",
                "configmaps in all namespaces",
                "configmaps sluice in namespace system",
            ]
        );
    }

    #[test]
    fn one_namespace_needs_nothing_of_others_but_what_flags_name() {
        let options = Options {
            watch_namespace: Some("shop".into()),
            default_backend_service: Some(NamespacedName::new("system", "default")),
            default_ssl_certificate: Some(NamespacedName::new("system", "tls")),
            tcp_services_configmap: Some(NamespacedName::new("system", "tcp")),
            udp_services_configmap: Some(NamespacedName::new("shop", "udp")),
            ..Options::default()
        };
        let scopes = plan(&options);
        assert_eq!(
            shown(&options),
            [
                "ingresses in namespace shop",
                "ingressclasses",
                "services in namespace shop",
                "endpointslices in namespace shop",
                "secrets in namespace shop",
                "configmaps in namespace shop",
                "configmaps tcp in namespace system",
                "services default in namespace system",
                "endpointslices in namespace system",
                "secrets tls in namespace system",
            ]
        );
        assert!(scopes[6].referred && scopes[6].is_lazy(), "it begins when it is read");
        assert_eq!(scopes[8].labels.as_deref(), Some("kubernetes.io/service-name=default"));
        let secret = NamespacedName::new("system", "tls");
        assert!(!scopes[4].covers(&secret) && scopes[9].covers(&secret));
        assert!(!scopes[9].covers(&NamespacedName::new("system", "other")));
        assert_eq!(scopes[4].fields_of_one("a"), format!("metadata.name=a,{NO_BULK}"));
        assert_eq!(scopes[9].fields_of_one("tls"), format!("metadata.name=tls,{NO_BULK}"));
    }

    #[test]
    fn only_the_own_node_is_watched_with_the_flag() {
        let mut options = Options { node_name: Some("node-1".into()), ..Options::default() };
        assert!(!shown(&options).contains(&"nodes node-1".to_owned()));
        options.enable_topology_aware_routing = true;
        let scopes = plan(&options);
        let node = scopes.iter().find(|scope| scope.kind == Kind::Node).unwrap();
        assert_eq!(node.to_string(), "nodes node-1");
        assert_eq!((&node.namespace, node.fields.as_deref()), (&None, Some("metadata.name=node-1")));
        assert!(node.may_be_withheld(), "requests do not wait for it");
    }

    #[test]
    fn namespaces_are_watched_for_the_sake_of_a_selector_alone() {
        let options = Options { watch_namespace_selector: "a=b".parse().ok(), ..Options::default() };
        assert_eq!(shown(&options).last().map(String::as_str), Some("namespaces"));
    }
}
