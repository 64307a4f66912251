//! Copies of requests to another place (`mirror-target` and its relatives), compiled.

use std::sync::Arc;

use sluice_config::{self as config};

use super::error::PolicyError;
use super::external_auth::pool;
use super::template::Template;
use crate::registry::{Pool, Registry};

/// Where requests of a rule are copied to.
#[derive(Debug)]
pub struct Mirror {
    /// Who gets the copies.
    pub pool: Arc<Pool>,
    /// The name that is asked for in TLS.
    pub server_name: Option<Arc<str>>,
    /// The `Host` field of a copy.
    pub host: Template,
    /// Path and query of a copy.
    pub target: Template,
    /// Whether bodies go along.
    pub body: bool,
}

impl Mirror {
    /// Compiles the policy.
    ///
    /// # Errors
    /// It cannot be carried out.
    pub fn compile(mirror: &config::Mirror, registry: &Registry) -> Result<Self, PolicyError> {
        Ok(Self {
            pool: pool(&mirror.pool, registry)?,
            server_name: mirror.server_name.clone(),
            host: Template::compile(&mirror.host)?,
            target: Template::compile(&mirror.target)?,
            body: mirror.body,
        })
    }
}
