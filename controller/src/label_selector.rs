//! Label selectors of `--watch-namespace-selector`: exactly those that Kubernetes' `labels.Parse`
//! accepts.
//!
//! The grammar consists of tokens and does not depend on blanks: `env in(prod)`, `env=prod , tier
//! != db` and `a in ()` are all valid, and the words `in` and `notin` are operators only in the
//! position of an operator.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A parsed selector: all requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

/// The condition on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Above(i64),
    Below(i64),
}

/// Why a selector is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{reason}; write key=value, key!=value, key in (a,b), key notin (a,b), key or !key, with commas between them"
)]
pub struct SelectorError {
    reason: String,
}

impl Selector {
    /// Parses a selector in Kubernetes' notation.
    ///
    /// # Errors
    /// The selector is invalid; the error contains the invalid part.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Parser { tokens: tokens(text), at: 0 }.selector().map_err(|reason| SelectorError { reason })
    }

    /// Returns whether an object with these labels, sorted by key, is selected.
    pub fn matches(&self, labels: &[(Box<str>, Box<str>)]) -> bool {
        self.0.iter().all(|requirement| requirement.holds(labels))
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        Self::parse(text)
    }
}

impl Requirement {
    fn holds(&self, labels: &[(Box<str>, Box<str>)]) -> bool {
        let value = labels.iter().find(|(key, _)| **key == *self.key).map(|(_, value)| &**value);
        let number = || value?.parse::<i64>().ok();
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => !value.is_some_and(|value| values.contains(value)),
            Test::Above(bound) => number().is_some_and(|number| number > *bound),
            Test::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// A token of a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A key, a value, or one of the words `in` and `notin`.
    Word(&'a str),
    /// One of `! = == != > < ( ) ,`.
    Sign(&'a str),
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Word(text) | Self::Sign(text)) = self;
        write!(f, "{text:?}")
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let is_sign = |c: char| "=!(),><".contains(c);
    let mut rest = text.trim_start_matches(is_blank);
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let token;
        if is_sign(first) {
            let length = if rest.starts_with("==") || rest.starts_with("!=") { 2 } else { 1 };
            let (sign, after) = rest.split_at(length);
            (token, rest) = (Token::Sign(sign), after);
        } else {
            let length = rest.find(|c| is_blank(c) || is_sign(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(length);
            (token, rest) = (Token::Word(word), after);
        }
        tokens.push(token);
        rest = rest.trim_start_matches(is_blank);
    }
    tokens
}

/// Consumes tokens one by one.
struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self.peek() == Some(Token::Sign(sign));
        self.at += usize::from(found);
        found
    }

    fn selector(&mut self) -> Result<Selector, String> {
        let mut requirements = Vec::new();
        if self.peek().is_none() {
            return Ok(Selector(requirements));
        }
        loop {
            requirements.push(self.requirement()?);
            match self.next() {
                None => return Ok(Selector(requirements)),
                Some(Token::Sign(",")) => {}
                Some(other) => return Err(format!("{other} stands where a comma or the end is due")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.take("!");
        let key = match self.next() {
            Some(Token::Word(word)) => label_key(word)?,
            other => return Err(unexpected(other, "a key")),
        };
        if absent {
            return Ok(Requirement { key, test: Test::Absent });
        }
        if matches!(self.peek(), None | Some(Token::Sign(","))) {
            return Ok(Requirement { key, test: Test::Exists });
        }
        let test = match self.next() {
            Some(Token::Word("in")) => Test::In(self.values()?),
            Some(Token::Word("notin")) => Test::NotIn(self.values()?),
            Some(Token::Sign("=" | "==")) => Test::In([self.value()?].into()),
            Some(Token::Sign("!=")) => Test::NotIn([self.value()?].into()),
            Some(Token::Sign(">")) => Test::Above(self.number()?),
            Some(Token::Sign("<")) => Test::Below(self.number()?),
            other => return Err(unexpected(other, "an operator")),
        };
        Ok(Requirement { key, test })
    }

    /// Parses a value, which may be empty.
    fn value(&mut self) -> Result<String, String> {
        if matches!(self.peek(), None | Some(Token::Sign(","))) {
            return Ok(String::new());
        }
        match self.next() {
            Some(Token::Word(word)) => label_value(word),
            other => Err(unexpected(other, "a value")),
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        value.parse().map_err(|_| format!("{value:?} is not an integer, which > and < need"))
    }

    /// Parses values in parentheses, which may be empty.
    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        if !self.take("(") {
            return Err(unexpected(self.peek(), "(, which in and notin need,"));
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(match self.peek() {
                Some(Token::Word(word)) => {
                    self.at += 1;
                    label_value(word)?
                }
                _ => String::new(),
            });
            match self.next() {
                Some(Token::Sign(",")) => {}
                Some(Token::Sign(")")) => return Ok(values),
                other => return Err(unexpected(other, "a comma or )")),
            }
        }
    }
}

fn unexpected(found: Option<Token<'_>>, due: &str) -> String {
    match found {
        Some(token) => format!("{token} stands where {due} is due"),
        None => format!("it ends where {due} is due"),
    }
}

/// Returns whether a text has at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit
/// at both ends.
fn is_name(text: &str) -> bool {
    let is_edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

/// Returns whether a text is a lower-case DNS name.
fn is_domain(text: &str) -> bool {
    let is_edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let good = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
        is_edge(bytes.first()) && is_edge(bytes.last()) && bytes.iter().all(good)
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

fn label_key(text: &str) -> Result<String, String> {
    let good = match text.split_once('/') {
        Some((domain, name)) => is_domain(domain) && is_name(name),
        None => is_name(text),
    };
    if good { Ok(text.to_owned()) } else { Err(format!("{text:?} is not a valid label key")) }
}

fn label_value(text: &str) -> Result<String, String> {
    if is_name(text) { Ok(text.to_owned()) } else { Err(format!("{text:?} is not a valid label value")) }
}

#[cfg(test)]
mod tests;
