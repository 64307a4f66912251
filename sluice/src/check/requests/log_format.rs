//! The format of the old controller's access log (`log-format-upstream`), as an expression that
//! takes its lines apart.
//!
//! The text of the key is read, not the format that Sluice made of it: variables that Sluice does
//! not serve are still in the lines of the old controller.

use std::borrow::Cow;
use std::fmt::Write;

use anyhow::{Context, Result, ensure};
use regex::Regex;
use sluice_config::{LogEscape, LogFormat};

/// A format that lines can be matched with.
#[derive(Debug)]
pub(in super::super) struct RecordedFormat {
    line: Regex,
    /// The variables in the order of the expression's groups.
    variables: Vec<String>,
    escape: LogEscape,
}

/// The values of one line.
pub(super) struct RecordedLine<'l> {
    format: &'l RecordedFormat,
    values: regex::Captures<'l>,
}

impl RecordedFormat {
    /// Compiles a format; `None` is the default of ingress-nginx.
    ///
    /// # Errors
    /// The format has no variable with the request, or is too large.
    pub(super) fn new(format: Option<&str>, escape: LogEscape) -> Result<Self> {
        let format = format.unwrap_or(LogFormat::DEFAULT);
        let name = Regex::new(r"\$(?:\{(\w+)\}|(\w+))")?;
        let (mut line, mut variables, mut end) = ("^".to_owned(), Vec::new(), 0);
        for found in name.captures_iter(format) {
            let (whole, name) = (found.get(0).context("group 0")?, found.get(1).or(found.get(2)));
            line += &regex::escape(&format[end..whole.start()]);
            line += "(.*?)";
            variables.extend(name.map(|name| name.as_str().to_owned()));
            end = whole.end();
        }
        write!(line, "{}$", regex::escape(&format[end..]))?;
        let line = Regex::new(&line)
            .context("the format of the access log is too long; give a shorter one with --log-format")?;
        let format = Self { line, variables, escape };
        ensure!(
            format.has(&["request", "request_uri", "uri"]),
            "the format of the access log has no $request, $request_uri or $uri, so its requests are unknown; check a list \
             of URLs with --urls"
        );
        Ok(format)
    }

    /// Returns whether the format has one of these variables.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.variables.iter().any(|variable| names.contains(&variable.as_str()))
    }

    /// Takes a line apart; `None` if it has another format.
    pub(super) fn parse<'l>(&'l self, line: &'l str) -> Option<RecordedLine<'l>> {
        Some(RecordedLine { format: self, values: self.line.captures(line)? })
    }
}

impl RecordedLine<'_> {
    /// Returns whether the format has one of these variables, with or without a value in this line.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.format.has(names)
    }

    /// Returns the value of the first of these variables that has one.
    pub(super) fn value(&self, names: &[&str]) -> Option<Cow<'_, str>> {
        names.iter().find_map(|name| {
            let group = self.format.variables.iter().position(|variable| variable == name)?;
            let raw = self.values.get(group + 1)?.as_str();
            (!raw.is_empty() && raw != "-").then(|| self.unescape(raw))
        })
    }

    /// Reverses nginx's escaping of a value.
    fn unescape<'v>(&self, raw: &'v str) -> Cow<'v, str> {
        if !raw.contains('\\') {
            return Cow::Borrowed(raw);
        }
        match self.format.escape {
            LogEscape::None => Cow::Borrowed(raw),
            LogEscape::Json => match serde_json::from_str(&format!("\"{raw}\"")) {
                Ok(text) => Cow::Owned(text),
                Err(_) => Cow::Borrowed(raw),
            },
            LogEscape::Hex => {
                let mut parts = raw.split("\\x");
                let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
                for part in parts {
                    match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                        Some(byte) => {
                            bytes.push(byte);
                            bytes.extend(&part.as_bytes()[2..]);
                        }
                        None => bytes.extend(part.as_bytes()),
                    }
                }
                Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
            }
        }
    }
}
