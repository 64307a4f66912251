//! Selectors that Kubernetes accepts and rejects, and a property: parsing any requirements, however
//! they are spaced, yields these requirements.

use proptest::prelude::*;

use super::*;

type Labels = Vec<(Box<str>, Box<str>)>;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

#[test]
fn requirements_of_every_form() {
    let labels = labels(&[("env", "prod"), ("in", "x"), ("rank", "7"), ("team", "web")]);
    for (selector, expected) in [
        ("env=prod", true),
        ("env==prod,team=web", true),
        ("env!=prod", false),
        ("other!=x", true),
        ("env in (dev, prod),team", true),
        ("env notin (prod)", false),
        ("!env", false),
        ("! other", true),
        ("other in (a)", false),
        ("", true),
        (" \t\r\n", true),
        // No blank is needed, and any are allowed.
        ("env in(prod)", true),
        ("env in(dev,prod)", true),
        ("env notin(prod)", false),
        ("env\tin\n( prod ) , team = web", true),
        ("env!=dev,!other,team", true),
        // The words are operators only where one is due.
        ("in", true),
        ("in in (in,x)", true),
        ("in=x", true),
        ("notin", false),
        ("env in (in,notin)", false),
        // Omitted values are empty.
        ("env=", false),
        ("env=,team=web", false),
        ("other!=", true),
        ("env in ()", false),
        ("env in (,prod)", true),
        ("env in (,)", false),
        ("env notin (,)", true),
        ("env in (prod,,dev)", true),
        ("env in (prod,)", true),
        // Numbers.
        ("rank>6", true),
        ("rank > 7", false),
        ("rank<8,rank>0", true),
        ("env>1", false),
        ("other<1", false),
        ("example.com/role notin (x)", true),
    ] {
        assert_eq!(Selector::parse(selector).unwrap().matches(&labels), expected, "{selector}");
    }
    assert!(Selector::parse("env=,a").unwrap().matches(&super::tests::labels(&[("a", ""), ("env", "")])));
}

#[test]
fn selectors_that_kubernetes_refuses_are_refused_with_a_reason() {
    let long = "x".repeat(64);
    for (selector, reason) in [
        ("=x", "\"=\""),
        ("env in prod", "\"prod\" stands where (, which in and notin need, is due"),
        ("a b", "\"b\" stands where an operator is due"),
        (",", "\",\" stands where a key is due"),
        ("a,", "it ends where a key is due"),
        ("a,,b", "\",\" stands where a key is due"),
        ("a=b c", "\"c\" stands where a comma or the end is due"),
        ("a=b=c", "\"=\" stands where a comma or the end is due"),
        ("a===b", "\"=\" stands where a value is due"),
        ("!a=b", "\"=\" stands where a comma or the end is due"),
        ("!!a", "\"!\" stands where a key is due"),
        ("!", "it ends where a key is due"),
        ("a!", "\"!\" stands where an operator is due"),
        ("a in", "it ends where (, which"),
        ("a in (", "it ends where a comma or ) is due"),
        ("a in (b", "it ends where a comma or ) is due"),
        ("a in (b c)", "\"c\" stands where a comma or ) is due"),
        ("a in ((b)", "\"(\" stands where a comma or ) is due"),
        ("a in (b))", "\")\" stands where a comma or the end is due"),
        ("a>b", "\"b\" is not an integer"),
        ("a>", "\"\" is not an integer"),
        ("a>-1", "\"-1\" is not a valid label value"),
        ("a>99999999999999999999", "is not an integer"),
        ("-a=b", "\"-a\" is not a valid label key"),
        ("a/b/c", "\"a/b/c\" is not a valid label key"),
        ("/a", "is not a valid label key"),
        ("A.example/b", "is not a valid label key"),
        ("ä=b", "is not a valid label key"),
        ("a=b_", "\"b_\" is not a valid label value"),
        ("a=b/c", "\"b/c\" is not a valid label value"),
        ("a in (b,c:d)", "\"c:d\" is not a valid label value"),
        (&format!("a={long}"), "is not a valid label value"),
        (&long, "is not a valid label key"),
        ("a='b'", "is not a valid label value"),
    ] {
        let error = Selector::parse(selector).expect_err(selector).to_string();
        assert!(error.contains(reason) && error.contains("write key=value"), "{selector}: {error}");
    }
}

/// A requirement as text without blanks, and in parsed form.
fn requirement() -> impl Strategy<Value = (Vec<String>, Requirement)> {
    let key = prop_oneof![Just("in"), Just("notin"), Just("a"), Just("example.com/b-c"), Just("D.e_f")];
    let value = prop_oneof![Just(""), Just("in"), Just("notin"), Just("x"), Just("7"), Just("Y-z.0")];
    let values = proptest::collection::vec(value.clone(), 1..4);
    (key, 0..8, value, values, 0..99_i64).prop_map(|(key, form, value, values, number)| {
        let list = || {
            let mut words = vec!["(".to_owned()];
            for (at, value) in values.iter().enumerate() {
                words.extend((at > 0).then(|| ",".to_owned()));
                words.push((*value).to_owned());
            }
            words.push(")".to_owned());
            words
        };
        let all = || values.iter().map(|value| (*value).to_owned()).collect();
        let one = || [value.to_owned()].into();
        let with = |words: &[&str]| {
            std::iter::once(key).chain(words.iter().copied()).map(str::to_owned).collect::<Vec<_>>()
        };
        let (words, test) = match form {
            0 => (with(&[]), Test::Exists),
            1 => (vec!["!".to_owned(), key.to_owned()], Test::Absent),
            2 => (with(&["=", value]), Test::In(one())),
            3 => (with(&["==", value]), Test::In(one())),
            4 => (with(&["!=", value]), Test::NotIn(one())),
            5 => (with(&[" in"]).into_iter().chain(list()).collect(), Test::In(all())),
            6 => (with(&[" notin"]).into_iter().chain(list()).collect(), Test::NotIn(all())),
            _ => (with(&[">", &number.to_string()]), Test::Above(number)),
        };
        (words, Requirement { key: key.to_owned(), test })
    })
}

proptest! {
    #[test]
    fn a_selector_parses_alike_however_it_is_spaced(
        parts in proptest::collection::vec(requirement(), 0..5),
        blanks in proptest::collection::vec(prop_oneof![Just(""), Just(" "), Just("\t\n")], 64),
    ) {
        let mut blanks = blanks.iter().cycle();
        let mut text = String::new();
        for (at, (words, _)) in parts.iter().enumerate() {
            for word in (at > 0).then_some(",").into_iter().chain(words.iter().map(String::as_str)) {
                text.push_str(blanks.next().unwrap());
                text.push_str(word);
            }
        }
        let expected = Selector(parts.into_iter().map(|(_, requirement)| requirement).collect());
        prop_assert_eq!(Selector::parse(&text), Ok(expected), "{}", text);
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "[a-c!=(), inot<>/.0-]{0,24}") {
        if let Ok(selector) = Selector::parse(&text) {
            selector.matches(&labels(&[("a", "b")]));
        }
        let _ = Selector::parse(&format!("ä{text}\u{0}"));
    }
}
