//! What a line of the access log says, compiled: made once for each change of the format, written once for each request
//! into the buffer that goes to the log.
//!
//! The head of a request is gone when the request ends. So the values that the format wants of it are put away when it
//! begins ([`LogLine`]), escaped as they will be written; everything else is known at the end ([`Facts`]). No value of a
//! request is ever turned into text that is not written.

mod facts;
mod head;
#[cfg(test)]
mod tests;
mod values;

use std::fs;

use http::header::HeaderName;
use sluice_config::{LogEscape, LogPiece, LogVariable};

use super::escape::escape;
use crate::message::fields::Fields;

pub use facts::{Facts, UpstreamAttempt};
pub use head::LoggedHead;

use head::{HeadValue, field};
use values::Values;

/// A format, compiled.
#[derive(Debug)]
pub struct LogFormat {
    pieces: Box<[Piece]>,
    escape: LogEscape,
    wants_response: bool,
}

#[derive(Debug)]
enum Piece {
    Text(Box<[u8]>),
    /// Put away when the request begins.
    Head(HeadValue),
    /// Put away when the response has come.
    Upstream(HeaderName),
    /// Put away when the response goes.
    Sent(HeaderName),
    /// Known at the end.
    Fact(LogVariable),
}

/// What is put away for the line of a request.
#[derive(Debug, Default)]
pub struct LogLine {
    head: Values,
    response: Option<Box<ResponseValues>>,
}

#[derive(Debug, Default)]
struct ResponseValues {
    upstream: Values,
    sent: Values,
}

impl LogFormat {
    /// Compiles a format.
    pub fn compile(format: &sluice_config::LogFormat) -> Self {
        let pieces: Box<[Piece]> = format.pieces.iter().filter_map(Piece::compile).collect();
        let of_response = |piece: &Piece| matches!(piece, Piece::Upstream(_) | Piece::Sent(_));
        Self { wants_response: pieces.iter().any(of_response), pieces, escape: format.escape }
    }

    /// Whether it says anything of response heads, which its lines are to be shown then.
    pub fn wants_response(&self) -> bool {
        self.wants_response
    }

    /// Begins the line of a request that was read.
    pub fn request<F: Fields>(&self, logged: &LoggedHead<'_, F>) -> LogLine {
        let mut line = LogLine::default();
        for piece in &self.pieces {
            if let Piece::Head(value) = piece {
                line.head.put(|out| value.write(logged, self.escape, out));
            }
        }
        line
    }

    /// Begins the line of a request of which no more than its first line, or a part of that, was read.
    pub fn refused(&self, request_line: &[u8]) -> LogLine {
        let mut line = LogLine::default();
        for piece in &self.pieces {
            match piece {
                Piece::Head(HeadValue::Request) => line.head.put(|out| {
                    escape(self.escape, request_line, out);
                    Some(())
                }),
                Piece::Head(_) => line.head.put(|_| None),
                _ => {}
            }
        }
        line
    }

    /// Puts away what the format wants of a response as its endpoint has sent it.
    pub fn upstream(&self, line: &mut LogLine, fields: &impl Fields) {
        let values = &mut line.response.get_or_insert_default().upstream;
        values.clear();
        for piece in &self.pieces {
            if let Piece::Upstream(name) = piece {
                values.put(|out| field(fields, name, self.escape, out));
            }
        }
    }

    /// Puts away what it wants of a response as the client gets it.
    pub fn sent(&self, line: &mut LogLine, fields: &impl Fields) {
        let values = &mut line.response.get_or_insert_default().sent;
        values.clear();
        for piece in &self.pieces {
            if let Piece::Sent(name) = piece {
                values.put(|out| field(fields, name, self.escape, out));
            }
        }
    }

    /// Writes a line, its newline included.
    pub fn write(&self, line: &LogLine, facts: &Facts<'_>, out: &mut Vec<u8>) {
        let (mut head, mut upstream, mut sent) = (0, 0, 0);
        let response = line.response.as_deref();
        for piece in &self.pieces {
            let written = match piece {
                Piece::Text(text) => {
                    out.extend_from_slice(text);
                    continue;
                }
                Piece::Head(_) => line.head.write(&mut head, out),
                Piece::Upstream(_) => response.and_then(|values| values.upstream.write(&mut upstream, out)),
                Piece::Sent(_) => response.and_then(|values| values.sent.write(&mut sent, out)),
                Piece::Fact(variable) => facts.write(variable, self.escape, out),
            };
            if written.is_none() && self.escape == LogEscape::Hex {
                out.push(b'-');
            }
        }
        out.push(b'\n');
    }
}

impl Default for LogFormat {
    fn default() -> Self {
        Self::compile(&sluice_config::LogFormat::default())
    }
}

impl Piece {
    /// `None` for what is always empty.
    fn compile(piece: &LogPiece) -> Option<Self> {
        // Translation passes on whatever has a prefix of fields: what is no name of one has no value.
        let name = |text: &str| text.parse().unwrap_or(HeaderName::from_static("x-none"));
        let text = |text: &str| Self::Text(text.as_bytes().into());
        let variable = match piece {
            LogPiece::Text(piece) => return Some(text(piece)),
            LogPiece::Variable(variable) => variable,
        };
        Some(match variable {
            LogVariable::Args => Self::Head(HeadValue::Args),
            LogVariable::IsArgs => Self::Head(HeadValue::IsArgs),
            LogVariable::PassAccessScheme => Self::Head(HeadValue::PassAccessScheme),
            LogVariable::RemoteUser => Self::Head(HeadValue::RemoteUser),
            LogVariable::Request => Self::Head(HeadValue::Request),
            LogVariable::RequestUri => Self::Head(HeadValue::RequestUri),
            LogVariable::Uri => Self::Head(HeadValue::Uri),
            LogVariable::Field(field) => Self::Head(HeadValue::Field(name(field))),
            LogVariable::Cookie(cookie) => Self::Head(HeadValue::Cookie((**cookie).into())),
            LogVariable::Argument(argument) => Self::Head(HeadValue::Argument((**argument).into())),
            LogVariable::UpstreamField(field) => Self::Upstream(name(field)),
            LogVariable::SentField(field) => Self::Sent(name(field)),
            LogVariable::Pid => text(&std::process::id().to_string()),
            LogVariable::Hostname => text(&hostname()),
            variable => Self::Fact(variable.clone()),
        })
    }
}

/// The name of this machine, as far as it has one.
pub(super) fn hostname() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}
