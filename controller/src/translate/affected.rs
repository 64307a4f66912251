//! Maps refusals of the data plane, which concern parts of the configuration, to the objects and
//! fields that caused these parts.

use std::collections::BTreeSet;

use sluice_config::{Action, Backend, EndpointSetKey, ObjectRef, Origin, PoolKey, Refusal, Rule, Subject};

use super::Translation;
use crate::refusals::AffectedField;

/// The field that causes a pool's check.
const CHECKS: &str = "metadata.annotations[sluice.dev/health-check-*]";

impl Translation {
    /// Returns the objects that a refusal of the data plane affects, each with its field.
    pub(crate) fn affected_fields(&self, refusal: &Refusal) -> Vec<AffectedField> {
        if let Some(origin) = &refusal.origin {
            return vec![(origin.object.clone(), field_of(origin))];
        }
        let one = |object| vec![(object, String::new())];
        match &refusal.subject {
            Subject::Certificate(name) => one(ObjectRef { kind: "Secret".into(), name: name.clone() }),
            Subject::EndpointSet(key) => one(service_of(key)),
            // Only the check of a pool can be refused.
            Subject::Pool(pool) => match self.rules_with(pool) {
                objects if objects.is_empty() => one(service_of(&pool.endpoints)),
                objects => {
                    let field = CHECKS.to_owned();
                    objects.into_iter().map(|object| (object, field.clone())).collect()
                }
            },
            Subject::Resource(key) => {
                one(ObjectRef { kind: key.kind.object().into(), name: key.name.clone() })
            }
            Subject::Host(key) => {
                let rules = self.hosts.get(key).map(|node| &*node.host.rules).unwrap_or_default();
                let objects: BTreeSet<&ObjectRef> = rules.iter().map(|rule| &rule.origin.object).collect();
                if objects.is_empty() {
                    // The host belongs to an earlier configuration from a snapshot file.
                    return one(ObjectRef::new("Host", "", &key.pattern.to_string()));
                }
                objects.into_iter().map(|object| (object.clone(), "spec.rules".to_owned())).collect()
            }
            Subject::GlobalSettings => match &self.options.configmap {
                Some(name) => one(ObjectRef { kind: "ConfigMap".into(), name: name.clone() }),
                None => one(ObjectRef::new("Flag", "", "--configmap")),
            },
            Subject::Group(id) => one(ObjectRef::new("Listener", "", &id.to_string())),
        }
    }

    /// Returns the objects whose rules use a pool.
    fn rules_with(&self, pool: &PoolKey) -> BTreeSet<ObjectRef> {
        let goes = |rule: &&Rule| match &rule.action {
            Action::Forward(backends) => backends
                .iter()
                .any(|to| matches!(&to.backend, Backend::Pool { pool: other, .. } if other == pool)),
            _ => false,
        };
        let users = self.hosts.values().filter(|node| node.uses.pools.iter().any(|used| used.key == *pool));
        let rules = users.flat_map(|node| node.host.rules.iter().filter(goes));
        rules.map(|rule| rule.origin.object.clone()).collect()
    }
}

fn service_of(key: &EndpointSetKey) -> ObjectRef {
    ObjectRef::new("Service", &key.namespace, &key.service)
}

/// Returns the field that a rule comes from.
fn field_of(origin: &Origin) -> String {
    format!("spec.rules[{}].http.paths[{}]", origin.rule, origin.match_index)
}
