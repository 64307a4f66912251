//! `networking.k8s.io/v1` Ingress, pruned.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::networking::v1 as networking;
use sluice_config::NamespacedName;

use super::identity::ObjectIdentity;
use super::prune::{Prune, created};
use super::route_path::{BackendRef, PathType, PortRef, RoutePath, TlsSection};

/// The annotation for the class, which preceded `spec.ingressClassName`.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Prefix of Sluice's own annotations, which do not exist in ingress-nginx.
pub const OWN_PREFIX: &str = "sluice.dev/";

/// The part of an Ingress that translation reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingress {
    /// Namespace and name.
    pub name: NamespacedName,
    /// Distinguishes objects that had this name at different times.
    pub identity: ObjectIdentity,
    /// Creation time in Unix seconds. `None`, for a manifest without one, counts as older than all
    /// others.
    pub created: Option<i64>,
    /// `spec.ingressClassName`.
    pub class_name: Option<Arc<str>>,
    /// Annotation `kubernetes.io/ingress.class`.
    pub class_annotation: Option<Box<str>>,
    /// Annotations under `--annotations-prefix`, without the prefix, and those under
    /// [`OWN_PREFIX`], with it. Sorted by name. An empty value matters to some.
    pub annotations: Box<[(Arc<str>, Box<str>)]>,
    /// `spec.defaultBackend`.
    pub default_backend: Option<BackendRef>,
    /// `spec.tls`.
    pub tls: Arc<[TlsSection]>,
    /// `spec.rules`.
    pub rules: Box<[IngressRule]>,
    /// `status.loadBalancer.ingress`.
    pub published: PublishedStatus,
}

/// The addresses in the status of an Ingress. Not an input of the translation: Ingresses that
/// differ only here count as equal, so that writing a status recomputes nothing.
#[derive(Clone, Debug, Default)]
pub struct PublishedStatus {
    /// The addresses, sorted.
    pub addresses: Box<[Address]>,
    /// `metadata.resourceVersion` of the object with these addresses. `None` if it is not a number.
    pub version: Option<u64>,
}

impl PartialEq for PublishedStatus {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for PublishedStatus {}

/// One address in a status, by IP address or host name. Ordered as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// `hostname`. Empty if absent.
    pub hostname: Box<str>,
    /// `ip`. Empty if absent.
    pub ip: Box<str>,
}

/// `spec.rules[]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressRule {
    /// `host`; `None` when absent or empty.
    pub host: Option<Box<str>>,
    /// `http.paths`; `None` when there is no `http`.
    pub paths: Option<Arc<[RoutePath]>>,
}

impl Ingress {
    pub(super) fn pruned(name: NamespacedName, object: networking::Ingress, prune: &Prune) -> Self {
        let identity = ObjectIdentity::of(&object.metadata);
        let spec = object.spec.unwrap_or_default();
        let annotations = object.metadata.annotations.unwrap_or_default();
        Self {
            name,
            identity,
            created: created(object.metadata.creation_timestamp.as_ref()),
            class_name: spec
                .ingress_class_name
                .filter(|name| !name.is_empty())
                .map(|name| prune.names.share(&name)),
            class_annotation: annotations.get(CLASS_ANNOTATION).cloned().and_then(non_empty),
            annotations: annotations
                .iter()
                .filter_map(|(key, value)| {
                    let own = || key.starts_with(OWN_PREFIX).then_some(key.as_str());
                    let name = key.strip_prefix(&*prune.annotation_prefix).or_else(own)?;
                    Some((prune.names.share(name), value.as_str().into()))
                })
                .collect::<BTreeMap<_, _>>()
                .into_iter()
                .collect(),
            default_backend: spec.default_backend.map(BackendRef::pruned),
            tls: match spec.tls {
                Some(tls) if !tls.is_empty() => tls.into_iter().map(TlsSection::pruned).collect(),
                // The empty slice is allocated once.
                _ => Arc::default(),
            },
            rules: spec
                .rules
                .unwrap_or_default()
                .into_iter()
                .map(|rule| IngressRule::pruned(rule, prune))
                .collect(),
            published: PublishedStatus::pruned(object.status, object.metadata.resource_version.as_deref()),
        }
    }

    /// Returns the value of an annotation by its name without the prefix. An empty value counts as
    /// absent.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        let index = self.annotations.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
        Some(self.annotations[index].1.trim()).filter(|text| !text.is_empty())
    }
}

impl PublishedStatus {
    fn pruned(status: Option<networking::IngressStatus>, version: Option<&str>) -> Self {
        let all = status.and_then(|status| status.load_balancer?.ingress).unwrap_or_default();
        let address = |one: networking::IngressLoadBalancerIngress| Address {
            hostname: one.hostname.unwrap_or_default().into(),
            ip: one.ip.unwrap_or_default().into(),
        };
        let mut all: Vec<Address> = all.into_iter().map(address).collect();
        all.sort();
        Self { addresses: all.into(), version: version.and_then(|version| version.parse().ok()) }
    }
}

impl IngressRule {
    fn pruned(rule: networking::IngressRule, prune: &Prune) -> Self {
        Self {
            host: rule.host.and_then(non_empty),
            paths: rule
                .http
                .map(|http| http.paths.into_iter().map(|path| RoutePath::pruned(path, prune)).collect()),
        }
    }
}

impl RoutePath {
    fn pruned(path: networking::HTTPIngressPath, prune: &Prune) -> Self {
        Self {
            path: match path.path.as_deref() {
                None | Some("" | "/") => prune.names.share("/"),
                Some(path) => path.into(),
            },
            path_type: match path.path_type.as_str() {
                "Exact" => PathType::Exact,
                "Prefix" => PathType::Prefix,
                _ => PathType::ImplementationSpecific,
            },
            backend: BackendRef::pruned(path.backend),
        }
    }
}

impl BackendRef {
    fn pruned(backend: networking::IngressBackend) -> Self {
        match (backend.service, backend.resource) {
            (Some(service), _) if !service.name.is_empty() => Self::Service {
                name: service.name.into(),
                port: match service.port.map(|port| (port.name.and_then(non_empty), port.number)) {
                    Some((Some(name), _)) => PortRef::Name(name),
                    Some((None, Some(number))) => PortRef::Number(number),
                    Some((None, None)) | None => PortRef::Missing,
                },
            },
            (_, Some(_)) => Self::Resource,
            _ => Self::Missing,
        }
    }
}

impl TlsSection {
    fn pruned(tls: networking::IngressTLS) -> Self {
        let hosts = tls.hosts.unwrap_or_default();
        Self {
            hosts: hosts.into_iter().map(|host| host.to_ascii_lowercase().into()).collect(),
            secret: tls.secret_name.and_then(non_empty),
        }
    }
}

fn non_empty(text: String) -> Option<Box<str>> {
    if text.is_empty() { None } else { Some(text.into()) }
}
