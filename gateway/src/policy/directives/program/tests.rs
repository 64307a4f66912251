use sluice_config::Expression as E;
use sluice_config::directives::{Condition as C, Instruction as I, Return as R};
use sluice_config::{Template as T, TemplatePiece, Variable};

use super::*;
use crate::policy::template::TemplateContext;
use crate::policy::template::tests::with_context;

/// A template of text and `$name`, each an assigned variable or a group.
fn template(text: &str) -> T {
    let piece = |word: &str| match word.strip_prefix('$') {
        Some(name) if name.parse::<u8>().is_ok() => TemplatePiece::Variable(Variable::Group(name.into())),
        Some(name) => TemplatePiece::Variable(Variable::Assigned(name.into())),
        None => TemplatePiece::Text(word.into()),
    };
    T { pieces: text.split(' ').filter(|word| !word.is_empty()).map(piece).collect() }
}

fn set(variable: &str, value: &str) -> I {
    I::Set { variable: variable.into(), value: template(value) }
}

fn matches(value: &str, pattern: &str, negated: bool) -> C {
    C::Match { value: template(value), expression: E::Plain(pattern.into()), negated }
}

fn when(condition: C, scope: u16, then: Vec<I>) -> I {
    I::If { condition, scope: Some(scope), then }
}

fn fill(template: &Template, assigned: &Assigned) -> Vec<u8> {
    let mut filled = Vec::new();
    with_context(|context| {
        filled = template.fill(&TemplateContext { assigned: Some(assigned), ..*context });
    });
    filled
}

const INPUT: ProgramInput<'_> = ProgramInput { path: "/a b", target: "/a%20b?c=d" };

fn run(program: &[I]) -> (Assigned, Option<StatusCode>) {
    let program = DirectiveProgram::compile(program).unwrap();
    let mut assigned = Assigned::default();
    let status = match program.run(INPUT, &mut assigned, &fill) {
        ProgramOutcome::Return(Return::Page(status)) => Some(*status),
        _ => None,
    };
    (assigned, status)
}

#[test]
fn the_last_condition_that_holds_selects_the_scope() {
    let program = [
        set("a", "1"),
        when(C::Truth(template("$a")), 1, Vec::new()),
        when(C::Truth(template("$a")), 2, vec![set("b", "in")]),
        when(C::Truth(template("$none")), 3, vec![I::Return(R::Page(403))]),
    ];
    let (assigned, status) = run(&program);
    assert_eq!((assigned.scope, assigned.variable("b"), status), (2, &b"in"[..], None));
}

#[test]
fn empty_and_zero_are_false_and_all_else_is_true() {
    for (value, holds) in [("", false), ("0", false), ("00", true), ("no", true)] {
        let (_, status) =
            run(&[set("a", value), when(C::Truth(template("$a")), 1, vec![I::Return(R::Page(403))])]);
        assert_eq!(status.is_some(), holds, "{value:?}");
    }
}

#[test]
fn a_match_gives_its_groups_to_what_follows() {
    let (assigned, _) = run(&[
        set("a", "tenant-7"),
        when(matches("$a", "^([a-z]+)-(\\d)(x)?$", false), 1, vec![set("b", "$2 : $1 : $3")]),
        when(matches("$a", "^(none)", false), 2, Vec::new()),
        set("c", "$1"),
    ]);
    assert_eq!(assigned.variable("b"), b"7:tenant:");
    assert_eq!(assigned.variable("c"), b"", "an expression that does not match has no groups");
    assert_eq!(assigned.scope, 1);
}

#[test]
fn a_named_group_is_a_variable_until_it_is_set_again() {
    let named = |pattern: &str| when(matches("$a", pattern, false), 1, Vec::new());
    let text = |program: &[I], name: &str| String::from_utf8(run(program).0.variable(name).to_vec()).unwrap();
    let start = [set("a", "tenant-7"), set("t", "none")];
    let after = |program: &[I]| text(&[&start[..], program].concat(), "t");
    assert_eq!(after(&[named("^(?<t>[a-z]+)-")]), "tenant");
    assert_eq!(after(&[named("^(?<T>[a-z]+)-")]), "tenant");
    assert_eq!(after(&[named("^(?<t>[a-z]+)-"), named("7")]), "tenant");
    assert_eq!(after(&[named("^(?<t>[a-z]+)-"), named("^(?<t>none)")]), "tenant");
    assert_eq!(after(&[named("^(?<t>[a-z]+)-"), named("^(?<t>x)?")]), "");
    assert_eq!(after(&[named("^(?<t>[a-z]+)-"), set("t", "again")]), "again");
    let negated = when(matches("$a", "^(?<t>[a-z]+)-", true), 1, Vec::new());
    assert_eq!(after(&[negated]), "tenant");
}

#[test]
fn a_rewrite_replaces_the_numbered_groups() {
    let group = |number: &str| sluice_config::RewritePart::Variable(Variable::Group(number.into()));
    let rewrite = |pattern: &str, path| I::Rewrite {
        rewrite: sluice_config::Rewrite {
            pattern: Some(E::Plain(pattern.into())),
            path,
            query: sluice_config::RewriteQuery::Keep,
            redirects: false,
            forwarded_prefix: None,
        },
        then: contract::AfterRewrite::Continue,
    };
    let plain = |text: &str| sluice_config::RewritePart::Text(text.into());
    let seen = |rewrite: I| {
        let search = when(matches("$a", "^(x)", false), 1, Vec::new());
        let (assigned, _) = run(&[set("a", "x"), search, rewrite, set("after", "$1")]);
        let after = String::from_utf8(assigned.variable("after").to_vec()).unwrap();
        (assigned.uri(INPUT).0.to_owned(), after, assigned.variable("rest").to_vec())
    };
    let own = |number| vec![plain("/new/"), sluice_config::RewritePart::Group(number)];
    assert_eq!(seen(rewrite("^/(a).(?<rest>.*)$", own(1))), ("/new/a?c=d".into(), "a".into(), b"b".to_vec()));
    assert_eq!(seen(rewrite("^/none", own(0))), ("/a%20b?c=d".into(), String::new(), Vec::new()));
    let without_group = rewrite("^", vec![plain("/new/"), group("1")]);
    assert_eq!(seen(without_group), ("/new/?c=d".into(), String::new(), Vec::new()));
}

#[test]
fn negated_conditions_hold_where_the_others_do_not() {
    let refuse = || vec![I::Return(R::Page(403))];
    let equal = |other: &str, negated| C::Equal { value: template("$a"), other: template(other), negated };
    for (condition, holds) in [
        (equal("x", false), true),
        (equal("x", true), false),
        (equal("y", true), true),
        (matches("$a", "^x", true), false),
        (matches("$a", "^y", true), true),
    ] {
        let (_, status) = run(&[set("a", "x"), when(condition.clone(), 1, refuse())]);
        assert_eq!(status.is_some(), holds, "{condition:?}");
    }
}

#[test]
fn a_rewrite_redirects_or_changes_the_path_if_it_matches() {
    let rewrite = |pattern: &str, then| I::Rewrite {
        rewrite: sluice_config::Rewrite {
            pattern: Some(E::Plain(pattern.into())),
            path: vec![
                sluice_config::RewritePart::Text("/new/".into()),
                sluice_config::RewritePart::Group(1),
            ],
            query: sluice_config::RewriteQuery::Keep,
            redirects: matches!(then, contract::AfterRewrite::Redirect(_)),
            forwarded_prefix: None,
        },
        then,
    };
    let outcome = |program: &[I]| {
        let program = DirectiveProgram::compile(program).unwrap();
        let mut assigned = Assigned::default();
        let end = match program.run(INPUT, &mut assigned, &fill) {
            ProgramOutcome::End => "end",
            ProgramOutcome::Break => "break",
            ProgramOutcome::Relocate => "relocate",
            ProgramOutcome::Redirect(status, location) => return format!("{} {location}", status.as_u16()),
            other => panic!("{other:?}"),
        };
        format!("{end} {}", assigned.uri(INPUT).0)
    };
    use contract::AfterRewrite::{Continue, Last, Redirect, Stay};
    assert_eq!(outcome(&[rewrite("^/(x)", Stay)]), "end /a%20b?c=d");
    assert_eq!(outcome(&[rewrite("^/(a.*)", Stay), rewrite("^(.*)", Last)]), "break /new/a%20b?c=d");
    assert_eq!(outcome(&[rewrite("^/(a)", Redirect(301))]), "301 /new/a?c=d");
    assert_eq!(outcome(&[rewrite("^/(a)", Last), I::Break]), "relocate /new/a?c=d");
    let again = [rewrite("^/(a)", Continue), rewrite("^/new/(a)", Continue), rewrite("^/(a)", Last)];
    assert_eq!(outcome(&again), "relocate /new/a?c=d");
    assert_eq!(outcome(&[rewrite("^/(a)", Continue), I::Break]), "break /new/a?c=d");
    let inside = when(
        C::Equal { value: template("x"), other: template("x"), negated: false },
        1,
        vec![rewrite("^/(a)", Continue)],
    );
    assert_eq!(outcome(&[inside]), "relocate /new/a?c=d");
}

#[test]
fn return_and_break_end_the_program() {
    let (assigned, status) = run(&[set("a", "1"), I::Return(R::Page(503)), set("a", "2")]);
    assert_eq!((assigned.variable("a"), status.map(|status| status.as_u16())), (&b"1"[..], Some(503)));
    let (assigned, status) =
        run(&[set("a", "1"), when(C::Truth(template("$a")), 1, vec![I::Break]), set("a", "2")]);
    assert_eq!((assigned.variable("a"), assigned.scope, status), (&b"1"[..], 1, None));
}
