//! Explains the handling of a request:
//! `/explain?host=shop.example&path=/cart&method=GET&header=x-beta:1&client=192.0.2.1&https`.
//!
//! The lookup is the same as for a client's request. The result contains the reason for each rule;
//! for the rule that matches, it also contains the result of each check, the policies, the pools
//! their endpoints, and the request that an endpoint would receive. Explaining a request does not
//! count, log or send anything.

mod cache;
mod checks;
mod observed;
mod outcome;
mod sent;

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use sluice_config::{Action, Backend, GroupId, Host, Policies, PoolKey, Rule};

use super::view;
use crate::location::Locations;
use crate::message::target;
use crate::policy::{forwarded, https_redirect};
use crate::registry::PoolDescription;
use crate::route::Route;
use crate::router::{CompiledHost, Reason, RequestView, RouteTable, host_of, normalise, query_values};
use crate::state::State;
use crate::state::compiled_settings::{CompiledSettings, UnmatchedRule};
use crate::telemetry::configuration::Configuration;
pub(super) use observed::explain_observed;

/// The request to explain.
#[derive(Debug)]
pub(super) struct Query {
    /// The listener group in which the host is looked up.
    pub(super) group: GroupId,
    pub(super) host: String,
    pub(super) target: String,
    pub(super) method: String,
    pub(super) headers: HeaderMap,
    pub(super) https: bool,
    /// The address of the client, if given.
    pub(super) client: Option<IpAddr>,
}

/// The route that matches the request, with the data its checks need.
struct MatchedRoute<'t> {
    compiled_settings: &'t CompiledSettings,
    route: &'t Route,
    rule: &'t Rule,
    /// The normalised path.
    path: &'t str,
    /// Whether the client uses https, perhaps to a trusted proxy.
    is_https: bool,
    redirects_to_https: bool,
    pools: &'t [PoolDescription],
    locations: &'t Locations,
    /// Whether the cache may store anything.
    has_cache_memory: bool,
}

/// Returns the explanation as JSON.
///
/// # Errors
/// The query is invalid; the error is the text of the response.
pub fn explain(state: &Arc<State>, query: &str) -> Result<Value, String> {
    explain_query(state, Query::read(query)?)
}

/// Returns the explanation of a request as JSON.
///
/// # Errors
/// The path of the request is invalid.
pub(super) fn explain_query(state: &Arc<State>, asked: Query) -> Result<Value, String> {
    let (path, query) = target::split(&asked.target);
    let path = normalise(path).map_err(|error| format!("{error}: such a request gets 400"))?;
    let request = RequestView { path: &path, method: &asked.method, headers: &asked.headers, query };
    let (published, configuration) = (state.published.load(), state.configuration.load());
    let table = &published.routes;
    let host = host_of(&asked.host);
    let found = table.find_host(&asked.group, &host);
    let (mut hosts, mut taken, mut unmatched) = (Vec::new(), Value::Null, Value::Null);
    for compiled in found.iter().flat_map(|found| found.hosts()) {
        let Some(host) = configured(table, &configuration, compiled) else { continue };
        let reasons = compiled.explain(&request);
        let rules: Vec<_> = reasons.iter().zip(&host.rules).map(shown).collect();
        hosts.push(json!({ "host": host.key.pattern.to_string(), "rules": rules }));
        let Some(place) = reasons.iter().position(|reason| *reason == Reason::Matches) else { continue };
        if let (Some(route), Some(rule)) = (compiled.routes().nth(place), host.rules.get(place)) {
            let matched = if route.is_for_unmatched { &mut unmatched } else { &mut taken };
            *matched = outcome(state, &published.compiled_settings, &asked, &path, route, rule);
        }
        break;
    }
    let compiled_settings = &published.compiled_settings;
    if let (UnmatchedRule::Applies(route), Some(rule)) =
        (&compiled_settings.unmatched, &compiled_settings.settings.unmatched)
        && taken.is_null()
        && unmatched.is_null()
    {
        unmatched = outcome(state, compiled_settings, &asked, &path, route, rule);
    }
    let Query { method, https, .. } = asked;
    Ok(json!({
        "request": { "host": host, "path": path, "query": query, "method": method, "https": https },
        "taken": taken,
        "unmatched": unmatched,
        "hosts": hosts,
    }))
}

fn shown((reason, rule): (&Reason, &Rule)) -> Value {
    let mut shown = json!(view::rule(rule));
    shown["reason"] = reason.to_string().into();
    shown
}

/// Returns the configuration of a compiled host.
fn configured<'c>(
    table: &RouteTable<Route>,
    configuration: &'c Configuration,
    compiled: &Arc<CompiledHost<Route>>,
) -> Option<&'c Arc<Host>> {
    let (key, _) = table.hosts().find(|(_, other)| Arc::ptr_eq(other, compiled))?;
    configuration.hosts.get(&key)
}

/// Returns the result for a request that matches a rule.
fn outcome(
    state: &Arc<State>,
    compiled_settings: &CompiledSettings,
    asked: &Query,
    path: &str,
    route: &Route,
    rule: &Rule,
) -> Value {
    let settings = &compiled_settings.settings;
    let connection = sent::connection(state, asked);
    let client = compiled_settings.forwarded.client(&connection, &asked.headers);
    let access_scheme = forwarded::access_scheme(&connection, &asked.headers, client);
    let input = https_redirect::RedirectInput {
        access_scheme,
        host_has_https: route.host_has_https,
        rule_path: &route.origin.path,
    };
    let backends = match &rule.action {
        Action::Forward(backends) => &backends[..],
        Action::Redirect(_) | Action::RedirectToHost(_) | Action::Answer(_) => &[],
    };
    let own = backends.iter().filter_map(|weighted| match &weighted.backend {
        Backend::Pool { pool, .. } => Some(pool.to_string()),
        Backend::Default | Backend::Invalid { .. } => None,
    });
    let wanted: Vec<String> =
        own.chain(rule.policies.canaries.iter().map(|canary| canary.pool.to_string())).collect();
    let described = state.registry.describe();
    let pools: Vec<_> = described
        .iter()
        .filter(|pool| wanted.iter().any(|name| *name == *pool.pool))
        .map(view::pool)
        .collect();
    let redirects_to_https = https_redirect::applies(&route.policies.https_redirect, settings, &input);
    let taken = MatchedRoute {
        compiled_settings,
        route,
        rule,
        path,
        is_https: access_scheme == b"https",
        redirects_to_https,
        pools: &described,
        locations: &state.locations,
        has_cache_memory: state.cache.is_enabled(),
    };
    let checks = checks::checks(asked, &taken);
    let is_stopped = checks.iter().any(checks::stops);
    json!({
        "host": route.host(),
        "sent": if is_stopped { Value::Null } else { sent::sent(state, asked) },
        "checks": checks,
        "rule": view::rule(rule),
        "closed": route.deny.map(|status| status.as_u16()),
        "redirectedToHttps": redirects_to_https,
        "policies": policies(&rule.policies),
        "pools": pools,
    })
}

/// Returns the policies that differ from the defaults.
fn policies(policies: &Policies) -> Map<String, Value> {
    let (own, plain) = (json!(policies), json!(Policies::default()));
    let Value::Object(mut own) = own else { return Map::new() };
    own.retain(|name, value| plain[name.as_str()] != *value);
    own
}

impl MatchedRoute<'_> {
    /// Returns the number of endpoints of a pool.
    fn endpoints_of(&self, pool: &PoolKey) -> usize {
        let name = pool.to_string();
        let pool = self.pools.iter().find(|described| *described.pool == *name);
        pool.map_or(0, |described| described.endpoints.len())
    }
}

impl Query {
    fn read(query: &str) -> Result<Self, String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let one = |name: &str, otherwise: &str| {
            query_values(query, name).next().map_or_else(|| otherwise.to_owned(), |value| text(&value))
        };
        let mut headers = HeaderMap::new();
        for line in query_values(query, "header") {
            let (name, value) = header(&text(&line))?;
            headers.append(name, value);
        }
        let host = one("host", "");
        if host.is_empty() {
            return Err("the host is missing: /explain?host=shop.example&path=/cart".to_owned());
        }
        let https = query_values(query, "https").next().is_some_and(|value| *value != *b"false");
        let client = client(&one("client", ""))?;
        let (group, target, method) = (GroupId::ingress(), one("path", "/"), one("method", "GET"));
        Ok(Self { group, host, target, method, headers, https, client })
    }
}

/// Reads a header field, written as `name: value`.
pub(super) fn header(line: &str) -> Result<(HeaderName, HeaderValue), String> {
    let field = line.split_once(':').and_then(|(name, value)| {
        let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
        Some((name, HeaderValue::from_str(value.trim()).ok()?))
    });
    field.ok_or_else(|| format!("{line:?} is not a header: write name: value"))
}

/// Reads the address of a client; an empty text is none.
pub(super) fn client(text: &str) -> Result<Option<IpAddr>, String> {
    match text {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| format!("{text:?} is not the address of a client")),
    }
}
