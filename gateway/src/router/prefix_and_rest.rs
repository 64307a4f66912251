//! `/shop(/|$)(.*)`: the expression that ingress-nginx's own documents rewrite with, and nearly everybody after them.
//!
//! An engine for expressions takes as long for it as for the rest of a small request, so what can be told by comparing
//! bytes is told so. Nothing else is: whoever gets no answer here asks the engine.

use std::ops::Range;

/// How such an expression ends.
const END: &str = "(/|$)(.*)";

/// What stands before that: a path without anything special in it, in either case.
#[derive(Debug)]
pub(crate) struct PrefixAndRest(Box<[u8]>);

impl PrefixAndRest {
    /// `None` for any other expression.
    pub(crate) fn of(pattern: &str) -> Option<Self> {
        let path = pattern.strip_prefix("(?i)")?.strip_suffix(END)?;
        let path = path.strip_prefix('^').unwrap_or(path);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_');
        (!path.is_empty() && path.bytes().all(is_plain)).then(|| Self(path.as_bytes().into()))
    }

    /// The places of all of the match and of its two groups, where the path begins with it. `None` says nothing: the
    /// expression may match behind the beginning, or letters that are no ASCII.
    pub(crate) fn groups(&self, path: &str) -> Option<[Range<usize>; 3]> {
        let (bytes, start) = (path.as_bytes(), self.0.len());
        if !bytes.get(..start)?.eq_ignore_ascii_case(&self.0) {
            return None;
        }
        match &bytes[start..] {
            [] => Some([0..start, start..start, start..start]),
            [b'/', rest @ ..] => {
                // A dot is no line feed.
                let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                let end = start + 1 + length;
                Some([0..end, start..start + 1, start + 1..end])
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    #[test]
    fn only_that_expression_is_one() {
        for pattern in ["(?i)/shop(/|$)(.*)", "(?i)^/shop(/|$)(.*)", "(?i)/a-b/C_1(/|$)(.*)"] {
            assert!(PrefixAndRest::of(pattern).is_some(), "{pattern}");
        }
        for pattern in [
            "/shop(/|$)(.*)",
            "(?i)/shop(/|$)(.*)$",
            "(?i)/sh.p(/|$)(.*)",
            "(?i)/(shop)(/|$)(.*)",
            "(?i)^^/shop(/|$)(.*)",
            "(?i)(/|$)(.*)",
            "(?i)/shop/(.*)",
        ] {
            assert!(PrefixAndRest::of(pattern).is_none(), "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn it_finds_what_the_expression_finds(
            anchor in "\\^?",
            prefix in "/[skSK/]{0,3}",
            path in "/[skSK\u{17f}\u{212a}/\n]{0,6}",
        ) {
            let pattern = format!("(?i){anchor}{prefix}{END}");
            let found = PrefixAndRest::of(&pattern).unwrap().groups(&path);
            let expected = Regex::new(&pattern).unwrap().captures(&path).map(|captures| {
                [0, 1, 2].map(|group| captures.get(group).unwrap().range())
            });
            match found {
                Some(found) => prop_assert_eq!(Some(found), expected),
                None => prop_assert!(expected.is_none_or(|[all, ..]| all.start > 0 || !path.is_ascii())),
            }
        }
    }
}
