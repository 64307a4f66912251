//! How the paths of an object are read on a host: as they stand, or as regular expressions.

use std::sync::Arc;

use sluice_config::{PathMatch, Rule};

use super::paths::{self, PathRank, PathTable};
use crate::store::{PathType, RoutePath};
use crate::translate::expression::Expressions;
use crate::translate::routes::ObjectRoutes;

/// How the paths of an object are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// As they stand.
    Plain,
    /// As they stand, and as expressions: what is closed, where something that is closed asks for expressions.
    Both,
    /// As expressions, because somebody on the host asks for that.
    Expressions,
}

/// Where a path stands, and what it matches there; and who has a part of that already.
pub(super) fn places<'t>(
    table: &'t PathTable,
    routes: &ObjectRoutes,
    path: &RoutePath,
    text: &Arc<str>,
    (asks, reading): (bool, Reading),
    expressions: &Expressions,
) -> (Vec<(PathRank, PathMatch)>, Option<&'t Rule>) {
    let plain = |path_type| {
        let place = PathRank::plain(text.clone(), path_type);
        let matches = place.to_match();
        (place, matches)
    };
    let is_closed = routes.closed().is_some();
    let taken_by = |place: &PathRank| table.taken(place, routes.namespace());
    if reading == Reading::Expressions {
        let expression = paths::on_host_of_expressions(text, asks || is_closed, expressions);
        if let Some(winner) = taken_by(&expression.0) {
            return (Vec::new(), Some(winner));
        }
        let mut places = vec![expression];
        // What is closed is so as it stands, too.
        places.extend(
            is_closed.then(|| plain(PathType::Prefix)).filter(|(place, _)| taken_by(place).is_none()),
        );
        return (places, None);
    }
    let mut places = vec![plain(path.path_type)];
    if reading == Reading::Both && path.path_type == PathType::Exact {
        // An expression has no end of its own.
        places.push(plain(PathType::Prefix));
    }
    let taken = places.iter().filter_map(|(place, _)| taken_by(place)).next_back();
    let expression_is_taken = places.last().is_some_and(|(place, _)| taken_by(place).is_some());
    places.retain(|(place, _)| taken_by(place).is_none());
    if reading == Reading::Both && !places.is_empty() && !expression_is_taken {
        places.push(paths::expression(slashed(&path.path), expressions));
    }
    (places, taken)
}

fn slashed(path: &Arc<str>) -> Arc<str> {
    if path.starts_with('/') { path.clone() } else { format!("/{path}").into() }
}

/// The path that is claimed for what an object says, and what is wrong with that, with how to fix it. Dots of
/// an expression are no segments.
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
