//! `/shop(/|$)(.*)`, `/shop/?(.*)`, `/shop/(.*)`, `/shop`: the expressions that ingress-nginx's own documents rewrite with, and
//! nearly everybody after them.
//!
//! An engine for expressions takes as long for one of them as for the rest of a small request, a millisecond to compile it and
//! 25 KiB to keep it, which is nine tenths of the memory of its Ingress. They are told by comparing bytes. Letters are
//! compared without regard to case where they are ASCII, as nginx does it. Both planes ask here what such an expression is: one
//! to know its groups, the other to search.

use std::ops::Range;

/// Such an expression: a path without anything special in it, in either case, and how it ends.
#[derive(Debug)]
pub struct SimpleExpression {
    /// Whether it is found at the beginning only.
    is_anchored: bool,
    prefix: Box<[u8]>,
    end: End,
}

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// With the prefix: anything may follow.
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
    /// Those that end with another one come before it.
    const ALL: [(&'static str, Self); 6] = [
        ("(/|$)(.*)", Self::SegmentAndRest),
        ("/?(.*)", Self::SlashAndRest),
        ("(.*)", Self::Rest),
        ("(/|$)", Self::Segment),
        ("$", Self::Whole),
        ("", Self::Open),
    ];
}

/// The places of a match in a path, in bytes: of all of it, and of its groups. A group that the expression does not have is none.
pub type Places = [Option<Range<usize>>; 3];

impl SimpleExpression {
    /// Reads one; `None` for any other expression, which is one for an engine.
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

    /// How many groups it has, with the whole as the first.
    pub fn groups(&self) -> usize {
        match self.end {
            End::Open | End::Whole => 1,
            End::Segment | End::Rest | End::SlashAndRest => 2,
            End::SegmentAndRest => 3,
        }
    }

    /// Whether it is found in a path.
    pub fn is_match(&self, path: &str) -> bool {
        self.find(path).is_some()
    }

    /// Where it is found first.
    pub fn find(&self, path: &str) -> Option<Places> {
        let last = path.len().checked_sub(self.prefix.len())?;
        let starts = 0..=if self.is_anchored { 0 } else { last };
        starts.into_iter().find_map(|start| self.find_at(path.as_bytes(), start))
    }

    fn find_at(&self, path: &[u8], start: usize) -> Option<Places> {
        let after = start + self.prefix.len();
        if !path.get(start..after)?.eq_ignore_ascii_case(&self.prefix) {
            return None;
        }
        let end = path.len();
        let slash = match path.get(after) {
            None => Some(after..after),
            Some(b'/') => Some(after..after + 1),
            Some(_) => None,
        };
        // A dot is no line feed.
        let rest = |from: usize| {
            from..path[from..].iter().position(|byte| *byte == b'\n').map_or(end, |at| from + at)
        };
        let with_rest = |rest: Range<usize>| [Some(start..rest.end), Some(rest), None];
        Some(match self.end {
            End::Open => [Some(start..after), None, None],
            End::Whole if after == end => [Some(start..after), None, None],
            End::Whole => return None,
            End::Rest => with_rest(rest(after)),
            End::SlashAndRest => with_rest(rest(slash.map_or(after, |slash| slash.end))),
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

/// The text that an expression stands for, where it is nothing but text.
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
    use proptest::prelude::*;
    use regex::Regex;

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
    fn letters_that_are_no_ascii_are_none_of_ascii_in_another_case() {
        let expression = SimpleExpression::of("(?i)^/sk").unwrap();
        assert!(expression.is_match("/SK"));
        assert!(!expression.is_match("/\u{17f}k") && !expression.is_match("/s\u{212a}"));
    }

    proptest! {
        #[test]
        fn it_finds_what_the_expression_finds(
            anchor in "\\^?",
            prefix in "/([abAB/]|\\\\[.-]){0,3}",
            end in prop::sample::select(End::ALL.map(|(text, _)| text).to_vec()),
            path in "/[abAB\u{e9}/.\n-]{0,6}",
        ) {
            let pattern = format!("(?i){anchor}{prefix}{end}");
            let simple = SimpleExpression::of(&pattern).unwrap();
            let engine = Regex::new(&pattern).unwrap();
            prop_assert_eq!(simple.groups(), engine.captures_len());
            let expected = engine.captures(&path).map(|captures| {
                [0, 1, 2].map(|group| captures.get(group).map(|found| found.range()))
            });
            prop_assert_eq!(simple.find(&path), expected);
        }
    }
}
