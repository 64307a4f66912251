//! One connection of the paced client, without a runtime.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;

/// How long a new connection may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// A connection, opened again when the proxy ends it.
pub(super) struct Connection {
    address: SocketAddr,
    request: String,
    stream: TcpStream,
    /// When the request that is on its way was due.
    due: Option<Instant>,
    received: Vec<u8>,
}

/// What has come.
pub(super) enum Answer {
    /// Not all of it.
    Incomplete,
    /// An end in place of an answer.
    Lost,
    /// All of it.
    Whole {
        /// When the request was due.
        due: Instant,
        /// The status code.
        status: u16,
    },
}

impl Connection {
    pub(super) fn open(address: SocketAddr, host: &str) -> anyhow::Result<Self> {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nUser-Agent: paced\r\n\r\n");
        Ok(Self {
            address,
            request,
            stream: connect(address)?,
            due: None,
            received: Vec::with_capacity(4096),
        })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn is_busy(&self) -> bool {
        self.due.is_some()
    }

    /// Sends a request that was due at a moment.
    pub(super) fn send(&mut self, due: Instant) -> anyhow::Result<()> {
        // It is far smaller than what a socket takes at once. An idle connection that the proxy has ended shows
        // here or at the next reading.
        if self.stream.write_all(self.request.as_bytes()).is_err() {
            self.stream = connect(self.address)?;
            self.stream.write_all(self.request.as_bytes()).context("send")?;
        }
        self.due = Some(due);
        Ok(())
    }

    /// Takes what has come.
    pub(super) fn receive(&mut self) -> anyhow::Result<Answer> {
        let mut bytes = [0; 16 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(count) if count > 0 => self.received.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Answer::Incomplete),
            Ok(_) | Err(_) => {
                self.reset()?;
                return Ok(Answer::Lost);
            }
        }
        let Some(end) = self.received.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(Answer::Incomplete);
        };
        let head = String::from_utf8_lossy(&self.received[..end]).to_ascii_lowercase();
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let length: usize = field("content-length:").context("an answer has no length")?.parse()?;
        if self.received.len() < end + 4 + length {
            return Ok(Answer::Incomplete);
        }
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let due = self.due.take().context("an answer that nobody asked for")?;
        if field("connection:") == Some("close") {
            self.reset()?;
        }
        self.received.clear();
        Ok(Answer::Whole { due, status })
    }

    fn reset(&mut self) -> anyhow::Result<()> {
        self.stream = connect(self.address)?;
        self.due = None;
        self.received.clear();
        Ok(())
    }
}

fn connect(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).context("connect")?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}
