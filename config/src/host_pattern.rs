//! Host patterns: the host names that a host entry or listener matches.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::expression::ExtendedRegex;
use crate::name::HostName;

/// The host names that a host entry or listener matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HostPattern {
    /// This name only.
    Exact(HostName),
    /// `*.name`, where the star is exactly one label (Kubernetes Ingress). Holds `name`.
    OneLabel(HostName),
    /// `*.name`, where the star is one or more labels (Gateway API). Holds `name`.
    Suffix(HostName),
    /// Names that match an expression, searched in the name in lower case.
    Regex(Arc<ExtendedRegex>),
    /// Every host, and requests without a host.
    Any,
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => write!(f, "{name}"),
            Self::OneLabel(name) | Self::Suffix(name) => write!(f, "*.{name}"),
            Self::Regex(regex) => f.write_str(&regex.text),
            Self::Any => f.write_str("_"),
        }
    }
}
