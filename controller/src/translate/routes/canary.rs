//! Requests of other rules that a canary gets.

use std::sync::Arc;

use sluice_config::{CanaryHeader, CanaryValue};

/// Requests that a canary gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CanarySettings {
    pub(crate) header: Option<Arc<str>>,
    pub(crate) header_value: Option<Arc<str>>,
    pub(crate) header_pattern: Option<CanaryValue>,
    /// `canary-by-cookie`.
    pub(crate) cookie: Option<Arc<str>>,
    /// `canary-weight`.
    pub(crate) weight: u32,
    pub(crate) total: u32,
    /// `affinity-canary-behavior: legacy`: sessions of the main object do not apply to the canary.
    pub(crate) legacy: bool,
}

impl CanarySettings {
    /// Returns the header that selects the canary. A value takes precedence over an expression.
    pub(crate) fn header(&self) -> Option<CanaryHeader> {
        let name = self.header.clone()?;
        let value = match (&self.header_value, &self.header_pattern) {
            (Some(value), _) => CanaryValue::Exact(value.clone()),
            (None, Some(pattern)) => pattern.clone(),
            (None, None) => CanaryValue::AlwaysOrNever,
        };
        Some(CanaryHeader { name, value })
    }

    /// Returns the total of which the weight is a share; at least 100.
    pub(crate) fn total(&self) -> u32 {
        self.total.max(100)
    }

    /// Returns whether no request can reach the canary.
    pub(crate) fn is_idle(&self) -> bool {
        self.header.is_none() && self.cookie.is_none() && self.weight == 0
    }
}
