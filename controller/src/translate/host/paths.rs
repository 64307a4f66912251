//! The paths of one host: who has which, and in what order they are tried.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_config::{Action, Match, Origin, PathMatch, Policies, Redirect, RedirectPath, Rule};

use crate::store::PathType;
use crate::translate::expression::Expressions;

/// Where a path stands: exact ones first, then the longest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PathRank {
    kind: PathKind,
    length: Reverse<usize>,
    form: Form,
    /// As in ingress-nginx, where two expressions of one length may take the same request.
    path: Reverse<Arc<str>>,
}

/// What decides among places of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// What an expression begins with that cannot be read: before that path itself, since the whole is longer.
    Beginning,
    Expression,
    Plain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathKind {
    Exact,
    /// Also what is ImplementationSpecific, and regular expressions.
    Prefix,
}

/// Paths that are taken.
#[derive(Default)]
pub(super) struct PathTable(BTreeMap<PathRank, Rule>);

impl PathTable {
    /// Who has this path already.
    pub(super) fn taken(&self, place: &PathRank) -> Option<&Rule> {
        self.0.get(place)
    }

    /// Takes a path.
    pub(super) fn put(
        &mut self,
        place: PathRank,
        path: PathMatch,
        action: Action,
        policies: Arc<Policies>,
        origin: Arc<Origin>,
    ) {
        let rule = Rule { matches: Match::path(path), action, policies, filters: Vec::new(), origin };
        self.0.insert(place, rule);
    }

    /// The rules in order, with nginx's answer to `/foo` where only `/foo/` is there. Where paths are expressions it has
    /// none.
    pub(super) fn into_rules(mut self, expressions: bool) -> Vec<Rule> {
        if expressions {
            return self.0.into_values().collect();
        }
        let redirects: Vec<(PathRank, Rule)> = self
            .0
            .iter()
            .filter_map(|(place, rule)| {
                let PathMatch::Prefix(path) = &rule.matches.path else { return None };
                let bare = path.strip_suffix('/').filter(|bare| !bare.is_empty())?;
                let exact = PathRank::new(PathKind::Exact, bare.into());
                let prefix = PathRank::new(PathKind::Prefix, bare.into());
                let free = !self.0.contains_key(&exact) && !self.0.contains_key(&prefix);
                (place.kind == PathKind::Prefix && free).then(|| (exact, append_slash(bare, rule)))
            })
            .collect();
        self.0.extend(redirects);
        self.0.into_values().collect()
    }
}

impl PathRank {
    /// Of a path as it stands.
    pub(super) fn plain(path: Arc<str>, path_type: PathType) -> Self {
        let kind = match path_type {
            PathType::Exact => PathKind::Exact,
            PathType::Prefix | PathType::ImplementationSpecific => PathKind::Prefix,
        };
        Self::new(kind, path)
    }

    fn new(kind: PathKind, path: Arc<str>) -> Self {
        Self { kind, length: Reverse(path.len()), form: Form::Plain, path: Reverse(path) }
    }

    /// The match for the path as it stands.
    pub(super) fn to_match(&self) -> PathMatch {
        match self.kind {
            PathKind::Exact => PathMatch::Exact(self.path.0.clone()),
            PathKind::Prefix => PathMatch::Prefix(self.path.0.clone()),
        }
    }
}

/// The place and the match for a path as a regular expression, as ingress-nginx reads it: from the beginning of
/// the path, without regard to case, by its length among the prefixes. Where ours cannot read it, what stands
/// before its first special character counts, so that it covers too much rather than too little; it then stands
/// where that stands, so that it closes nothing of others that is more exact.
pub(super) fn expression(path: Arc<str>, expressions: &Expressions) -> (PathRank, PathMatch) {
    let (form, length, matches) = match readable(&path, expressions) {
        Ok(matches) => (Form::Expression, path.len(), matches),
        Err(_) => {
            let plain = beginning(&path);
            let matches = match plain {
                "" => "^".to_owned(),
                plain => format!("(?i)^{}", regex::escape(plain)),
            };
            (Form::Beginning, plain.len().max(1), PathMatch::Regex(matches.into()))
        }
    };
    (PathRank { kind: PathKind::Prefix, length: Reverse(length), form, path: Reverse(path) }, matches)
}

/// The place and the match for a path on a host whose paths are expressions. One that nobody has meant as such and
/// that cannot be read is taken as it stands.
pub(super) fn on_host_of_expressions(
    path: &Arc<str>,
    meant: bool,
    expressions: &Expressions,
) -> (PathRank, PathMatch) {
    if **path == *"/" {
        let place = PathRank {
            kind: PathKind::Prefix,
            length: Reverse(1),
            form: Form::Expression,
            path: Reverse(path.clone()),
        };
        return (place, PathMatch::Prefix(path.clone()));
    }
    if !meant && readable(path, expressions).is_err() {
        let literal = format!("(?i)^{}", regex::escape(path));
        return (PathRank::plain(path.clone(), PathType::Prefix), PathMatch::Regex(literal.into()));
    }
    expression(path.clone(), expressions)
}

/// Why a path cannot be read as an expression.
pub(super) fn unreadable(path: &str, expressions: &Expressions) -> Option<Arc<str>> {
    readable(path, expressions).err()
}

fn readable(path: &str, expressions: &Expressions) -> Result<PathMatch, Arc<str>> {
    let whole = format!("(?i)^{path}");
    Ok(match &expressions.read(&whole)?.look_ahead {
        Some(apart) => PathMatch::LookAhead(apart.clone()),
        None => PathMatch::Regex(whole.into()),
    })
}

/// What every path begins with that the expression can mean.
fn beginning(path: &str) -> &str {
    if has_alternatives(path) {
        return "";
    }
    let special = |c: char| !(c.is_alphanumeric() || "/-_~.%".contains(c));
    let plain = path.split_once(special).map_or(path, |(plain, _)| plain);
    // What is repeated by `?` or `*` need not be there.
    match path[plain.len()..].starts_with(['?', '*', '{']) {
        true => &plain[..plain.char_indices().last().map_or(0, |(at, _)| at)],
        false => plain,
    }
}

/// Whether an expression has a `|` outside of its groups: then what it begins with says nothing of the rest.
fn has_alternatives(path: &str) -> bool {
    let (mut depth, mut escaped) = (0_i32, false);
    // Characters of the class so far, its `^` left out: a `]` that comes first is one of them.
    let mut class: Option<usize> = None;
    for c in path.chars() {
        match c {
            _ if escaped => {
                escaped = false;
                class = class.map(|length| length + 1);
            }
            '\\' => escaped = true,
            ']' if class.is_some_and(|length| length > 0) => class = None,
            '^' if class == Some(0) => {}
            _ if class.is_some() => class = class.map(|length| length + 1),
            '[' => class = Some(0),
            '(' => depth += 1,
            ')' => depth -= 1,
            '|' if depth <= 0 => return true,
            _ => {}
        }
    }
    false
}

/// The path that requests for this one are compared by, where that is another: they come with slashes merged
/// and dot segments removed, so that no request ever has it as it stands.
pub(super) fn reachable(path: &str) -> Option<String> {
    let mut segments: Vec<&str> = Vec::new();
    let mut is_folder = false;
    for segment in path.split('/').skip(1) {
        is_folder = matches!(segment, "" | "." | "..");
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            other => segments.push(other),
        }
    }
    let end = if is_folder && !segments.is_empty() { "/" } else { "" };
    let reached = format!("/{}{end}", segments.join("/"));
    (reached != path).then_some(reached)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(path: &str) -> String {
        match expression(path.into(), &Expressions::default()).1 {
            PathMatch::Regex(text) => text.to_string(),
            PathMatch::LookAhead(regex) => regex.text.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_regular_expression_that_cannot_be_read_covers_what_it_begins_with() {
        assert_eq!(text("/admin(/|$)(.*)"), "(?i)^/admin(/|$)(.*)");
        assert_eq!(text("/admin/(?<!public)"), "(?i)^/admin/");
        assert_eq!(text("/admin?(?<!x)"), "(?i)^/admi");
        assert_eq!(text("/a.b[("), "(?i)^/a\\.b");
        assert_eq!(text("/a|/b(?<!x)"), "^");
        assert_eq!(text("/a[(]|/secret(?<!x)"), "^");
        assert_eq!(text("/a[]|(](?<!x)"), "(?i)^/a");
        assert_eq!(text("/a[^])|](?<!x)"), "(?i)^/a");
        assert_eq!(text("/a[\\](]|/secret(?<!x)"), "^");
        assert_eq!(text("/x{1000}{1000}{1000}"), "(?i)^/");
    }

    #[test]
    fn an_expression_that_cannot_be_read_closes_nothing_that_is_longer_than_what_it_begins_with() {
        let place = |path: &str| expression(path.into(), &Expressions::default()).0;
        let plain = |path: &str| PathRank::plain(path.into(), PathType::Prefix);
        for unreadable in ["/(?<!api).*", "/a[(]|/secret(?<!x)"] {
            assert!(plain("/api") < place(unreadable) && place(unreadable) < plain("/"), "{unreadable}");
        }
        assert!(place("/admin/(?<!public)") < plain("/admin/"));
        assert!(plain("/admin/x") < place("/admin/(?<!public)"));
        assert!(place("/admin(/|$)(.*)") < plain("/admin/x"), "one that can be read stands by its length");
    }

    #[test]
    fn what_no_request_can_have_is_reached_by_another_path() {
        for (path, other) in [
            ("/a//b", Some("/a/b")),
            ("//", Some("/")),
            ("/a/./b", Some("/a/b")),
            ("/a/../b", Some("/b")),
            ("/a/..", Some("/")),
            ("/a/.", Some("/a/")),
            ("/..", Some("/")),
            ("/", None),
            ("/a", None),
            ("/a/", None),
            ("/.well-known/x..y", None),
        ] {
            assert_eq!(reachable(path).as_deref(), other, "{path}");
        }
    }

    proptest! {
        #[test]
        fn what_is_reached_is_reached_by_itself(path in "/[a.x/]{0,12}") {
            let reached = reachable(&path).unwrap_or(path);
            prop_assert!(reached.starts_with('/'));
            prop_assert_eq!(reachable(&reached), None);
        }

        #[test]
        fn every_path_gives_an_expression_that_compiles(path in "/\\PC{0,40}") {
            let compiled = regex::Regex::new(&text(&path));
            prop_assert!(compiled.is_ok());
        }
    }
}
