//! Splits expressions with look-ahead, such as `/(?!api)(.*)`, into expressions that are searched
//! in linear time.
//!
//! An engine with look-ahead backtracks, and a client can choose a path for which that takes
//! minutes. However, the part before a look-ahead usually has one possible end in any text, such as
//! `^/`. The whole expression then matches exactly if it matches without the look-ahead, and the
//! part before it, followed by the condition, does or does not match. Other expressions are
//! rejected.

use regex_syntax::ast::{Ast, GroupKind};
use regex_syntax::hir::{Class, Hir, HirKind, Look};
use sluice_config::{ExtendedRegex, LookAhead};

/// Marks the position of a look-ahead; a character of the last private plane, which no path
/// contains.
const MARK: char = '\u{10fffd}';

/// The start of every path expression. Other expressions need an anchor too, and may be
/// case-sensitive.
const ANCHOR: &str = "(?i)^";

/// Splits `translated`, whose original is `text`. Returns `None` if there is no look-ahead, or if
/// it cannot be removed.
pub(super) fn take_apart(text: &str, translated: &str) -> Option<ExtendedRegex> {
    let mut pattern = translated.to_owned();
    let mut places = Vec::new();
    while let Some(found) = Found::first(&pattern) {
        let groups = groups_without_names(found.ahead)?;
        // Groups within a positive look-ahead would keep their match.
        if groups > 0 && !found.negative {
            return None;
        }
        places.push((found.before.len(), found.ahead.to_owned(), found.negative));
        // Empty groups preserve the numbers; they match nothing.
        pattern = format!("{}{}{}", found.before, "()".repeat(groups), found.after);
    }
    let condition = |(place, ahead, negative): (usize, String, bool)| {
        let before = single_place(&format!("{}{MARK}{}", &pattern[..place], &pattern[place..]))?;
        Some(LookAhead { pattern: format!("{before}(?:{ahead})").into(), negative })
    };
    let conditions: Vec<_> = places.into_iter().map(condition).collect::<Option<_>>()?;
    let taken = !conditions.is_empty();
    taken.then(|| ExtendedRegex { text: text.into(), pattern: pattern.into(), conditions, backtracks: false })
}

/// A look-ahead and the text around it.
struct Found<'t> {
    before: &'t str,
    ahead: &'t str,
    after: &'t str,
    negative: bool,
}

impl<'t> Found<'t> {
    /// Finds the first look-ahead, if all its parentheses are closed.
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

/// Returns the positions of parentheses that are neither escaped nor within a class. A wrong guess
/// about a class is detected when the parts are parsed.
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

/// Returns the number of groups of an expression; `None` if one has a name, or the text is invalid.
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

/// Returns the part before the mark, if the mark has one possible position in any text.
fn single_place(marked: &str) -> Option<String> {
    let ast = regex_syntax::ast::parse::Parser::new().parse(marked).ok()?;
    let mut before = String::new();
    write_before(&ast, marked, &mut before).then_some(())?;
    let parsed = regex_syntax::parse(&before).ok()?;
    let is_anchored = parsed.properties().look_set_prefix().contains(Look::Start);
    (is_anchored && is_single(&parsed)).then_some(before)
}

/// Writes the part before the mark. Returns whether the mark is reached through groups that occur
/// once.
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
        // Flags also apply to the rest, but not to the part that is removed from a group.
        if matches!(part, Ast::Flags(_)) && !(before.is_empty() && ANCHOR.starts_with(text)) {
            return false;
        }
        before.push_str(text);
    }
    false
}

/// Returns whether a match that begins at a position has only one possible end.
fn is_single(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Alternation(branches) => {
            // Where the text ends, nothing with a length matches; before its last line feed, only
            // what has the end of that line feed.
            let with_length = || branches.iter().filter(|branch| !is_end(branch));
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

/// Returns whether an expression is an end of the text, also one that includes a last line feed.
fn is_end(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Look(Look::End) => true,
        HirKind::Concat(parts) => {
            matches!(&parts[..], [line_feed, end] if is_end(end) && is_optional_line_feed(line_feed))
        }
        _ => false,
    }
}

fn is_optional_line_feed(hir: &Hir) -> bool {
    matches!(hir.kind(), HirKind::Repetition(repetition)
        if (repetition.min, repetition.max) == (0, Some(1)) && *repetition.sub == Hir::literal(*b"\n"))
}

/// Returns the number of characters that an expression matches, if it is fixed.
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

    fn of(text: &str) -> Option<ExtendedRegex> {
        take_apart(text, &sluice_expression::translate(text))
    }

    fn apart(text: &str) -> Option<(String, Vec<(String, bool)>)> {
        let regex = of(&format!("{ANCHOR}{text}"))?;
        let without = |pattern: &str| pattern.strip_prefix(ANCHOR).unwrap().to_owned();
        let conditions = regex.conditions.iter().map(|ahead| (without(&ahead.pattern), ahead.negative));
        Some((without(&regex.pattern), conditions.collect()))
    }

    #[test]
    fn common_expressions_are_split() {
        type Conditions = &'static [(&'static str, bool)];
        let cases: [(&str, &str, Conditions); 12] = [
            ("/(?!api)(.*)", "/(.*)", &[("/(?:api)", true)]),
            ("/((?!api).*)", "/(.*)", &[("/(?:api)", true)]),
            ("/(?!api/|static/).*", "/.*", &[("/(?:api/|static/)", true)]),
            ("/(?!(api|static)(/|$))(.*)", "/()()(.*)", &[("/(?:(api|static)(/|(?:\\n??$)))", true)]),
            ("/(?!a)(?!b)(.*)$", "/(.*)(?:\\n??$)", &[("/(?:a)", true), ("/(?:b)", true)]),
            ("/(?!.*\\.(?:css|js)$)(.+)", "/(.+)", &[("/(?:.*\\.(?:css|js)(?:\\n??$))", true)]),
            ("/(?=v[12])(.*)", "/(.*)", &[("/(?:v[12])", false)]),
            ("/shop(/|$)(?!admin)(.*)", "/shop(/|(?:\\n??$))(.*)", &[("/shop(/|(?:\\n??$))(?:admin)", true)]),
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
    fn ambiguous_look_ahead_is_rejected() {
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
            assert_eq!(of(text), None, "nothing holds {text} to a place");
        }
        assert_eq!(&*of("^/(?!a)b").unwrap().conditions[0].pattern, "^/(?:a)");
    }
}
