//! Compilation of a format: separates the values of the request head, which must be saved, from the
//! other values and the text.

use std::{fs, mem};

use http::header::HeaderName;
use sluice_config::{LogPiece, LogVariable};

use super::head::HeadValue;
use super::{Before, LogFormat, Piece, Value};

/// Origin of the value of a variable.
enum Source {
    Head(HeadValue),
    Later(Value),
    /// A value that is the same in all lines.
    Constant(String),
}

/// Pieces collected since the last value that is not a header field.
#[derive(Default)]
struct PendingPieces {
    pieces: Vec<Piece>,
    /// Literal text after the pieces.
    text: Vec<u8>,
}

impl LogFormat {
    /// Compiles a format.
    pub fn compile(format: &sluice_config::LogFormat) -> Self {
        let (mut runs, mut steps, mut before) = (Vec::new(), Vec::new(), PendingPieces::default());
        for piece in &*format.pieces {
            match piece {
                LogPiece::Text(text) => before.push_text(text),
                LogPiece::Variable(variable) => match Source::of(variable) {
                    Source::Head(value) => before.push_value(value),
                    Source::Later(value) => steps.push((before.take(&mut runs), value)),
                    Source::Constant(text) => before.push_text(&text),
                },
            }
        }
        before.push_text("\n");
        let end = before.take(&mut runs);
        let of_response = |(_, value): &(_, Value)| !matches!(value, Value::Fact(_));
        Self {
            wants_response: steps.iter().any(of_response),
            runs: runs.into(),
            steps: steps.into(),
            end,
            escape: format.escape,
        }
    }
}

impl PendingPieces {
    fn push_text(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    fn push_value(&mut self, value: HeadValue) {
        self.end_text();
        self.pieces.push(Piece::Value(value));
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.pieces.push(Piece::Text(mem::take(&mut self.text).into()));
        }
    }

    /// Ends the pending pieces. If they contain values of the head, adds them to `runs`.
    fn take(&mut self, runs: &mut Vec<Box<[Piece]>>) -> Before {
        if self.pieces.is_empty() {
            return Before::Text(mem::take(&mut self.text).into());
        }
        self.end_text();
        runs.push(mem::take(&mut self.pieces).into());
        Before::Head
    }
}

impl Source {
    fn of(variable: &LogVariable) -> Self {
        // Translation accepts any name with the prefix of a field; a name that no field can have
        // has no value.
        let name = |text: &str| text.parse().unwrap_or(HeaderName::from_static("x-none"));
        Self::Head(match variable {
            LogVariable::Args => HeadValue::Args,
            LogVariable::IsArgs => HeadValue::IsArgs,
            LogVariable::PassAccessScheme => HeadValue::PassAccessScheme,
            LogVariable::RemoteUser => HeadValue::RemoteUser,
            LogVariable::Request => HeadValue::Request,
            LogVariable::RequestUri => HeadValue::RequestUri,
            LogVariable::Uri => HeadValue::Uri,
            LogVariable::Field(field) => HeadValue::Field(name(field)),
            LogVariable::Cookie(cookie) => HeadValue::Cookie((**cookie).into()),
            LogVariable::Argument(argument) => HeadValue::Argument((**argument).into()),
            LogVariable::UpstreamField(field) => return Self::Later(Value::Upstream(name(field))),
            LogVariable::SentField(field) => return Self::Later(Value::Sent(name(field))),
            LogVariable::Pid => return Self::Constant(std::process::id().to_string()),
            LogVariable::Hostname => return Self::Constant(hostname()),
            variable => return Self::Later(Value::Fact(variable.clone())),
        })
    }
}

/// Returns the host name of this machine, or `localhost`.
pub(crate) fn hostname() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}
