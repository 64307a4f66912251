//! Which requests of other rules a canary takes.

use std::sync::Arc;

use sluice_config::{CanaryHeader, CanaryValue};

/// Which requests a canary takes.
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
    /// `affinity-canary-behavior: legacy`: sessions of the main object do not hold for the canary.
    pub(crate) legacy: bool,
}

impl CanarySettings {
    /// The header that chooses. A value wins over an expression.
    pub(crate) fn header(&self) -> Option<CanaryHeader> {
        let name = self.header.clone()?;
        let value = match (&self.header_value, &self.header_pattern) {
            (Some(value), _) => CanaryValue::Exact(value.clone()),
            (None, Some(pattern)) => pattern.clone(),
            (None, None) => CanaryValue::AlwaysOrNever,
        };
        Some(CanaryHeader { name, value })
    }

    /// What the weight is a share of: less than 100 counts as 100.
    pub(crate) fn total(&self) -> u32 {
        self.total.max(100)
    }

    /// Whether no request can ever get to it.
    pub(crate) fn is_idle(&self) -> bool {
        self.header.is_none() && self.cookie.is_none() && self.weight == 0
    }
}
