//! Copies: a path of an Ingress that is closed because of a snippet, asked for by a newer Ingress
//! without one.
//!
//! ingress-nginx does not take an Ingress with a snippet over, so that a copy of it without the
//! snippet is served. Here it is, where both have the same owner, who has decided that the path may
//! be served without the snippet.

use std::sync::Arc;

use sluice_config::{Code, HostPattern};

use super::{Builder, object_ref};
use crate::problem::warning;
use crate::store::{IngressPath, PathType};
use crate::translate::ingress::IngressModel;

/// A path of an Ingress, with the numbers of its rule and of the path.
pub(super) type PlacedPath<'f> = (&'f Arc<IngressModel>, (u32, u32), &'f IngressPath);

/// All paths of an Ingress on a host.
pub(super) fn paths_of<'f>(
    model: &'f Arc<IngressModel>,
    pattern: &HostPattern,
) -> impl Iterator<Item = PlacedPath<'f>> {
    model.rules_of(pattern).iter().flat_map(move |&rule| {
        let paths = model.ingress.rules[rule as usize].paths.as_deref().unwrap_or_default();
        (0u32..).zip(paths).map(move |(index, path)| (model, (rule, index), path))
    })
}

/// Whether `other` may be served in the place of `model`.
pub(super) fn takes_over(other: &IngressModel, model: &IngressModel) -> bool {
    model.gives_way_to_copies
        && other.closed().is_none()
        && other.ingress.name.namespace == model.ingress.name.namespace
}

impl Builder<'_, '_> {
    /// The copy of a path, of one of these newer Ingresses, that is served in its place.
    pub(super) fn copy<'f>(
        &mut self,
        pattern: &HostPattern,
        (model, (rule, index), path): PlacedPath<'f>,
        newer: &[&'f Arc<IngressModel>],
    ) -> Option<PlacedPath<'f>> {
        let others = newer.iter().filter(|other| takes_over(other, model));
        let is_exact = |path: &IngressPath| path.path_type == PathType::Exact;
        let copy = others
            .flat_map(|other| paths_of(other, pattern))
            .find(|(_, _, copy)| copy.path == path.path && is_exact(copy) == is_exact(path))?;
        self.problems.push(warning(
            Code::PathConflict,
            &object_ref(model),
            format!("spec.rules[{rule}].http.paths[{index}].path"),
            format!(
                "host {pattern} and path {:?} are served by Ingress {}, which has no snippet",
                path.path, copy.0.ingress.name
            ),
            "remove this path, or this Ingress, when it is no longer needed",
        ));
        Some(copy)
    }
}
