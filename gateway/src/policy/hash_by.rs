//! Which requests go to the same endpoint: ingress-nginx `upstream-hash-by`. The key is made here; where it leads is the
//! registry's to say.
//!
//! A request of which nothing fills the key in has none, and is balanced as any other, as with nginx's own `hash`.
//! ingress-nginx hashes the empty text and sends all of them to one endpoint, which that has to carry alone.

use std::num::NonZeroU32;

use super::error::PolicyError;
use super::template::{Template, TemplateContext};
use crate::message::fields::Fields;

/// How keys are made, compiled.
#[derive(Debug)]
pub struct HashBy {
    key: Template,
    /// Endpoints of the group that a key chooses; without it, it chooses one endpoint.
    pub subset: Option<NonZeroU32>,
}

impl HashBy {
    /// Compiles the template.
    ///
    /// # Errors
    /// A field has a name that is none.
    pub fn compile(policy: &sluice_config::HashBy) -> Result<Self, PolicyError> {
        Ok(Self { key: Template::compile(&policy.key)?, subset: policy.subset })
    }

    /// The key of a request.
    pub fn key<F: Fields>(&self, context: &TemplateContext<'_, F>) -> Option<Vec<u8>> {
        Some(self.key.fill(context)).filter(|key| !key.is_empty())
    }
}
