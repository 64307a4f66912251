use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// Steps that no search of these tests needs, except in tests of the limit.
const ENOUGH: u32 = 1_000_000;

fn compiled(pattern: &str) -> BacktrackingRegex {
    BacktrackingRegex::compile(&translate(pattern)).unwrap_or_else(|error| panic!("{pattern}: {error}"))
}

fn find(pattern: &str, text: &str) -> Option<Vec<Option<String>>> {
    let groups = compiled(pattern).search(text.as_bytes(), &mut { ENOUGH }).unwrap()?;
    Some(groups.into_iter().map(|range| Some(text[range?].to_owned())).collect())
}

fn whole(pattern: &str, text: &str) -> Option<String> {
    find(pattern, text)?.swap_remove(0)
}

#[test]
fn syntax_of_pcre_is_matched() {
    for (pattern, text, expected) in [
        (r"(?<!x)shop(?!/api).", "/shop/a /shop/api", Some("shop/")),
        (r"(?<!/)shop", "/shop", None),
        (r"(?<=/v1|/beta)/users$", "/beta/users", Some("/users")),
        (r"(?<=/v1|/beta)/users$", "/v2/users", None),
        (r"(?<=^a)b", "ab", Some("b")),
        (r"(?<!^)b", "bab", Some("b")),
        (r"a(?>b+)b", "abbb", None),
        (r"a(?>bc|b)c", "abc", None),
        (r"a++b", "aaab", Some("aaab")),
        (r"a*+a", "aaa", None),
        (r"a{1,2}+a", "aaa", Some("aaa")),
        (r"a{1,2}+a", "aa", None),
        (r"(.)\1", "abccd", Some("cc")),
        (r"(?i)(ab)\1", "abAB", Some("abAB")),
        (r"(?<c>.)\k<c>", "abb", Some("bb")),
        (r"(a)?(?(1)b|c)", "c", Some("c")),
        (r"^(a)?(?(1)b|c)$", "ab", Some("ab")),
        (r"^(a)?(?(1)b|c)$", "ac", None),
        (r"^/((?!admin).)*$", "/shop", Some("/shop")),
        (r"^/((?!admin).)*$", "/x/admin", None),
        (r"foo\Kbar(?!x)", "foobar", Some("bar")),
        (r"a\R(?=b)b", "a\r\nb", Some("a\r\nb")),
        (r"(?=(a+))a*b\1", "aaab a", None),
        (r"(?=(a+))\w*b\1", "baaabac", Some("aba")),
        (r"(?i)(?<!X)sTraße", "STRAßE", Some("STRAßE")),
        (r"(?<=ü)b", "üb", Some("b")),
        (r"\bfoo\b(?!-)", "foo-foo xfoo foo", Some("foo")),
        (r"x*(?<!y)", "", Some("")),
        (r"(?:a|(?=b))*b", "aab", Some("aab")),
        (r"(|a)+(?!c)$", "aaa", Some("aaa")),
        (r"(?s)a.(?!c)", "a\nb", Some("a\n")),
        (r"a.(?!c)", "a\nb", None),
        (r"(?m)^b(?!c)$", "a\nb\nc", Some("b")),
        (r"(?<!x)[[:digit:]&]{2}", "a&1", Some("&1")),
        (r"(?!)|b", "ab", Some("b")),
    ] {
        assert_eq!(whole(pattern, text).as_deref(), expected, "{pattern} {text}");
    }
}

/// Perl, whose rules PCRE follows, gives the same results.
#[test]
fn a_repetition_that_matches_nothing_is_the_last() {
    for (pattern, text, expected) in [
        (r"(?:.|\b|[^a])*(?<!x)", "a\n", "a"),
        ("(?:a||b)*(?!x)", "ab", "a"),
        ("(?:a*|b)*(?!x)", "aab", "aa"),
        ("(?:a|(?=b)|b)+", "aab", "aa"),
        ("(?:|a)+(?!x)", "aa", ""),
        ("(?:|a)*?b(?!x)", "ab", "ab"),
        ("(?:(?:|a)+)*b(?!x)", "aab", "aab"),
        ("(?:a?|b)*c(?!x)", "abac", "abac"),
    ] {
        assert_eq!(whole(pattern, text).as_deref(), Some(expected), "{pattern} {text}");
    }
}

#[test]
fn groups_have_numbers_and_names_and_keep_them_in_repetitions() {
    let regex = compiled(r"(?<!x)(?<first>a)(?:(b)|(?<last>c)){2,3}(d)?");
    assert_eq!(regex.group_count(), 5);
    assert_eq!(regex.group_names().collect::<Vec<_>>(), [None, Some("first"), None, Some("last"), None]);
    assert_eq!(regex.named_groups()["last"], 3);
    let groups = find(r"(?<!x)(?<first>a)(?:(b)|(?<last>c)){2,3}(d)?", "xabc!abbcd").unwrap();
    let expected = [Some("abbcd"), Some("a"), Some("b"), Some("c"), Some("d")];
    assert_eq!(groups.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
    assert_eq!(find(r"(a)|(?!a)(b)", "b").unwrap(), [Some("b".into()), None, Some("b".into())]);
    assert_eq!(find(r"(?:(a)(?!b)|ab)c?", "abc").unwrap()[1], None, "a path that failed leaves no group");
}

#[test]
fn a_text_need_not_be_utf_8() {
    let regex = compiled("(?<!x)b.");
    assert_eq!(regex.search(b"\xff\xfebd\xff", &mut { ENOUGH }), Ok(Some(vec![Some(2..4)])));
    assert_eq!(regex.search(b"b\xffxbd", &mut { ENOUGH }), Ok(Some(vec![Some(0..2)])));
    let found =
        |pattern: &str, text: &[u8]| compiled(pattern).search(text, &mut { ENOUGH }).unwrap().is_some();
    for text in [&b"a\xff b"[..], b"a\xc3(b", b"a\x80\x80b", b"a\xf0\x9f\x98b"] {
        assert!(
            found("(?<!x)a.*b", text) && found("(?<!x)a[^/]+b", text) && found(r"a\W+(?<=[^/]{2})b", text)
        );
        assert!(!found(r"(?<!x)a\w*b", text));
    }
}

#[test]
fn each_copy_of_a_set_of_characters_took_memory_of_its_own() {
    let regex = compiled(r"(?<!x)\w{9000}");
    let text = "w".repeat(9000);
    assert_eq!(regex.search(text.as_bytes(), &mut { ENOUGH }), Ok(Some(vec![Some(0..9000)])));
    let sets: String = (0x2000..0x2020).map(|c| format!(r"[\w\x{{{c:x}}}]")).collect();
    let error = BacktrackingRegex::compile(&format!("(?<!x){sets}")).unwrap_err().to_string();
    assert!(error.contains("too large"), "{error}");
}

#[test]
fn a_construct_that_is_not_supported_is_named() {
    for (pattern, reason) in [
        ("(?<!a", "Opening parenthesis without closing"),
        ("(?<!a+)b", "fixed length"),
        (r"(a)\2", "group 2"),
        ("(?<x>a(?P>x)?b)", "recursion"),
        ("a(*PRUNE)b", "control verb"),
        ("(?(?=a)a|b)", "Target of repeat"),
        ("(?C1)a", "flag"),
        ("(?:a{1000}){1000}(?!b)", "too large"),
        ("(?:(?:){1000}){1000000}(?!b)", "Target of repeat"),
    ] {
        let error = BacktrackingRegex::compile(pattern).unwrap_err().to_string();
        assert!(error.contains(reason) && !error.contains('\n'), "{pattern}: {error}");
    }
}

/// Each would take hours. `fancy-regex` counts few steps in some of them and much time.
#[test]
fn no_expression_takes_longer_than_its_limit() {
    const LIMIT: u32 = 250_000;
    let text = "a".repeat(16_000) + "!";
    for pattern in [
        r"^(?:(a+)+)(?<!b)$",
        r"((?:a(?!c))+)+$",
        r"^(a|a)*(?=c)$",
        r"(?:(a+)+)\b(?<!x)$",
        r"(?=(a+))(?:a|b)*?\1{9}c",
        r"(a*)*\1\1\1b",
        r"(?:(?=(?:(?=a*)a)*)a)*b",
        r"(?:a(?<=a{500}))*+b",
        r"(?:(?>a*?)|a)*(?<!a)$",
        r"(?:.*(?!x)){1,20}y",
        r"((?:\1(a)|){1000}(?:\1?){1000})*b",
    ] {
        let regex = compiled(pattern);
        let (mut steps, began) = (LIMIT, Instant::now());
        assert_eq!(regex.search(text.as_bytes(), &mut steps), Err(StepLimitReached), "{pattern}");
        assert_eq!(steps, 0, "{pattern}");
        // Milliseconds; the margin is for machines under load.
        assert!(began.elapsed() < Duration::from_secs(2), "{pattern}");
        eprintln!("{pattern}: {:?}", began.elapsed());
    }
}

#[test]
fn the_limit_spans_several_searches() {
    let regex = compiled("(?<!x)y");
    let mut steps = 1000;
    assert_eq!(regex.search("a".repeat(100).as_bytes(), &mut steps), Ok(None));
    assert!(steps > 0 && steps < 800, "{steps}");
    while steps > 0 {
        let _ = regex.search("a".repeat(100).as_bytes(), &mut steps);
    }
    assert_eq!(regex.search(b"y", &mut steps), Err(StepLimitReached));
}

#[test]
fn an_expression_with_one_beginning_is_not_tried_at_every_character() {
    let text = "a".repeat(2_000);
    for pattern in ["^b(?<!x)", "(?i)^(b)(?<!x)", r"\Ab(?!c)", ".*b(?!c)", "(?s).*b(?!c)"] {
        let mut steps = 20_000;
        assert_eq!(compiled(pattern).search(text.as_bytes(), &mut steps), Ok(None), "{pattern}");
    }
    assert_eq!(whole(".*b(?!c)", "abc\nxb"), Some("xb".into()));
}

/// An expression, and whether it can match the empty text.
type Generated = (String, bool);

/// Expressions of common syntax, and of syntax that needs backtracking.
///
/// What can match nothing is not repeated without limit: the linear engine goes on after a
/// repetition that matched nothing, where PCRE ends
/// ([`a_repetition_that_matches_nothing_is_the_last`]).
fn expressions(extended: bool) -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        select(vec!["a", "b", "ab", ".", "[ab]", "[^a]", r"\w"]).prop_map(|leaf| (leaf.to_owned(), false)),
        select(vec!["^", "$", r"\b", "", "(?:)"]).prop_map(|leaf| (leaf.to_owned(), true)),
    ];
    let generated = leaf.prop_recursive(4, 24, 3, move |inner| {
        let quantifiers = vec!["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,3}?"];
        let possessive = vec!["*+", "++", "?+"];
        let quantifiers = if extended { [quantifiers, possessive].concat() } else { quantifiers };
        let groups = vec!["(", "(?:", "(?i:"];
        let around = vec!["(?=", "(?!", "(?>"];
        let groups = if extended { [groups, around].concat() } else { groups };
        prop_oneof![
            (inner.clone(), select(quantifiers)).prop_map(repeated),
            (select(groups), inner.clone()).prop_map(|(group, (inner, empty))| {
                (format!("{group}{inner})"), empty || matches!(group, "(?=" | "(?!"))
            }),
            (inner.clone(), inner.clone())
                .prop_map(|((one, empty), (other, also))| (format!("{one}{other}"), empty && also)),
            (inner.clone(), inner)
                .prop_map(|((one, empty), (other, also))| (format!("(?:{one}|{other})"), empty || also)),
        ]
    });
    generated.prop_map(|(expression, _)| expression)
}

fn repeated(((inner, empty), quantifier): (Generated, &str)) -> Generated {
    let limited = match quantifier.as_bytes() {
        [b'*' | b'+', rest @ ..] if empty => format!("?{}", String::from_utf8_lossy(rest)),
        _ => quantifier.to_owned(),
    };
    let none = limited.starts_with(['*', '?']) || limited.starts_with("{0");
    (format!("(?:{inner}){limited}"), empty || none)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn common_syntax_matches_as_in_the_linear_engine(pattern in expressions(false), text in "[ab\n]{0,8}") {
        let linear = regex::bytes::Regex::new(&pattern).unwrap();
        let Ok(regex) = BacktrackingRegex::compile(&pattern) else { return Err(TestCaseError::reject("a repeated assertion")) };
        let expected = linear.find(text.as_bytes()).map(|found| found.range());
        let found = regex.search(text.as_bytes(), &mut { ENOUGH }).unwrap();
        prop_assert_eq!(regex.group_count(), linear.captures_len());
        prop_assert_eq!(found.map(|groups| groups[0].clone().unwrap()), expected);
    }

    #[test]
    fn other_syntax_matches_as_in_fancy_regex(pattern in expressions(true), text in "[ab]{0,8}") {
        let Ok(other) = fancy_regex::Regex::new(&pattern) else { return Err(TestCaseError::reject("a repeated assertion")) };
        let expected = other.find(&text).unwrap().map(|found| found.range());
        let found = compiled(&pattern).search(text.as_bytes(), &mut { ENOUGH }).unwrap();
        prop_assert_eq!(found.map(|groups| groups[0].clone().unwrap()), expected);
    }

    #[test]
    fn no_text_is_too_odd_to_compile_or_search(pattern in r"[\\(){}\[\]?*+|^$.:<=!>aQEgkhR1,&#-]{0,24}", text in any::<Vec<u8>>()) {
        let translated = translate(&pattern);
        has_possessive_quantifier(&pattern);
        if let Ok(regex) = BacktrackingRegex::compile(&translated) {
            let _ = regex.search(&text, &mut 10_000);
        }
    }
}
