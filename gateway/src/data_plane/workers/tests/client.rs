//! A client that exposes every received byte.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(super) use sluice_testing::wait::PATIENCE;

pub(super) struct Client<S = TcpStream> {
    pub(super) stream: S,
    pub(super) buf: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Response {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(super) fn keeps_alive(&self) -> bool {
        self.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("keep-alive"))
    }
}

impl Client {
    pub(super) async fn connect(address: std::net::SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(super) fn over(stream: S) -> Self {
        Self { stream, buf: Vec::new() }
    }

    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Sends a request without a body and reads the whole response.
    pub(super) async fn get(&mut self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n")).await;
        self.response().await
    }

    /// Reads once. Returns 0 at the end of the stream.
    pub(super) async fn read(&mut self) -> usize {
        self.buf.reserve(64 * 1024);
        timeout(PATIENCE, self.stream.read_buf(&mut self.buf)).await.expect("in time").unwrap_or(0)
    }

    pub(super) async fn until(&mut self, end: &str) -> String {
        loop {
            let found = self.buf.windows(end.len()).position(|window| window == end.as_bytes());
            if let Some(at) = found {
                let taken: Vec<u8> = self.buf.drain(..at + end.len()).collect();
                return String::from_utf8(taken).unwrap();
            }
            let seen = String::from_utf8_lossy(&self.buf).into_owned();
            assert_ne!(self.read().await, 0, "the end came before {end:?}: {seen}");
        }
    }

    pub(super) async fn exactly(&mut self, length: usize) -> String {
        while self.buf.len() < length {
            assert_ne!(self.read().await, 0, "the end came before {length} bytes");
        }
        String::from_utf8(self.buf.drain(..length).collect()).unwrap()
    }

    pub(super) async fn head(&mut self) -> Response {
        let head = self.until("\r\n\r\n").await;
        let status = head[9..12].parse().unwrap_or_else(|_| panic!("no status: {head}"));
        Response { status, head, body: String::new() }
    }

    /// Reads a response to any request except HEAD.
    pub(super) async fn response(&mut self) -> Response {
        let mut response = self.head().await;
        response.body = if response.status == 204 || response.status == 304 {
            String::new()
        } else if let Some(length) = response.field("content-length") {
            let length = length.parse().unwrap();
            self.exactly(length).await
        } else if response.field("transfer-encoding").is_some() {
            self.chunked().await
        } else {
            self.rest().await
        };
        response
    }

    pub(super) async fn chunked(&mut self) -> String {
        let mut body = String::new();
        loop {
            let line = self.until("\r\n").await;
            let size = usize::from_str_radix(line.trim(), 16).unwrap();
            body += &self.exactly(size).await;
            assert_eq!(self.exactly(2).await, "\r\n");
            if size == 0 {
                return body;
            }
        }
    }

    /// Reads everything up to the end of the stream.
    pub(super) async fn rest(&mut self) -> String {
        while self.read().await > 0 {}
        String::from_utf8_lossy(&std::mem::take(&mut self.buf)).into_owned()
    }

    /// Asserts that the stream ends without further bytes.
    pub(super) async fn ends(&mut self) {
        assert_eq!(self.rest().await, "");
    }
}
