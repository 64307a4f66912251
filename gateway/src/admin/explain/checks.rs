//! The result of each check for a request that matches a rule, in the order of the pipeline.
//!
//! Passwords are not verified, services are not asked, and nothing is counted: if the result
//! depends on such a step, the check names it. A new stage of the pipeline does not compile until
//! it is explained here.

use std::net::{IpAddr, Ipv4Addr};

use http::header::{AUTHORIZATION, CONTENT_LENGTH};
use serde_json::{Value, json};
use sluice_config::{Action, Backend, Directives, Limits, Policies, ResourceKey, Satisfy};

use super::cache::cache;
use super::outcome::{Check, CheckOutcome};
use super::{MatchedRoute, Query};
use crate::location::Country;
use crate::message::fields::Fields;
use crate::message::head::content_length;
use crate::pipeline::{AuthService, ORDER, PipelineStage, body_limit, global_sources, is_exempt, service};
use crate::policy::canary::Canary;
use crate::policy::countries;
use crate::policy::sources::{SourceDecision, decide};
use crate::policy::template::Template;
use crate::policy::{Rewritten, hops, https_redirect};
use crate::route::Route;
use crate::router::host_of;
use crate::state::compiled_settings::Blocking;

/// Returns the results of all checks, in order.
pub(super) fn checks(asked: &Query, taken: &MatchedRoute<'_>) -> Vec<Value> {
    let any = taken.rule.policies.satisfy == Satisfy::Any;
    let (mut stopped, mut admission) = (false, Vec::new());
    let check = |stage: &PipelineStage| {
        let (mut outcome, mut words) = match stage {
            _ if stopped => (CheckOutcome::NotReached, String::new()),
            PipelineStage::SatisfyAny => satisfy_any(any, &admission),
            PipelineStage::Credentials | PipelineStage::Authorisation
                if any && admission.contains(&CheckOutcome::Passes) =>
            {
                (CheckOutcome::NotReached, "the client is let in already".to_owned())
            }
            stage => check_of(*stage, asked, taken),
        };
        if matches!(stage, PipelineStage::Sources | PipelineStage::Credentials | PipelineStage::Authorisation)
        {
            if any && outcome == CheckOutcome::Stops && !words.starts_with("503") {
                outcome = CheckOutcome::Refuses;
            }
            admission.push(outcome);
        }
        stopped |= outcome == CheckOutcome::Stops;
        words.truncate(words.floor_char_boundary(MOST));
        json!({ "check": name(*stage), "outcome": outcome.name(), "says": words })
    };
    let mut all: Vec<Value> = ORDER.iter().map(check).collect();
    // The last one, and not a stage: what passes all of them may be answered from the cache.
    let (outcome, words) = match all.iter().any(stops) {
        true => (CheckOutcome::NotReached, String::new()),
        false => cache(asked, taken),
    };
    all.push(json!({ "check": "cache", "outcome": outcome.name(), "says": words }));
    all
}

/// Returns whether the pipeline ends with this check.
pub(super) fn stops(check: &Value) -> bool {
    check["outcome"] == CheckOutcome::Stops.name()
}

/// Maximum length of the text of a check in bytes.
const MOST: usize = 1024;

/// Returns the name of a stage.
pub(super) fn name(stage: PipelineStage) -> &'static str {
    match stage {
        PipelineStage::Blocked => "block lists",
        PipelineStage::ClientCertificate => "client certificate",
        PipelineStage::Denied => "closed rule",
        PipelineStage::Server => "server snippets",
        PipelineStage::BodyLength => "body size",
        PipelineStage::Cors => "origin",
        PipelineStage::Location => "location snippets",
        PipelineStage::Redirect => "redirect",
        PipelineStage::Rewrite => "rewrite",
        PipelineStage::HttpsRedirect => "https",
        PipelineStage::Backend => "backend",
        PipelineStage::Limits => "limits",
        PipelineStage::Firewall => "firewall",
        PipelineStage::Sources => "address lists",
        PipelineStage::Credentials => "password",
        PipelineStage::Authorisation => "authorisation",
        PipelineStage::SatisfyAny => "satisfy",
        PipelineStage::DefaultBackend => "default backend",
        PipelineStage::EndpointHost => "upstream-vhost",
        PipelineStage::Loop => "loop",
    }
}

/// Programs of snippets are not run here.
fn programs(taken: &MatchedRoute<'_>, has: fn(&Directives) -> bool) -> Check {
    match taken.rule.policies.directives.as_deref().is_some_and(has) {
        true => (CheckOutcome::Depends, "the directives of snippets, which are not run here".to_owned()),
        false => (CheckOutcome::Nothing, String::new()),
    }
}

fn check_of(stage: PipelineStage, asked: &Query, taken: &MatchedRoute<'_>) -> Check {
    let nothing = || (CheckOutcome::Nothing, String::new());
    match stage {
        PipelineStage::Blocked => blocked(asked, taken),
        PipelineStage::ClientCertificate => match taken.route.client_certificates() {
            None => nothing(),
            Some(policy) => (CheckOutcome::Depends, policy.describe().to_owned()),
        },
        PipelineStage::Denied => match (taken.route.deny, &taken.rule.policies.deny) {
            (Some(status), deny) => {
                let reason = deny.as_ref().map_or("", |deny| &*deny.reason);
                (CheckOutcome::Stops, format!("{}: {reason}", status.as_u16()))
            }
            (None, _) => nothing(),
        },
        PipelineStage::Server => programs(taken, |directives| {
            !directives.server.program.is_empty() || !directives.blocks.is_empty()
        }),
        PipelineStage::BodyLength => body_length(asked, taken),
        PipelineStage::Cors => origin(asked, taken),
        PipelineStage::Location => programs(taken, |directives| !directives.location.program.is_empty()),
        PipelineStage::Redirect => match &taken.rule.action {
            Action::Redirect(redirect) => {
                (CheckOutcome::Stops, format!("redirected with {}", redirect.status))
            }
            Action::RedirectToHost(host) => (CheckOutcome::Stops, format!("redirected to host {host}")),
            Action::Forward(_) | Action::Answer(_) => nothing(),
        },
        PipelineStage::Rewrite => rewrite(asked, taken),
        PipelineStage::HttpsRedirect => https(asked, taken),
        PipelineStage::Backend => backend(asked, taken),
        PipelineStage::Limits => match taken.rule.policies.limits.as_deref() {
            Some(limits) => limited(limits, asked.client),
            None => nothing(),
        },
        PipelineStage::Firewall => match taken.rule.policies.firewall.as_deref() {
            Some(firewall) if firewall.enforces => {
                (CheckOutcome::Depends, "the firewall's agent, which may refuse the request".to_owned())
            }
            Some(_) => (CheckOutcome::Passes, "the firewall's rules only detect".to_owned()),
            None => nothing(),
        },
        PipelineStage::Sources => sources(asked, taken),
        PipelineStage::Credentials if is_exempt(taken.route, taken.compiled_settings) => nothing(),
        PipelineStage::Credentials => password(asked, &taken.rule.policies),
        PipelineStage::Authorisation => match service(taken.route, taken.compiled_settings) {
            AuthService::None => nothing(),
            AuthService::Closed => (CheckOutcome::Stops, "503: global-auth-url cannot be used".to_owned()),
            AuthService::Usable(auth) => {
                let host = auth.to.describe();
                let sign_in = match auth.sign_in {
                    Some(_) => "401 leads to auth-signin",
                    None => "401 and 403 are passed on",
                };
                (CheckOutcome::Depends, format!("{host} decides: 2xx admits the request, {sign_in}"))
            }
        },
        // Computed from the results of the other checks.
        PipelineStage::SatisfyAny => nothing(),
        // `backend` names it.
        PipelineStage::DefaultBackend => nothing(),
        PipelineStage::EndpointHost => match host_template(taken.route) {
            Some(_) => (CheckOutcome::Depends, "400 if the values of the request make no host".to_owned()),
            None => nothing(),
        },
        PipelineStage::Loop => match hops::count(&asked.headers) >= hops::MAX {
            true => (CheckOutcome::Stops, "508: it has come through too many gateways".to_owned()),
            false => nothing(),
        },
    }
}

fn blocked(asked: &Query, taken: &MatchedRoute<'_>) -> Check {
    let client = asked.client.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    match &taken.compiled_settings.blocks {
        Blocking::None => (CheckOutcome::Nothing, String::new()),
        Blocking::Closed => (CheckOutcome::Stops, "503: a key that blocks clients cannot be used".to_owned()),
        Blocking::These(blocks) if blocks.blocks(client, &asked.headers) => {
            (CheckOutcome::Stops, "403: block-cidrs, block-user-agents or block-referers".to_owned())
        }
        Blocking::These(_) => match asked.client {
            Some(_) => (CheckOutcome::Passes, "not blocked".to_owned()),
            None => (CheckOutcome::Depends, "block-cidrs needs --client".to_owned()),
        },
    }
}

/// Compares the length that the request declares.
fn body_length(asked: &Query, taken: &MatchedRoute<'_>) -> Check {
    let length = asked.headers.first(&CONTENT_LENGTH).and_then(content_length);
    let limit = body_limit(Some(taken.route), &taken.compiled_settings.settings);
    match (length, limit) {
        (Some(length), Some(limit)) if length > limit && !taken.route.action.is_of_server() => {
            (CheckOutcome::Stops, format!("413: the limit is {limit} bytes"))
        }
        _ => (CheckOutcome::Nothing, String::new()),
    }
}

fn origin(asked: &Query, taken: &MatchedRoute<'_>) -> Check {
    let Some(cors) = taken.route.compiled.as_ref().and_then(|compiled| compiled.cors.as_ref()) else {
        return (CheckOutcome::Nothing, String::new());
    };
    match (cors.accepts(&asked.headers), &*asked.method) {
        (None, _) => {
            (CheckOutcome::Passes, "without an Origin that is accepted nothing is shared".to_owned())
        }
        (Some(_), "OPTIONS") => (CheckOutcome::Stops, "204: the answer to a page's question".to_owned()),
        (Some(_), _) => (CheckOutcome::Passes, "the page may read the response".to_owned()),
    }
}

fn rewrite(asked: &Query, taken: &MatchedRoute<'_>) -> Check {
    let Some(rewrite) = taken.route.compiled.as_ref().and_then(|compiled| compiled.rewrite.as_ref()) else {
        return (CheckOutcome::Nothing, String::new());
    };
    // Variables have no values here.
    let fill = |_: &_| b"...".to_vec();
    match rewrite.apply(&asked.target, taken.path, &fill) {
        Ok(None) => (CheckOutcome::Passes, "the path stays as it is".to_owned()),
        Ok(Some(Rewritten::Outgoing(outgoing))) => {
            (CheckOutcome::Passes, format!("the endpoint gets {}", outgoing.target()))
        }
        Ok(Some(Rewritten::Location(location))) => (CheckOutcome::Stops, format!("302 to {location}")),
        Err(_) => (CheckOutcome::Stops, "400: the rewritten path is none".to_owned()),
    }
}

fn https(asked: &Query, taken: &MatchedRoute<'_>) -> Check {
    let settings = &taken.compiled_settings.settings;
    if !taken.redirects_to_https {
        return match taken.is_https {
            true => (CheckOutcome::Passes, "it is https".to_owned()),
            false => (CheckOutcome::Passes, "http is served".to_owned()),
        };
    }
    let host = host_of(&asked.host);
    let own = &taken.rule.policies.locations;
    let location = https_redirect::location(own, settings, &host, &asked.target);
    (
        CheckOutcome::Stops,
        format!("{} to {location}; ask with --https", https_redirect::status(settings).as_u16()),
    )
}

fn backend(asked: &Query, taken: &MatchedRoute<'_>) -> Check {
    let backends = match &taken.rule.action {
        Action::Forward(backends) => backends,
        Action::Answer(status) => return (CheckOutcome::Stops, format!("{status}: the rule's answer")),
        Action::Redirect(_) | Action::RedirectToHost(_) => return (CheckOutcome::Nothing, String::new()),
    };
    let mut words = Vec::new();
    let mut outcome = CheckOutcome::Stops;
    for weighted in backends {
        let said = match &weighted.backend {
            Backend::Pool { pool, service } => match taken.endpoints_of(pool) {
                0 => format!("503: Service {service} has no endpoints"),
                endpoints => {
                    outcome = CheckOutcome::Passes;
                    format!("Service {service}, one of {endpoints}")
                }
            },
            Backend::Default => {
                outcome = CheckOutcome::Passes;
                "the program's default backend".to_owned()
            }
            Backend::Invalid { status, reason, .. } => format!("{status}: {reason}"),
        };
        words.push(said);
    }
    if outcome == CheckOutcome::Stops
        && let Some(own) = taken.route.fallback()
    {
        outcome = CheckOutcome::Passes;
        words.push(format!("{} serves it in its place", own.name));
    }
    for canary in &taken.rule.policies.canaries {
        let share = format!("{} of {} requests", canary.weight, canary.total.max(1));
        let decided = Canary::compile(canary).ok().and_then(|canary| canary.decides(&asked.headers));
        let chance = match (taken.endpoints_of(&canary.pool), decided) {
            (0, _) => "has no endpoints and takes nothing".to_owned(),
            (_, Some(true)) => "takes it, by its header or cookie".to_owned(),
            (_, Some(false)) => "does not take it, by its header or cookie".to_owned(),
            (_, None) => format!("takes {share}"),
        };
        words.push(format!("canary {} {chance}", canary.service));
    }
    (outcome, words.join("; "))
}

fn limited(limits: &Limits, client: Option<IpAddr>) -> Check {
    let exempt = |client: IpAddr| {
        limits.exempt.iter().any(|network| {
            crate::policy::networks::Networks::compile(std::slice::from_ref(network)).contains(client)
        })
    };
    if client.is_some_and(exempt) {
        return (CheckOutcome::Passes, "the client is on limit-allowlist".to_owned());
    }
    let parts = [
        (limits.connections, "requests at a time"),
        (limits.per_second, "requests a second"),
        (limits.per_minute, "requests a minute"),
    ];
    let parts = parts.iter().filter(|(limit, _)| *limit > 0);
    let words: Vec<String> = parts.map(|(limit, what)| format!("{limit} {what}")).collect();
    (CheckOutcome::Depends, format!("{} from one address", words.join(", ")))
}

fn sources(asked: &Query, taken: &MatchedRoute<'_>) -> Check {
    let compiled = taken.route.compiled.as_ref();
    let own = compiled.and_then(|compiled| compiled.sources.as_ref());
    let countries = compiled.and_then(|compiled| compiled.countries.as_ref());
    let global = global_sources(taken.route, taken.compiled_settings);
    let directives = taken.route.access_list();
    if own.is_none() && global.is_none() && directives.is_none() && countries.is_none() {
        return (CheckOutcome::Nothing, String::new());
    }
    let Some(client) = asked.client else {
        return (CheckOutcome::Depends, "on the client's address: pass --client".to_owned());
    };
    let located = countries.map(|lists| (lists, taken.locations.country(client)));
    let by_country =
        located.map_or(SourceDecision::Unlisted, |(lists, country)| countries::decide(lists, country));
    let place = match located {
        None => String::new(),
        Some((_, Country::Known(country))) => format!(" ({country})"),
        Some((_, Country::Unknown)) => " (of an unknown country)".to_owned(),
        Some((_, Country::NoDatabase)) => " (without a database of countries)".to_owned(),
    };
    match decide(own, global, directives, client).and(by_country) {
        SourceDecision::Unlisted => (CheckOutcome::Nothing, format!("{client}{place} is on no list")),
        SourceDecision::Allowed => (CheckOutcome::Passes, format!("{client}{place} is on the allow list")),
        SourceDecision::Denied => {
            (CheckOutcome::Stops, format!("403: {client}{place} is denied, or not on the allow list"))
        }
    }
}

fn password(asked: &Query, policies: &Policies) -> Check {
    let (scheme, users): (_, &ResourceKey) = match (&policies.basic_auth, &policies.digest_auth) {
        (Some(basic), _) => ("basic", &basic.credentials),
        (None, Some(digest)) => ("digest", &digest.credentials),
        (None, None) => return (CheckOutcome::Nothing, String::new()),
    };
    match asked.headers.first(&AUTHORIZATION) {
        None => (CheckOutcome::Stops, format!("401 without a name and password ({scheme}, {users})")),
        Some(_) => (CheckOutcome::Depends, format!("on the name and password ({scheme}, {users})")),
    }
}

/// Combines the checks of which one suffices (`satisfy: any`).
fn satisfy_any(any: bool, admission: &[CheckOutcome]) -> Check {
    let has = |outcome| admission.contains(&outcome);
    if !any {
        return (CheckOutcome::Nothing, String::new());
    }
    match () {
        () if has(CheckOutcome::Passes) => (CheckOutcome::Passes, "one check is enough".to_owned()),
        () if has(CheckOutcome::Depends) => {
            (CheckOutcome::Depends, "on any one of the checks before".to_owned())
        }
        () if has(CheckOutcome::Refuses) => {
            (CheckOutcome::Stops, "none of the checks before lets it in".to_owned())
        }
        () => (CheckOutcome::Nothing, String::new()),
    }
}

/// Returns the template of the host for endpoints, if it has variables.
fn host_template(route: &Route) -> Option<&Template> {
    route.compiled.as_deref()?.headers.as_ref()?.host_template()
}
