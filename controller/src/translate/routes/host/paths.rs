//! The paths of a host: their owners and their order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use sluice_config::{Action, Match, Origin, PathMatch, Policies, Redirect, RedirectPath, Rule};

use crate::store::PathType;
use crate::translate::expression::Expressions;

/// The rank of a path: exact ones first, then the longest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PathRank {
    kind: PathKind,
    length: Reverse<usize>,
    form: Form,
    /// As in ingress-nginx, if two expressions of equal length match the same request.
    path: Reverse<Arc<str>>,
    part: PathPart,
}

/// The requests of a path that a rule covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathPart {
    /// Those below the path.
    Below,
    All,
}

/// The order of paths of equal length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// The literal start of an unreadable expression: before the same path, because the expression
    /// is longer.
    Beginning,
    Expression,
    Plain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathKind {
    Exact,
    /// Includes ImplementationSpecific, and regular expressions.
    Prefix,
}

/// The paths in use.
#[derive(Default)]
pub(super) struct PathTable {
    rules: BTreeMap<PathRank, Rule>,
    /// Closed rules of unreadable paths, separately per namespace: one of another namespace must
    /// not replace the rule that closes its own paths.
    unreadable: BTreeMap<(PathRank, Box<str>), Rule>,
    /// Exact paths of all objects, if paths are expressions.
    exact: HashSet<Arc<str>>,
}

/// The rules of a host in order.
pub(super) struct OrderedRules {
    /// Rules that are tried first.
    pub(super) rules: Vec<Rule>,
    /// Rules of unreadable paths that come behind every path of the host.
    pub(super) behind: Vec<Rule>,
}

impl PathTable {
    /// Returns an empty table of a host with these Exact paths among expressions.
    pub(super) fn new(exact: HashSet<Arc<str>>) -> Self {
        Self { exact, ..Self::default() }
    }

    /// Returns the text that a literal Prefix path matches beside an Exact path of its text, if
    /// paths are expressions. It covers only paths below that one, as in ingress-nginx: as an
    /// expression, the Exact path covers everything else that begins so.
    pub(super) fn text_beside_exact(&self, text: &Arc<str>) -> Option<Arc<str>> {
        (self.exact.contains(text) && !text.ends_with('/')).then(|| format!("{text}/").into())
    }

    /// Returns the owner of a path. An unreadable path has an effect in its own namespace only.
    pub(super) fn taken(&self, place: &PathRank, namespace: &str) -> Option<&Rule> {
        let unreadable = || self.unreadable.get(&(place.clone(), namespace.into()));
        self.rules.get(place).or_else(unreadable)
    }

    /// Adds a path. `is_read` is false if it is unreadable as written.
    pub(super) fn put(
        &mut self,
        place: PathRank,
        is_read: bool,
        path: PathMatch,
        action: Action,
        policies: Arc<Policies>,
        origin: Arc<Origin>,
    ) {
        let rule = Rule { matches: Match::path(path), action, policies, origin };
        match is_read && place.form != Form::Beginning {
            true => self.rules.insert(place, rule),
            false => {
                let namespace = namespace_of(&rule).into();
                self.unreadable.insert((place, namespace), rule)
            }
        };
    }

    /// Returns the rules in order, with nginx's redirect for `/foo` if only `/foo/` exists. There
    /// is none if paths are expressions.
    pub(super) fn into_rules(self, expressions: bool) -> OrderedRules {
        let Self { mut rules, unreadable, exact: _ } = self;
        if !expressions {
            let redirects: Vec<(PathRank, Rule)> =
                rules.iter().filter_map(|(place, rule)| slash_redirect(&rules, place, rule)).collect();
            rules.extend(redirects);
        }
        if unreadable.is_empty() {
            return OrderedRules { rules: rules.into_values().collect(), behind: Vec::new() };
        }
        ordered(rules.into_iter().collect(), unreadable)
    }
}

fn slash_redirect(
    rules: &BTreeMap<PathRank, Rule>,
    place: &PathRank,
    rule: &Rule,
) -> Option<(PathRank, Rule)> {
    let PathMatch::Prefix(path) = &rule.matches.path else { return None };
    let bare = path.strip_suffix('/').filter(|bare| !bare.is_empty())?;
    let exact = PathRank::new(PathKind::Exact, bare.into());
    let prefix = PathRank::new(PathKind::Prefix, bare.into());
    let free = !rules.contains_key(&exact) && !rules.contains_key(&prefix);
    (place.kind == PathKind::Prefix && free).then(|| (exact, append_slash(bare, rule)))
}

/// Inserts the rules of unreadable paths. Such a rule closes requests that its own namespace would
/// otherwise serve by a broader path, and follows every path of another namespace: an unreadable
/// path affects its owner only.
fn ordered(
    mut rules: Vec<(PathRank, Rule)>,
    unreadable: BTreeMap<(PathRank, Box<str>), Rule>,
) -> OrderedRules {
    let mut behind = Vec::new();
    for ((place, namespace), rule) in unreadable {
        let first_of_others = |rules: &[(PathRank, Rule)]| {
            rules.iter().rposition(|(_, other)| namespace_of(other) != &*namespace).map_or(0, |last| last + 1)
        };
        let only_own_from = first_of_others(&rules);
        let at = (0..rules.len()).find(|&at| {
            let (other, own) = &rules[at];
            *other > place
                && namespace_of(own) == &*namespace
                && (at >= only_own_from || covers(&own.matches.path, &rule.matches.path))
        });
        match at {
            Some(at) => rules.insert(at, (place, rule)),
            None => behind.push(rule),
        }
    }
    OrderedRules { rules: rules.into_iter().map(|(_, rule)| rule).collect(), behind }
}

/// Returns whether `outer` certainly matches each request that `inner` matches.
fn covers(outer: &PathMatch, inner: &PathMatch) -> bool {
    const START: &str = "(?i)^";
    match (outer, inner) {
        (PathMatch::Prefix(outer), _) if **outer == *"/" => true,
        (PathMatch::Prefix(outer), PathMatch::Exact(inner) | PathMatch::Prefix(inner)) => {
            inner.strip_prefix(&**outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        (PathMatch::Regex(outer), PathMatch::Regex(inner)) => {
            let literal = outer.strip_prefix(START).filter(|text| *text == regex::escape(text));
            let inner = inner.strip_prefix(START).map(str::to_lowercase);
            literal.zip(inner).is_some_and(|(outer, inner)| inner.starts_with(&outer.to_lowercase()))
        }
        _ => false,
    }
}

fn namespace_of(rule: &Rule) -> &str {
    &rule.origin.object.name.namespace
}

impl PathRank {
    /// Returns the rank of a literal path.
    pub(super) fn plain(path: Arc<str>, path_type: PathType) -> Self {
        let kind = match path_type {
            PathType::Exact => PathKind::Exact,
            PathType::Prefix | PathType::ImplementationSpecific => PathKind::Prefix,
        };
        Self::new(kind, path)
    }

    fn new(kind: PathKind, path: Arc<str>) -> Self {
        let length = Reverse(path.len());
        Self { kind, length, form: Form::Plain, path: Reverse(path), part: PathPart::All }
    }

    /// Returns the rank of `/` among expressions.
    fn of_root(path: &Arc<str>) -> Self {
        Self { form: Form::Expression, ..Self::new(PathKind::Prefix, path.clone()) }
    }

    /// Returns the rank of what is below the path: that of the path as written, before the path
    /// itself. ingress-nginx sorts paths before it appends a slash to this one.
    pub(super) fn below(self) -> Self {
        Self { part: PathPart::Below, ..self }
    }

    /// Returns whether it is that of what is below the path.
    pub(super) fn is_below(&self) -> bool {
        self.part == PathPart::Below
    }

    /// Returns the match for a literal path.
    pub(super) fn to_match(&self) -> PathMatch {
        match self.kind {
            PathKind::Exact => PathMatch::Exact(self.path.0.clone()),
            PathKind::Prefix => PathMatch::Prefix(self.path.0.clone()),
        }
    }
}

/// Returns the rank and the match for a path as a regular expression, as in ingress-nginx: anchored
/// at the start, case-insensitive, ordered by its length among the prefixes. For an unreadable
/// expression, the part before its first special character is used, so that it covers too much
/// rather than too little; it has the rank of that part, so that it closes no more specific path of
/// another object.
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
    let (kind, length) = (PathKind::Prefix, Reverse(length));
    (PathRank { kind, length, form, path: Reverse(path), part: PathPart::All }, matches)
}

/// Returns the rank and the match for a path on a host whose paths are expressions. An unreadable
/// one that was not meant as an expression is used literally.
pub(super) fn on_host_of_expressions(
    path: &Arc<str>,
    meant: bool,
    expressions: &Expressions,
) -> (PathRank, PathMatch) {
    if **path == *"/" {
        return (PathRank::of_root(path), PathMatch::Prefix(path.clone()));
    }
    if !meant && readable(path, expressions).is_err() {
        let literal = format!("(?i)^{}", regex::escape(path));
        return (PathRank::plain(path.clone(), PathType::Prefix), PathMatch::Regex(literal.into()));
    }
    expression(path.clone(), expressions)
}

/// Returns the rank and the match for an Exact path `/` on such a host: those of the Prefix path,
/// but no other request. In ingress-nginx, it takes none at all.
pub(super) fn exact_root(path: &Arc<str>) -> (PathRank, PathMatch) {
    (PathRank::of_root(path), PathMatch::Exact(path.clone()))
}

/// Returns why a path is not a readable expression.
pub(super) fn unreadable(path: &str, expressions: &Expressions) -> Option<Arc<str>> {
    readable(path, expressions).err()
}

fn readable(path: &str, expressions: &Expressions) -> Result<PathMatch, Arc<str>> {
    let whole = format!("(?i)^{path}");
    Ok(match &expressions.read(&whole)?.extended {
        Some(apart) => PathMatch::Extended(apart.clone()),
        None => PathMatch::Regex(whole.into()),
    })
}

/// Returns the common start of every path that the expression can match.
fn beginning(path: &str) -> &str {
    if has_alternatives(path) {
        return "";
    }
    let special = |c: char| !(c.is_alphanumeric() || "/-_~.%".contains(c));
    let plain = path.split_once(special).map_or(path, |(plain, _)| plain);
    // An element repeated by `?` or `*` may be absent.
    match path[plain.len()..].starts_with(['?', '*', '{']) {
        true => &plain[..plain.char_indices().last().map_or(0, |(at, _)| at)],
        false => plain,
    }
}

/// Returns whether an expression has a `|` outside of groups: its start then proves nothing.
fn has_alternatives(path: &str) -> bool {
    let (mut depth, mut escaped) = (0_i32, false);
    // Characters of the class so far, without `^`: a `]` that comes first is one of them.
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

/// Returns the path that requests for this one have after normalisation, if it differs: slashes are
/// merged and dot segments removed, so no request has it literally.
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
        origin: rule.origin.clone(),
    }
}

/// Returns whether a rule is the prefix `/`.
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
            PathMatch::Extended(regex) => regex.text.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_unreadable_expression_covers_its_literal_start() {
        assert_eq!(text("/admin(/|$)(.*)"), "(?i)^/admin(/|$)(.*)");
        assert_eq!(text("/admin/(?C1)"), "(?i)^/admin/");
        assert_eq!(text("/admin?(?C1)"), "(?i)^/admi");
        assert_eq!(text("/a.b[("), "(?i)^/a\\.b");
        assert_eq!(text("/a|/b(?C1)"), "^");
        assert_eq!(text("/a[(]|/secret(?C1)"), "^");
        assert_eq!(text("/a[]|(](?C1)"), "(?i)^/a");
        assert_eq!(text("/a[^])|](?C1)"), "(?i)^/a");
        assert_eq!(text("/a[\\](]|/secret(?C1)"), "^");
        assert_eq!(text("/x{1000}{1000}{1000}"), "(?i)^/");
    }

    #[test]
    fn an_unreadable_expression_closes_nothing_longer_than_its_start() {
        let place = |path: &str| expression(path.into(), &Expressions::default()).0;
        let plain = |path: &str| PathRank::plain(path.into(), PathType::Prefix);
        for unreadable in ["/(?C1).*", "/a[(]|/secret(?C1)"] {
            assert!(plain("/api") < place(unreadable) && place(unreadable) < plain("/"), "{unreadable}");
        }
        assert!(place("/admin/(?C1)") < plain("/admin/"));
        assert!(plain("/admin/x") < place("/admin/(?C1)"));
        assert!(place("/admin(/|$)(.*)") < plain("/admin/x"), "a readable one is ordered by its length");
    }

    #[test]
    fn an_unreachable_path_is_reported_with_the_reachable_one() {
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
        fn a_reachable_path_reaches_itself(path in "/[a.x/]{0,12}") {
            let reached = reachable(&path).unwrap_or(path);
            prop_assert!(reached.starts_with('/'));
            prop_assert_eq!(reachable(&reached), None);
        }

        #[test]
        fn every_path_gives_an_expression_that_compiles(path in "/\\PC{0,40}") {
            match expression(path.into(), &Expressions::default()).1 {
                PathMatch::Extended(regex) if regex.backtracks => {
                    prop_assert!(sluice_expression::BacktrackingRegex::compile(&regex.pattern).is_ok());
                }
                PathMatch::Extended(regex) => prop_assert!(regex::Regex::new(&regex.pattern).is_ok()),
                PathMatch::Regex(text) => prop_assert!(regex::Regex::new(&text).is_ok()),
                other => panic!("{other:?}"),
            }
        }
    }
}
