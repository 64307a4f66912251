//! What a line of the access log says, compiled: made once for each change of the format, written once for each request
//! into the buffer that goes to the log.
//!
//! The head of a request is gone when the request ends. So what the format wants of it is put away when it begins
//! ([`LogLine`]), as it will stand in the line, with the text around it; everything else is known at the end ([`LogRecord`]).
//! No value of a request is ever turned into text that is not written.

mod compile;
mod head;
mod record;
#[cfg(test)]
mod tests;
mod values;

use http::header::HeaderName;
use sluice_config::{LogEscape, LogVariable};

use super::escape::escape;
use crate::message::fields::Fields;

pub(crate) use compile::hostname;
pub use head::LoggedHead;
pub use record::{LogRecord, UpstreamAttempt};

use head::{HeadValue, field};
use values::Values;

/// A format, compiled.
#[derive(Debug)]
pub struct LogFormat {
    /// Values of request heads with the text around them, each run up to the next value that is not of a head.
    runs: Box<[Box<[Piece]>]>,
    /// The line up to its last value that is not of a head: each with what stands before it.
    steps: Box<[(Before, Value)]>,
    /// What stands behind that, with the newline.
    end: Before,
    escape: LogEscape,
    wants_response: bool,
}

/// A piece of a run: text, or a value of the head.
#[derive(Debug)]
enum Piece {
    Text(Box<[u8]>),
    Value(HeadValue),
}

/// What stands before a value.
#[derive(Debug)]
enum Before {
    Text(Box<[u8]>),
    /// The next run of what was put away of the head.
    Head,
}

/// What is not of the head of the request.
#[derive(Debug)]
enum Value {
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
    /// Whether it says anything of response heads, which its lines are to be shown then.
    pub fn wants_response(&self) -> bool {
        self.wants_response
    }

    /// Begins the line of a request that was read.
    pub fn request<F: Fields>(&self, logged: &LoggedHead<'_, F>) -> LogLine {
        self.begin(|value, out| value.write(logged, self.escape, out))
    }

    /// Begins the line of a request of which no more than its first line, or a part of that, was read.
    pub fn refused(&self, request_line: &[u8]) -> LogLine {
        self.begin(|value, out| match value {
            HeadValue::Request => {
                escape(self.escape, request_line, out);
                Some(())
            }
            _ => None,
        })
    }

    fn begin(&self, write: impl Fn(&HeadValue, &mut Vec<u8>) -> Option<()>) -> LogLine {
        let mut line = LogLine::default();
        for run in &self.runs {
            line.head.put(|out| {
                for piece in run {
                    match piece {
                        Piece::Text(text) => push(out, text),
                        Piece::Value(value) => self.or_nothing(write(value, out), out),
                    }
                }
            });
        }
        line
    }

    /// Puts away what the format wants of a response as its endpoint has sent it.
    pub fn upstream(&self, line: &mut LogLine, fields: &impl Fields) {
        let values = &mut line.response.get_or_insert_default().upstream;
        values.clear();
        for (_, value) in &self.steps {
            if let Value::Upstream(name) = value {
                values.put(|out| self.or_nothing(field(fields, name, self.escape, out), out));
            }
        }
    }

    /// Puts away what it wants of a response as the client gets it.
    pub fn sent(&self, line: &mut LogLine, fields: &impl Fields) {
        let values = &mut line.response.get_or_insert_default().sent;
        values.clear();
        for (_, value) in &self.steps {
            if let Value::Sent(name) = value {
                values.put(|out| self.or_nothing(field(fields, name, self.escape, out), out));
            }
        }
    }

    /// Writes a line, its newline included.
    pub fn write(&self, line: &LogLine, record: &LogRecord<'_>, out: &mut Vec<u8>) {
        let response = line.response.as_deref();
        let mut head = line.head.iter();
        let mut upstream = response.map(|values| values.upstream.iter()).into_iter().flatten();
        let mut sent = response.map(|values| values.sent.iter()).into_iter().flatten();
        for (before, value) in &self.steps {
            before.write(&mut head, out);
            let put_away = match value {
                Value::Fact(variable) => {
                    self.or_nothing(record.write(variable, self.escape, out), out);
                    continue;
                }
                Value::Upstream(_) => upstream.next(),
                Value::Sent(_) => sent.next(),
            };
            match put_away {
                Some(bytes) => out.extend_from_slice(bytes),
                None => self.or_nothing(None, out),
            }
        }
        self.end.write(&mut head, out);
    }

    /// Stands for what there is not.
    fn or_nothing(&self, written: Option<()>, out: &mut Vec<u8>) {
        if written.is_none() && self.escape == LogEscape::Hex {
            out.push(b'-');
        }
    }
}

impl Default for LogFormat {
    fn default() -> Self {
        Self::compile(&sluice_config::LogFormat::default())
    }
}

impl Before {
    fn write<'v>(&self, head: &mut impl Iterator<Item = &'v [u8]>, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => push(out, text),
            Self::Head => out.extend_from_slice(head.next().unwrap_or_default()),
        }
    }
}

/// Adds text, of which most is a blank or nothing: no call for that.
fn push(out: &mut Vec<u8>, text: &[u8]) {
    match text {
        [] => {}
        [byte] => out.push(*byte),
        text => out.extend_from_slice(text),
    }
}
