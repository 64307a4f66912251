//! A compiled format of the access log. It is compiled once per change of the format, and evaluated
//! once per request into the buffer of the log.
//!
//! The head of a request is no longer available when the request ends. The values that the format
//! needs are therefore saved when the request starts ([`LogLine`]), already formatted and with the
//! text around them; all other values are available at the end ([`RequestRecord`]). No value is
//! formatted that the format does not contain.

mod compile;
#[cfg(test)]
mod tests;
mod values;

use std::sync::Arc;

use http::header::HeaderName;
use sluice_config::{LogEscape, Variable};

use crate::message::fields::Fields;
use crate::variable::escape::escape;
use crate::variable::{HeadValue, HeadValues, RequestRecord, write_field};

use values::Values;

/// A compiled format.
#[derive(Debug)]
pub struct LogFormat {
    /// Values of request heads with the text around them. Each run ends at the next value from
    /// elsewhere.
    runs: Box<[Box<[Piece]>]>,
    /// The line up to its last value that is not from the head: each such value and the part before
    /// it.
    steps: Box<[(Before, Value)]>,
    /// The part after the last step, including the newline.
    end: Before,
    escape: LogEscape,
    needs_response: bool,
    needs_body: bool,
}

/// A part of a run: text, or a value of the head.
#[derive(Debug)]
enum Piece {
    Text(Box<[u8]>),
    Value(HeadValue),
    /// A variable that is looked up in a table.
    Computed(Arc<str>),
}

/// The part before a value.
#[derive(Debug)]
enum Before {
    Text(Box<[u8]>),
    /// The next saved run of head values.
    Head,
}

/// A value that is not from the head of the request.
#[derive(Debug)]
enum Value {
    /// Saved when the response of the endpoint has arrived.
    Upstream(HeaderName),
    /// Saved when the response is sent to the client.
    Sent(HeaderName),
    /// The request body, saved when it is buffered.
    Body,
    /// Available when the request ends.
    Record(Variable),
}

/// Saved values for the line of a request.
#[derive(Debug, Default)]
pub struct LogLine {
    head: Values,
    response: Option<Box<ResponseValues>>,
    /// The request body.
    body: Option<Box<[u8]>>,
}

#[derive(Debug, Default)]
struct ResponseValues {
    upstream: Values,
    sent: Values,
}

impl LogFormat {
    /// Returns whether the format contains fields of response heads, which must be saved for its
    /// lines then.
    pub fn needs_response(&self) -> bool {
        self.needs_response
    }

    /// Returns whether the format contains the request body, which must be saved for its lines
    /// then.
    pub fn needs_body(&self) -> bool {
        self.needs_body
    }

    /// Begins the line of a request that was read.
    /// `compute` appends the value of a variable that is looked up in a table.
    pub fn request(&self, logged: &HeadValues<'_>, compute: impl Fn(&str, &mut Vec<u8>)) -> LogLine {
        self.begin(|value, out| value.write(logged, self.escape, out), compute)
    }

    /// Starts the line of a request of which at most the request line was read.
    pub fn refused(&self, request_line: &[u8]) -> LogLine {
        let write = |value: &HeadValue, out: &mut Vec<u8>| match value {
            HeadValue::Request => {
                escape(self.escape, request_line, out);
                Some(())
            }
            _ => None,
        };
        self.begin(write, |_, _| {})
    }

    fn begin(
        &self,
        write: impl Fn(&HeadValue, &mut Vec<u8>) -> Option<()>,
        compute: impl Fn(&str, &mut Vec<u8>),
    ) -> LogLine {
        let mut line = LogLine::default();
        for run in &self.runs {
            line.head.put(|out| {
                for piece in run {
                    match piece {
                        Piece::Text(text) => push(out, text),
                        Piece::Value(value) => self.or_nothing(write(value, out), out),
                        Piece::Computed(name) => {
                            let mut value = Vec::new();
                            compute(name, &mut value);
                            escape(self.escape, &value, out);
                        }
                    }
                }
            });
        }
        line
    }

    /// Saves the required fields of a response as the endpoint sent it.
    pub fn upstream(&self, line: &mut LogLine, fields: &impl Fields) {
        let values = &mut line.response.get_or_insert_default().upstream;
        values.clear();
        for (_, value) in &self.steps {
            if let Value::Upstream(name) = value {
                values.put(|out| self.or_nothing(write_field(fields, name, self.escape, out), out));
            }
        }
    }

    /// Saves the required fields of a response as the client receives it.
    pub fn sent(&self, line: &mut LogLine, fields: &impl Fields) {
        let values = &mut line.response.get_or_insert_default().sent;
        values.clear();
        for (_, value) in &self.steps {
            if let Value::Sent(name) = value {
                values.put(|out| self.or_nothing(write_field(fields, name, self.escape, out), out));
            }
        }
    }

    /// Writes the line, including its newline.
    pub fn write(&self, line: &LogLine, record: &RequestRecord<'_>, out: &mut Vec<u8>) {
        let response = line.response.as_deref();
        let mut head = line.head.iter();
        let mut upstream = response.map(|values| values.upstream.iter()).into_iter().flatten();
        let mut sent = response.map(|values| values.sent.iter()).into_iter().flatten();
        for (before, value) in &self.steps {
            before.write(&mut head, out);
            let put_away = match value {
                Value::Record(variable) => {
                    self.or_nothing(record.write(variable, self.escape, out), out);
                    continue;
                }
                Value::Body => {
                    let body = line.body.as_deref().map(|body| escape(self.escape, body, out));
                    self.or_nothing(body, out);
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

    /// Writes the placeholder for a missing value: a hyphen, or nothing in JSON.
    fn or_nothing(&self, written: Option<()>, out: &mut Vec<u8>) {
        if written.is_none() && self.escape == LogEscape::Hex {
            out.push(b'-');
        }
    }
}

impl LogLine {
    /// Saves the request body.
    pub fn keep_body(&mut self, body: &[u8]) {
        self.body = Some(body.into());
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

/// Appends text. Most texts are empty or a single blank, and need no call.
fn push(out: &mut Vec<u8>, text: &[u8]) {
    match text {
        [] => {}
        [byte] => out.push(*byte),
        text => out.extend_from_slice(text),
    }
}
