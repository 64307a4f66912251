//! Copies: a path of an object that is closed because of a snippet, asked for by a newer object
//! without one.
//!
//! ingress-nginx does not take an Ingress with a snippet over, so that a copy of it without the
//! snippet is served. Here it is, where both have the same owner, who has decided that the path may
//! be served without the snippet.

use std::sync::Arc;

use sluice_config::{Code, HostPattern};

use super::{Builder, object_ref};
use crate::problem::warning;
use crate::store::{PathType, RoutePath};
use crate::translate::routes::{ObjectRoutes, RuleRoutes, path_field};

/// A path with the rule and the object that it belongs to.
#[derive(Clone, Copy)]
pub(super) struct PlacedPath<'f> {
    pub(super) routes: &'f Arc<ObjectRoutes>,
    pub(super) rule: &'f RuleRoutes,
    /// Its index within the rule.
    pub(super) index: u32,
    pub(super) path: &'f RoutePath,
}

/// Returns all paths of an object on a host.
pub(super) fn paths_of<'f>(
    routes: &'f Arc<ObjectRoutes>,
    pattern: &HostPattern,
) -> impl Iterator<Item = PlacedPath<'f>> {
    routes.rules_of(pattern).iter().flat_map(move |rule| {
        let paths = rule.paths.as_deref().unwrap_or_default();
        (0u32..).zip(paths).map(move |(index, path)| PlacedPath { routes, rule, index, path })
    })
}

/// Whether `other` may be served in the place of `routes`.
pub(super) fn takes_over(other: &ObjectRoutes, routes: &ObjectRoutes) -> bool {
    routes.gives_way_to_copies && other.closed().is_none() && other.namespace() == routes.namespace()
}

impl Builder<'_, '_> {
    /// The copy of a path, of one of these newer objects, that is served in its place.
    pub(super) fn copy<'f>(
        &mut self,
        pattern: &HostPattern,
        PlacedPath { routes, rule, index, path }: PlacedPath<'f>,
        newer: &[&'f Arc<ObjectRoutes>],
    ) -> Option<PlacedPath<'f>> {
        let others = newer.iter().filter(|other| takes_over(other, routes));
        let is_exact = |path: &RoutePath| path.path_type == PathType::Exact;
        let copy = others
            .flat_map(|other| paths_of(other, pattern))
            .find(|copy| copy.path.path == path.path && is_exact(copy.path) == is_exact(path))?;
        let kind = routes.object.kind.as_str();
        self.problems.push(warning(
            Code::PathConflict,
            &object_ref(routes),
            format!("{}.path", path_field(rule.index, index)),
            format!(
                "host {pattern} and path {:?} are served by {}, which has no snippet",
                path.path, copy.routes.object
            ),
            format!("remove this path, or this {kind}, when it is no longer needed"),
        ));
        Some(copy)
    }
}
