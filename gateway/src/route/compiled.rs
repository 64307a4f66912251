//! The policies of one rule, compiled once, all of them, into one value.

use sluice_config::{Policies, Rule};

use super::edits;
use crate::policy::{Affinity, HeaderEdits, PolicyError};

/// What a rule asks for besides forwarding. A plain rule has no such value, and its requests look at one `None`.
///
/// A policy that every request of a rule passes goes here, not into `Route`: compiled from the contract by
/// [`compile`](Self::compile), looked at by the stage, attempt or response that it concerns.
#[derive(Debug, Default)]
pub struct CompiledPolicies {
    /// Sticky sessions.
    pub affinity: Option<Affinity>,
    /// Header changes of the rule.
    pub edits: Option<HeaderEdits>,
}

impl CompiledPolicies {
    /// Compiles all policies of a rule; `None` where it has none. One that cannot be compiled fails them all, because
    /// none may be skipped.
    ///
    /// # Errors
    /// A policy cannot be carried out.
    pub fn compile(rule: &Rule) -> Result<Option<Box<Self>>, PolicyError> {
        let Policies { affinity, deny: _, https_redirect: _, timeouts: _, retry: _, basic_auth } =
            &*rule.policies;
        if basic_auth.is_some() {
            // Nobody can check it yet.
            return Err(PolicyError::UnknownFilter);
        }
        let compiled = Self {
            affinity: affinity.as_ref().map(Affinity::compile).transpose()?,
            edits: edits(&rule.filters)?,
        };
        Ok((!compiled.is_empty()).then(|| Box::new(compiled)))
    }

    fn is_empty(&self) -> bool {
        let Self { affinity, edits } = self;
        affinity.is_none() && edits.is_none()
    }
}
