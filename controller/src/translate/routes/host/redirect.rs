//! `permanent-redirect` and `temporal-redirect`: the redirect of all paths of an object.

use std::sync::Arc;

use sluice_config::directives::{AfterRewrite, Instruction, Return};
use sluice_config::{Action, Policies, Redirect, RedirectPath, Template, TemplatePiece};

use super::Builder;
use crate::translate::routes::ObjectRoutes;

/// The redirect of an object, in one of two forms; none has neither.
#[derive(Default)]
pub(super) struct Redirects {
    /// The action of its rules.
    pub(super) action: Option<Action>,
    /// The last directive of their locations, if a snippet may end before it with `break`. The
    /// requests for which it does go to the backend, as in ingress-nginx.
    pub(super) instruction: Option<Instruction>,
}

impl Builder<'_, '_> {
    /// Returns the redirect of an object.
    pub(super) fn redirects(&self, routes: &ObjectRoutes) -> Redirects {
        let Some(redirect) = &routes.settings.redirect else { return Redirects::default() };
        let snippets = [&routes.settings.snippets.location, &self.view.snippets().location];
        let may_break = snippets.into_iter().flatten().any(|block| may_break(block.program()));
        match instruction(redirect).filter(|_| may_break) {
            None => Redirects { action: Some(Action::Redirect(redirect.clone())), instruction: None },
            instruction => Redirects { action: None, instruction },
        }
    }
}

/// Returns policies whose location ends with a directive.
pub(super) fn ended_by(mut policies: Arc<Policies>, instruction: Option<&Instruction>) -> Arc<Policies> {
    if let Some(instruction) = instruction.filter(|_| policies.deny.is_none()) {
        let directives = Arc::make_mut(&mut policies).directives.get_or_insert_default();
        Arc::make_mut(directives).location.program.push(instruction.clone());
    }
    policies
}

/// Returns whether a program of a location may end before its last directive and keep the location.
fn may_break(program: &[Instruction]) -> bool {
    program.iter().any(|instruction| match instruction {
        Instruction::Break => true,
        Instruction::Rewrite { then, .. } => *then == AfterRewrite::Stay,
        Instruction::If { then, .. } => may_break(then),
        Instruction::Set { .. } | Instruction::Return(_) => false,
    })
}

/// Returns a redirect as a directive; `None` for those that no annotation of all paths makes.
fn instruction(redirect: &Redirect) -> Option<Instruction> {
    let location = match &redirect.path {
        RedirectPath::Url(text) | RedirectPath::Root(text) => {
            Template { pieces: vec![TemplatePiece::Text(text.clone())] }
        }
        RedirectPath::UrlTemplate(template) => template.clone(),
        RedirectPath::Keep
        | RedirectPath::AppendSlash
        | RedirectPath::Replace(_)
        | RedirectPath::ReplaceAll(_) => return None,
    };
    Some(Instruction::Return(Return::Redirect { status: redirect.status, location }))
}
