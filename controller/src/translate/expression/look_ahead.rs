//! Expressions with look-ahead, such as `/(?!api)(.*)`, taken apart into expressions that are searched in linear time.
//!
//! An engine for expressions that knows look-ahead tries one way after the other, and a client can choose a path that
//! makes it try for minutes. But what stands before a look-ahead mostly leaves it one single place in any text, as
//! `^/` does. Then the whole matches exactly where the expression matches without it, and what stands before it,
//! followed by what is ahead, does or does not match. An expression that leaves it several places stays unread.

use regex_syntax::ast::{Ast, GroupKind};
use regex_syntax::hir::{Class, Hir, HirKind, Look};
use sluice_config::{LookAhead, LookAheadRegex};

/// Stands where a look-ahead was; no path has it (a character of the last private plane).
const MARK: char = '\u{10fffd}';

/// What every expression of a path begins with. Other expressions need an anchor too, and may respect case.
const ANCHOR: &str = "(?i)^";

/// `None` where there is no look-ahead, or where it cannot be taken out.
pub(super) fn take_apart(text: &str) -> Option<LookAheadRegex> {
    let mut pattern = text.to_owned();
    let mut places = Vec::new();
    while let Some(found) = Found::first(&pattern) {
        let groups = groups_without_names(found.ahead)?;
        // Groups ahead keep what they found, but only where finding it is no fault.
        if groups > 0 && !found.negative {
            return None;
        }
        places.push((found.before.len(), found.ahead.to_owned(), found.negative));
        // They keep their numbers, and have found nothing.
        pattern = format!("{}{}{}", found.before, "()".repeat(groups), found.after);
    }
    let condition = |(place, ahead, negative): (usize, String, bool)| {
        let before = single_place(&format!("{}{MARK}{}", &pattern[..place], &pattern[place..]))?;
        Some(LookAhead { pattern: format!("{before}(?:{ahead})").into(), negative })
    };
    let conditions: Vec<_> = places.into_iter().map(condition).collect::<Option<_>>()?;
    let taken = !conditions.is_empty();
    taken.then(|| LookAheadRegex { text: text.into(), pattern: pattern.into(), conditions })
}

/// A look-ahead and what is around it.
struct Found<'t> {
    before: &'t str,
    ahead: &'t str,
    after: &'t str,
    negative: bool,
}

impl<'t> Found<'t> {
    /// The first, where all that was opened is closed again.
    fn first(text: &'t str) -> Option<Self> {
        let start = special(text, 0).find(|at| is_look_ahead(&text[*at..]))?;
        let inside = start + "(?!".len();
        let mut depth = 1;
        let end = special(text, inside).find(|at| {
            depth = if text[*at..].starts_with('(') { depth + 1 } else { depth - 1 };
            depth == 0
        })?;
        Some(Self {
            before: &text[..start],
            ahead: &text[inside..end],
            after: &text[end + 1..],
            negative: text[start..].starts_with("(?!"),
        })
    }
}

fn is_look_ahead(text: &str) -> bool {
    text.starts_with("(?!") || text.starts_with("(?=")
}

/// Where parentheses are that are neither escaped nor part of a class. What it takes for a class and is none is found
/// out by those who parse the parts.
fn special(text: &str, start: usize) -> impl Iterator<Item = usize> {
    let (mut escaped, mut class) = (false, false);
    text[start..].char_indices().filter_map(move |(at, c)| {
        match c {
            _ if std::mem::take(&mut escaped) => {}
            '\\' => escaped = true,
            '[' => class = true,
            ']' => class = false,
            '(' | ')' if !class => return Some(start + at),
            _ => {}
        }
        None
    })
}

/// How many groups an expression has. `None` where one has a name, or where it cannot be parsed.
fn groups_without_names(text: &str) -> Option<usize> {
    let hir = regex_syntax::parse(text).ok()?;
    let named = regex_syntax::ast::parse::Parser::new().parse(text).ok().is_some_and(|ast| has_names(&ast));
    (!named).then(|| hir.properties().explicit_captures_len())
}

fn has_names(ast: &Ast) -> bool {
    match ast {
        Ast::Group(group) => matches!(group.kind, GroupKind::CaptureName { .. }) || has_names(&group.ast),
        Ast::Repetition(repetition) => has_names(&repetition.ast),
        Ast::Alternation(alternation) => alternation.asts.iter().any(has_names),
        Ast::Concat(concat) => concat.asts.iter().any(has_names),
        _ => false,
    }
}

/// What stands before the mark, if that leaves the mark one single place in any text.
fn single_place(marked: &str) -> Option<String> {
    let ast = regex_syntax::ast::parse::Parser::new().parse(marked).ok()?;
    let mut before = String::new();
    write_before(&ast, marked, &mut before).then_some(())?;
    let parsed = regex_syntax::parse(&before).ok()?;
    let is_anchored = parsed.properties().look_set_prefix().contains(Look::Start);
    (is_anchored && is_single(&parsed)).then_some(before)
}

/// Whether the mark is reached, through nothing but groups that stand there once.
fn write_before(ast: &Ast, marked: &str, before: &mut String) -> bool {
    let parts = match ast {
        Ast::Literal(literal) => return literal.c == MARK,
        Ast::Group(group) => {
            let is_plain = match &group.kind {
                GroupKind::CaptureIndex(_) | GroupKind::CaptureName { .. } => true,
                GroupKind::NonCapturing(flags) => flags.items.is_empty(),
            };
            return is_plain && write_before(&group.ast, marked, before);
        }
        Ast::Concat(concat) => &concat.asts,
        _ => return false,
    };
    for part in parts {
        let text = &marked[part.span().start.offset..part.span().end.offset];
        if text.contains(MARK) {
            return write_before(part, marked, before);
        }
        // Flags that are set on the way hold for the rest, too, but not for what is taken out of a group.
        if matches!(part, Ast::Flags(_)) && !(before.is_empty() && ANCHOR.starts_with(text)) {
            return false;
        }
        before.push_str(text);
    }
    false
}

/// Whether a match that begins at a place can end at one place only.
fn is_single(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Alternation(branches) => {
            // Where the text ends, nothing with a length stands.
            let with_length = || branches.iter().filter(|branch| *branch.kind() != HirKind::Look(Look::End));
            let mut lengths = with_length().map(length);
            let Some(Some(first)) = lengths.next() else { return false };
            lengths.all(|length| length == Some(first))
                && (first > 0 || with_length().count() == branches.len())
        }
        HirKind::Concat(parts) => parts.iter().all(is_single),
        HirKind::Capture(capture) => is_single(&capture.sub),
        _ => length(hir).is_some(),
    }
}

/// How many characters an expression takes, where that is one number.
fn length(hir: &Hir) -> Option<usize> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(0),
        HirKind::Literal(literal) => Some(std::str::from_utf8(&literal.0).ok()?.chars().count()),
        HirKind::Class(Class::Unicode(_)) => Some(1),
        HirKind::Class(Class::Bytes(_)) => None,
        HirKind::Repetition(repetition) => {
            let times = usize::try_from(repetition.min).ok()?;
            (repetition.max == Some(repetition.min)).then(|| length(&repetition.sub))??.checked_mul(times)
        }
        HirKind::Capture(capture) => length(&capture.sub),
        HirKind::Concat(parts) => parts.iter().try_fold(0, |sum, part| Some(sum + length(part)?)),
        HirKind::Alternation(branches) => {
            let mut lengths = branches.iter().map(length);
            let first = lengths.next()??;
            lengths.all(|length| length == Some(first)).then_some(first)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(text: &str) -> Option<(String, Vec<(String, bool)>)> {
        let regex = take_apart(&format!("{ANCHOR}{text}"))?;
        let without = |pattern: &str| pattern.strip_prefix(ANCHOR).unwrap().to_owned();
        let conditions = regex.conditions.iter().map(|ahead| (without(&ahead.pattern), ahead.negative));
        Some((without(&regex.pattern), conditions.collect()))
    }

    #[test]
    fn what_people_write_is_taken_apart() {
        type Conditions = &'static [(&'static str, bool)];
        let cases: [(&str, &str, Conditions); 12] = [
            ("/(?!api)(.*)", "/(.*)", &[("/(?:api)", true)]),
            ("/((?!api).*)", "/(.*)", &[("/(?:api)", true)]),
            ("/(?!api/|static/).*", "/.*", &[("/(?:api/|static/)", true)]),
            ("/(?!(api|static)(/|$))(.*)", "/()()(.*)", &[("/(?:(api|static)(/|$))", true)]),
            ("/(?!a)(?!b)(.*)$", "/(.*)$", &[("/(?:a)", true), ("/(?:b)", true)]),
            ("/(?!.*\\.(?:css|js)$)(.+)", "/(.+)", &[("/(?:.*\\.(?:css|js)$)", true)]),
            ("/(?=v[12])(.*)", "/(.*)", &[("/(?:v[12])", false)]),
            ("/shop(/|$)(?!admin)(.*)", "/shop(/|$)(.*)", &[("/shop(/|$)(?:admin)", true)]),
            ("(?:/(?!x[)]).*)", "(?:/.*)", &[("/(?:x[)])", true)]),
            ("/(?<rest>(?!\\)).*)", "/(?<rest>.*)", &[("/(?:\\))", true)]),
            ("/v\\d{2}/(?!a).*", "/v\\d{2}/.*", &[("/v\\d{2}/(?:a)", true)]),
            ("/(a|b)/(?!c)d*", "/(a|b)/d*", &[("/(a|b)/(?:c)", true)]),
        ];
        for (text, pattern, conditions) in cases {
            let conditions = conditions.iter().map(|(text, negative)| ((*text).to_owned(), *negative));
            assert_eq!(apart(text), Some((pattern.to_owned(), conditions.collect())), "{text}");
        }
    }

    #[test]
    fn what_has_several_places_or_cannot_be_told_is_left() {
        for text in [
            "/shop",
            "/.*(?!api)",
            "/a?(?!b)",
            "/(a|bc)(?!d)",
            "/(|$)(?!d)",
            "/((?!api).)*",
            "/((?!a)b)?",
            "/(?!a)b|/c",
            "/((?!a)b|c)",
            "/(?=(a))b",
            "/(?!(?<name>a))b",
            "/(?!a(?!b))c",
            "/(?!a",
            "/(?!a))",
            "/(?<!a)b",
            "/[(?!a)]b",
            "/\\(?!a)b",
            "/(?x)(?!a # b)\n)c",
            "/(?i:(?!a)b)",
            "/(?!\\1)(a)",
        ] {
            assert_eq!(apart(text), None, "{text}");
        }
        for text in ["(?i)/(?!a)", "^{0}/(?!a)", "(?m)^/(?!a)", "(^|/)(?!a)"] {
            assert_eq!(take_apart(text), None, "nothing holds {text} to a place");
        }
        assert_eq!(&*take_apart("^/(?!a)b").unwrap().conditions[0].pattern, "^/(?:a)");
    }
}
