//! Clients with just enough HTTP/1.1 to load a gateway without being the bottleneck.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::Context;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, HandshakeKind};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The address of a gateway, and a host. Clones share the address.
#[derive(Clone, Debug)]
pub struct GatewayTarget {
    address: Arc<RwLock<SocketAddr>>,
    host: String,
    tls: Option<Arc<ClientConfig>>,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The content.
    pub body: Vec<u8>,
    /// Whether the server closes the connection afterwards.
    pub close: bool,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A kept connection.
pub struct Connection {
    stream: Box<dyn Stream>,
    host: String,
    buffer: Vec<u8>,
    certificate: Vec<u8>,
    resumed: bool,
}

impl GatewayTarget {
    /// Creates a target for plain HTTP.
    pub fn plain(address: SocketAddr, host: &str) -> Self {
        Self { address: Arc::new(RwLock::new(address)), host: host.to_owned(), tls: None }
    }

    /// Creates a target for HTTPS.
    pub fn tls(address: SocketAddr, host: &str, config: Arc<ClientConfig>) -> Self {
        Self { address: Arc::new(RwLock::new(address)), host: host.to_owned(), tls: Some(config) }
    }

    /// Directs new connections to another gateway, like a Service when a Pod is replaced.
    pub fn redirect_to(&self, address: SocketAddr) {
        *self.address.write().unwrap_or_else(PoisonError::into_inner) = address;
    }

    /// Returns the address of new connections.
    pub fn address(&self) -> SocketAddr {
        *self.address.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// It is refused, or the handshake fails.
    pub async fn connect(&self) -> anyhow::Result<Connection> {
        let socket = TcpStream::connect(self.address()).await.context("connect")?;
        socket.set_nodelay(true)?;
        let (stream, certificate, resumed): (Box<dyn Stream>, Vec<u8>, bool) = match &self.tls {
            None => (Box::new(socket), Vec::new(), false),
            Some(config) => {
                let name = ServerName::try_from(self.host.clone())?;
                let stream =
                    TlsConnector::from(config.clone()).connect(name, socket).await.context("handshake")?;
                let session = stream.get_ref().1;
                let chain = session.peer_certificates();
                let certificate = chain.and_then(|chain| chain.first()).map(|der| der.to_vec());
                let resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
                (Box::new(stream), certificate.unwrap_or_default(), resumed)
            }
        };
        Ok(Connection { stream, host: self.host.clone(), buffer: Vec::new(), certificate, resumed })
    }

    /// Sends one request on a new connection.
    ///
    /// # Errors
    /// The connection fails.
    pub async fn get_once(&self, path: &str) -> anyhow::Result<Answer> {
        self.get_once_with(path, "").await
    }

    /// Like [`get_once`](Self::get_once), with additional fields. Each field includes its line end.
    ///
    /// # Errors
    /// The connection fails, or the response is incomplete.
    pub async fn get_once_with(&self, path: &str, fields: &str) -> anyhow::Result<Answer> {
        self.connect().await?.get_last_with(path, fields).await
    }
}

impl Connection {
    /// Returns the certificate presented, in DER. Empty for plain HTTP.
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// Returns whether the TLS session of an earlier connection was resumed.
    pub fn was_resumed(&self) -> bool {
        self.resumed
    }

    /// Sends the last request of the connection, with additional fields. Each field includes its
    /// line end.
    ///
    /// # Errors
    /// The connection fails, or the response is incomplete.
    pub async fn get_last_with(&mut self, path: &str, fields: &str) -> anyhow::Result<Answer> {
        self.send(path, &format!("{fields}Connection: close\r\n")).await?;
        self.receive().await
    }

    /// Sends one request and keeps the connection.
    ///
    /// # Errors
    /// The connection fails.
    pub async fn get(&mut self, path: &str) -> anyhow::Result<Answer> {
        self.send(path, "").await?;
        self.receive().await
    }

    /// Like [`get`](Self::get), for another host.
    ///
    /// # Errors
    /// The connection fails.
    pub async fn get_from(&mut self, host: &str, path: &str) -> anyhow::Result<Answer> {
        host.clone_into(&mut self.host);
        self.get(path).await
    }

    /// Upgrades the connection to a WebSocket, as far as a proxy can see. The key is the example of
    /// RFC 6455.
    ///
    /// # Errors
    /// The connection fails, or the upgrade is refused.
    pub async fn upgrade(&mut self) -> anyhow::Result<()> {
        let fields = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                      Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        self.send("/", fields).await?;
        let answer = self.receive().await?;
        anyhow::ensure!(answer.status == 101, "status {} in place of 101", answer.status);
        Ok(())
    }

    /// Sends bytes on an upgraded connection and waits for their echo.
    ///
    /// # Errors
    /// The connection fails, or other bytes arrive.
    pub async fn echo(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(bytes).await.context("send")?;
        self.stream.flush().await.context("send")?;
        let back = self.take(bytes.len()).await?;
        anyhow::ensure!(back == bytes, "other bytes came back");
        Ok(())
    }

    async fn send(&mut self, path: &str, fields: &str) -> anyhow::Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n", self.host);
        self.stream.write_all(request.as_bytes()).await.context("send")?;
        self.stream.flush().await.context("send")
    }

    async fn receive(&mut self) -> anyhow::Result<Answer> {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            self.read().await?;
        };
        let head: Vec<u8> = self.buffer.drain(..end).collect();
        let head = String::from_utf8(head).context("head")?.to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.with_context(|| format!("no status in {head:?}"))?;
        let field = |name: &str| head.split("\r\n").find_map(|line| line.strip_prefix(name)).map(str::trim);
        let close = field("connection:") == Some("close");
        let chunked = field("transfer-encoding:") == Some("chunked");
        let body = match field("content-length:") {
            _ if status == 101 => Vec::new(),
            _ if chunked => self.chunks().await?,
            Some(length) => self.take(length.parse().context("content-length")?).await?,
            None => anyhow::bail!("neither a length nor chunks in {head:?}"),
        };
        Ok(Answer { status, body, close })
    }

    /// Reads a chunked body. Trailers are dropped.
    async fn chunks(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line().await?;
            let size = line.split(';').next().unwrap_or_default().trim();
            match usize::from_str_radix(size, 16)
                .with_context(|| format!("the size of a chunk in {line:?}"))?
            {
                0 => break,
                size => body.extend(self.take(size).await?),
            }
            anyhow::ensure!(self.line().await?.is_empty(), "a chunk is longer than its size");
        }
        while !self.line().await?.is_empty() {}
        Ok(body)
    }

    /// Reads a line without its end.
    async fn line(&mut self) -> anyhow::Result<String> {
        let end = loop {
            if let Some(end) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                break end;
            }
            self.read().await?;
        };
        let line = self.take(end + 2).await?;
        Ok(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    async fn take(&mut self, length: usize) -> anyhow::Result<Vec<u8>> {
        while self.buffer.len() < length {
            self.read().await?;
        }
        Ok(self.buffer.drain(..length).collect())
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        let count = self.stream.read_buf(&mut self.buffer).await.context("receive")?;
        anyhow::ensure!(count > 0, "the connection ended");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn receive(answer: &'static [u8]) -> anyhow::Result<Answer> {
        let (stream, mut other) = tokio::io::duplex(16);
        tokio::spawn(async move { other.write_all(answer).await });
        let (host, buffer, certificate) = Default::default();
        Connection { stream: Box::new(stream), host, buffer, certificate, resumed: false }.receive().await
    }

    #[tokio::test]
    async fn bodies_come_with_a_length_or_in_chunks() {
        let counted = receive(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await.unwrap();
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            4\r\nhell\r\n1;extension\r\no\r\n0\r\ngrpc-status: 0\r\n\r\n";
        assert_eq!(receive(chunked).await.unwrap(), counted);
        assert_eq!((counted.status, counted.body.as_slice(), counted.close), (200, &b"hello"[..], false));
    }

    #[tokio::test]
    async fn an_answer_that_is_not_whole_is_none() {
        for answer in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"[..],
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhell\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhell\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\n",
        ] {
            assert!(receive(answer).await.is_err(), "{}", String::from_utf8_lossy(answer));
        }
    }
}
