//! Hash keys of requests: ingress-nginx's `upstream-hash-by`. Requests with the same key go to the
//! same endpoint. This module computes the key; the registry maps it to an endpoint.
//!
//! A request whose key is empty has no key and is balanced like any other request, as with nginx's
//! own `hash`. ingress-nginx hashes the empty string instead, which sends all such requests to one
//! endpoint.

use std::num::NonZeroU32;

use super::error::PolicyError;
use super::template::{Template, TemplateContext};

/// Compiled template of the key.
#[derive(Debug)]
pub struct HashBy {
    key: Template,
    /// Size of the endpoint group that a key selects; `None` selects a single endpoint.
    pub subset: Option<NonZeroU32>,
}

impl HashBy {
    /// Compiles the template.
    ///
    /// # Errors
    /// The name of a field is invalid.
    pub fn compile(policy: &sluice_config::HashBy) -> Result<Self, PolicyError> {
        Ok(Self { key: Template::compile(&policy.key)?, subset: policy.subset })
    }

    /// Returns the key of a request.
    pub fn key(&self, context: &TemplateContext<'_>) -> Option<Vec<u8>> {
        Some(self.key.fill(context)).filter(|key| !key.is_empty())
    }
}
