//! Paths with their backends, and TLS sections, as objects with routes have them.
//!
//! They are kept in shared slices, so values that translation computes hold them without a copy.

use std::sync::Arc;

/// A path and its backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutePath {
    /// `path`, `/` when absent or empty.
    pub path: Arc<str>,
    /// `pathType`.
    pub path_type: PathType,
    /// `backend`.
    pub backend: BackendRef,
}

/// `pathType`. Unknown and absent values are `ImplementationSpecific`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathType {
    /// Matches the whole path.
    Exact,
    /// Matches leading path elements.
    Prefix,
    /// Implementation-defined: treated as `Prefix`.
    ImplementationSpecific,
}

/// A reference to a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendRef {
    /// A port of a Service.
    Service {
        /// Name, in the namespace of the object.
        name: Box<str>,
        /// Port.
        port: PortRef,
    },
    /// A reference to another resource, which is not served.
    Resource,
    /// Neither a Service nor a resource.
    Missing,
}

/// A reference to a port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortRef {
    /// By number.
    Number(i32),
    /// By name.
    Name(Box<str>),
    /// Absent.
    Missing,
}

/// Hosts and the Secret with their certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSection {
    /// Hosts, lower case.
    pub hosts: Box<[Box<str>]>,
    /// Name of the Secret; `None` when absent or empty.
    pub secret: Option<Box<str>>,
}
