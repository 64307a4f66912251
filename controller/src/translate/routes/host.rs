//! Computes a host from the routes of all objects that claim it.
//!
//! - A path that two objects request belongs to the oldest one, even if that is closed.
//! - The order of rules is defined here: exact paths first, then the longest path; of equal paths,
//!   Exact before Prefix. An unreadable path follows the paths of other namespaces.
//! - If an object requests regular expressions, all paths of the host are expressions, in the order
//!   of their lengths. A Prefix path of another object then covers only paths below a newer Exact
//!   path of the same text, and none if that is older. An Exact path `/` takes at most that path.
//! - A closed object claims everything that it can have meant: its paths as expressions if it may
//!   have requested them, and its aliases if no object has a rule for them.

mod app_root;
mod canaries;
mod client_certificates;
mod copies;
mod endpoint_tls;
pub(crate) mod firewall;
mod https;
mod passthrough;
mod paths;
mod policies;
mod reading;
mod redirect;
mod rest;
mod snippets;
mod tls;

use std::collections::HashSet;
use std::sync::Arc;

use sluice_config::{
    Action, Backend, Code, Deny, Host, HostKey, HostPattern, HostTls, ObjectRef, Origin, Policies, Problem,
    Rule, Severity, WeightedBackend,
};

use super::claim::{Claim, ClaimKind};
use super::{HostClosure, ObjectRoutes, REJECTED, path_field};
use crate::problem::{error, warning};
use crate::store::{PathType, RoutePath};
use crate::translate::backend::{BackendReference, UNSERVED, Uses};
use crate::translate::snippet::Block;
use crate::translate::view::View;
use copies::PlacedPath;
use paths::{OrderedRules, PathTable};
use reading::{Reading, is_exact_root, meant_path, places};
use redirect::Redirects;
use rest::to_sibling;

/// The result of the node; no host if no object claims it.
#[derive(Debug, Default)]
pub(crate) struct HostOutput {
    /// The host.
    pub(crate) host: Option<Arc<Host>>,
    /// The objects that it refers to.
    pub(crate) uses: Uses,
}

/// Computes the node.
pub(crate) fn compute(view: &View<'_>, key: &HostKey) -> (HostOutput, Vec<Problem>) {
    let pattern = &key.pattern;
    let own = Claimants::of(view, key);
    let (uses, problems, tls_owners, server_snippets) = Default::default();
    let mut builder = Builder {
        view,
        served: pattern,
        host_of_rules: pattern,
        uses,
        problems,
        tls_owners,
        server_snippets,
        has_expressions: false,
    };
    let (mut rules, claimants, kind) = if !own.rules.is_empty() {
        let rules = builder.rules(pattern, &own);
        builder.report_foreign_tls(pattern, &rules);
        // The redirect applies to the remaining requests, such as those beside an ACME challenge.
        let redirects = own.redirects.iter().filter(|routes| routes.closed().is_none());
        (rules, own.rules.iter().chain(redirects).copied().collect(), ClaimKind::Rule)
    } else if let Some(first) = own.aliases.first() {
        let (rules, claimants) = builder.of_alias(first, key);
        (rules, claimants, ClaimKind::Alias)
    } else if let Some(first) = own.redirects.first() {
        (builder.of_sibling(first), vec![*first], ClaimKind::WwwRedirect)
    } else {
        builder.canaries(pattern, &own.canaries, &[], &mut []);
        return (HostOutput::default(), builder.problems);
    };
    builder.lost_names(pattern, view.claims(key));
    // Most hosts have one rule; spare capacity for three more would double the memory of the host.
    rules.shrink_to_fit();
    let tls = tls::choose(view, pattern, &claimants, &mut builder.problems);
    builder.uses.certificates = tls.iter().flat_map(HostTls::certificates).cloned().collect();
    if let Some(reason) = view.closed() {
        // Keys that close all rules need not apply to requests without one.
        let is_of_object = |rule: &&mut Rule| !rule.policies.is_for_unmatched;
        close(rules.iter_mut().filter(is_of_object), &Deny { status: 503, reason: reason.clone() });
    } else {
        let closures =
            claimants.iter().filter_map(|routes| Some((routes, routes.settings.closes_hosts.as_ref()?)));
        for (closer, closure) in closures {
            builder.closed_by(pattern, closer, closure, &claimants);
            let namespace = closer.namespace();
            let is_closed = |rule: &&mut Rule| {
                !closure.own_namespace_only || rule.origin.object.name.namespace == *namespace
            };
            let deny = Deny { status: 503, reason: closure.reason.clone() };
            close(rules.iter_mut().filter(is_closed), &deny);
        }
    }
    let client_certificates = builder.client_certificates(pattern, &claimants, &mut rules);
    let passthrough = builder.passthrough(pattern, &claimants, &rules);
    let cipher_suites = claimants.iter().find_map(|routes| routes.settings.cipher_suites.clone());
    let host = Host {
        key: key.clone(),
        alias_of: (kind == ClaimKind::Alias).then(|| own.aliases[0].host_of_alias().cloned()).flatten(),
        has_https: https::is_configured(view, key, kind, tls.as_ref()),
        tls,
        passthrough,
        client_certificates,
        cipher_suites,
        rules,
        fall_through: false,
    };
    (HostOutput { host: Some(Arc::new(host)), uses: builder.uses }, builder.problems)
}

/// The objects that claim a host, by reason and in order of precedence.
struct Claimants<'v> {
    rules: Vec<&'v Arc<ObjectRoutes>>,
    aliases: Vec<&'v Arc<ObjectRoutes>>,
    redirects: Vec<&'v Arc<ObjectRoutes>>,
    canaries: Vec<&'v Arc<ObjectRoutes>>,
}

impl<'v> Claimants<'v> {
    fn of(view: &'v View<'_>, key: &HostKey) -> Self {
        let claims = view.claims(key);
        let of = |kind| -> Vec<&'v Arc<ObjectRoutes>> {
            let claims = claims.iter().filter(|claim| claim.kind == kind);
            claims.filter_map(|claim| view.object_routes(&claim.object)).collect()
        };
        Self {
            rules: of(ClaimKind::Rule),
            aliases: of(ClaimKind::Alias),
            redirects: of(ClaimKind::WwwRedirect),
            canaries: of(ClaimKind::Canary),
        }
    }

    /// Returns the host that an alias stands for, with its claimants; `None` if the object with the
    /// alias is closed.
    fn of_alias(
        view: &'v View<'_>,
        routes: &'v ObjectRoutes,
        key: &HostKey,
    ) -> Option<(&'v HostPattern, Self)> {
        let target = routes.host_of_alias().filter(|_| routes.closed().is_none())?;
        Some((target, Self::of(view, &HostKey { pattern: target.clone(), ..key.clone() })))
    }
}

struct Builder<'a, 'v> {
    view: &'a View<'v>,
    /// The host to compute, whose rules may come from another one.
    served: &'a HostPattern,
    /// The host that the rules come from: another one if `served` is an alias.
    host_of_rules: &'a HostPattern,
    uses: Uses,
    problems: Vec<Problem>,
    tls_owners: Vec<endpoint_tls::TlsOwner>,
    /// Server snippets of each namespace.
    server_snippets: Vec<(Arc<str>, Block)>,
    /// Whether all paths of the host are expressions: one object that requests them turns all of
    /// the host into expressions. A closed one does so for closed paths only.
    has_expressions: bool,
}

impl<'a> Builder<'a, '_> {
    /// Returns the rules of the objects with rules for a host, in order.
    fn rules(&mut self, pattern: &'a HostPattern, claimants: &Claimants<'_>) -> Vec<Rule> {
        self.host_of_rules = pattern;
        self.server_snippets = snippets::of_server(&claimants.rules);
        self.has_expressions = claimants.rules.iter().any(|routes| routes.makes_expressions(pattern));
        self.tls_owners = endpoint_tls::owners(self.view, pattern, &claimants.rules);
        let OrderedRules { mut rules, behind } = self.paths(pattern, &claimants.rules);
        let redirect = claimants.redirects.iter().find(|routes| routes.closed().is_none());
        let rest = match redirect.filter(|_| !rules.iter().any(paths::takes_everything)) {
            Some(routes) => to_sibling(pattern, routes),
            None => self.rest(pattern, &claimants.rules, &rules),
        };
        // The default backend of another namespace comes before unreadable paths.
        let is_behind_rest = |rule: &Rule| {
            rest.as_ref().is_some_and(|rest| {
                rest.origin.object.name.namespace != rule.origin.object.name.namespace
                    && rest.action != forward(Backend::Default)
            })
        };
        let (after, before): (Vec<_>, Vec<_>) = behind.into_iter().partition(is_behind_rest);
        rules.extend(before.into_iter().chain(rest).chain(after));
        self.canaries(pattern, &claimants.canaries, &claimants.rules, &mut rules);
        self.redirect_root(&claimants.rules, &mut rules);
        rules
    }

    /// Returns the rules of an alias: those of the host that it names, which reports their
    /// problems. An alias of a closed object is closed.
    fn of_alias(
        &mut self,
        routes: &'a Arc<ObjectRoutes>,
        key: &HostKey,
    ) -> (Vec<Rule>, Vec<&'a Arc<ObjectRoutes>>) {
        let Some((target, claimants)) = Claimants::of_alias(self.view, routes, key) else {
            return (self.closed_name(routes), vec![routes]);
        };
        let known = self.problems.len();
        let rules = self.rules(target, &claimants);
        // The host that the alias stands for reports the others.
        let of_rules = self.problems.split_off(known).into_iter();
        self.problems.extend(of_rules.filter(|problem| problem.code == Code::AuthorisationByAnyHost));
        (rules, claimants.rules)
    }

    /// Returns the rule of a host that differs from another one by `www.`.
    fn of_sibling(&mut self, routes: &Arc<ObjectRoutes>) -> Vec<Rule> {
        match routes.closed() {
            None => to_sibling(self.served, routes).into_iter().collect(),
            Some(_) => self.closed_name(routes),
        }
    }

    fn closed_name(&mut self, routes: &Arc<ObjectRoutes>) -> Vec<Rule> {
        self.rest(self.served, &[routes], &[]).into_iter().collect()
    }

    /// Reports to the others on a host that one of them closes it, or would close it in
    /// ingress-nginx.
    fn closed_by(
        &mut self,
        pattern: &HostPattern,
        closer: &ObjectRoutes,
        closure: &HostClosure,
        claimants: &[&Arc<ObjectRoutes>],
    ) {
        let object = &closer.object;
        for routes in claimants.iter().filter(|routes| routes.settings.closes_hosts.is_none()) {
            let is_served = closure.own_namespace_only && routes.namespace() != closer.namespace();
            let kind = routes.object.kind.as_str();
            let problem = match is_served {
                true => warning(
                    Code::HostClosed,
                    &object_ref(routes),
                    "spec.rules",
                    format!(
                        "{object} has a server-snippet that restricts access to host {pattern}, which applies to \
                         this {kind} too in ingress-nginx; it is not served, and this {kind}, of another namespace, \
                         is served without it"
                    ),
                    format!("if the snippet protects this {kind}, protect it by annotations of its own"),
                ),
                false => error(
                    Code::HostClosed,
                    &object_ref(routes),
                    "spec.rules",
                    format!(
                        "all routes of {}host {pattern} answer 503, because {object} asks for what holds for the \
                         whole host and cannot be served",
                        if closure.own_namespace_only { "this namespace on " } else { "" }
                    ),
                    "give one of the two another host",
                ),
            };
            self.add(problem);
        }
    }

    /// Reports to objects with the host as an alias that it belongs to another object.
    fn lost_names(&mut self, pattern: &HostPattern, claims: &[Claim]) {
        let Some((winner, others)) = claims.split_first() else { return };
        for claim in others.iter().filter(|claim| claim.object != winner.object) {
            let name = match claim.kind {
                ClaimKind::Alias => "server-alias",
                ClaimKind::WwwRedirect => "from-to-www-redirect",
                ClaimKind::Rule | ClaimKind::Canary => continue,
            };
            let has = match winner.kind {
                ClaimKind::Rule => "has rules for it",
                _ => "is older and claims it too",
            };
            let object = claim.object.object_ref();
            let problem = error(
                Code::AliasConflict,
                &object,
                self.view.setting_field(&object, name),
                format!(
                    "host {pattern} belongs to {}, which {has}; the further name is left out",
                    winner.object
                ),
                "take the name out of one of the two",
            );
            // An alias is requested by name. A sibling is only wanted if no object has it, so this
            // is normal.
            let severity = if name == "server-alias" { Severity::Error } else { Severity::Warning };
            self.add(Problem { severity, ..problem });
        }
    }

    /// Returns the rules that objects define explicitly, in order.
    fn paths(&mut self, pattern: &HostPattern, claimants: &[&Arc<ObjectRoutes>]) -> OrderedRules {
        let expressions = self.has_expressions;
        let exact = match expressions {
            true => exact_paths(pattern, claimants),
            false => HashSet::new(),
        };
        let mut table = PathTable::new(exact);
        let closed_too = claimants.iter().any(|routes| routes.regex);
        let reading_of = |routes: &ObjectRoutes| match expressions {
            true => Reading::Expressions,
            false if closed_too && routes.closed().is_some() => Reading::Both,
            false => Reading::Plain,
        };
        // Copies that are served instead of an older object's path.
        let mut served = Vec::new();
        let all = (1..)
            .zip(claimants)
            .flat_map(|(next, routes)| copies::paths_of(routes, pattern).map(move |placed| (next, placed)));
        // Any Prefix path `/` precedes an Exact one among expressions, whatever their age.
        let is_last = |(_, placed): &(usize, PlacedPath<'_>)| {
            expressions && is_exact_root(placed.path.path_type, &placed.path.path)
        };
        let (last, first): (Vec<_>, Vec<_>) = all.partition(is_last);
        for (next, placed) in first.into_iter().chain(last) {
            let copy = placed
                .routes
                .gives_way_to_copies
                .then(|| self.copy(pattern, placed, &claimants[next..]))
                .flatten();
            let placed = copy.unwrap_or(placed);
            if served.iter().any(|known: &*const RoutePath| std::ptr::eq(*known, placed.path)) {
                continue;
            }
            self.path(&mut table, pattern, placed, reading_of(placed.routes));
            served.extend(copy.map(|copy| std::ptr::from_ref(copy.path)));
        }
        table.into_rules(expressions)
    }

    fn path(
        &mut self,
        table: &mut PathTable,
        pattern: &HostPattern,
        PlacedPath { routes, rule, index, path }: PlacedPath<'_>,
        reading: Reading,
    ) {
        let object = object_ref(routes);
        let field = || path_field(rule.index, index);
        let asks = routes.regex || routes.makes_expressions(pattern);
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
            closed = Some(routes.policies_of_closed(&format!("{}.path", field()), reason, REJECTED));
        }
        let (places, taken) = places(table, routes, path, &text, (asks, reading), self.view.expressions());
        if let Some(winner) = taken {
            let origin = &winner.origin;
            let is_closed = if winner.policies.deny.is_some() { " and is closed" } else { "" };
            let message = format!(
                "host \"{pattern}\" and path {:?} is already defined in {} {} ({}){is_closed}, and is left out",
                path.path,
                origin.object.kind.to_lowercase(),
                origin.object.name,
                path_field(origin.rule, origin.match_index)
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
        let Redirects { action: redirect, instruction } = self.redirects(routes);
        let action = redirect.unwrap_or_else(|| {
            let reference = BackendReference {
                object: &object,
                field: &|| format!("{}.backend", field()),
                backend: &path.backend,
                protocol: routes.settings.protocol,
                usage: routes.usage(),
                by_address: self.goes_by_address(routes),
                otherwise: UNSERVED,
            };
            forward(reference.resolve(self.view, &mut self.uses, &mut self.problems))
        });
        let closed = match closed {
            None if rule.is_misnamed => Some(routes.policies_of_closed(
                &format!("spec.rules[{}].host", rule.index),
                MISNAMED,
                REJECTED,
            )),
            None if routes.closed().is_some() => Some(routes.policies(&path.path)),
            closed => closed,
        };
        // Closed paths are evaluated too, to report all problems.
        let open = self.open_path(&object, &field(), routes, &path.path, asks);
        let below = self.below_path(&field(), routes, path, &open).filter(|_| closed.is_none());
        let below = below.map(|policies| self.guarded(routes, policies, &action));
        let policies = self.guarded(routes, closed.unwrap_or(open), &action);
        let below = below.map(|policies| redirect::ended_by(policies, instruction.as_ref()));
        let policies = redirect::ended_by(policies, instruction.as_ref());
        let is_read = fault.is_none() && !rule.is_misnamed;
        let origin = origin(routes, rule.index, index, text);
        for (place, matches) in places {
            let policies = below.as_ref().filter(|_| place.is_below()).unwrap_or(&policies);
            table.put(place, is_read, matches, action.clone(), policies.clone(), origin.clone());
        }
    }

    /// Returns whether requests go to the addresses of Services instead of endpoints.
    fn goes_by_address(&self, routes: &ObjectRoutes) -> bool {
        routes.settings.service_upstream.unwrap_or_else(|| self.view.service_upstream())
    }

    /// Adds a problem once, even if several rules have it.
    fn add(&mut self, problem: Problem) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

/// Returns the Exact paths of a host, except unusable ones, which have an effect in their own
/// namespace only.
fn exact_paths(pattern: &HostPattern, claimants: &[&Arc<ObjectRoutes>]) -> HashSet<Arc<str>> {
    let of = |PlacedPath { routes, rule, path, .. }: PlacedPath<'_>| {
        let is_candidate = path.path_type == PathType::Exact && !rule.is_misnamed;
        let asks = routes.regex || routes.makes_expressions(pattern);
        let (text, fault) = is_candidate.then(|| meant_path(&path.path, asks))?;
        fault.is_none().then_some(text)
    };
    claimants.iter().flat_map(|routes| copies::paths_of(routes, pattern)).filter_map(of).collect()
}

const MISNAMED: &str = "is not a valid host of an Ingress";

fn forward(backend: Backend) -> Action {
    Action::Forward(vec![WeightedBackend { weight: 1, backend }])
}

fn origin(routes: &ObjectRoutes, rule: u32, match_index: u32, path: Arc<str>) -> Arc<Origin> {
    Arc::new(Origin { object: object_ref(routes), rule, match_index, rule_name: None, path })
}

fn object_ref(routes: &ObjectRoutes) -> ObjectRef {
    routes.object.object_ref()
}

fn close<'r>(rules: impl Iterator<Item = &'r mut Rule>, deny: &Deny) {
    for rule in rules {
        if rule.policies.deny.is_none() {
            let deny = Some(deny.clone());
            rule.policies = Arc::new(Policies { deny, ..(*rule.policies).clone() });
        }
    }
}
