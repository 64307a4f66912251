//! The web application firewall of a rule in compiled form.

use std::sync::Arc;

use super::configuration::{Configurations, FirewallConfiguration};
use crate::policy::PolicyError;
use crate::policy::template::Template;

/// The firewall of a rule.
#[derive(Debug)]
pub struct Firewall {
    /// The directives.
    pub(crate) configuration: Arc<FirewallConfiguration>,
    /// Id of a request in the log of the agent.
    pub(crate) transaction_id: Option<Template>,
}

impl Firewall {
    /// Compiles the firewall of a rule.
    ///
    /// # Errors
    /// The transaction id is invalid.
    pub(crate) fn compile(
        firewall: &sluice_config::Firewall,
        configurations: &Configurations,
    ) -> Result<Self, PolicyError> {
        Ok(Self {
            configuration: configurations.obtain(firewall),
            transaction_id: firewall.transaction_id.as_ref().map(Template::compile).transpose()?,
        })
    }
}
