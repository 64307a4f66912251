//! `app-root`: the redirect of `/` for a whole host.

use std::cmp::Reverse;
use std::sync::Arc;

use sluice_config::directives::{Condition, Instruction, Return};
use sluice_config::{
    Action, Match, PathMatch, Redirect, RedirectPath, Rule, Template, TemplatePiece, Variable,
};

use super::{Builder, origin};
use crate::translate::routes::ObjectRoutes;

impl Builder<'_, '_> {
    /// Adds the redirect of `/`.
    ///
    /// ingress-nginx has it in the server: behind the annotation `server-snippet`, which may
    /// answer first or skip it with `break`, and before the key of that name. So with directives of
    /// the server it is one of them, and otherwise a rule before all others.
    pub(super) fn redirect_root(&self, claimants: &[&Arc<ObjectRoutes>], rules: &mut Vec<Rule>) {
        let Some((routes, path)) = owner(claimants, rules) else { return };
        if !rules.iter().any(has_directives_of_server) {
            rules.insert(0, redirect(routes, path));
            return;
        }
        let instruction = instruction(path);
        for rule in rules.iter_mut().filter(|rule| rule.policies.deny.is_none()) {
            let snippet = self.server_snippet(&rule.origin.object.name.namespace);
            let at = snippet.map_or(0, |block| block.program().len());
            let policies = Arc::make_mut(&mut rule.policies);
            let program = &mut Arc::make_mut(policies.directives.get_or_insert_default()).server.program;
            // The redirect to another name has no snippet.
            program.insert(at.min(program.len()), instruction.clone());
        }
    }
}

/// Returns the object whose `app-root` applies, with that: of the longest path that has one, as in
/// ingress-nginx.
fn owner<'r>(
    claimants: &[&'r Arc<ObjectRoutes>],
    rules: &[Rule],
) -> Option<(&'r ObjectRoutes, &'r Arc<str>)> {
    if claimants.iter().all(|routes| routes.app_root().is_none()) {
        return None;
    }
    let of_rule = |rule: &Rule| {
        let (age, routes) = (0..).zip(claimants).find(|(_, routes)| routes.is_origin_of(&rule.origin))?;
        let path = &rule.origin.path;
        let rank = (Reverse(path.len()), Reverse(path.clone()), age);
        Some((rank, (&***routes, routes.app_root()?)))
    };
    let first = rules.iter().filter_map(of_rule).min_by(|(one, _), (other, _)| one.cmp(other));
    first.map(|(_, owner): ((_, _, usize), _)| owner)
}

fn has_directives_of_server(rule: &Rule) -> bool {
    rule.policies.directives.as_ref().is_some_and(|directives| !directives.server.is_empty())
}

fn redirect(routes: &ObjectRoutes, path: &Arc<str>) -> Rule {
    let redirect = Redirect {
        status: 302,
        scheme: None,
        host: None,
        port: None,
        path: RedirectPath::ReplaceAll(path.clone()),
    };
    let root: Arc<str> = "/".into();
    Rule {
        matches: Match::path(PathMatch::Exact(root.clone())),
        action: Action::Redirect(redirect),
        // The redirect reveals nothing, so no policy protects it; ingress-nginx redirects before
        // all checks too.
        policies: Arc::default(),
        origin: origin(routes, 0, 0, root),
    }
}

/// Returns `if ($uri = /) { return 302 $scheme://$http_host/...; }` of ingress-nginx's template. A
/// request without a host gets 400, as from every other redirect.
fn instruction(path: &Arc<str>) -> Instruction {
    let text = |text: &str| TemplatePiece::Text(text.into());
    let when = |variable, value: &str, then| Instruction::If {
        condition: Condition::Equal {
            value: Template { pieces: vec![TemplatePiece::Variable(variable)] },
            other: Template { pieces: vec![text(value)] },
            negated: false,
        },
        scope: None,
        then,
    };
    let pieces = vec![
        TemplatePiece::Variable(Variable::Scheme),
        text("://"),
        TemplatePiece::Variable(Variable::HttpHost),
        text(path),
    ];
    let answer = Return::Redirect { status: 302, location: Template { pieces } };
    let without_host = when(Variable::HttpHost, "", vec![Instruction::Return(Return::Page(400))]);
    when(Variable::Uri, "/", vec![without_host, Instruction::Return(answer)])
}
