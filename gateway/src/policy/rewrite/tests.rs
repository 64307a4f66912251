use proptest::prelude::*;
use sluice_config::RewritePart::{Group, Text, Variable};

use super::*;
use crate::message::edit::{Edit, HeadMut};
use crate::router::normalise;

fn plain(pattern: &str, path: &[RewritePart]) -> sluice_config::Rewrite {
    sluice_config::Rewrite {
        pattern: Some(Expression::Plain(pattern.into())),
        path: path.to_vec(),
        query: RewriteQuery::Keep,
        redirects: false,
        forwarded_prefix: None,
    }
}

/// Evaluates every variable to the empty string.
const NOTHING: fn(&Template) -> Vec<u8> = |_| Vec::new();

fn rewritten(rewrite: &sluice_config::Rewrite, target: &str) -> Option<String> {
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    let rewrite = Rewrite::compile(rewrite).unwrap();
    match rewrite.apply(target, &normalise(path).unwrap(), &|_| b"a/b?c d&e=\xc3\xa9".to_vec()).unwrap()? {
        Rewritten::Outgoing(outgoing) => Some(outgoing.target.as_str().to_owned()),
        Rewritten::Location(location) => Some(location),
    }
}

#[test]
fn groups_go_into_the_new_path_and_the_query_stays() {
    let rewrite = plain("(?i)/something(/|$)(.*)", &[Text("/".into()), Group(2)]);
    for (target, expected) in [
        ("/something", "/"),
        ("/something/", "/"),
        ("/something/new", "/new"),
        ("/SomeThing/New?x=/something/y", "/New?x=/something/y"),
        ("/something/a//b/../c", "/a/c"),
        // As in nginx, an empty query is left out.
        ("/something/?", "/"),
        ("/something/??", "/??"),
    ] {
        assert_eq!(rewritten(&rewrite, target).as_deref(), Some(expected), "{target}");
    }
    assert_eq!(rewritten(&rewrite, "/other"), None, "nothing is changed where nothing matches");
}

#[test]
fn decoded_characters_are_escaped_again_as_in_nginx() {
    let rewrite = plain("(?i)/a/(.*)", &[Text("/b/".into()), Group(1)]);
    for (target, expected) in [
        ("/a/x%20y", "/b/x%20y"),
        ("/a/x%2Fy", "/b/x/y"),
        ("/a/x%252Fy", "/b/x%252Fy"),
        ("/a/%3Fq=1", "/b/%3Fq=1"),
        ("/a/%23", "/b/%23"),
        // A dot does not match a line end, as in nginx.
        ("/a/x%0d%0aHost:%20h", "/b/x%0D"),
        ("/a/caf%C3%A9", "/b/caf%C3%A9"),
        ("/a/%ff%fe/%c3%a9", "/b/%FF%FE/%C3%A9"),
        ("/a/%E2%82x", "/b/%E2%82x"),
        ("/a/%22%3C%3E%5C%5E%60%7B%7C%7D%7F", "/b/%22%3C%3E%5C%5E%60%7B%7C%7D%7F"),
        ("/a/+;&=@:!$'(),*~-._", "/b/+;&=@:!$'(),*~-._"),
        ("/a/x%61", "/b/xa"),
        ("/a/x?q=%2F+\u{e9}", "/b/x?q=%2F+\u{e9}"),
    ] {
        assert_eq!(rewritten(&rewrite, target).as_deref(), Some(expected), "{target}");
    }
}

#[test]
fn a_group_without_a_part_in_the_match_is_empty_and_a_path_has_a_slash() {
    let rewrite = plain("(?i)/a(/x)?(.*)", &[Group(1), Group(2)]);
    assert_eq!(rewritten(&rewrite, "/a").as_deref(), Some("/"));
    assert_eq!(rewritten(&rewrite, "/a/x/y").as_deref(), Some("/x/y"));
    assert_eq!(rewritten(&rewrite, "/abc").as_deref(), Some("/bc"));
}

#[test]
fn a_template_without_groups_needs_no_expression() {
    let rewrite = sluice_config::Rewrite { pattern: None, ..plain("", &[Text("/new".into())]) };
    assert_eq!(rewritten(&rewrite, "/any/where?x").as_deref(), Some("/new?x"));
}

#[test]
fn a_query_of_the_template_comes_before_that_of_the_client() {
    let mut rewrite = plain("(?i)/a/(.*)", &[Text("/b".into())]);
    let query = vec![Text("p=".into()), Group(1)];
    rewrite.query = RewriteQuery::Replace { query: query.clone(), append: true };
    assert_eq!(rewritten(&rewrite, "/a/x").as_deref(), Some("/b?p=x"));
    assert_eq!(rewritten(&rewrite, "/a/x?y=1").as_deref(), Some("/b?p=x&y=1"));
    assert_eq!(rewritten(&rewrite, "/a/x?").as_deref(), Some("/b?p=x"));
    assert_eq!(rewritten(&rewrite, "/a/x%26y%20z").as_deref(), Some("/b?p=x%26y%20z"));
    assert_eq!(rewritten(&rewrite, "/a/x&y").as_deref(), Some("/b?p=x&y"));
    rewrite.query = RewriteQuery::Replace { query, append: false };
    assert_eq!(rewritten(&rewrite, "/a/x?y=1").as_deref(), Some("/b?p=x"));
    rewrite.query = RewriteQuery::Replace { query: Vec::new(), append: false };
    assert_eq!(rewritten(&rewrite, "/a/x?y=1").as_deref(), Some("/b"));
}

#[test]
fn variables_go_into_path_and_query() {
    let host = || Variable(sluice_config::Variable::Host);
    let mut rewrite = plain("(?i)/a/(.*)", &[Text("/".into()), host(), Text("/".into()), Group(1)]);
    assert_eq!(rewritten(&rewrite, "/a/x?y").as_deref(), Some("/a/b%3Fc%20d&e=%C3%A9/x?y"));
    rewrite.query = RewriteQuery::Replace { query: vec![Text("h=".into()), host()], append: false };
    rewrite.path = vec![Text("/b".into())];
    assert_eq!(rewritten(&rewrite, "/a/x?y").as_deref(), Some("/b?h=a/b?c%20d&e=%C3%A9"));
}

#[test]
fn a_url_is_where_the_client_is_sent() {
    let mut rewrite = plain("(?i)/a/(.*)", &[Text("https://other.example/".into()), Group(1)]);
    rewrite.redirects = true;
    assert_eq!(rewritten(&rewrite, "/a/x%20y?z").as_deref(), Some("https://other.example/x%20y?z"));
}

#[test]
fn delimiters_of_a_group_stay_as_they_are_in_a_location() {
    let mut rewrite = plain("(?i)/a/(.*)", &[Text("https://other.example/".into()), Group(1)]);
    rewrite.redirects = true;
    for (target, expected) in [
        ("/a/x&y;b=c,d@e:f+g", "x&y;b=c,d@e:f+g"),
        ("/a/x%20&y;b=c,d@e:f+g", "x%20&y;b=c,d@e:f+g"),
        ("/a/%26%3B%2B", "&;+"),
        ("/a/%3Fa=b&c?d", "%3Fa=b&c?d"),
        ("/a/%23%25%22%C3%A9", "%23%25%22%C3%A9"),
    ] {
        let location = format!("https://other.example/{expected}");
        assert_eq!(rewritten(&rewrite, target), Some(location), "{target}");
    }
    let query = vec![Text("p=".into()), Group(1)];
    let mut in_query = plain("(?i)/a/(.*)", &[Text("https://other.example/".into())]);
    (in_query.redirects, in_query.query) = (true, RewriteQuery::Replace { query, append: true });
    let location = rewritten(&in_query, "/a/x%20&y;+");
    assert_eq!(location.as_deref(), Some("https://other.example/?p=x%20%26y%3B%2B"));
}

#[test]
fn the_prefix_is_sent_only_with_a_value() {
    for (group, expected) in [(1, Some("/a")), (2, None)] {
        let mut rewrite = plain("(?i)(/a)(/x)?/(.*)", &[Text("/".into()), Group(3)]);
        rewrite.forwarded_prefix = Some(vec![Group(group)]);
        let rewrite = Rewrite::compile(&rewrite).unwrap();
        let Ok(Some(Rewritten::Outgoing(outgoing))) = rewrite.apply("/a/y", "/a/y", &NOTHING) else {
            panic!()
        };
        let mut head = http::Request::new(());
        head.fields().insert("x-forwarded-prefix", HeaderValue::from_static("/of/the/client"));
        outgoing.apply(&mut Edit::new(&mut head));
        assert_eq!(head.uri(), "/y");
        let prefix = head.headers().get("x-forwarded-prefix").map(|value| value.to_str().unwrap());
        assert_eq!(prefix, expected);
    }
}

#[test]
fn unsupported_rewrites_are_refused() {
    for rewrite in [
        plain("(?i)/a(", &[]),
        plain("(?i)/a", &[Group(1)]),
        sluice_config::Rewrite { pattern: None, ..plain("", &[Group(1)]) },
        plain("(?i)/x{1000}{1000}{1000}", &[]),
    ] {
        assert!(matches!(Rewrite::compile(&rewrite), Err(PolicyError::Rewrite(_))), "{rewrite:?}");
    }
}

proptest! {
    #[test]
    fn no_client_reaches_beyond_its_target(path in "/a/[ -~]{0,20}", encoded in prop::collection::vec(any::<u8>(), 0..8)) {
        let encoded: String = encoded.iter().map(|byte| format!("%{byte:02x}")).collect();
        let target = path.replace(['?', '#', ' '], "") + &encoded;
        let rewrite = Rewrite::compile(&plain("(?i)/a/(.*)", &[Text("/b/".into()), Group(1)])).unwrap();
        if let Ok(normal) = normalise(&target)
            && let Ok(Some(Rewritten::Outgoing(outgoing))) = rewrite.apply(&target, &normal, &NOTHING)
        {
            let text = outgoing.target.as_str();
            prop_assert!(text.is_ascii() && !text.contains(['?', '#', ' ']));
            // The endpoint decodes the same bytes that the expression matched.
            let read: Vec<u8> = normal_bytes(text).map(|bytes| bytes.into_owned()).unwrap();
            let matched = normal_bytes(&target).unwrap().into_owned();
            if let Some(rest) = matched.strip_prefix(b"/a/").filter(|rest| !rest.contains(&b'\n')) {
                prop_assert_eq!(read.strip_prefix(b"/b/"), Some(rest));
            }
        }
    }
}
