//! Syntax of PCRE that other parsers refuse, or read differently.

use std::borrow::Cow;

/// `$` of PCRE: the end of the text, or before a line feed that ends it, which it then includes.
const END: &str = r"(?:\n??$)";

/// Translates spellings of PCRE into ones that both engines read alike: literal braces (`/{id}`),
/// quoted text (`\Q...\E`), horizontal space (`\h`), numbered references (`\g{1}`), comments, and
/// brackets and operators that are literal in a class (`[[]`, `[a&&b]`). A `$` also matches before
/// a line feed that ends the text, and `(?R)` is recursion, which neither engine has.
pub fn translate(pattern: &str) -> Cow<'_, str> {
    let mut translation = Translation { rest: pattern, text: String::with_capacity(pattern.len()) };
    while let Some(c) = translation.rest.chars().next() {
        match c {
            '\\' => translation.escape(),
            '[' => translation.class(),
            '{' if quantifier(translation.rest).is_none() => translation.replace(1, r"\{"),
            '{' => translation.copy(quantifier(translation.rest).unwrap_or(1)),
            '}' => translation.replace(1, r"\}"),
            '(' if translation.rest.starts_with("(?#") => translation.comment(),
            // A linear-time engine reads it as a flag.
            '(' if translation.rest.starts_with("(?R)") => translation.replace(4, r"\g<0>"),
            '$' => translation.replace(1, END),
            _ => translation.copy(c.len_utf8()),
        }
    }
    if translation.text == pattern { Cow::Borrowed(pattern) } else { Cow::Owned(translation.text) }
}

/// Returns whether a quantifier is followed by a `+`, outside of classes. A linear-time engine
/// reads it as a second quantifier.
pub fn has_possessive_quantifier(pattern: &str) -> bool {
    let mut rest = pattern;
    let mut is_quantified = false;
    while let Some(c) = rest.chars().next() {
        let quantifier = match c {
            '+' if is_quantified => return true,
            '*' | '+' | '?' => Some(1),
            '{' => quantifier(rest),
            _ => None,
        };
        let length = match c {
            '\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            '[' => class_length(rest),
            // What follows a parenthesis is no quantifier: `(?:`, `(*`.
            '(' if rest[1..].starts_with(['?', '*', '+']) => 2,
            _ => quantifier.unwrap_or(c.len_utf8()),
        };
        // A lazy quantifier takes no further one.
        let is_lazy = c == '?' && is_quantified;
        is_quantified = quantifier.is_some() && !is_lazy;
        rest = &rest[length..];
    }
    false
}

/// A translation in progress.
struct Translation<'p> {
    rest: &'p str,
    text: String,
}

impl Translation<'_> {
    fn copy(&mut self, length: usize) {
        let (part, rest) = self.rest.split_at(length);
        self.text.push_str(part);
        self.rest = rest;
    }

    fn replace(&mut self, length: usize, by: &str) {
        self.text.push_str(by);
        self.rest = &self.rest[length..];
    }

    /// A backslash outside of a class, with what it applies to.
    fn escape(&mut self) {
        let after = &self.rest[1..];
        match after.chars().next() {
            Some('Q') => {
                let (quoted, rest) = after[1..].split_once(r"\E").unwrap_or((&after[1..], ""));
                self.text.push_str(&regex_syntax::escape(quoted));
                self.rest = rest;
            }
            Some('E') => self.replace(2, ""),
            Some('h') => self.replace(2, r"[ \t]"),
            Some('H') => self.replace(2, r"[^ \t]"),
            Some('<') => self.replace(2, "<"),
            Some('>') => self.replace(2, ">"),
            Some('g') => match numbered(&after[1..]) {
                // The group keeps a following digit apart from the number.
                Some((number, length)) => self.replace(2 + length, &format!(r"(?:\{number})")),
                None => self.copy(2),
            },
            // The name of a property, or a number, is in braces: `\p{L}`, `\x{41}`, `\k{name}`.
            Some('k') if after[1..].starts_with('{') => match after.split_once('}') {
                Some((name, _)) => self.replace(name.len() + 2, &format!(r"\k<{}>", &name[2..])),
                None => self.copy(2),
            },
            Some('p' | 'P' | 'x' | 'o') if after[1..].starts_with('{') => {
                self.copy(1 + after.find('}').map_or(2, |end| end + 1));
            }
            Some(c) => self.copy(1 + c.len_utf8()),
            None => self.copy(1),
        }
    }

    /// A class. `[`, `&&`, `--` and `~~` are literal in it.
    fn class(&mut self) {
        let length = class_length(self.rest);
        let (class, rest) = self.rest.split_at(length);
        self.rest = class;
        let opening = if class.starts_with("[^") { 2 } else { 1 };
        self.copy(opening.min(class.len()));
        if self.rest.starts_with(']') && self.rest.len() > 1 {
            self.copy(1);
        }
        while let Some(c) = self.rest.chars().next() {
            match c {
                '\\' => match self.rest[1..].chars().next() {
                    Some('h') => self.replace(2, r" \t"),
                    Some(escaped) => self.copy(1 + escaped.len_utf8()),
                    None => self.copy(1),
                },
                '[' => match posix_class(self.rest) {
                    Some(length) => self.copy(length),
                    None => self.replace(1, r"\["),
                },
                '&' | '~' => self.replace(1, &format!(r"\{c}")),
                '-' if self.rest.starts_with("--") => self.replace(2, r"-\-"),
                _ => self.copy(c.len_utf8()),
            }
        }
        self.rest = rest;
    }

    /// A comment, which ends at the next parenthesis.
    fn comment(&mut self) {
        match self.rest.find(')') {
            Some(end) => self.replace(end + 1, ""),
            None => self.copy(1),
        }
    }
}

/// Returns the length of a quantifier in braces at the beginning of a text. Other braces are
/// literal.
fn quantifier(text: &str) -> Option<usize> {
    let end = text.find('}')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (least, most) = match text.get(1..end)?.split_once(',') {
        Some((least, most)) => (least, most),
        None => (&text[1..end], ""),
    };
    (is_number(least) && (most.is_empty() || is_number(most))).then_some(end + 1)
}

/// Reads the number of a reference after `\g`, and its length.
fn numbered(text: &str) -> Option<(&str, usize)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(inner) = text.strip_prefix('{') {
        let number = &inner[..inner.find('}')?];
        return is_number(number).then_some((number, number.len() + 2));
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| (&text[..digits], digits))
}

/// Returns the length of the class that begins a text; that of the bracket if it is not closed.
fn class_length(text: &str) -> usize {
    let mut at = if text.starts_with("[^") { 2 } else { 1 };
    if text[at..].starts_with(']') {
        at += 1;
    }
    while let Some(c) = text[at..].chars().next() {
        at += match c {
            ']' => return at + 1,
            '\\' => 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
            '[' => posix_class(&text[at..]).unwrap_or(1),
            _ => c.len_utf8(),
        };
    }
    1
}

/// Returns the length of a class such as `[:alpha:]` at the beginning of a text.
fn posix_class(text: &str) -> Option<usize> {
    let name = text.strip_prefix("[:")?;
    let end = name.find(":]")?;
    let name = name[..end].strip_prefix('^').unwrap_or(&name[..end]);
    name.bytes().all(|byte| byte.is_ascii_lowercase()).then_some(end + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_pcre_are_translated() {
        for (pattern, expected) in [
            ("/{id}/x{2}/{3,}y{4,5}", r"/\{id\}/x{2}/{3,}y{4,5}"),
            ("/a{,3}", r"/a\{,3\}"),
            ("/}", r"/\}"),
            (r"\Qa.b\E.\Q*", r"a\.b.\*"),
            (r"a\hb\H", r"a[ \t]b[^ \t]"),
            (r"(a)\g1\g{1}0", r"(a)(?:\1)(?:\1)0"),
            (r"(?<x>a)\k{x}", r"(?<x>a)\k<x>"),
            (r"\p{L}\x{41}\\{a}", r"\p{L}\x{41}\\\{a\}"),
            ("a(?#b)c", "ac"),
            ("[[][a[b]", r"[\[][a\[b]"),
            ("[[:alpha:][:^digit:]]", "[[:alpha:][:^digit:]]"),
            ("[]a{2}][^]{]", "[]a{2}][^]{]"),
            ("[a&&b~~c--d]", r"[a\&\&b\~\~c-\-d]"),
            (r"[\]\h{]", r"[\] \t{]"),
            (r"\<a\>", "<a>"),
            ("/shop(/|$)(.*)", r"/shop(/|(?:\n??$))(.*)"),
            (r"[$]\$\Q$\E$", r"[$]\$\$(?:\n??$)"),
            ("a(?R)?b", r"a\g<0>?b"),
            ("ä[ö{", r"ä[ö\{"),
            ("\\", "\\"),
        ] {
            assert_eq!(translate(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn a_possessive_quantifier_is_recognised() {
        for pattern in ["a++", "a*+", "a?+", "a{2}+", "a{2,}+", "(a)++b", "[a]++", r"\d++", "(?:a)*+"] {
            assert!(has_possessive_quantifier(pattern), "{pattern}");
        }
        for pattern in
            ["a+", "a+?", "a*?+", "[*+]+", r"a\++", "{+", "(?+", "[a++]", r"\Q", "a{x}+", "[+", "\\"]
        {
            assert!(!has_possessive_quantifier(pattern), "{pattern}");
        }
    }
}
