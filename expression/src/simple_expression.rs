//! Simple path expressions that need no regex engine: `/shop(/|$)(.*)`, `/shop/?(.*)`,
//! `/shop/(.*)`, `/shop`. The documentation of ingress-nginx uses them for rewrites, and most
//! Ingresses copy them.
//!
//! A compiled regular expression costs a millisecond to compile and 25 KiB of memory, nine tenths
//! of the memory of its Ingress, and matching one takes as long as the rest of a small request.
//! Simple expressions are matched by comparing bytes. ASCII letters are compared without regard to
//! case, as in nginx. The control plane uses this module to count groups, the data plane to match.

use std::ops::Range;

/// A simple expression: a literal, case-insensitive path and an ending.
#[derive(Debug)]
pub struct SimpleExpression {
    /// Whether it matches at the beginning of the path only.
    is_anchored: bool,
    prefix: Box<[u8]>,
    end: End,
}

/// The ending of a simple expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// No ending: any text may follow the prefix.
    Open,
    /// `$`
    Whole,
    /// `(/|$)`
    Segment,
    /// `(.*)`
    Rest,
    /// `/?(.*)`
    SlashAndRest,
    /// `(/|$)(.*)`
    SegmentAndRest,
}

impl End {
    /// All endings. An ending that is a suffix of another one comes after it.
    const ALL: [(&'static str, Self); 6] = [
        ("(/|$)(.*)", Self::SegmentAndRest),
        ("/?(.*)", Self::SlashAndRest),
        ("(.*)", Self::Rest),
        ("(/|$)", Self::Segment),
        ("$", Self::Whole),
        ("", Self::Open),
    ];
}

/// Byte ranges of a match: the whole match, then its groups. Absent groups are `None`.
pub type SimpleMatch = [Option<Range<usize>>; 3];

impl SimpleExpression {
    /// Parses `pattern`. Returns `None` if it needs a regex engine.
    pub fn of(pattern: &str) -> Option<Self> {
        let pattern = pattern.strip_prefix("(?i)")?;
        let (is_anchored, pattern) = match pattern.strip_prefix('^') {
            Some(pattern) => (true, pattern),
            None => (false, pattern),
        };
        End::ALL.iter().find_map(|(text, end)| {
            let prefix = literal(pattern.strip_suffix(text)?)?;
            Some(Self { is_anchored, prefix, end: *end })
        })
    }

    /// Returns the number of groups, including the whole match.
    pub fn groups(&self) -> usize {
        match self.end {
            End::Open | End::Whole => 1,
            End::Segment | End::Rest | End::SlashAndRest => 2,
            End::SegmentAndRest => 3,
        }
    }

    /// Returns whether the expression matches `path`.
    pub fn is_match(&self, path: &str) -> bool {
        self.find(path).is_some()
    }

    /// Returns the ranges of the first match in `path`.
    pub fn find(&self, path: &str) -> Option<SimpleMatch> {
        let last = path.len().checked_sub(self.prefix.len())?;
        let starts = 0..=if self.is_anchored { 0 } else { last };
        starts.into_iter().find_map(|start| self.find_at(path.as_bytes(), start))
    }

    fn find_at(&self, path: &[u8], start: usize) -> Option<SimpleMatch> {
        let after = start + self.prefix.len();
        if !path.get(start..after)?.eq_ignore_ascii_case(&self.prefix) {
            return None;
        }
        let end = path.len();
        // As in PCRE, `$` also matches before a line feed that ends the path.
        let is_at_end = matches!(&path[after..], [] | [b'\n']);
        let slash = match path.get(after) {
            Some(b'/') => Some(after..after + 1),
            _ if is_at_end => Some(after..after),
            _ => None,
        };
        // `.` does not match a line feed.
        let rest = |from: usize| {
            from..path[from..].iter().position(|byte| *byte == b'\n').map_or(end, |at| from + at)
        };
        let with_rest = |rest: Range<usize>| [Some(start..rest.end), Some(rest), None];
        Some(match self.end {
            End::Whole if !is_at_end => return None,
            End::Open | End::Whole => [Some(start..after), None, None],
            End::Rest => with_rest(rest(after)),
            End::SlashAndRest => {
                with_rest(rest(if path.get(after) == Some(&b'/') { after + 1 } else { after }))
            }
            End::Segment => {
                let slash = slash?;
                [Some(start..slash.end), Some(slash), None]
            }
            End::SegmentAndRest => {
                let slash = slash?;
                let rest = rest(slash.end);
                [Some(start..rest.end), Some(slash), Some(rest)]
            }
        })
    }
}

/// Returns the text of `pattern`, if it is a literal.
fn literal(pattern: &str) -> Option<Box<[u8]>> {
    let mut text = Vec::with_capacity(pattern.len());
    let mut bytes = pattern.bytes();
    while let Some(byte) = bytes.next() {
        text.push(match byte {
            b'\\' => bytes.next().filter(|byte| matches!(byte, b'.' | b'-' | b'/' | b'~' | b'+'))?,
            byte if byte.is_ascii_alphanumeric() => byte,
            b'/' | b'-' | b'_' | b'~' | b'%' | b'@' | b':' | b',' | b'=' => byte,
            _ => return None,
        });
    }
    (!text.is_empty()).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use fancy_regex::Regex;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_such_expressions_are_simple() {
        for pattern in [
            "(?i)/shop(/|$)(.*)",
            "(?i)^/shop(/|$)(.*)",
            "(?i)/a-b/C_1(/|$)(.*)",
            "(?i)^/shop/?(.*)",
            "(?i)^/(.*)",
            "(?i)^/shop$",
            "(?i)^/v1\\.0/a\\-b",
        ] {
            assert!(SimpleExpression::of(pattern).is_some(), "{pattern}");
        }
        for pattern in [
            "/shop(/|$)(.*)",
            "(?i)/shop(/|$)(.*)$",
            "(?i)/sh.p(/|$)(.*)",
            "(?i)/(shop)(/|$)(.*)",
            "(?i)^^/shop(/|$)(.*)",
            "(?i)(/|$)(.*)",
            "(?i)/shop/?",
            "(?i)/shop\\d",
            "(?i)/s\u{f6}hop",
            "(?i)^",
            "(?i)",
        ] {
            assert!(SimpleExpression::of(pattern).is_none(), "{pattern}");
        }
    }

    #[test]
    fn a_dollar_matches_before_a_line_feed_that_ends_the_path() {
        let whole = SimpleExpression::of("(?i)^/admin$").unwrap();
        assert_eq!(whole.find("/admin\n"), Some([Some(0..6), None, None]));
        assert!(!whole.is_match("/admin\n\n") && !whole.is_match("/admin\n/"));
        let segment = SimpleExpression::of("(?i)/admin(/|$)(.*)").unwrap();
        assert_eq!(segment.find("/admin\n"), Some([Some(0..6), Some(6..6), Some(6..6)]));
    }

    #[test]
    fn letters_that_are_no_ascii_are_none_of_ascii_in_another_case() {
        let expression = SimpleExpression::of("(?i)^/sk").unwrap();
        assert!(expression.is_match("/SK"));
        assert!(!expression.is_match("/\u{17f}k") && !expression.is_match("/s\u{212a}"));
    }

    proptest! {
        #[test]
        fn it_matches_exactly_like_the_expression(
            anchor in "\\^?",
            prefix in "/([abAB/]|\\\\[.-]){0,3}",
            end in prop::sample::select(End::ALL.map(|(text, _)| text).to_vec()),
            path in "/[abAB\u{e9}/.\n-]{0,6}\n?",
        ) {
            let pattern = format!("(?i){anchor}{prefix}{end}");
            let simple = SimpleExpression::of(&pattern).unwrap();
            let engine = Regex::new(&pattern.replace('$', r"(?=\n?\z)")).unwrap();
            prop_assert_eq!(simple.groups(), engine.captures_len());
            let expected = engine.captures(&path).unwrap().map(|captures| {
                [0, 1, 2].map(|group| captures.get(group).map(|found| found.range()))
            });
            prop_assert_eq!(simple.find(&path), expected);
        }
    }
}
