//! One connection of the paced client, without a runtime.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;

/// Time limit for a new connection.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A connection that is reopened when the proxy closes it.
pub(super) struct Connection {
    address: SocketAddr,
    request: String,
    stream: TcpStream,
    /// The scheduled time of the request in flight.
    due: Option<Instant>,
    received: Vec<u8>,
}

/// The state of a response.
pub(super) enum Answer {
    /// Incomplete.
    Incomplete,
    /// The connection ended instead.
    Lost,
    /// Complete.
    Whole {
        /// The scheduled time of the request.
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

    /// Sends a request that was scheduled for `due`.
    pub(super) fn send(&mut self, due: Instant) -> anyhow::Result<()> {
        // A request is far smaller than the socket buffer. If the proxy has closed an idle
        // connection, this shows here or at the next read.
        if self.stream.write_all(self.request.as_bytes()).is_err() {
            self.stream = connect(self.address)?;
            self.stream.write_all(self.request.as_bytes()).context("send")?;
        }
        self.due = Some(due);
        Ok(())
    }

    /// Reads the available bytes.
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
        let due = self.due.take().context("an unrequested response")?;
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
    let stream = TcpStream::connect_timeout(&address, TIMEOUT).context("connect")?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}
