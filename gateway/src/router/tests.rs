use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use proptest::sample::select;
use sluice_config::{
    ExtendedRegex, FieldMatch, GroupId, HostKey, HostName, HostPattern, Listener, ListenerId, LookAhead,
    Match, PathMatch, TextMatch,
};

use super::*;
use crate::expression::{STEP_LIMIT, is_limit_reached, within_steps};

type Table = RouteTable<usize>;

fn exact(path: &str) -> Match {
    Match::path(PathMatch::Exact(path.into()))
}

fn prefix(path: &str) -> Match {
    Match::path(PathMatch::Prefix(path.into()))
}

fn look_ahead(pattern: &str, conditions: &[(&str, bool)]) -> Match {
    let condition = |&(pattern, negative): &(&str, bool)| LookAhead { pattern: pattern.into(), negative };
    let conditions = conditions.iter().map(condition).collect();
    Match::path(PathMatch::Extended(Arc::new(ExtendedRegex {
        text: "as it was written".into(),
        pattern: pattern.into(),
        conditions,
        backtracks: false,
    })))
}

fn backtracking(pattern: &str) -> Match {
    Match::path(PathMatch::Extended(Arc::new(ExtendedRegex {
        text: pattern.into(),
        pattern: pattern.into(),
        conditions: Vec::new(),
        backtracks: true,
    })))
}

fn regex(pattern: &str) -> Match {
    Match::path(PathMatch::Regex(pattern.into()))
}

fn field(name: &str, value: &str) -> FieldMatch {
    FieldMatch { name: name.into(), value: TextMatch::Exact(value.into()) }
}

fn field_regex(name: &str, pattern: &str) -> FieldMatch {
    FieldMatch { name: name.into(), value: TextMatch::Regex(pattern.into()) }
}

/// Compiles a host whose routes are the indexes of their rules.
fn compile(matches: &[Match]) -> CompiledHost<usize> {
    try_compile(matches).unwrap()
}

fn try_compile(matches: &[Match]) -> Result<CompiledHost<usize>, RouterError> {
    CompiledHost::compile(matches.iter().zip((0..).map(Arc::new)), false)
}

fn leads_to(index: usize, fall_through: bool) -> Arc<CompiledHost<usize>> {
    Arc::new(CompiledHost::compile([(&prefix("/"), Arc::new(index))], fall_through).unwrap())
}

fn get<'a>(path: &'a str, headers: &'a HeaderMap) -> RequestView<'a> {
    RequestView { path, method: "GET", headers, query: None }
}

fn find(host: &CompiledHost<usize>, path: &str) -> Option<usize> {
    host.find(&get(path, &HeaderMap::new())).map(|route| **route)
}

fn key(pattern: HostPattern) -> HostKey {
    HostKey { group: GroupId::ingress(), listener: ListenerId::any(), pattern }
}

fn name(name: &str) -> HostName {
    HostName::new(name)
}

fn ingress() -> Table {
    let mut table = Table::default();
    table.set_listeners(&GroupId::ingress(), &[Listener { id: ListenerId::any(), host: HostPattern::Any }]);
    table
}

fn look_up(table: &Table, host: &str, path: &str) -> Option<usize> {
    let group = GroupId::ingress();
    let headers = HeaderMap::new();
    table.find_host(&group, host)?.find(&get(path, &headers)).map(|route| **route)
}

fn header_map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    fields
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

mod hosts {
    use super::*;

    #[test]
    fn exact_before_one_label_before_any() {
        let mut table = ingress();
        table.put_host(&key(HostPattern::Any), leads_to(0, false));
        table.put_host(&key(HostPattern::OneLabel(name("foo.com"))), leads_to(1, false));
        table.put_host(&key(HostPattern::Exact(name("Bar.foo.com"))), leads_to(2, false));
        for (host, expected) in [
            ("bar.foo.com", 2),
            ("baz.foo.com", 1),
            ("foo.com", 0),
            ("a.b.foo.com", 0),
            (".foo.com", 0),
            ("other", 0),
            ("", 0),
        ] {
            assert_eq!(look_up(&table, host, "/"), Some(expected), "{host}");
        }
    }

    #[test]
    fn a_suffix_matches_one_or_more_labels_and_the_longest_wins() {
        let mut table = ingress();
        table.put_host(&key(HostPattern::Suffix(name("com"))), leads_to(0, false));
        table.put_host(&key(HostPattern::Suffix(name("foo.com"))), leads_to(1, false));
        table.put_host(&key(HostPattern::OneLabel(name("foo.com"))), leads_to(2, false));
        assert_eq!(look_up(&table, "a.foo.com", "/"), Some(2));
        assert_eq!(look_up(&table, "a.b.foo.com", "/"), Some(1));
        assert_eq!(look_up(&table, "foo.com", "/"), Some(0));
        assert_eq!(look_up(&table, "com", "/"), None);
        assert_eq!(look_up(&table, ".com", "/"), None);
    }

    #[test]
    fn each_of_thousands_of_labels_was_looked_up() {
        let mut table = ingress();
        table.put_host(&key(HostPattern::Suffix(name("foo.com"))), leads_to(0, false));
        assert_eq!(look_up(&table, &("a.".repeat(123) + "foo.com"), "/"), Some(0));
        assert_eq!(look_up(&table, &("a.".repeat(124) + "foo.com"), "/"), None, "it is no DNS name");
    }

    #[test]
    fn an_unknown_host_without_a_default_has_no_match() {
        let mut table = ingress();
        table.put_host(&key(HostPattern::Exact(name("foo.com"))), leads_to(0, false));
        assert_eq!(look_up(&table, "bar.com", "/"), None);
        assert!(table.group(&GroupId("other".into())).is_none());
    }

    #[test]
    fn the_chosen_listener_is_final() {
        let group = GroupId("gateway".into());
        let narrow = ListenerId("narrow".into());
        let wide = ListenerId("wide".into());
        let mut table = Table::default();
        let host = |listener: &ListenerId, pattern| HostKey {
            group: group.clone(),
            listener: listener.clone(),
            pattern,
        };
        table.put_host(&host(&wide, HostPattern::Suffix(name("example.com"))), leads_to(0, true));
        table.put_host(&host(&narrow, HostPattern::Exact(name("a.b.example.com"))), leads_to(1, true));
        assert!(table.find_host(&group, "x.example.com").is_none(), "hosts may come before their listener");
        table.set_listeners(
            &group,
            &[
                Listener { id: wide.clone(), host: HostPattern::Suffix(name("example.com")) },
                Listener { id: narrow.clone(), host: HostPattern::Suffix(name("b.example.com")) },
            ],
        );
        let found = |host: &str| {
            let found = table.find_host(&group, host)?;
            Some((found.listener().clone(), **found.find(&get("/", &HeaderMap::new()))?))
        };
        assert_eq!(found("x.example.com"), Some((wide.clone(), 0)));
        assert_eq!(found("a.b.example.com"), Some((narrow.clone(), 1)));
        assert_eq!(found("other.b.example.com"), None, "the broader listener would have a host");
    }

    #[test]
    fn falling_through_is_a_property_of_the_host() {
        let only_a = |fall_through| {
            Arc::new(CompiledHost::compile([(&exact("/a"), Arc::new(1))], fall_through).unwrap())
        };
        let mut table = ingress();
        table.put_host(&key(HostPattern::Any), leads_to(0, false));
        table.put_host(&key(HostPattern::Exact(name("on.com"))), only_a(true));
        table.put_host(&key(HostPattern::Exact(name("off.com"))), only_a(false));
        assert_eq!(look_up(&table, "on.com", "/a"), Some(1));
        assert_eq!(look_up(&table, "on.com", "/b"), Some(0));
        assert_eq!(look_up(&table, "off.com", "/b"), None);
    }

    #[test]
    fn a_change_leaves_older_tables_alone_and_shares_the_other_hosts() {
        let mut old = ingress();
        let one = key(HostPattern::Exact(name("one.com")));
        let two = key(HostPattern::Exact(name("two.com")));
        old.put_host(&one, leads_to(1, false));
        old.put_host(&two, leads_to(2, false));
        let mut new = old.clone();
        new.put_host(&one, leads_to(3, false));
        assert_eq!(look_up(&old, "one.com", "/"), Some(1));
        assert_eq!(look_up(&new, "one.com", "/"), Some(3));
        assert!(Arc::ptr_eq(old.host(&two).unwrap(), new.host(&two).unwrap()));
        assert!(new.remove_host(&one) && !new.remove_host(&one));
        assert_eq!(look_up(&new, "one.com", "/"), None);
        assert_eq!(look_up(&old, "one.com", "/"), Some(1));
        let keys: Vec<HostKey> = new.hosts().map(|(key, _)| key).collect();
        assert!(keys.iter().eq([&two]));
        new.set_listeners(&GroupId::ingress(), &[]);
        assert!(new.group(&GroupId::ingress()).is_some(), "it still has a host");
        assert!(new.remove_host(&two));
        assert!(new.group(&GroupId::ingress()).is_none());
    }

    /// Returns how specific a pattern is for a host that it covers.
    fn rank(pattern: &HostPattern, host: &str) -> Option<(u8, usize)> {
        let above = |name: &HostName| host.strip_suffix(name.as_str())?.strip_suffix('.');
        match pattern {
            HostPattern::Exact(name) => (host == name.as_str()).then_some((3, 0)),
            HostPattern::OneLabel(name) => {
                above(name).filter(|label| !label.is_empty() && !label.contains('.')).map(|_| (2, 0))
            }
            HostPattern::Suffix(name) => {
                above(name).filter(|labels| !labels.is_empty()).map(|_| (1, name.as_str().len()))
            }
            HostPattern::Regex(_) => unreachable!("none is made here"),
            HostPattern::Any => Some((0, 0)),
        }
    }

    fn pattern() -> impl Strategy<Value = HostPattern> {
        let text = "[ab](\\.[ab]){0,3}".prop_map(|text| HostName::new(&text));
        prop_oneof![
            text.clone().prop_map(HostPattern::Exact),
            text.clone().prop_map(HostPattern::OneLabel),
            text.prop_map(HostPattern::Suffix),
            Just(HostPattern::Any),
        ]
    }

    proptest! {
        #[test]
        fn lookup_agrees_with_ranking_all_hosts_after_any_changes(
            changes in prop::collection::vec((pattern(), any::<bool>(), any::<bool>()), 0..30),
            hosts in prop::collection::vec("[ab](\\.[ab]){0,4}", 1..10),
        ) {
            let mut table = ingress();
            let mut naive: Vec<(HostPattern, usize, bool)> = Vec::new();
            for (index, (pattern, put, fall_through)) in changes.into_iter().enumerate() {
                naive.retain(|(other, ..)| *other != pattern);
                if put {
                    // Hosts with an even index only match `/x`.
                    let matches = if index % 2 == 0 { exact("/x") } else { prefix("/") };
                    let host = CompiledHost::compile([(&matches, Arc::new(index))], fall_through).unwrap();
                    table.put_host(&key(pattern.clone()), Arc::new(host));
                    naive.push((pattern, index, fall_through));
                } else {
                    table.remove_host(&key(pattern));
                }
            }
            for host in hosts {
                let mut standing: Vec<_> = naive
                    .iter()
                    .filter_map(|(pattern, index, fall)| Some((rank(pattern, &host)?, *index, *fall)))
                    .collect();
                standing.sort_by_key(|(rank, ..)| std::cmp::Reverse(*rank));
                for path in ["/x", "/y"] {
                    let mut expected = None;
                    for (_, index, fall_through) in &standing {
                        if index % 2 == 1 || path == "/x" {
                            expected = Some(*index);
                            break;
                        }
                        if !fall_through {
                            break;
                        }
                    }
                    prop_assert_eq!(look_up(&table, &host, path), expected, "{} {}", host, path);
                }
            }
        }
    }
}

mod paths {
    use super::*;

    #[test]
    fn exact_takes_the_identical_path_alone() {
        let host = compile(&[exact("/foo"), exact("/bar/"), exact("/")]);
        for (path, expected) in [
            ("/foo", Some(0)),
            ("/foo/", None),
            ("/Foo", None),
            ("/foo/x", None),
            ("/bar/", Some(1)),
            ("/bar", None),
            ("/", Some(2)),
        ] {
            assert_eq!(find(&host, path), expected, "{path}");
        }
    }

    #[test]
    fn a_prefix_takes_whole_elements() {
        let host = compile(&[prefix("/foo"), prefix("/bar/"), prefix("/a/b")]);
        for (path, expected) in [
            ("/foo", Some(0)),
            ("/foo/", Some(0)),
            ("/foo/x", Some(0)),
            ("/foo/x/y", Some(0)),
            ("/foobar", None),
            ("/FOO", None),
            ("/bar", None),
            ("/bar/", Some(1)),
            ("/bar/x", Some(1)),
            ("/a", None),
            ("/a/", None),
            ("/a/bc", None),
            ("/a/b/c", Some(2)),
        ] {
            assert_eq!(find(&host, path), expected, "{path}");
        }
    }

    #[test]
    fn the_root_prefix_takes_everything() {
        let host = compile(&[prefix("/")]);
        for path in ["/", "/foo", "/foo/", "/a/b/c"] {
            assert_eq!(find(&host, path), Some(0), "{path}");
        }
    }

    #[test]
    fn order_is_the_order_of_the_rules_and_nothing_else() {
        let host = compile(&[prefix("/"), exact("/foo"), prefix("/foo/bar")]);
        assert_eq!(find(&host, "/foo"), Some(0));
        assert_eq!(find(&host, "/foo/bar"), Some(0));
        let host = compile(&[exact("/foo"), prefix("/foo/bar"), prefix("/foo"), regex("^/z"), prefix("/")]);
        assert_eq!(find(&host, "/foo"), Some(0));
        assert_eq!(find(&host, "/foo/bar/x"), Some(1));
        assert_eq!(find(&host, "/foo/x"), Some(2));
        assert_eq!(find(&host, "/zoo"), Some(3));
        assert_eq!(find(&host, "/x"), Some(4));
    }

    #[test]
    fn the_same_path_may_be_exact_and_a_prefix() {
        let host = compile(&[exact("/foo"), prefix("/foo")]);
        assert_eq!(find(&host, "/foo"), Some(0));
        assert_eq!(find(&host, "/foo/"), Some(1));
    }

    #[test]
    fn regexes_are_searched_in_order_and_say_themselves_how() {
        let host = compile(&[regex("(?i)^/foo/bar/bar"), regex("(?i)^/foo/bar/[a-z]{3}"), regex("x$")]);
        assert_eq!(find(&host, "/FOO/bar/bar"), Some(0));
        assert_eq!(find(&host, "/foo/bar/abcd"), Some(1));
        assert_eq!(find(&host, "/a/x"), Some(2));
        assert_eq!(find(&host, "/x/a"), None);
        // Expressions with and without a search share one order.
        let host = compile(&[
            regex("(?i)^/a[bc]"),
            regex("(?i)^/ab(/|$)(.*)"),
            regex("(?i)^/ad"),
            regex("(?i)^/[ab]d"),
            regex("(?i)^/(.*)"),
        ]);
        for (path, expected) in [("/AB", 0), ("/ad", 2), ("/bd", 3), ("/ae", 4), ("/", 4)] {
            assert_eq!(find(&host, path), Some(expected), "{path}");
        }
    }

    #[test]
    fn a_path_had_unicode_letters_where_an_expression_has_a_word() {
        let host = compile(&[
            regex(r"(?i)^/users/\w+$"),
            regex(r"^/digits/\d+$"),
            regex(r"^/greek/\p{Greek}$"),
            regex(r"(?i)^/ſtreet/k.$"),
            regex(r"^/any/..$"),
        ]);
        assert_eq!(find(&host, "/USERS/anna"), Some(0));
        assert_eq!(find(&host, "/users/ännä"), None, "\\w is ASCII");
        assert_eq!(find(&host, "/digits/٣"), None);
        assert_eq!(find(&host, "/greek/λ"), Some(2), "characters, because bytes have no script");
        assert_eq!(find(&host, "/any/é"), Some(4), "two bytes");
        assert_eq!(find(&host, "/any/ab"), Some(4), "after a batch of another kind");
    }

    #[test]
    fn more_regexes_than_one_batch_keep_their_order() {
        let mut matches: Vec<Match> = (0..100).map(|n| regex(&format!("^/n{n}$"))).collect();
        matches.push(regex("^/n"));
        matches.push(prefix("/n5"));
        let host = compile(&matches);
        assert_eq!(find(&host, "/n5"), Some(5));
        assert_eq!(find(&host, "/n77"), Some(77));
        assert_eq!(find(&host, "/n100"), Some(100));
        assert_eq!(find(&host, "/n5/x"), Some(100));
    }

    #[test]
    fn an_expression_that_backtracks_keeps_its_place_in_the_order() {
        let host = compile(&[
            regex("(?i)^/shop/x"),
            backtracking("(?i)^/shop(?<!x)/(.*)"),
            regex("(?i)^/shop/admin"),
            backtracking("(?i)^/((a+)+)(?<!b)$"),
        ]);
        assert_eq!(find(&host, "/shop/x"), Some(0));
        assert_eq!(find(&host, "/shop/admin"), Some(1));
        assert_eq!(find(&host, "/aa"), Some(3));
        assert_eq!(find(&host, "/b"), None);
        assert!(!is_limit_reached());
        within_steps(&mut { STEP_LIMIT }, || {
            let worst = format!("/{}!", "a".repeat(1000));
            assert_eq!(find(&host, &worst), Some(3), "closed, not passed on");
            assert!(is_limit_reached());
        });
        assert!(try_compile(&[backtracking("(?<!x")]).unwrap_err().to_string().contains("`(?<!x`"));
    }

    #[test]
    fn a_regex_matches_only_with_its_look_ahead() {
        let host = compile(&[
            look_ahead("(?i)^/(.*)", &[("(?i)^/(?:api)", true), ("(?i)^/(?:.*x)", false)]),
            look_ahead("(?i)^/shop(/|$)(.*)", &[("(?i)^/shop(/|$)(?:admin)", true)]),
            regex("^/"),
        ]);
        for (path, expected) in
            [("/x", 0), ("/y", 2), ("/API/x", 2), ("/shop/y", 1), ("/shop/admin", 2), ("/shop/admix", 0)]
        {
            assert_eq!(find(&host, path), Some(expected), "{path}");
        }
        // A pattern whose form would need no search on its own, with a condition in front.
        let host = compile(&[look_ahead("(?i)^/shop(/|$)(.*)", &[("(?i)^/shop(/|$)(?:admin)", true)])]);
        assert_eq!((find(&host, "/shop/a"), find(&host, "/shop/admin")), (Some(0), None));
        assert!(try_compile(&[look_ahead("^/", &[("(", true)])]).unwrap_err().to_string().contains("`(`"));
    }

    #[test]
    fn a_regex_that_cannot_be_used_is_named() {
        let error = try_compile(&[regex("^/fine"), regex("^/(unclosed")]).unwrap_err();
        assert!(matches!(&error, RouterError::Regex { pattern, .. } if pattern == "^/(unclosed"), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
        let error = try_compile(&[regex("a{1000}{1000}")]).unwrap_err();
        assert!(error.to_string().contains("larger than"), "{error}");
        let mut matches = prefix("/");
        matches.headers.push(field_regex("x", "("));
        assert!(matches!(try_compile(&[matches]).unwrap_err(), RouterError::Regex { .. }));
    }

    #[test]
    fn a_very_deep_path_is_compiled_searched_and_dropped() {
        let deep = "/a".repeat(200_000);
        let host = compile(&[prefix(&deep)]);
        assert_eq!(find(&host, &format!("{deep}/b")), Some(0));
        assert_eq!(find(&host, "/a/a"), None);
    }
}

mod predicates {
    use super::*;

    #[test]
    fn all_conditions_must_hold_or_the_next_rule_is_tried() {
        let mut first = prefix("/");
        first.method = Some("POST".into());
        first.headers = vec![field("X-Version", "2"), field("x-version", "3"), field_regex("x-user", "^a")];
        first.query = vec![field("q", "1"), field("q", "2")];
        let host = compile(&[first, prefix("/")]);
        let good = header_map(&[("x-version", "2"), ("x-user", "anna")]);
        let bad = header_map(&[("x-version", "2"), ("x-user", "bob")]);
        let at =
            |method, headers, query| **host.find(&RequestView { path: "/", method, headers, query }).unwrap();
        assert_eq!(at("POST", &good, Some("q=1")), 0);
        assert_eq!(at("GET", &good, Some("q=1")), 1);
        assert_eq!(at("post", &good, Some("q=1")), 1);
        assert_eq!(at("POST", &bad, Some("q=1")), 1);
        assert_eq!(at("POST", &good, Some("q=2&q=1")), 1);
        assert_eq!(at("POST", &good, None), 1);
    }

    #[test]
    fn repeated_fields_are_one_value() {
        let mut matches = prefix("/");
        matches.headers = vec![field("role", "user")];
        let host = compile(&[matches]);
        let find = |fields: &[_]| host.find(&get("/", &header_map(fields))).is_some();
        assert!(find(&[("role", "user")]));
        assert!(!find(&[("role", "admin"), ("role", "user")]));
        assert!(!find(&[("role", "user"), ("role", "admin")]));
    }

    #[test]
    fn values_that_are_no_text_are_compared_too() {
        let mut matches = prefix("/");
        matches.headers = vec![field_regex("x", "^(?-u:\\xff)$")];
        let host = compile(&[matches]);
        let mut headers = HeaderMap::new();
        headers.insert("x", HeaderValue::from_bytes(b"\xff").unwrap());
        assert!(host.find(&get("/", &headers)).is_some());
    }

    #[test]
    fn a_header_name_that_is_none_is_refused() {
        let mut matches = prefix("/");
        matches.headers = vec![field("no name", "x")];
        assert_eq!(try_compile(&[matches]).unwrap_err(), RouterError::HeaderName("no name".into()));
    }
}

/// Evaluates the rules in order and each condition by its definition.
fn naive(matches: &[Match], path: &str, method: &str, headers: &HeaderMap, query: &str) -> Option<usize> {
    let text = |matcher: &TextMatch, value: &str| match matcher {
        TextMatch::Exact(text) => **text == *value,
        TextMatch::Regex(pattern) => ::regex::Regex::new(pattern).unwrap().is_match(value),
    };
    matches.iter().position(|matches| {
        let path_holds = match &matches.path {
            PathMatch::Exact(exact) => **exact == *path,
            PathMatch::Prefix(prefix) if prefix.ends_with('/') => path.starts_with(&**prefix),
            PathMatch::Prefix(prefix) => path == &**prefix || path.starts_with(&format!("{prefix}/")),
            PathMatch::Regex(pattern) => ::regex::Regex::new(pattern).unwrap().is_match(path),
            PathMatch::Extended(_) => unreachable!("none is made here"),
        };
        path_holds
            && matches.method.as_deref().is_none_or(|wanted| wanted == method)
            && matches.headers.iter().all(|field| {
                headers.get(&*field.name).is_some_and(|value| text(&field.value, value.to_str().unwrap()))
            })
            && matches.query.iter().all(|field| {
                let value = query.split('&').filter_map(|part| part.split_once('='));
                let mut value = value.filter(|(name, _)| *name == &*field.name);
                value.next().is_some_and(|(_, value)| text(&field.value, value))
            })
    })
}

fn any_path() -> impl Strategy<Value = String> {
    "(/[ab]{1,2}){0,3}/?".prop_map(|path| if path.is_empty() { "/".into() } else { path })
}

fn any_fields() -> impl Strategy<Value = Vec<FieldMatch>> {
    let value = prop_oneof![
        select(vec!["1", "2"]).prop_map(|value| TextMatch::Exact(value.into())),
        select(vec!["^1", "2$", "."]).prop_map(|value| TextMatch::Regex(value.into())),
    ];
    prop_oneof![
        3 => Just(Vec::new()),
        1 => (select(vec!["x", "y"]), value)
            .prop_map(|(name, value)| vec![FieldMatch { name: name.into(), value }]),
    ]
}

fn any_match() -> impl Strategy<Value = Match> {
    let path = prop_oneof![
        any_path().prop_map(|path| PathMatch::Exact(path.into())),
        any_path().prop_map(|path| PathMatch::Prefix(path.into())),
        select(vec!["^/a", "b$", "(?i)^/A/", "/a+/b", "^/$"]).prop_map(|p| PathMatch::Regex(p.into())),
    ];
    let method = prop_oneof![3 => Just(None), 1 => Just(Some("GET")), 1 => Just(Some("POST"))];
    (path, method, any_fields(), any_fields()).prop_map(|(path, method, headers, query)| Match {
        path,
        method: method.map(Into::into),
        headers,
        query,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn matching_agrees_with_trying_each_rule(
        matches in prop::collection::vec(any_match(), 0..60),
        paths in prop::collection::vec(any_path(), 1..5),
        method in select(vec!["GET", "POST", "PUT"]),
        x in prop::option::of(select(vec!["1", "2", "12"])),
        query in select(vec!["", "x=1", "y=2&x=2", "x=2&x=1"]),
    ) {
        let host = compile(&matches);
        let headers: HeaderMap =
            x.iter().map(|x| (HeaderName::from_static("x"), HeaderValue::from_static(x))).collect();
        for path in paths {
            let request = RequestView { path: &path, method, headers: &headers, query: Some(query) };
            let found = host.find(&request).map(|route| **route);
            prop_assert_eq!(found, naive(&matches, &path, method, &headers, query), "{}", path);
            let reasons = host.explain(&request);
            prop_assert_eq!(reasons.len(), matches.len());
            prop_assert_eq!(reasons.iter().position(|reason| *reason == Reason::Matches), found, "{:?}", reasons);
        }
    }
}

#[test]
fn each_rule_explains_why_it_does_not_match() {
    let conditions = |matches: Match| Match { method: Some("POST".into()), ..matches };
    let header = Match { headers: vec![field("x-beta", "1")], ..prefix("/") };
    let query = Match { query: vec![field("v", "2")], ..regex("^/a") };
    let host = compile(&[exact("/b"), conditions(prefix("/")), header, query, prefix("/a"), prefix("/")]);
    let reasons: Vec<String> =
        host.explain(&get("/a", &HeaderMap::new())).iter().map(ToString::to_string).collect();
    assert_eq!(
        reasons,
        [
            "for other paths",
            "for another method",
            "header x-beta is missing or different",
            "parameter v is missing or different",
            "takes it",
            "a rule before it takes it",
        ]
    );
}

/// All workers read the same table.
#[test]
fn a_table_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<RouteTable<usize>>();
}
