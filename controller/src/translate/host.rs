//! Everything that is served for one host, from the facts of all Ingresses that claim it.
//!
//! The oldest Ingress wins a path that two of them ask for, also when it is closed. The order of the rules is
//! decided here and nowhere else: exact paths first, then the longest path, and of one path Exact before Prefix.
//! Where an Ingress asks for regular expressions, all paths of the host are such, in the order of their lengths.
//! What is closed is claimed as widely as it can have been meant: paths as regular expressions where an Ingress
//! can have asked for them, further names of a host where nobody has a rule for them.

mod canaries;
mod paths;
mod tls;

use std::sync::{Arc, LazyLock};

use sluice_config::{
    Action, Authorisation, Backend, Balance, Code, Deny, EndpointSetKey, GroupId, Host, HostKey, HostPattern,
    ListenerId, Match, ObjectRef, Origin, PathMatch, Policies, PoolKey, Problem, Redirect, RedirectPath,
    Rule, ServiceRef, UpstreamProtocol, WeightedBackend,
};

use super::annotations::{self, REJECTED, UNABLE};
use super::backend::{self, Reference, UNSERVED, Uses};
use super::claim::ClaimKind;
use super::facts::Facts;
use super::view::View;
use crate::problem::{because, error, warning};
use crate::store::{IngressPath, PathType};
use paths::{Place, Table};

/// What the node gives; no host when nobody claims it.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// The host.
    pub(crate) host: Option<Arc<Host>>,
    /// What it refers to.
    pub(crate) uses: Uses,
    /// What is wrong with the Ingresses where they meet here.
    pub(crate) problems: Vec<Problem>,
}

/// Identity of an Ingress host.
pub(crate) fn key(pattern: &HostPattern) -> HostKey {
    static PLACE: LazyLock<(GroupId, ListenerId)> = LazyLock::new(|| (GroupId::ingress(), ListenerId::any()));
    let (group, listener) = PLACE.clone();
    HostKey { group, listener, pattern: pattern.clone() }
}

/// Computes the node.
pub(crate) fn compute(view: &View<'_>, key: &HostKey) -> Output {
    let pattern = &key.pattern;
    let claims = view.claims(key);
    // A further name is closed only where it is nobody's own, and a canary makes no host.
    let is_own = claims.iter().any(|claim| claim.kind == ClaimKind::Rule);
    let counts = |kind| match is_own {
        true => kind == ClaimKind::Rule,
        false => kind != ClaimKind::Canary,
    };
    let facts_of = |counts: &dyn Fn(ClaimKind) -> bool| -> Vec<&Arc<Facts>> {
        let claims = claims.iter().filter(|claim| counts(claim.kind));
        claims.filter_map(|claim| view.facts(&claim.object.name)).collect()
    };
    let claimants = facts_of(&counts);
    let canaries = facts_of(&|kind| kind == ClaimKind::Canary);
    let mut builder = Builder { view, uses: Uses::default(), problems: Vec::new() };
    if claimants.is_empty() {
        builder.canaries(pattern, &canaries, &claimants, &mut []);
        return Output { host: None, uses: Uses::default(), problems: builder.problems };
    }
    let mut rules = builder.paths(pattern, &claimants);
    if let Some(root) = Builder::app_root(&claimants, &rules) {
        rules.insert(0, root);
    }
    if let Some(rest) = builder.rest(pattern, &claimants, &rules) {
        rules.push(rest);
    }
    builder.canaries(pattern, &canaries, &claimants, &mut rules);
    // Most hosts have one rule, and room for three more would cost as much as all the rest of it.
    rules.shrink_to_fit();
    let tls = tls::choose(view, pattern, &claimants, &mut builder.problems);
    builder.uses.certificate = tls.as_ref().and_then(|tls| tls.certificate.clone());
    if let Some(reason) = view.closed() {
        close(&mut rules, reason);
    } else if let Some(closer) = claimants.iter().find(|facts| facts.closes_hosts.is_some()) {
        builder.closed_by(pattern, closer, &claimants);
        closer.closes_hosts.iter().for_each(|reason| close(&mut rules, reason));
    }
    let host = Host { key: key.clone(), tls, rules, fall_through: false };
    Output { host: Some(Arc::new(host)), uses: builder.uses, problems: builder.problems }
}

struct Builder<'a, 'v> {
    view: &'a View<'v>,
    uses: Uses,
    problems: Vec<Problem>,
}

impl Builder<'_, '_> {
    /// Tells the others on a host that one of them closes it.
    fn closed_by(&mut self, pattern: &HostPattern, closer: &Facts, claimants: &[&Arc<Facts>]) {
        for facts in claimants.iter().filter(|facts| facts.closes_hosts.is_none()) {
            let message = format!(
                "all routes of host {pattern} answer 503, because Ingress {} asks for what holds for the whole host \
                 and cannot be served",
                closer.ingress.name
            );
            let remedy = "give one of the two another host";
            self.problems.push(error(Code::HostClosed, &object_ref(facts), "spec.rules", message, remedy));
        }
    }

    /// The rules that Ingresses spell out, in order.
    fn paths(&mut self, pattern: &HostPattern, claimants: &[&Arc<Facts>]) -> Vec<Rule> {
        let mut table = Table::default();
        // One Ingress that asks for regular expressions makes all paths of the host such. One that is closed does so
        // for what is closed alone.
        let expressions = claimants.iter().any(|facts| facts.makes_expressions(pattern));
        let closed_too = claimants.iter().any(|facts| facts.regex);
        for facts in claimants {
            let reading = match expressions {
                true => Reading::Expressions,
                false if closed_too && facts.closed().is_some() => Reading::Both,
                false => Reading::Plain,
            };
            for &rule in facts.rules_of(pattern) {
                let paths = facts.ingress.rules[rule as usize].paths.as_deref().unwrap_or_default();
                for (index, path) in (0u32..).zip(paths) {
                    self.path(&mut table, pattern, facts, (rule, index), path, reading);
                }
            }
        }
        table.into_rules(expressions)
    }

    fn path(
        &mut self,
        table: &mut Table,
        pattern: &HostPattern,
        facts: &Facts,
        (rule, index): (u32, u32),
        path: &IngressPath,
        reading: Reading,
    ) {
        let object = object_ref(facts);
        let field = || format!("spec.rules[{rule}].http.paths[{index}]");
        let asks = facts.regex || facts.makes_expressions(pattern);
        let (text, fault) = meant_path(&path.path, asks);
        let mut closed = None;
        if let Some((reason, remedy)) = fault {
            let message =
                format!("{:?} {reason}; {text} answers {REJECTED} until it is corrected", path.path);
            self.problems.push(error(
                Code::PathInvalid,
                &object,
                format!("{}.path", field()),
                message,
                remedy,
            ));
            closed = Some(facts.policies_of_closed(&format!("{}.path", field()), reason, REJECTED));
        }
        let (places, taken) = places(table, facts, path, &text, asks, reading);
        if let Some(winner) = taken {
            let origin = &winner.origin;
            let is_closed = if winner.policies.deny.is_some() { " and is closed" } else { "" };
            let message = format!(
                "{:?} of host {pattern} already belongs to {} (spec.rules[{}].http.paths[{}]){is_closed}, and is \
                 left out",
                path.path, origin.object, origin.rule, origin.match_index
            );
            let remedy = "remove one of the two, or give it another host or path";
            self.problems.push(error(
                Code::PathConflict,
                &object,
                format!("{}.path", field()),
                message,
                remedy,
            ));
        }
        if places.is_empty() {
            return;
        }
        let reference = Reference {
            object: &object,
            field: &|| format!("{}.backend", field()),
            backend: &path.backend,
            protocol: facts.protocol,
            balance: facts.balance(),
            otherwise: UNSERVED,
        };
        let backend = reference.resolve(self.view, &mut self.uses, &mut self.problems);
        let policies = match closed {
            Some(policies) => policies,
            None if facts.is_misnamed(rule) => {
                facts.policies_of_closed(&format!("spec.rules[{rule}].host"), MISNAMED, REJECTED)
            }
            None if facts.closed().is_some() => facts.policies(&path.path),
            None => {
                let policies = self.open_path(&object, &field(), facts, &path.path, asks);
                self.guarded(pattern, facts, policies)
            }
        };
        let origin = origin(facts, rule, index, text);
        for (place, matches) in places {
            table.put(place, matches, forward(backend.clone()), policies.clone(), origin.clone());
        }
    }

    /// The policies of a path that is not closed so far. One that cannot be read, or not be rewritten, is.
    fn open_path(
        &mut self,
        object: &ObjectRef,
        field: &str,
        facts: &Facts,
        path: &str,
        asks: bool,
    ) -> Arc<Policies> {
        let field = format!("{field}.path");
        if let Some(reason) = asks.then(|| paths::unreadable(path)).flatten() {
            let reason = format!("{path:?} is a regular expression that cannot be read ({reason})");
            let message = format!("{reason}; what it can mean answers {UNABLE} until it is corrected");
            let remedy = "write an expression without look-around and back-references, or several paths";
            self.problems.push(error(Code::ExpressionInvalid, object, field.clone(), message, remedy));
            return facts.policies_of_closed(&field, &reason, UNABLE);
        }
        match facts.rewrite(path) {
            Ok(None) => facts.policies(path),
            Ok(rewrite) => Arc::new(Policies { rewrite, ..(*facts.policies(path)).clone() }),
            Err(fault) => {
                let message = format!("{fault}; it answers {UNABLE} until one of the two is corrected");
                let remedy =
                    "put the group into the path, such as /app(/|$)(.*) for $2, or take it out of the target";
                self.problems.push(error(Code::RewriteInvalid, object, field.clone(), message, remedy));
                facts.policies_of_closed(&field, &fault.to_string(), UNABLE)
            }
        }
    }

    /// `app-root` of the first path in order whose Ingress has one, for the whole host, as in ingress-nginx.
    fn app_root(claimants: &[&Arc<Facts>], rules: &[Rule]) -> Option<Rule> {
        if claimants.iter().all(|facts| facts.app_root().is_none()) {
            return None;
        }
        let (facts, path) = rules.iter().find_map(|rule| {
            let facts = claimants.iter().find(|facts| facts.ingress.name == rule.origin.object.name)?;
            Some((facts, facts.app_root()?))
        })?;
        let redirect = Redirect {
            status: 302,
            scheme: None,
            host: None,
            port: None,
            path: RedirectPath::ReplaceAll(path.clone()),
        };
        let root: Arc<str> = "/".into();
        Some(Rule {
            matches: Match::path(PathMatch::Exact(root.clone())),
            action: Action::Redirect(redirect),
            // It tells nothing, so that nothing protects it; ingress-nginx redirects before all checks too.
            policies: Arc::default(),
            filters: Vec::new(),
            origin: origin(facts, 0, 0, root),
        })
    }

    /// The policies of a rule of an Ingress. Where a Secret or ConfigMap that they need cannot be used, the rule is
    /// closed until it can.
    fn guarded(&mut self, pattern: &HostPattern, facts: &Facts, policies: Arc<Policies>) -> Arc<Policies> {
        if policies.deny.is_some() {
            return policies;
        }
        let object = object_ref(facts);
        let mut deny = None;
        for (key, field) in facts.needs() {
            let Some(fault) = self.view.resource(key).fault(key, self.view.options) else {
                self.uses.resource(key);
                continue;
            };
            let reason = because(&object, field, &fault.reason);
            deny.get_or_insert(Deny { status: 503, reason });
            let message = format!("{}; the routes of this Ingress answer 503", fault.reason);
            let problem = error(fault.code, &object, &**field, message, fault.remedy);
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        if facts.external_auth.is_none() && facts.error_backend.is_none() {
            return match deny {
                Some(deny) => Arc::new(Policies { deny: Some(deny), ..(*policies).clone() }),
                None => policies,
            };
        }
        let mut policies = Policies { deny, ..(*policies).clone() };
        if let Some(auth) = &facts.external_auth {
            let host = match pattern {
                HostPattern::Exact(name) => Some(name.as_str()),
                _ => None,
            };
            match auth.policy(self.view, &mut self.uses, host) {
                Some(auth) => policies.authorisation = Authorisation::Own(Arc::new(auth)),
                None => policies.deny = policies.deny.or(Some(self.without_host(facts, pattern))),
            }
        }
        policies.error_pages.backend = self.error_backend(facts);
        Arc::new(policies)
    }

    /// A service that is asked where the request was meant to go has no address on a host that stands for many.
    fn without_host(&mut self, facts: &Facts, pattern: &HostPattern) -> Deny {
        let object = object_ref(facts);
        let field = annotations::field(&self.view.options.annotations_prefix, "auth-url");
        let reason = format!("has $host as its host, which is not one name on host {pattern}");
        self.add(error(
            Code::AnnotationInvalid,
            &object,
            field.clone(),
            format!("{reason}; the routes of this Ingress on that host answer 503"),
            "name the host of the authorisation service",
        ));
        Deny { status: 503, reason: because(&object, &field, &reason) }
    }

    /// The pool of `default-backend`. Without it the program's default backend stands in, as in ingress-nginx.
    fn error_backend(&mut self, facts: &Facts) -> Option<(PoolKey, ServiceRef)> {
        let name = facts.in_namespace(facts.error_backend.as_deref()?);
        let service = self.view.service(&name);
        let port = service.filter(|service| service.external_name.is_none()).and_then(|s| s.ports.first());
        let (Some(service), Some(port)) = (service, port) else {
            let (code, what) = match service {
                None => (Code::ServiceNotFound, "does not exist"),
                Some(_) => (Code::ServicePortNotFound, "has no TCP port, or is of type ExternalName"),
            };
            let field = annotations::field(&self.view.options.annotations_prefix, "default-backend");
            self.add(warning(
                code,
                &object_ref(facts),
                field,
                format!("Service {name} {what}; the program's default backend is used in its place"),
                "create the Service with a TCP port, or name another one of the same namespace",
            ));
            return None;
        };
        let key = EndpointSetKey {
            namespace: service.name.namespace.clone(),
            service: service.name.name.clone(),
            port: port.name.clone(),
        };
        let shown = ServiceRef {
            namespace: key.namespace.clone(),
            name: key.service.clone(),
            port: port.number.to_string().into(),
        };
        let pool = backend::pool(key, UpstreamProtocol::Http, Balance::RoundRobin);
        Some((self.uses.pool(pool), shown))
    }

    /// Adds a problem once, however many rules have it.
    fn add(&mut self, problem: Problem) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// The rule for whatever no path takes: the default backend of the oldest Ingress that has one, else the
    /// program's. None where an Ingress has said what happens to `/`.
    fn rest(&mut self, pattern: &HostPattern, claimants: &[&Arc<Facts>], rules: &[Rule]) -> Option<Rule> {
        if rules.iter().any(paths::takes_everything) {
            return None;
        }
        let mut found: Option<(Rule, &Facts)> = None;
        for facts in claimants {
            let Some(backend) = facts.default_backend() else { continue };
            let object = object_ref(facts);
            if let Some((_, winner)) = &found {
                if winner.default_backend() != facts.default_backend()
                    || winner.ingress.name.namespace != facts.ingress.name.namespace
                {
                    let message = format!(
                        "the default backend of host {pattern} is already that of Ingress {}",
                        winner.ingress.name
                    );
                    let remedy = "remove one of the two";
                    self.problems.push(error(
                        Code::DefaultBackendConflict,
                        &object,
                        "spec.defaultBackend",
                        message,
                        remedy,
                    ));
                }
                continue;
            }
            let reference = Reference {
                object: &object,
                field: &|| "spec.defaultBackend".to_owned(),
                backend,
                protocol: facts.protocol,
                balance: facts.balance(),
                otherwise: UNSERVED,
            };
            let backend = reference.resolve(self.view, &mut self.uses, &mut self.problems);
            let policies = match facts.ingress.rules.is_empty() {
                true => facts.catch_all_policies(),
                false => policies_of_rest(facts, pattern),
            };
            let policies = self.guarded(pattern, facts, policies);
            found = Some((rest_rule(forward(backend), policies, facts), facts));
        }
        if let Some((rule, _)) = found {
            return Some(rule);
        }
        // Nobody asks for what is left, so that it is closed only with the whole host. Claimants are never empty
        // here: a host without them is not built.
        let first = claimants.iter().find(|facts| facts.closed().is_none()).or(claimants.first())?;
        let policies = match pattern {
            HostPattern::Any => first.catch_all_policies(),
            _ => policies_of_rest(first, pattern),
        };
        let policies = self.guarded(pattern, first, policies);
        Some(rest_rule(forward(Backend::Default), policies, first))
    }
}

/// How the paths of an Ingress are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// As they stand.
    Plain,
    /// As they stand, and as expressions: what is closed, where something that is closed asks for expressions.
    Both,
    /// As expressions, because somebody on the host asks for that.
    Expressions,
}

/// Where a path stands, and what it matches there; and who has a part of that already.
fn places<'t>(
    table: &'t Table,
    facts: &Facts,
    path: &IngressPath,
    text: &Arc<str>,
    asks: bool,
    reading: Reading,
) -> (Vec<(Place, PathMatch)>, Option<&'t Rule>) {
    let plain = |path_type| {
        let place = Place::plain(text.clone(), path_type);
        let matches = place.to_match();
        (place, matches)
    };
    let is_closed = facts.closed().is_some();
    if reading == Reading::Expressions {
        let expression = paths::on_host_of_expressions(text, asks || is_closed);
        if let Some(winner) = table.taken(&expression.0) {
            return (Vec::new(), Some(winner));
        }
        let mut places = vec![expression];
        // What is closed is so as it stands, too.
        places.extend(
            is_closed.then(|| plain(PathType::Prefix)).filter(|(place, _)| table.taken(place).is_none()),
        );
        return (places, None);
    }
    let mut places = vec![plain(path.path_type)];
    if reading == Reading::Both && path.path_type == PathType::Exact {
        // An expression has no end of its own.
        places.push(plain(PathType::Prefix));
    }
    let taken = places.iter().filter_map(|(place, _)| table.taken(place)).next_back();
    let expression_is_taken = places.last().is_some_and(|(place, _)| table.taken(place).is_some());
    places.retain(|(place, _)| table.taken(place).is_none());
    if reading == Reading::Both && !places.is_empty() && !expression_is_taken {
        places.push(paths::expression(slashed(&path.path)));
    }
    (places, taken)
}

fn slashed(path: &str) -> Arc<str> {
    if path.starts_with('/') { path.into() } else { format!("/{path}").into() }
}

/// The path that is claimed for what an Ingress says, and what is wrong with that, with how to fix it. Dots of
/// an expression are no segments.
fn meant_path(path: &str, regex: bool) -> (Arc<str>, Option<(&'static str, &'static str)>) {
    if !path.starts_with('/') {
        let fault = ("does not begin with a slash", "begin the path with a slash");
        return (slashed(path), Some(fault));
    }
    match paths::reachable(path).filter(|_| !regex) {
        Some(other) => {
            let remedy = "write the path as it is after its slashes are merged and its dots resolved";
            (other.into(), Some(("is a path that no request is ever looked up by", remedy)))
        }
        None => (path.into(), None),
    }
}

/// The policies for what no path of a host takes.
fn policies_of_rest(facts: &Facts, pattern: &HostPattern) -> Arc<Policies> {
    match facts.rules_of(pattern) {
        // The host is none that an Ingress may have: it is closed whole.
        [first, others @ ..]
            if facts.is_misnamed(*first) && others.iter().all(|rule| facts.is_misnamed(*rule)) =>
        {
            facts.policies_of_closed(&format!("spec.rules[{first}].host"), MISNAMED, REJECTED)
        }
        _ => facts.policies("/"),
    }
}

const MISNAMED: &str = "is no host of an Ingress";

fn rest_rule(action: Action, policies: Arc<Policies>, facts: &Facts) -> Rule {
    let path: Arc<str> = "/".into();
    let origin = origin(facts, 0, 0, path.clone());
    let matches = Match::path(PathMatch::Prefix(path));
    Rule { matches, action, policies, filters: Vec::new(), origin }
}

fn forward(backend: Backend) -> Action {
    Action::Forward(vec![WeightedBackend { weight: 1, backend, filters: Vec::new() }])
}

fn origin(facts: &Facts, rule: u32, match_index: u32, path: Arc<str>) -> Arc<Origin> {
    static KIND: LazyLock<Arc<str>> = LazyLock::new(|| "Ingress".into());
    let object = ObjectRef { kind: KIND.clone(), name: facts.ingress.name.clone() };
    Arc::new(Origin { object, rule, match_index, rule_name: None, path })
}

fn object_ref(facts: &Facts) -> ObjectRef {
    ObjectRef { kind: "Ingress".into(), name: facts.ingress.name.clone() }
}

fn close(rules: &mut [Rule], reason: &Arc<str>) {
    for rule in rules {
        if rule.policies.deny.is_none() {
            let deny = Some(Deny { status: 503, reason: reason.clone() });
            rule.policies = Arc::new(Policies { deny, ..(*rule.policies).clone() });
        }
    }
}
