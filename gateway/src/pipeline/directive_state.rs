//! What the directives of a rule made of a request.

use crate::body::substitution::Substitution;
use crate::policy::assigned::{Assigned, RewrittenUri};
use crate::policy::directives::{ActiveLocation, Directives, FieldChanges, FilledValues};
use crate::route::Route;
use crate::state::snapshot::SnapshotPart;

/// What the directives of a rule made of a request.
#[derive(Debug, Default)]
pub(super) struct DirectiveState {
    pub(super) active: ActiveLocation,
    /// Values that programs have assigned, and the scope in effect.
    pub(super) assigned: Assigned,
    /// The path and query for the endpoint, if `rewrite-target` has changed them.
    pub(super) for_endpoint: Option<RewrittenUri>,
    /// The changes of the client's fields in locations that programs have left, in order.
    pub(super) left: Vec<LeftLocation>,
    /// Values of the client's fields, of fields for the endpoint, and of the response.
    pub(super) input: Option<FilledValues>,
    pub(super) request: Option<FilledValues>,
    pub(super) response: Option<FilledValues>,
    /// Texts that are replaced in the response.
    pub(super) substitution: Option<Substitution>,
    /// The server's program has run.
    pub(super) has_left_server: bool,
    /// A location must be chosen for the path that a program has set.
    pub(super) relocates: bool,
    /// Locations that were chosen anew by programs of locations.
    pub(super) relocations: u8,
    /// A `break` ended the program, so the directives of the rewrite module that follow it do not
    /// run.
    pub(super) is_broken: bool,
}

/// A location that a program has left for another one. Its changes of the client's fields stay in
/// effect, because headers-more makes them at the end of the rewrite phase of each location.
#[derive(Debug)]
pub(super) struct LeftLocation {
    pub(super) route: SnapshotPart<Route>,
    pub(super) active: ActiveLocation,
    pub(super) scope: usize,
    pub(super) input: Option<FilledValues>,
}

impl LeftLocation {
    /// Its changes of the client's fields.
    pub(super) fn changes(&self) -> Option<&FieldChanges> {
        Some(&directives(&self.route)?.location(self.active).scope(self.scope).input)
    }
}

/// The directives of the snippets of a rule.
pub(super) fn directives(route: &Route) -> Option<&Directives> {
    route.compiled.as_deref()?.directives.as_deref()
}
