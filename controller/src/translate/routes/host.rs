//! Everything that is served for one host, from the models of all Ingresses that claim it.
//!
//! The oldest Ingress wins a path that two of them ask for, also when it is closed. The order of the rules is
//! decided here and nowhere else: exact paths first, then the longest path, and of one path Exact before Prefix.
//! A path that cannot be read comes behind the paths of other namespaces.
//! Where an Ingress asks for regular expressions, all paths of the host are such, in the order of their lengths.
//! What is closed is claimed as widely as it can have been meant: paths as regular expressions where an Ingress
//! can have asked for them, further names of a host where nobody has a rule for them.

mod canaries;
mod copies;
mod endpoint_tls;
mod paths;
mod policies;
mod reading;
mod tls;

use std::sync::{Arc, LazyLock};

use sluice_config::{
    Action, Backend, Code, Deny, GroupId, Host, HostKey, HostPattern, ListenerId, Match, ObjectRef, Origin,
    PathMatch, Policies, Problem, Redirect, RedirectPath, Rule, Severity, WeightedBackend,
};

use super::backend::{BackendReference, UNSERVED, Uses};
use super::claim::{Claim, ClaimKind};
use crate::problem::{error, warning};
use crate::store::IngressPath;
use crate::translate::ingress::IngressModel;
use crate::translate::ingress::annotations::{self, HostClosure, REJECTED};
use crate::translate::view::View;
use paths::{OrderedRules, PathTable};
use reading::{Reading, meant_path, places};

/// What the node gives; no host when nobody claims it.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// The host.
    pub(crate) host: Option<Arc<Host>>,
    /// What it refers to.
    pub(crate) uses: Uses,
}

/// Identity of an Ingress host.
pub(crate) fn key(pattern: &HostPattern) -> HostKey {
    static PLACE: LazyLock<(GroupId, ListenerId)> = LazyLock::new(|| (GroupId::ingress(), ListenerId::any()));
    let (group, listener) = PLACE.clone();
    HostKey { group, listener, pattern: pattern.clone() }
}

/// Computes the node.
pub(crate) fn compute(view: &View<'_>, key: &HostKey) -> (Output, Vec<Problem>) {
    let pattern = &key.pattern;
    let own = Claimants::of(view, key);
    let (uses, problems, tls_owners) = Default::default();
    let mut builder = Builder { view, served: pattern, uses, problems, tls_owners };
    let (mut rules, claimants) = if !own.rules.is_empty() {
        let rules = builder.rules(pattern, &own);
        builder.report_foreign_tls(pattern, &rules);
        // The redirect holds for what is left, such as beside a challenge of a certificate authority.
        let redirects = own.redirects.iter().filter(|model| model.closed().is_none());
        (rules, own.rules.iter().chain(redirects).copied().collect())
    } else if let Some(first) = own.aliases.first() {
        builder.of_alias(first)
    } else if let Some(first) = own.redirects.first() {
        (builder.of_sibling(first), vec![*first])
    } else {
        builder.canaries(pattern, &own.canaries, &[], &mut []);
        return (Output::default(), builder.problems);
    };
    builder.lost_names(pattern, view.claims(key));
    // Most hosts have one rule, and room for three more would cost as much as all the rest of it.
    rules.shrink_to_fit();
    let tls = tls::choose(view, pattern, &claimants, &mut builder.problems);
    builder.uses.certificate = tls.as_ref().and_then(|tls| tls.certificate.clone());
    if let Some(reason) = view.closed() {
        close(rules.iter_mut(), reason);
    } else {
        let closures = claimants.iter().filter_map(|model| Some((model, model.closes_hosts.as_ref()?)));
        for (closer, closure) in closures {
            builder.closed_by(pattern, closer, closure, &claimants);
            let namespace = &closer.ingress.name.namespace;
            let is_closed = |rule: &&mut Rule| {
                !closure.own_namespace_only || rule.origin.object.name.namespace == *namespace
            };
            close(rules.iter_mut().filter(is_closed), &closure.reason);
        }
    }
    let host = Host { key: key.clone(), tls, rules, fall_through: false };
    (Output { host: Some(Arc::new(host)), uses: builder.uses }, builder.problems)
}

/// Who wants a host, by what for; who comes first wins.
struct Claimants<'v> {
    rules: Vec<&'v Arc<IngressModel>>,
    aliases: Vec<&'v Arc<IngressModel>>,
    redirects: Vec<&'v Arc<IngressModel>>,
    canaries: Vec<&'v Arc<IngressModel>>,
}

impl<'v> Claimants<'v> {
    fn of(view: &'v View<'_>, key: &HostKey) -> Self {
        let claims = view.claims(key);
        let of = |kind| -> Vec<&'v Arc<IngressModel>> {
            let claims = claims.iter().filter(|claim| claim.kind == kind);
            claims.filter_map(|claim| view.ingress_model(claim.ingress()?)).collect()
        };
        Self {
            rules: of(ClaimKind::Rule),
            aliases: of(ClaimKind::Alias),
            redirects: of(ClaimKind::WwwRedirect),
            canaries: of(ClaimKind::Canary),
        }
    }
}

struct Builder<'a, 'v> {
    view: &'a View<'v>,
    /// The host that is made, whose rules may be those of another one.
    served: &'a HostPattern,
    uses: Uses,
    problems: Vec<Problem>,
    tls_owners: Vec<endpoint_tls::TlsOwner>,
}

impl<'a> Builder<'a, '_> {
    /// The rules of those who have some for a host, in order.
    fn rules(&mut self, pattern: &HostPattern, claimants: &Claimants<'_>) -> Vec<Rule> {
        self.tls_owners = endpoint_tls::owners(self.view, pattern, &claimants.rules);
        let OrderedRules { mut rules, behind } = self.paths(pattern, &claimants.rules);
        if let Some(root) = Self::app_root(&claimants.rules, &rules) {
            rules.insert(0, root);
        }
        let redirect = claimants.redirects.iter().find(|model| model.closed().is_none());
        let rest = match redirect.filter(|_| !rules.iter().any(paths::takes_everything)) {
            Some(model) => to_sibling(pattern, model),
            None => self.rest(pattern, &claimants.rules, &rules),
        };
        // The default backend of another namespace is served before what cannot be read.
        let is_behind_rest = |rule: &Rule| {
            rest.as_ref().is_some_and(|rest| {
                rest.origin.object.name.namespace != rule.origin.object.name.namespace
                    && rest.action != forward(Backend::Default)
            })
        };
        let (after, before): (Vec<_>, Vec<_>) = behind.into_iter().partition(is_behind_rest);
        rules.extend(before.into_iter().chain(rest).chain(after));
        self.canaries(pattern, &claimants.canaries, &claimants.rules, &mut rules);
        rules
    }

    /// The rules under a further name: those of the host that it is a name of, which says itself what is wrong with
    /// them. A name of an Ingress that is closed is closed.
    fn of_alias(&mut self, model: &'a Arc<IngressModel>) -> (Vec<Rule>, Vec<&'a Arc<IngressModel>>) {
        let target = model.host_of_alias().filter(|_| model.closed().is_none());
        let Some(target) = target else { return (self.closed_name(model), vec![model]) };
        let claimants = Claimants::of(self.view, &key(target));
        let known = self.problems.len();
        let rules = self.rules(target, &claimants);
        self.problems.truncate(known);
        (rules, claimants.rules)
    }

    /// The rule of a host that differs by its `www.` from another one.
    fn of_sibling(&mut self, model: &Arc<IngressModel>) -> Vec<Rule> {
        match model.closed() {
            None => to_sibling(self.served, model).into_iter().collect(),
            Some(_) => self.closed_name(model),
        }
    }

    fn closed_name(&mut self, model: &Arc<IngressModel>) -> Vec<Rule> {
        self.rest(self.served, &[model], &[]).into_iter().collect()
    }

    /// Reports to the others on a host that one of them closes it, or would close it in
    /// ingress-nginx.
    fn closed_by(
        &mut self,
        pattern: &HostPattern,
        closer: &IngressModel,
        closure: &HostClosure,
        claimants: &[&Arc<IngressModel>],
    ) {
        let name = &closer.ingress.name;
        for model in claimants.iter().filter(|model| model.closes_hosts.is_none()) {
            let is_served = closure.own_namespace_only && model.ingress.name.namespace != name.namespace;
            let problem = match is_served {
                true => warning(
                    Code::HostClosed,
                    &object_ref(model),
                    "spec.rules",
                    format!(
                        "Ingress {name} has a server-snippet that restricts access to host {pattern}, which applies to \
                         this Ingress too in ingress-nginx; it is not served, and this Ingress, of another namespace, \
                         is served without it"
                    ),
                    "if the snippet protects this Ingress, protect it by annotations of its own",
                ),
                false => error(
                    Code::HostClosed,
                    &object_ref(model),
                    "spec.rules",
                    format!(
                        "all routes of {}host {pattern} answer 503, because Ingress {name} asks for what holds for the \
                         whole host and cannot be served",
                        if closure.own_namespace_only { "this namespace on " } else { "" }
                    ),
                    "give one of the two another host",
                ),
            };
            self.add(problem);
        }
    }

    /// Tells those who want the host as a further name of theirs that it is somebody else's.
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
                _ => "is older and wants it too",
            };
            let problem = error(
                Code::AliasConflict,
                &claim.object.object_ref(),
                annotations::field(&self.view.options.annotations_prefix, name),
                format!(
                    "host {pattern} belongs to Ingress {}, which {has}; the further name is left out",
                    winner.object.name
                ),
                "take the name out of one of the two",
            );
            // An alias is asked for by its name. A sibling is wanted as far as nobody has it, which is what happens.
            let severity = if name == "server-alias" { Severity::Error } else { Severity::Warning };
            self.add(Problem { severity, ..problem });
        }
    }

    /// The rules that Ingresses spell out, in order.
    fn paths(&mut self, pattern: &HostPattern, claimants: &[&Arc<IngressModel>]) -> OrderedRules {
        let mut table = PathTable::default();
        // One Ingress that asks for regular expressions makes all paths of the host such. One that is closed does so
        // for what is closed alone.
        let expressions = claimants.iter().any(|model| model.makes_expressions(pattern));
        let closed_too = claimants.iter().any(|model| model.regex);
        let reading_of = |model: &IngressModel| match expressions {
            true => Reading::Expressions,
            false if closed_too && model.closed().is_some() => Reading::Both,
            false => Reading::Plain,
        };
        // Copies that were served in the place of an older Ingress.
        let mut served = Vec::new();
        let all = (1..)
            .zip(claimants)
            .flat_map(|(next, model)| copies::paths_of(model, pattern).map(move |placed| (next, placed)));
        for (next, placed) in all {
            let copy = placed
                .0
                .gives_way_to_copies
                .then(|| self.copy(pattern, placed, &claimants[next..]))
                .flatten();
            let (model, position, path) = copy.unwrap_or(placed);
            if served.iter().any(|known: &*const IngressPath| std::ptr::eq(*known, path)) {
                continue;
            }
            self.path(&mut table, pattern, model, position, path, reading_of(model));
            served.extend(copy.map(|(_, _, path)| std::ptr::from_ref(path)));
        }
        table.into_rules(expressions)
    }

    fn path(
        &mut self,
        table: &mut PathTable,
        pattern: &HostPattern,
        model: &IngressModel,
        (rule, index): (u32, u32),
        path: &IngressPath,
        reading: Reading,
    ) {
        let object = object_ref(model);
        let field = || format!("spec.rules[{rule}].http.paths[{index}]");
        let asks = model.regex || model.makes_expressions(pattern);
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
            closed = Some(model.policies_of_closed(&format!("{}.path", field()), reason, REJECTED));
        }
        let (places, taken) = places(table, model, path, &text, (asks, reading), self.view.expressions());
        if let Some(winner) = taken {
            let origin = &winner.origin;
            let is_closed = if winner.policies.deny.is_some() { " and is closed" } else { "" };
            let message = format!(
                "host \"{pattern}\" and path {:?} is already defined in ingress {} (spec.rules[{}].http.paths[{}]){is_closed}, \
                 and is left out",
                path.path, origin.object.name, origin.rule, origin.match_index
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
        let action = model.redirect.as_deref().cloned().map(Action::Redirect).unwrap_or_else(|| {
            let reference = BackendReference {
                object: &object,
                field: &|| format!("{}.backend", field()),
                backend: &path.backend,
                protocol: model.protocol,
                usage: model.usage(),
                by_address: model.goes_by_address(self.view),
                otherwise: UNSERVED,
            };
            forward(reference.resolve(self.view, &mut self.uses, &mut self.problems))
        });
        let closed = match closed {
            None if model.is_misnamed(rule) => {
                Some(model.policies_of_closed(&format!("spec.rules[{rule}].host"), MISNAMED, REJECTED))
            }
            None if model.closed().is_some() => Some(model.policies(&path.path)),
            closed => closed,
        };
        // What is closed is looked at all the same, to tell what else is wrong.
        let open = self.open_path(&object, &field(), model, &path.path, asks);
        let policies = self.guarded(model, closed.unwrap_or(open), &action);
        let is_read = fault.is_none() && !model.is_misnamed(rule);
        let origin = origin(model, rule, index, text);
        for (place, matches) in places {
            table.put(place, is_read, matches, action.clone(), policies.clone(), origin.clone());
        }
    }

    /// `app-root` of the first path in order whose Ingress has one, for the whole host, as in ingress-nginx.
    fn app_root(claimants: &[&Arc<IngressModel>], rules: &[Rule]) -> Option<Rule> {
        if claimants.iter().all(|model| model.app_root().is_none()) {
            return None;
        }
        let (model, path) = rules.iter().find_map(|rule| {
            let model = claimants.iter().find(|model| model.ingress.name == rule.origin.object.name)?;
            Some((model, model.app_root()?))
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
            origin: origin(model, 0, 0, root),
        })
    }

    /// Adds a problem once, however many rules have it.
    fn add(&mut self, problem: Problem) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// The rule for whatever no path takes: the default backend of the oldest Ingress that has one, else the
    /// program's. None where an Ingress has said what happens to `/`.
    fn rest(
        &mut self,
        pattern: &HostPattern,
        claimants: &[&Arc<IngressModel>],
        rules: &[Rule],
    ) -> Option<Rule> {
        if rules.iter().any(paths::takes_everything) {
            return None;
        }
        let mut found: Option<(Rule, &IngressModel)> = None;
        for model in claimants {
            let Some(backend) = model.default_backend() else { continue };
            let has_copy = |other: &&Arc<IngressModel>| copies::takes_over(other, model);
            if claimants.iter().any(|other| has_copy(other) && other.default_backend().is_some()) {
                continue;
            }
            let object = object_ref(model);
            if let Some((_, winner)) = &found {
                if winner.default_backend() != model.default_backend()
                    || winner.ingress.name.namespace != model.ingress.name.namespace
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
            let reference = BackendReference {
                object: &object,
                field: &|| "spec.defaultBackend".to_owned(),
                backend,
                protocol: model.protocol,
                usage: model.usage(),
                by_address: model.goes_by_address(self.view),
                otherwise: UNSERVED,
            };
            let backend = reference.resolve(self.view, &mut self.uses, &mut self.problems);
            let policies = match model.ingress.rules.is_empty() {
                true => model.catch_all_policies(),
                false => policies::of_rest(model, pattern),
            };
            let action = policies::rest_action(pattern, model, backend);
            let policies = self.guarded(model, policies, &action);
            found = Some((rest_rule(action, policies, model), model));
        }
        if let Some((rule, _)) = found {
            return Some(rule);
        }
        // Nobody asks for what is left, so that it is closed only with the whole host. Claimants are never empty
        // here: a host without them is not built.
        let first = claimants.iter().find(|model| model.closed().is_none()).or(claimants.first())?;
        let policies = match pattern {
            HostPattern::Any => first.catch_all_policies(),
            _ => policies::of_rest(first, pattern),
        };
        let action = policies::rest_action(pattern, first, Backend::Default);
        let policies = self.guarded(first, policies, &action);
        Some(rest_rule(action, policies, first))
    }
}

const MISNAMED: &str = "is no host of an Ingress";

/// What is left of a host redirects to the one that differs by its `www.`.
fn to_sibling(pattern: &HostPattern, model: &IngressModel) -> Option<Rule> {
    let host = model.host_of_sibling(pattern)?;
    Some(rest_rule(Action::RedirectToHost(host.clone()), Arc::default(), model))
}

fn rest_rule(action: Action, policies: Arc<Policies>, model: &IngressModel) -> Rule {
    let path: Arc<str> = "/".into();
    let origin = origin(model, 0, 0, path.clone());
    let matches = Match::path(PathMatch::Prefix(path));
    Rule { matches, action, policies, filters: Vec::new(), origin }
}

fn forward(backend: Backend) -> Action {
    Action::Forward(vec![WeightedBackend { weight: 1, backend, filters: Vec::new() }])
}

fn origin(model: &IngressModel, rule: u32, match_index: u32, path: Arc<str>) -> Arc<Origin> {
    static KIND: LazyLock<Arc<str>> = LazyLock::new(|| "Ingress".into());
    let object = ObjectRef { kind: KIND.clone(), name: model.ingress.name.clone() };
    Arc::new(Origin { object, rule, match_index, rule_name: None, path })
}

fn object_ref(model: &IngressModel) -> ObjectRef {
    ObjectRef { kind: "Ingress".into(), name: model.ingress.name.clone() }
}

fn close<'r>(rules: impl Iterator<Item = &'r mut Rule>, reason: &Arc<str>) {
    for rule in rules {
        if rule.policies.deny.is_none() {
            let deny = Some(Deny { status: 503, reason: reason.clone() });
            rule.policies = Arc::new(Policies { deny, ..(*rule.policies).clone() });
        }
    }
}
