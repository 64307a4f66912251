//! Whether a stored response may answer a request, and whether its response may be stored.

use http::Method;
use sluice_config::{Cache, CacheKeyPart};

use super::outcome::{Check, CheckOutcome};
use super::{MatchedRoute, Query};
use crate::pipeline::sets_credentials;
use crate::policy::cache::{MethodUse, bypasses};

/// Returns what the cache of the rule does with the request. What is stored is not looked up.
pub(super) fn cache(asked: &Query, taken: &MatchedRoute<'_>) -> Check {
    let Some(policy) = taken.route.cache() else { return (CheckOutcome::Nothing, String::new()) };
    let method = Method::from_bytes(asked.method.as_bytes()).unwrap_or_default();
    let passed = |reason: &str| (CheckOutcome::Passes, reason.to_owned());
    match policy.method_use(&method) {
        MethodUse::Passes => return passed("bypassed: responses to this method are not stored"),
        MethodUse::Invalidates => {
            return passed("bypassed: a success removes what is stored for this URL");
        }
        MethodUse::Reads => {}
    }
    if sets_credentials(taken.route, taken.compiled_settings) {
        return passed("bypassed: the rule or proxy-set-headers makes an Authorization of the request");
    }
    if bypasses(&asked.headers) {
        return passed("bypassed: Authorization, or Cache-Control: no-store");
    }
    if !taken.has_cache_memory {
        return passed("bypassed: cache-size in the ConfigMap is 0");
    }
    (CheckOutcome::Depends, described(policy.rules()))
}

fn described(rules: &Cache) -> String {
    let part = |part: &CacheKeyPart| match part {
        CacheKeyPart::Host => "host".to_owned(),
        CacheKeyPart::Path => "path".to_owned(),
        CacheKeyPart::Query => "query".to_owned(),
        CacheKeyPart::Parameter(name) => format!("parameter {name}"),
        CacheKeyPart::Field(name) => format!("header {name}"),
        CacheKeyPart::Cookie(name) => format!("cookie {name}"),
    };
    let key: Vec<String> = rules.key.iter().map(part).collect();
    let statuses: Vec<String> = rules.statuses.iter().map(u16::to_string).collect();
    let time = match rules.ttl {
        Some(ttl) => format!("as long as they say, or {} s", ttl.as_secs()),
        None => "if they say how long".to_owned(),
    };
    format!(
        "a stored response with the same {} answers; responses with {} are stored {time}",
        key.join(", "),
        statuses.join(", ")
    )
}
