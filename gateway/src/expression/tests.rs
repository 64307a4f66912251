use std::sync::Arc;

use sluice_config::LookAhead;

use super::*;

fn extended(pattern: &str, conditions: &[(&str, bool)], backtracks: bool) -> ExtendedMatcher {
    let condition = |&(pattern, negative): &(&str, bool)| LookAhead { pattern: pattern.into(), negative };
    let conditions = conditions.iter().map(condition).collect();
    let (text, pattern) = (pattern.into(), pattern.into());
    ExtendedMatcher::compile(&ExtendedRegex { text, pattern, conditions, backtracks }).unwrap()
}

#[test]
fn groups_are_those_of_the_pattern_if_its_conditions_hold() {
    let linear = extended("^/()(?<rest>.*)", &[("^/(?:(api))", true)], false);
    assert_eq!(linear.groups(b"/shop"), Some(vec![Some(0..5), Some(1..1), Some(1..5)]));
    assert_eq!(linear.groups(b"/api"), None);
    assert!(linear.is_match(b"/shop") && !linear.is_match(b"/api"));
    let backtracking = extended("^/(?!(api))(?<rest>.*)", &[], true);
    assert_eq!(backtracking.groups(b"/shop"), Some(vec![Some(0..5), None, Some(1..5)]));
    assert_eq!(backtracking.groups(b"/api"), None);
    for matcher in [linear, backtracking] {
        assert_eq!(matcher.group_count(), 3);
        assert_eq!(matcher.group_names(), [None, None, Some("rest")]);
    }
}

#[test]
fn an_expression_that_reaches_the_limit_counts_as_a_match_without_groups() {
    let worst = "a".repeat(1_000) + "!";
    let regex = extended("^(a+)+(?<!b)$", &[], true);
    let mut steps = STEP_LIMIT;
    within_steps(&mut steps, || {
        assert!(!regex.is_match(b"aab") && !is_limit_reached());
        assert!(regex.is_match(worst.as_bytes()) && is_limit_reached());
        assert_eq!(regex.groups(worst.as_bytes()), None);
        assert!(regex.is_match(b"aab"), "the limit is one for all searches");
    });
    assert_eq!(steps, 0);
    let mut steps = STEP_LIMIT;
    within_steps(&mut steps, || assert!(!regex.is_match(b"aab") && !is_limit_reached()));
    assert!(steps > STEP_LIMIT / 2, "the limit is one per request");
}

#[test]
fn an_inner_limit_draws_on_the_steps_of_the_outer_one() {
    let worst = "a".repeat(1_000) + "!";
    let regex = extended("^(a+)+(?<!b)$", &[], true);
    let mut outer = STEP_LIMIT;
    within_steps(&mut outer, || {
        let mut inner = 1_000;
        within_steps(&mut inner, || assert!(regex.is_match(worst.as_bytes()) && is_limit_reached()));
        assert_eq!(inner, 0);
        assert!(!is_limit_reached(), "a smaller limit leaves the other steps");
        let mut inner = STEP_LIMIT;
        within_steps(&mut inner, || assert!(!regex.is_match(b"aab")));
        assert!(inner < STEP_LIMIT - 1_000 && !is_limit_reached());
        within_steps(&mut { STEP_LIMIT }, || assert!(regex.is_match(worst.as_bytes())));
        within_steps(&mut { STEP_LIMIT }, || assert!(is_limit_reached(), "the limit stays reached"));
    });
    assert_eq!(outer, 0);
    assert!(!is_limit_reached() && !regex.is_match(b"aab"), "no limit is in force");
}

#[test]
fn a_limit_ends_with_a_panic_of_its_work() {
    let result =
        std::panic::catch_unwind(|| within_steps(&mut { 0 }, || assert!(!is_limit_reached(), "as intended")));
    assert!(result.is_err() && !is_limit_reached());
}

#[test]
fn the_linear_engine_matches_the_worst_case_without_a_limit() {
    let regex = extended("(a+)+$", &[("^(?:(b+)+!)", true)], false);
    let mut steps = STEP_LIMIT;
    within_steps(&mut steps, || assert!(!regex.is_match(("a".repeat(100_000) + "!").as_bytes())));
    assert_eq!(steps, STEP_LIMIT);
}

#[test]
fn names_are_found_by_expression_in_a_fixed_order() {
    let regex = |pattern: &str, backtracks| {
        let (text, pattern) = (pattern.into(), pattern.into());
        Arc::new(ExtendedRegex { text, pattern, conditions: Vec::new(), backtracks })
    };
    let (first, second) = (regex("^a(?!b)", true), regex("^a.$", false));
    let slow = regex("^(a+)+(?<!b)$", true);
    let mut names = ByExpression::default();
    for (value, regex) in [(2, &second), (1, &first), (3, &slow)] {
        assert_eq!(names.set(regex, Some(value)), None);
    }
    let all = |names: &ByExpression<u8>, name: &str| {
        let mut found = Vec::new();
        let mut from = 0;
        while let Some((value, next)) = names.next_match(from, name) {
            found.push(*value);
            from = next;
        }
        found
    };
    assert_eq!(all(&names, "ac"), [1, 2]);
    assert_eq!(all(&names, "ab"), [2]);
    assert_eq!(all(&names, &("a".repeat(1_000) + "!")), [1], "one that reaches its limit does not match");
    assert_eq!(names.get(&first), Some(&1));
    assert_eq!((names.set(&first, None), names.get(&first)), (Some(1), None));
    assert_eq!(all(&names, "ac"), [2]);
    assert!(!names.is_empty() && ByExpression::<u8>::default().is_empty());
}

#[test]
fn expressions_of_names_share_the_steps_of_a_request() {
    let regex = |pattern: &str| {
        let (text, pattern) = (pattern.into(), pattern.into());
        Arc::new(ExtendedRegex { text, pattern, conditions: Vec::new(), backtracks: true })
    };
    let mut names = ByExpression::default();
    names.set(&regex("^(?:a+)+(?<!b)$"), Some(1));
    names.set(&regex("^b(?!c)"), Some(2));
    let mut steps = STEP_LIMIT;
    within_steps(&mut steps, || assert_eq!(names.next_match(0, "b.example"), Some((&2, 2))));
    assert!(0 < steps && steps < STEP_LIMIT);
    let worst = "a".repeat(1_000) + "!";
    within_steps(&mut steps, || {
        assert_eq!(names.next_match(0, &worst), Some((&1, 1)), "one that reaches the limit matches");
        assert!(is_limit_reached());
        assert_eq!(names.next_match(1, "c.example"), Some((&2, 2)), "the limit stays reached");
    });
    assert_eq!(steps, 0);
    assert_eq!(names.next_match(0, &worst), None, "outside of a request, it does not match");
}

#[test]
fn a_byte_that_is_not_utf_8_kept_an_expression_from_matching() {
    let text = b"Mozilla\xff badbot";
    let plain = |pattern: &str| bounded_bytes_regex(pattern).unwrap();
    assert!(plain("(?i)mozilla.*badbot").is_match(text) && plain("^[^/]+$").is_match(text));
    let looks_ahead = extended("^M.*bot", &[("^M(?:.*good)", true)], false);
    assert!(looks_ahead.is_match(text) && extended("(?<!x)M.*bot", &[], true).is_match(text));
    assert!(!plain(r"^\w+$").is_match("\u{e9}".as_bytes()), "letters are ASCII, as in nginx");
    assert!(plain(r"^\p{Greek}+$").is_match("\u{3b1}\u{3b2}".as_bytes()), "unless Unicode is needed");
    assert!(plain("^[\u{e4}\u{f6}]$").is_match("\u{f6}".as_bytes()));
}
