//! Compiled settings of mirrored requests (`mirror-target` and related annotations).

use sluice_config::{self as config};

use super::call_destination::CallDestination;
use super::error::PolicyError;
use super::template::Template;
use crate::registry::Registry;

/// The destination of a rule's mirrored requests.
#[derive(Debug)]
pub struct Mirror {
    /// Where the copies go.
    pub to: CallDestination,
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
            to: CallDestination::compile(&mirror.to, registry)?,
            host: Template::compile(&mirror.host)?,
            target: Template::compile(&mirror.target)?,
            body: mirror.body,
        })
    }
}
