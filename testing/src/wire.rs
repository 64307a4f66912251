//! HTTP/1.1 messages as bytes, for clients and backends of tests.

use std::io::{self, Read};

/// A complete message.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// Request line or status line.
    pub start: String,
    /// Fields in order, with names as received.
    pub headers: Vec<(String, String)>,
    /// Content; chunks are joined.
    pub body: Vec<u8>,
}

impl Message {
    /// Returns the first value of a field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }

    /// Returns all values of a field.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let fields = self.headers.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        fields.map(|(_, value)| value.as_str()).collect()
    }

    /// Returns the content as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn has(&self, name: &str, token: &str) -> bool {
        self.all(name).iter().any(|value| value.to_ascii_lowercase().contains(token))
    }
}

/// How the body ends if no field states its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A request: it has no body.
    Request,
    /// A response: it ends with the connection.
    Response,
    /// A response to HEAD: it has no body, whatever its fields state.
    Head,
}

/// Reads consecutive messages from a stream and keeps the remaining bytes.
#[derive(Default)]
pub struct Reader {
    buffer: Vec<u8>,
}

impl Reader {
    /// Returns a reader with an empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the bytes that were read but do not belong to a message yet.
    pub fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Returns the next message; `None` if the stream ends before its first byte.
    pub fn message(&mut self, stream: &mut dyn Read, side: Side) -> io::Result<Option<Message>> {
        let mut message = match self.head(stream)? {
            Some(message) => message,
            None => return Ok(None),
        };
        let interim =
            message.start.starts_with("HTTP/") && message.start.split(' ').nth(1).is_some_and(bodiless);
        if side == Side::Head || interim {
            return Ok(Some(message));
        }
        if message.has("transfer-encoding", "chunked") {
            message.body = self.chunks(stream)?;
        } else if let Some(length) = message.header("content-length") {
            let length = length.parse().map_err(|_| invalid("Content-Length"))?;
            message.body = self.bytes(stream, length)?;
        } else if side == Side::Response {
            while self.fill(stream)? {}
            message.body = self.take_rest();
        }
        Ok(Some(message))
    }

    /// Returns the next head.
    fn head(&mut self, stream: &mut dyn Read) -> io::Result<Option<Message>> {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            if !self.fill(stream)? {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
        };
        let head: Vec<u8> = self.buffer.drain(..end).collect();
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.trim_end().split("\r\n");
        let start = lines.next().unwrap_or_default().to_owned();
        let headers = lines
            .map(|line| match line.split_once(':') {
                Some((name, value)) => Ok((name.to_owned(), value.trim().to_owned())),
                None => Err(invalid(line)),
            })
            .collect::<io::Result<_>>()?;
        Ok(Some(Message { start, headers, body: Vec::new() }))
    }

    fn chunks(&mut self, stream: &mut dyn Read) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line(stream)?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| invalid(&line))?;
            if size == 0 {
                while !self.line(stream)?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.bytes(stream, size)?);
            self.line(stream)?;
        }
    }

    fn line(&mut self, stream: &mut dyn Read) -> io::Result<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            self.more(stream)?;
        }
    }

    /// Reads exactly `count` bytes.
    pub fn bytes(&mut self, stream: &mut dyn Read, count: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < count {
            self.more(stream)?;
        }
        Ok(self.buffer.drain(..count).collect())
    }

    fn more(&mut self, stream: &mut dyn Read) -> io::Result<()> {
        if self.fill(stream)? { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Reads once. Returns false at the end of the stream.
    fn fill(&mut self, stream: &mut dyn Read) -> io::Result<bool> {
        let mut bytes = [0; 16 * 1024];
        let count = stream.read(&mut bytes)?;
        self.buffer.extend_from_slice(&bytes[..count]);
        Ok(count > 0)
    }
}

fn bodiless(status: &str) -> bool {
    status.starts_with('1') || matches!(status, "204" | "304")
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not HTTP: {what:?}"))
}
