//! A strict parser of nginx's configuration grammar: words, quotes, comments and blocks.
//!
//! It follows `ngx_conf_read_token` of nginx, so a text means here what it means to nginx, and a
//! text that nginx refuses is refused. The input is bounded in size, depth and directives.

use std::iter::Peekable;
use std::str::Chars;

/// Bytes that a text may have.
const MOST_BYTES: usize = 64 << 10;
/// Directives that a text may have, those in blocks included.
const MOST_DIRECTIVES: usize = 1000;
/// Blocks that may stand inside each other.
const MOST_DEPTH: usize = 4;

/// A directive with its arguments and, if it opens one, its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directive {
    /// Its name.
    pub(crate) name: String,
    /// Its arguments, without quotes and escapes.
    pub(crate) arguments: Vec<String>,
    /// The line that it starts in, from 1.
    pub(crate) line: usize,
    /// The directives of its block.
    pub(crate) block: Option<Vec<Directive>>,
}

/// Why a text is not a list of directives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub(crate) struct SyntaxError {
    /// The line.
    pub(crate) line: usize,
    /// What is wrong.
    pub(crate) reason: String,
}

/// Parses a text.
///
/// # Errors
/// The first place at which nginx would refuse the text, or a bound that it exceeds.
pub(crate) fn parse(text: &str) -> Result<Vec<Directive>, SyntaxError> {
    if text.len() > MOST_BYTES {
        return Err(SyntaxError { line: 1, reason: format!("the text has more than {MOST_BYTES} bytes") });
    }
    let mut parser = Parser { chars: text.chars().peekable(), line: 1, directives: 0 };
    parser.block(0)
}

/// Reads a text as one word, as if it stood in a list of nginx. Without quotes, a word may have
/// blanks here.
///
/// # Errors
/// A quote or an escape has no end, or the quotes are not those of the whole text.
pub(crate) fn word(text: &str) -> Result<String, SyntaxError> {
    let mut parser = Parser { chars: text.chars().peekable(), line: 1, directives: 0 };
    if !text.starts_with(['"', '\'']) {
        return parser.unquoted();
    }
    let word = parser.quoted()?;
    match parser.next() {
        Some(_) => Err(parser.error("there is more text after a quoted word")),
        None => Ok(word),
    }
}

struct Parser<'t> {
    chars: Peekable<Chars<'t>>,
    line: usize,
    directives: usize,
}

/// The end of a list of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Terminator {
    Semicolon,
    BlockStart,
    BlockEnd,
    EndOfText,
}

impl Parser<'_> {
    /// Parses directives up to the end of their block, or of the text at depth 0.
    fn block(&mut self, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
        let mut directives = Vec::new();
        loop {
            let (mut words, line, terminator) = self.words()?;
            match terminator {
                Terminator::EndOfText if !words.is_empty() => {
                    return Err(self.error("the text ends inside a directive; a ; is missing"));
                }
                Terminator::EndOfText if depth > 0 => {
                    return Err(self.error("the text ends inside a block; a } is missing"));
                }
                Terminator::BlockEnd if !words.is_empty() => {
                    return Err(self.error("unexpected }; a ; is missing before it"));
                }
                Terminator::BlockEnd if depth == 0 => return Err(self.error("unexpected }")),
                Terminator::EndOfText | Terminator::BlockEnd => return Ok(directives),
                Terminator::Semicolon if words.is_empty() => return Err(self.error("unexpected ;")),
                Terminator::BlockStart if words.is_empty() => return Err(self.error("unexpected {")),
                Terminator::BlockStart if depth == MOST_DEPTH => {
                    return Err(self.error("too many blocks are inside each other"));
                }
                Terminator::Semicolon | Terminator::BlockStart => {}
            }
            self.directives += 1;
            if self.directives > MOST_DIRECTIVES {
                return Err(self.error("the text has more than 1000 directives"));
            }
            let name = words.remove(0);
            let block = match terminator {
                Terminator::BlockStart => Some(self.block(depth + 1)?),
                _ => None,
            };
            directives.push(Directive { name, arguments: words, line, block });
        }
    }

    /// Reads the words of one directive, the line of the first, and what ends them.
    fn words(&mut self) -> Result<(Vec<String>, usize, Terminator), SyntaxError> {
        let (mut words, mut line) = (Vec::new(), self.line);
        loop {
            match self.chars.peek().copied() {
                None => return Ok((words, line, Terminator::EndOfText)),
                Some(c) if c.is_ascii_whitespace() => drop(self.next()),
                Some('#') => while self.next().is_some_and(|c| c != '\n') {},
                Some(c @ (';' | '{' | '}')) => {
                    self.next();
                    let terminator = match c {
                        ';' => Terminator::Semicolon,
                        '{' => Terminator::BlockStart,
                        _ => Terminator::BlockEnd,
                    };
                    return Ok((words, line, terminator));
                }
                Some(c) => {
                    if words.is_empty() {
                        line = self.line;
                    }
                    let word = if matches!(c, '"' | '\'') { self.quoted()? } else { self.bare()? };
                    words.push(word);
                }
            }
        }
    }

    /// Reads a word without quotes: up to a blank, `;` or a `{` that belongs to no variable.
    fn bare(&mut self) -> Result<String, SyntaxError> {
        let (mut word, mut is_variable) = (String::new(), false);
        while let Some(c) = self.chars.peek().copied() {
            if c.is_ascii_whitespace() || c == ';' || (c == '{' && !is_variable) {
                return Ok(word);
            }
            self.next();
            is_variable = c == '$';
            if c == '\\' { self.escaped(&mut word)? } else { word.push(c) }
        }
        Ok(word)
    }

    /// Reads the rest of the text as a word without quotes.
    fn unquoted(&mut self) -> Result<String, SyntaxError> {
        let mut word = String::new();
        while let Some(c) = self.next() {
            if c == '\\' { self.escaped(&mut word)? } else { word.push(c) }
        }
        Ok(word)
    }

    /// Reads a word in quotes, which must be followed by a blank, `;`, `{` or `)`.
    fn quoted(&mut self) -> Result<String, SyntaxError> {
        let quote = self.next();
        let mut word = String::new();
        loop {
            match self.next() {
                None => return Err(self.error("a quote has no end")),
                Some('\\') => self.escaped(&mut word)?,
                c if c == quote => break,
                Some(c) => word.push(c),
            }
        }
        match self.chars.peek() {
            Some(c) if !(c.is_ascii_whitespace() || matches!(c, ';' | '{' | ')')) => {
                let reason = format!("unexpected {c:?} after a quoted word");
                Err(self.error(&reason))
            }
            _ => Ok(word),
        }
    }

    /// Reads the character after a backslash. nginx keeps the backslash of an escape that it does
    /// not define, for regular expressions.
    fn escaped(&mut self, word: &mut String) -> Result<(), SyntaxError> {
        match self.next() {
            None => return Err(self.error("the text ends with a backslash")),
            Some(c @ ('"' | '\'' | '\\')) => word.push(c),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(c) => word.extend(['\\', c]),
        }
        Ok(())
    }

    fn next(&mut self) -> Option<char> {
        let c = self.chars.next();
        self.line += usize::from(c == Some('\n'));
        c
    }

    fn error(&self, reason: &str) -> SyntaxError {
        SyntaxError { line: self.line, reason: reason.to_owned() }
    }
}

#[cfg(test)]
mod tests;
