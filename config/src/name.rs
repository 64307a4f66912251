//! Names of objects and hosts, and the origins of rules.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The namespace and name of a Kubernetes object; prints as `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamespacedName {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl NamespacedName {
    /// Creates it from the values in `metadata`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// One object of one kind; prints as `Kind namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectRef {
    /// The kind as Kubernetes spells it: `Ingress`, `Secret`, `HTTPRoute`; `File` for a manifest
    /// file and `Flag` for a command line flag.
    pub kind: Arc<str>,
    /// Namespace and name.
    pub name: NamespacedName,
}

impl ObjectRef {
    /// Creates it from kind, namespace and name.
    pub fn new(kind: &str, namespace: &str, name: &str) -> Self {
        Self { kind: kind.into(), name: NamespacedName::new(namespace, name) }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// The origin of a rule, for logs, metrics, introspection and messages. Decisions never use it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// The Ingress or route.
    pub object: ObjectRef,
    /// Index of the rule within its object (`spec.rules[n]`).
    pub rule: u32,
    /// Index of the path or match within the rule (`http.paths[n]`, `matches[n]`).
    pub match_index: u32,
    /// The rule's own name (Gateway API `HTTPRoute.spec.rules[].name`).
    pub rule_name: Option<Arc<str>>,
    /// The path as the object spells it: the value of the `path` label of the request metrics.
    pub path: Arc<str>,
}

/// A Service port in the form for messages. Prints as `namespace-name-port`, ingress-nginx's
/// `$proxy_upstream_name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServiceRef {
    /// Namespace of the Service.
    pub namespace: Arc<str>,
    /// Name of the Service.
    pub name: Arc<str>,
    /// Port as in the backend reference: a number or a name.
    pub port: Arc<str>,
}

impl fmt::Display for ServiceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.namespace, self.name, self.port)
    }
}

/// A DNS host name in lower case without a trailing dot; never empty, never with a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostName(Arc<str>);

impl HostName {
    /// Converts `name` to lower case and drops one trailing dot, because host names are compared
    /// that way (RFC 9110 §4.2.3).
    pub fn new(name: &str) -> Self {
        let name = name.strip_suffix('.').unwrap_or(name);
        Self(name.to_ascii_lowercase().into())
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
