//! A text of directives from `modsecurity-snippet`, checked directive by directive.

use super::line::{LineEffect, line};
use super::{CORE_RULES, RECOMMENDED};
use crate::translate::value::{Author, Type, Wrong};

/// Maximum length of a text in bytes: the agent's messages are bounded.
const MOST: usize = 256 * 1024;

const REMEDY: &str = "remove the directive, or replace it as docs/waf.md describes";

/// Checked directives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FirewallText {
    /// Directives in order, one a line.
    lines: Vec<String>,
    /// Those that change other rules.
    changes: Vec<String>,
    /// Directives without effect, each with the reason.
    ignored: Vec<String>,
    /// Whether rules refuse requests; `None` if it does not say so.
    engine: Option<bool>,
    /// The same without the recommended configuration.
    own_engine: Option<bool>,
    /// Whether a rule enables the engine for its requests.
    has_enforcing_rules: bool,
    /// Bytes of a body that are read, and of those, bytes that are held in memory.
    body_limit: Option<u64>,
    memory_limit: Option<u64>,
}

impl FirewallText {
    /// The type of a setting with directives.
    pub(crate) fn of_setting() -> Type<Self> {
        Type::with_author("directives of ModSecurity", |text, _: &Author<'_>| Self::read(text)).in_part()
    }

    /// Reads a text as nginx does within single quotes.
    pub(super) fn read(text: &str) -> Result<Self, Wrong> {
        if text.len() > MOST {
            return Err(refused(format!("it has more than {MOST} bytes")));
        }
        let mut read = Self::default();
        let text = unescaped(text);
        let mut lines = (1..).zip(text.lines());
        while let Some((number, first)) = lines.next() {
            let mut whole = first.trim().to_owned();
            if whole.is_empty() || whole.starts_with('#') {
                continue;
            }
            while whole.ends_with('\\') {
                whole.pop();
                let Some((_, next)) = lines.by_ref().find(|(_, next)| !next.trim().starts_with('#')) else {
                    return Err(refused(format!("line {number}: it ends with a backslash")));
                };
                whole.push_str(next.trim());
            }
            read.push(whole).map_err(|reason| refused(format!("line {number}: {reason}")))?;
        }
        Ok(read)
    }

    fn push(&mut self, text: String) -> Result<(), String> {
        match line(&text)? {
            LineEffect::Keep { enforces } => {
                self.has_enforcing_rules |= enforces;
                let mut words = text.split_whitespace();
                let name = words.next().unwrap_or_default().to_ascii_lowercase();
                let limit = words.next().and_then(|word| word.trim_matches('"').parse().ok());
                match &*name {
                    "secrequestbodylimit" => self.body_limit = limit,
                    "secrequestbodyinmemorylimit" => self.memory_limit = limit,
                    _ => {}
                }
                self.lines.push(text);
            }
            LineEffect::Engine(enforces) => {
                self.engine = Some(enforces);
                self.own_engine = Some(enforces);
                self.lines.push(text);
            }
            LineEffect::Change => self.changes.push(text),
            LineEffect::Recommended => {
                // A second copy is left out.
                if !self.includes(RECOMMENDED) {
                    self.engine = Some(false);
                }
                self.lines.extend(RECOMMENDED.iter().map(|line| (*line).to_owned()));
            }
            LineEffect::CoreRules => self.lines.extend(CORE_RULES.iter().map(|line| (*line).to_owned())),
            LineEffect::Include(file) => self.lines.push(format!("Include {file}")),
            LineEffect::Ignore(reason) => self.ignored.push(reason),
        }
        Ok(())
    }

    /// Returns the directives in order.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }

    /// Returns those that change other rules.
    pub(super) fn changes(&self) -> impl Iterator<Item = &str> {
        self.changes.iter().map(String::as_str)
    }

    /// Returns whether it may refuse requests that pass without it: not if it only removes rules
    /// and sets what the audit log has.
    pub(super) fn may_refuse(&self) -> bool {
        self.lines().chain(self.changes()).any(|line| {
            let line = line.to_ascii_lowercase();
            !line.starts_with("secruleremove") && !line.starts_with("secaudit")
        })
    }

    /// Returns the directives without effect, each with the reason.
    pub(crate) fn ignored(&self) -> &[String] {
        &self.ignored
    }

    /// Returns whether rules refuse requests; `None` if the text does not say so.
    /// `recommended`: its own copy of the recommended configuration has effect.
    pub(super) fn engine(&self, recommended: bool) -> Option<bool> {
        if recommended { self.engine } else { self.own_engine }
    }

    /// Returns whether a rule enables the engine for its requests.
    pub(super) fn has_enforcing_rules(&self) -> bool {
        self.has_enforcing_rules
    }

    /// Returns the bytes of a body that are read, and those that are held in memory.
    pub(super) fn body_limits(&self) -> (Option<u64>, Option<u64>) {
        (self.body_limit, self.memory_limit)
    }

    /// Returns whether it includes these files.
    pub(super) fn includes(&self, files: &[&str]) -> bool {
        self.lines.iter().any(|line| files.contains(&line.as_str()))
    }

    /// Returns whether it has rules with the ids of the recommended configuration.
    pub(super) fn has_recommended_rules(&self) -> bool {
        self.lines.iter().any(|line| {
            let mut ids = line.split("id:").skip(1).map(|rest| rest.trim_start_matches(['\'', '"']));
            ids.any(|id| {
                let digits = id.bytes().take_while(u8::is_ascii_digit).count();
                digits == 6 && id.starts_with("2000")
            })
        })
    }
}

fn refused(reason: String) -> Wrong {
    Wrong::Untranslated { reason, remedy: REMEDY.to_owned() }
}

/// Replaces the escapes of nginx's quoted strings, which `modsecurity_rules` gets the text from
/// (`ngx_conf_read_token`).
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let replaced = match chars.peek() {
            Some(quote @ ('"' | '\'' | '\\')) if c == '\\' => Some(*quote),
            Some('t') if c == '\\' => Some('\t'),
            Some('r') if c == '\\' => Some('\r'),
            Some('n') if c == '\\' => Some('\n'),
            _ => None,
        };
        if replaced.is_some() {
            chars.next();
        }
        out.push(replaced.unwrap_or(c));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        FirewallText::read(text).unwrap().lines
    }

    fn reason(text: &str) -> String {
        match FirewallText::read(text) {
            Err(Wrong::Untranslated { reason, .. }) => reason,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn lines_are_joined_and_quotes_of_nginx_removed() {
        let text = "# a comment\n\n  SecRule REQUEST_URI \\\"@rx \\\\d\\\" \\\n  # another\n   \"id:1,deny,msg:\\'No\\'\"";
        assert_eq!(lines(text), ["SecRule REQUEST_URI \"@rx \\d\" \"id:1,deny,msg:'No'\""]);
        assert_eq!(reason("SecRuleEngine On \\"), "line 1: it ends with a backslash");
    }

    #[test]
    fn a_problem_names_line_and_directive() {
        let text = "SecRuleEngine On\n\nSecRemoteRules key https://rules.example/";
        assert!(reason(text).starts_with("line 3: SecRemoteRules"), "{}", reason(text));
        assert!(reason(&"x".repeat(MOST + 1)).contains("262144 bytes"));
    }

    #[test]
    fn ids_of_the_recommended_rules_are_recognised() {
        for (text, expected) in [
            ("SecAction \"phase:1,id:200001,pass\"", true),
            ("SecAction \"id:'200006',phase:1\"", true),
            ("SecAction \"id:20000,phase:1\"", false),
            ("SecAction \"id:2000010,phase:1\"", false),
            ("SecAction \"id:900200,phase:1\"", false),
        ] {
            let text = FirewallText::read(text).unwrap();
            assert_eq!(text.has_recommended_rules(), expected, "{text:?}");
        }
    }
}
