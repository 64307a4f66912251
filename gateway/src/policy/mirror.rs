//! Compiled settings of mirrored requests (`mirror-target` and related annotations).

use std::sync::Arc;

use sluice_config::{self as config};

use super::error::PolicyError;
use super::external_auth::pool;
use super::template::Template;
use crate::registry::{Pool, Registry};

/// The destination of a rule's mirrored requests.
#[derive(Debug)]
pub struct Mirror {
    /// The pool that receives the copies.
    pub pool: Arc<Pool>,
    /// Server name for TLS (SNI).
    pub server_name: Option<Arc<str>>,
    /// The `Host` field of a copy.
    pub host: Template,
    /// Path and query of a copy.
    pub target: Template,
    /// Whether copies include the body.
    pub body: bool,
}

impl Mirror {
    /// Compiles the policy.
    ///
    /// # Errors
    /// The pool is missing, or a template is invalid.
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
