//! Interpretation of an object's paths on a host: literal, or as regular expressions.

use std::sync::Arc;

use sluice_config::{PathMatch, Rule};

use super::paths::{self, PathRank, PathTable};
use crate::store::{PathType, RoutePath};
use crate::translate::expression::Expressions;
use crate::translate::routes::ObjectRoutes;

/// The interpretation of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Literal.
    Plain,
    /// Both, for closed paths if a closed object requests expressions.
    Both,
    /// As expressions, because an object on the host requests that.
    Expressions,
}

/// Returns the ranks and matches of a path, and the owners of those already in use.
pub(super) fn places<'t>(
    table: &'t PathTable,
    routes: &ObjectRoutes,
    path: &RoutePath,
    text: &Arc<str>,
    (asks, reading): (bool, Reading),
    expressions: &Expressions,
) -> (Vec<(PathRank, PathMatch)>, Option<&'t Rule>) {
    let plain = |text: &Arc<str>, path_type| {
        let place = PathRank::plain(text.clone(), path_type);
        let matches = place.to_match();
        (place, matches)
    };
    let is_closed = routes.closed().is_some();
    let taken_by = |place: &PathRank| table.taken(place, routes.namespace());
    if reading == Reading::Expressions {
        let is_exact = path.path_type == PathType::Exact;
        if is_exact_root(path.path_type, text) {
            let place = paths::exact_root(text);
            let taken = taken_by(&place.0);
            return (Vec::from_iter(taken.is_none().then_some(place)), taken);
        }
        // Paths of all types but Exact are alike, also where one covers only what is below it.
        let taken_by = |place: &PathRank| {
            taken_by(place).or_else(|| taken_by(&place.clone().below()).filter(|_| !is_exact))
        };
        let as_expression =
            |text: &Arc<str>| paths::on_host_of_expressions(text, asks || is_closed, expressions);
        let expression = as_expression(text);
        if let Some(winner) = taken_by(&expression.0) {
            return (Vec::new(), Some(winner));
        }
        let mut places = vec![expression];
        // A closed path is closed literally, too.
        places.extend(
            is_closed.then(|| plain(text, PathType::Prefix)).filter(|(place, _)| taken_by(place).is_none()),
        );
        let rewriting = &routes.settings.rewriting;
        if routes.regex || is_exact || rewriting.is_expression(&path.path) {
            return (places, None);
        }
        if let Some(text) = table.text_beside_exact(text) {
            let matches = [as_expression(&text).1, plain(&text, PathType::Prefix).1];
            let below = places.into_iter().zip(matches);
            places = below.map(|((place, _), matches)| (place.below(), matches)).collect();
        } else if !is_closed && rewriting.rewrites_below(path) {
            let below = as_expression(&format!("{text}/").into()).1;
            places.push((places[0].0.clone().below(), below));
        }
        return (places, None);
    }
    let mut places = vec![plain(text, path.path_type)];
    let may_be_expression = reading == Reading::Both && !is_exact_root(path.path_type, text);
    if may_be_expression && path.path_type == PathType::Exact {
        // An expression matches prefixes.
        places.push(plain(text, PathType::Prefix));
    }
    let taken = places.iter().filter_map(|(place, _)| taken_by(place)).next_back();
    let expression_is_taken = places.last().is_some_and(|(place, _)| taken_by(place).is_some());
    places.retain(|(place, _)| taken_by(place).is_none());
    if may_be_expression && !places.is_empty() && !expression_is_taken {
        places.push(paths::expression(slashed(&path.path), expressions));
    }
    (places, taken)
}

/// Returns whether a path is `/` of type Exact. Among expressions it takes no request in
/// ingress-nginx: each host has a Prefix path `/`, which comes first.
pub(super) fn is_exact_root(path_type: PathType, text: &str) -> bool {
    path_type == PathType::Exact && text == "/"
}

fn slashed(path: &Arc<str>) -> Arc<str> {
    if path.starts_with('/') { path.clone() } else { format!("/{path}").into() }
}

/// Returns the path to claim for a path as written, and its fault with the remedy. Dots of an
/// expression are not segments.
pub(super) fn meant_path(path: &Arc<str>, regex: bool) -> (Arc<str>, Option<(&'static str, &'static str)>) {
    if !path.starts_with('/') {
        let fault = ("does not begin with a slash", "begin the path with a slash");
        return (slashed(path), Some(fault));
    }
    match paths::reachable(path).filter(|_| !regex) {
        Some(other) => {
            let remedy = "write the path as it is after its slashes are merged and its dots resolved";
            (other.into(), Some(("is a path that no request is ever looked up by", remedy)))
        }
        None => (path.clone(), None),
    }
}
