//! The names that `http-snippet` declares for other texts: variables and zones of limits.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sluice_config::{Moment, Template};

/// The declarations of `http-snippet`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpDeclarations {
    /// Variables of `map` and `geo`, in lower case, with the moments at which their values are
    /// known.
    pub variables: Vec<(Arc<str>, Moment)>,
    /// Zones of limits.
    pub zones: Vec<LimitZone>,
}

/// A zone, whose requests with the same key are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitZone {
    /// Its name.
    pub name: Arc<str>,
    /// The key of a request.
    pub key: Template,
    /// Time between two requests (`limit_req_zone`); `None` counts concurrent requests
    /// (`limit_conn_zone`).
    pub interval: Option<Duration>,
}

/// The variables that the other snippets of an object assign, in lower case: its `auth-snippet` may
/// have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnippetVariables {
    /// Those of `configuration-snippet`.
    pub location: BTreeSet<Arc<str>>,
    /// Those of `server-snippet`.
    pub server: BTreeSet<Arc<str>>,
}

/// No variables.
pub(crate) static NO_VARIABLES: SnippetVariables =
    SnippetVariables { location: BTreeSet::new(), server: BTreeSet::new() };

/// No declarations.
pub(crate) static NO_DECLARATIONS: HttpDeclarations =
    HttpDeclarations { variables: Vec::new(), zones: Vec::new() };
