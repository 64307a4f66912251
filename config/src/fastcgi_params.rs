//! Parameters of FastCGI requests from a ConfigMap (`fastcgi-params-configmap`).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::template::Template;

/// Parameters of a request to a FastCGI endpoint.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FastCgiParams {
    /// Names and values, sorted by name. They replace parameters of the gateway and of the client's
    /// fields. A name that starts with `HTTP_` and has an empty value removes that field.
    pub params: Vec<(Arc<str>, Template)>,
}

/// Hides values, because some are credentials.
impl fmt::Debug for FastCgiParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.params.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("FastCgiParams").field("names", &names).finish()
    }
}
