//! Safe printing of untrusted text.
//!
//! Names and values of objects appear in logs, messages and terminals. A line break in them would
//! forge a line, an escape sequence would rewrite the screen, a bidirectional control character
//! would hide the real order, and a value of a megabyte would bury the surrounding text.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Returns whether `character` can be printed unescaped: it neither ends a line nor hides or
/// reorders adjacent text.
pub fn is_plain(character: char) -> bool {
    let reorders = matches!(character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !(character.is_control() || reorders || matches!(character, '\u{2028}' | '\u{2029}' | '\u{feff}'))
}

/// Returns the text as one line of about `limit` bytes. Escapes special characters. A longer text
/// keeps both ends, because the explanation of a value follows the value.
pub fn one_line(text: &str, limit: usize) -> Cow<'_, str> {
    let short = shortened(text, limit);
    if short.chars().all(is_plain) {
        return short;
    }
    let mut line = String::with_capacity(short.len() + 16);
    // Writing to a String cannot fail.
    let _ = Plain(&mut line).write_str(&short);
    // An escaped character has up to ten characters.
    Cow::Owned(shortened(&line, limit).into_owned())
}

fn shortened(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let head = text.floor_char_boundary(limit / 3 * 2);
    let tail = text.ceil_char_boundary(text.len() - limit / 3);
    Cow::Owned(format!("{}[... {} bytes ...]{}", &text[..head], tail - head, &text[tail..]))
}

/// Text that means nothing to HTML, in elements and in quoted attributes. Special characters other
/// than line breaks are replaced.
#[derive(Clone, Copy, Debug)]
pub struct HtmlText<'t>(pub &'t str);

impl fmt::Display for HtmlText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                letter if !is_plain(letter) && letter != '\n' => f.write_char('\u{fffd}')?,
                letter => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

/// A writer that escapes special characters before it writes to the inner writer.
pub struct Plain<W>(pub W);

impl<W: Write> Write for Plain<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(|character| !is_plain(character)) {
            self.0.write_str(&rest[..at])?;
            let mut after = rest[at..].chars();
            after.next().into_iter().try_for_each(|odd| write!(self.0, "{}", odd.escape_default()))?;
            rest = after.as_str();
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_line_whatever_is_in_it() {
        assert_eq!(one_line("shop.example", 100), "shop.example");
        assert!(matches!(one_line("grüße", 100), Cow::Borrowed("grüße")));
        assert_eq!(one_line("a\nERROR\r\t\u{1b}[2J\u{9b}", 100), "a\\nERROR\\r\\t\\u{1b}[2J\\u{9b}");
        assert_eq!(one_line("a\u{2028}b\u{202e}c", 100), "a\\u{2028}b\\u{202e}c");
    }

    #[test]
    fn a_text_means_nothing_to_html() {
        let text = "<script>alert(\"1\")</script> & 'x'\u{202e}\u{1b}[31m\n";
        let expected =
            "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;x&#39;\u{fffd}\u{fffd}[31m\n";
        assert_eq!(HtmlText(text).to_string(), expected);
    }

    #[test]
    fn of_a_long_text_both_ends_are_kept() {
        let text = format!("begin{}end", "ä".repeat(1_000_000));
        let line = one_line(&text, 300);
        assert!(line.starts_with("beginä") && line.ends_with("äend") && line.contains("[... 1999"), "{line}");
        assert!(line.len() < 340, "{}", line.len());
        assert!(one_line(&"\n".repeat(1_000_000), 300).len() < 340);
    }
}
