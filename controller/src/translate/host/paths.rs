//! The paths of one host: who has which, and in what order they are tried.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_config::{Action, Match, Origin, PathMatch, Policies, Redirect, RedirectPath, Rule};

use crate::store::{IngressPath, PathType};

/// Where a path stands: exact ones first, then the longest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    kind: PathKind,
    length: std::cmp::Reverse<usize>,
    path: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathKind {
    Exact,
    /// Also what is ImplementationSpecific.
    Prefix,
}

/// Paths that are taken.
#[derive(Default)]
pub(super) struct Table(BTreeMap<Place, Rule>);

impl Table {
    /// Who has this path already.
    pub(super) fn taken(&self, path: &IngressPath) -> Option<String> {
        let origin = &self.0.get(&Place::of(path))?.origin;
        Some(format!("{} (spec.rules[{}].http.paths[{}])", origin.object, origin.rule, origin.match_index))
    }

    /// Takes a path.
    pub(super) fn put(
        &mut self,
        path: &IngressPath,
        action: Action,
        policies: Arc<Policies>,
        origin: Arc<Origin>,
    ) {
        let place = Place { path: origin.path.clone(), ..Place::of(path) };
        let matches = Match::path(place.to_match());
        self.0.insert(place, Rule { matches, action, policies, filters: Vec::new(), origin });
    }

    /// The rules in order, with nginx's answer to `/foo` where only `/foo/` is there.
    pub(super) fn into_rules(mut self) -> Vec<Rule> {
        let redirects: Vec<(Place, Rule)> = self
            .0
            .iter()
            .filter_map(|(place, rule)| {
                let bare = place.path.strip_suffix('/').filter(|bare| !bare.is_empty())?;
                let exact = Place::new(PathKind::Exact, bare.into());
                let prefix = Place::new(PathKind::Prefix, bare.into());
                let free = !self.0.contains_key(&exact) && !self.0.contains_key(&prefix);
                (place.kind == PathKind::Prefix && free).then(|| (exact, append_slash(bare, rule)))
            })
            .collect();
        self.0.extend(redirects);
        self.0.into_values().collect()
    }
}

impl Place {
    fn of(path: &IngressPath) -> Self {
        let kind = match path.path_type {
            PathType::Exact => PathKind::Exact,
            PathType::Prefix | PathType::ImplementationSpecific => PathKind::Prefix,
        };
        Self::new(kind, (*path.path).into())
    }

    fn new(kind: PathKind, path: Arc<str>) -> Self {
        Self { kind, length: std::cmp::Reverse(path.len()), path }
    }

    fn to_match(&self) -> PathMatch {
        match self.kind {
            PathKind::Exact => PathMatch::Exact(self.path.clone()),
            PathKind::Prefix => PathMatch::Prefix(self.path.clone()),
        }
    }
}

fn append_slash(bare: &str, rule: &Rule) -> Rule {
    let redirect =
        Redirect { status: 301, scheme: None, host: None, port: None, path: RedirectPath::AppendSlash };
    Rule {
        matches: Match::path(PathMatch::Exact(bare.into())),
        action: Action::Redirect(redirect),
        policies: rule.policies.clone(),
        filters: Vec::new(),
        origin: rule.origin.clone(),
    }
}

/// Whether a rule is `/` with everything below it.
pub(super) fn takes_everything(rule: &Rule) -> bool {
    matches!(&rule.matches.path, PathMatch::Prefix(path) if **path == *"/")
}
