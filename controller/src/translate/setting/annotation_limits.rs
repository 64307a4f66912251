//! Limits of the ConfigMap on annotations.

use std::sync::Arc;

use super::Risk;
use crate::translate::firewall::GlobalFirewall;

/// Limits of the ConfigMap on annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotationLimits {
    /// `annotations-risk-level`: the highest risk that is accepted.
    pub risk: Risk,
    /// `allow-snippet-annotations`: snippets are translated.
    pub snippets: bool,
    /// `annotation-value-word-blocklist`: no value may contain one of these.
    pub blocked_words: Vec<Arc<str>>,
    /// `allow-cross-namespace-resources`: annotations may name Secrets and ConfigMaps of other
    /// namespaces.
    pub cross_namespace: bool,
    /// `strict-validate-path-type`: report Exact and Prefix paths with unusual characters.
    pub strict_paths: bool,
    /// `global-allowed-response-headers`: fields that `custom-headers` may set.
    pub response_headers: Vec<Arc<str>>,
    /// `enable-modsecurity` and `modsecurity-snippet`: the firewall that applies to all rules, if
    /// it enforces.
    pub(crate) enforcing_firewall: Option<GlobalFirewall>,
}

impl Default for AnnotationLimits {
    fn default() -> Self {
        Self {
            risk: Risk::High,
            snippets: false,
            blocked_words: Vec::new(),
            cross_namespace: false,
            strict_paths: true,
            response_headers: Vec::new(),
            enforcing_firewall: None,
        }
    }
}
