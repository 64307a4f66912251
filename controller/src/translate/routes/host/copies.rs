//! Copies: a path of an object that is closed because of a snippet, also claimed by a newer object
//! without one.
//!
//! ingress-nginx rejects an Ingress with a snippet and therefore serves such a copy. Sluice does
//! too if both objects are in one namespace, whose owner has decided to serve the path without the
//! snippet.

use std::sync::Arc;

use sluice_config::{Code, HostPattern};

use super::{Builder, object_ref};
use crate::problem::warning;
use crate::store::{PathType, RoutePath};
use crate::translate::routes::{ObjectRoutes, RuleRoutes, path_field};

/// A path with its rule and object.
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

/// Returns whether `other` may be served instead of `routes`.
pub(super) fn takes_over(other: &ObjectRoutes, routes: &ObjectRoutes) -> bool {
    routes.gives_way_to_copies && other.closed().is_none() && other.namespace() == routes.namespace()
}

impl Builder<'_, '_> {
    /// Returns the copy of a path, from one of these newer objects, that is served instead.
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
