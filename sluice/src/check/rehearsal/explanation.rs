//! The explanation of a decision, as the admin listener gives it for one request.

use serde_json::Value;

use crate::show::layout::{object, text};

/// The rule that takes a request, and the results of its checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Explanation {
    /// The Ingress of the rule, as `Ingress namespace/name`; `None` if no rule takes the request.
    pub(in super::super) object: Option<String>,
    /// Path type and path of the rule.
    pub(in super::super) path: String,
    /// The Services that the rule forwards to.
    pub(in super::super) services: Vec<String>,
    /// The check that ends the pipeline, with its reason.
    pub(in super::super) stop: Option<(String, String)>,
    /// Checks that depend on what the request does not show, such as a password.
    pub(in super::super) conditions: Vec<String>,
    /// Names of the rule's policies that differ from the defaults.
    pub(in super::super) policies: Vec<String>,
    /// Why the request cannot be explained.
    pub(in super::super) error: Option<String>,
}

impl Explanation {
    /// Reads the answer.
    pub(super) fn of(answer: Result<Value, String>) -> Self {
        let taken = match answer {
            Ok(mut answer) => answer["taken"].take(),
            Err(error) => return Self { error: Some(error), ..Self::default() },
        };
        if taken.is_null() {
            return Self::default();
        }
        let rule = &taken["rule"];
        let checks = taken["checks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let named = |check: &Value| (text(&check["check"]), text(&check["says"]));
        let with = |outcome: &'static str| checks.iter().filter(move |check| check["outcome"] == outcome);
        let backends = rule["backends"].as_array().map(Vec::as_slice).unwrap_or_default();
        let services = backends.iter().filter_map(|backend| backend["service"].as_str().map(str::to_owned));
        let conditions = with("depends").map(|check| {
            let (check, says) = named(check);
            format!("{check}: {says}")
        });
        let policies = taken["policies"].as_object().into_iter().flatten();
        Self {
            object: Some(object(&rule["origin"])),
            path: format!("{} {}", text(&rule["pathType"]), text(&rule["path"])),
            services: services.collect(),
            stop: with("stops here").next().map(named),
            conditions: conditions.collect(),
            policies: policies.map(|(name, _)| name.clone()).collect(),
            error: None,
        }
    }
}
