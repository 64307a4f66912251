//! The web application firewall of a rule: ModSecurity's directives, which an agent beside the
//! gateway compiles and runs (`docs/waf.md`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::name::ObjectRef;
use crate::template::Template;

/// The firewall of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Firewall {
    /// All directives in order.
    pub directives: Arc<str>,
    /// Whether they refuse requests (`SecRuleEngine On`). Otherwise they only detect, and a request
    /// is served if they cannot be run.
    pub enforces: bool,
    /// The object that requests them, and its setting, for problems.
    pub source: FirewallSource,
    /// Id of a request in the agent's log (`modsecurity-transaction-id`); `None` is an id that the
    /// agent makes.
    pub transaction_id: Option<Template>,
}

/// The object that requests directives.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FirewallSource {
    /// The Ingress or the ConfigMap.
    pub object: ObjectRef,
    /// Its annotation or key.
    pub field: Arc<str>,
}
