//! Clients that send the exact bytes of a test, with or without TLS.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, NamedGroup, StreamOwned};
use serde_json::Value;

use crate::trust;
use crate::wait::PATIENCE;
use crate::wire::{Message, Reader, Side};

/// Sends a GET on a new connection.
#[track_caller]
pub fn get(address: SocketAddr, host: &str, target: &str) -> Response {
    Connection::plain(address).get(host, target)
}

/// Sends a GET over TLS on a new connection, with the host as SNI.
#[track_caller]
pub fn get_tls(address: SocketAddr, host: &str, target: &str) -> Response {
    Connection::tls(address, host).get(host, target)
}

/// Sends these bytes on a new connection, and returns everything that is received until its end.
#[track_caller]
pub fn answer_to(address: SocketAddr, bytes: impl AsRef<[u8]>) -> String {
    let mut connection = Connection::plain(address);
    connection.send(bytes);
    String::from_utf8_lossy(&connection.rest()).into_owned()
}

/// A complete response.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    message: Message,
}

impl Response {
    /// Returns the first value of a field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.message.header(name)
    }

    /// Returns all values of a field.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.message.all(name)
    }

    /// Returns the status line.
    pub fn status_line(&self) -> &str {
        &self.message.start
    }

    /// Returns all fields.
    pub fn headers(&self) -> &[(String, String)] {
        &self.message.headers
    }

    /// Returns the content.
    pub fn body(&self) -> &[u8] {
        &self.message.body
    }

    /// Returns the content as text.
    pub fn text(&self) -> String {
        self.message.text()
    }

    /// Returns the content as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.message.body).unwrap_or_default()
    }

    /// Returns the name of the echoing backend; empty if the response is from elsewhere.
    pub fn backend(&self) -> String {
        self.json()["backend"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns all values of a field as the echoing backend received it.
    pub fn received(&self, name: &str) -> Vec<String> {
        let json = self.json();
        let fields = json["headers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let named =
            fields.iter().filter(|field| field[0].as_str().is_some_and(|n| n.eq_ignore_ascii_case(name)));
        named.filter_map(|field| field[1].as_str()).map(str::to_owned).collect()
    }

    /// Returns the `name=value` of the cookie that is set.
    pub fn cookie(&self) -> Option<String> {
        let field = self.header("set-cookie")?;
        field.split(';').next().map(str::to_owned)
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection for any number of requests.
pub struct Connection {
    stream: Box<dyn Stream>,
    socket: TcpStream,
    reader: Reader,
    certificate: Option<Vec<u8>>,
    key_exchange: Option<NamedGroup>,
    resumed: bool,
}

impl Connection {
    /// Connects without TLS.
    #[track_caller]
    pub fn plain(address: SocketAddr) -> Self {
        Self::try_plain(address).unwrap()
    }

    /// Connects without TLS and sends these bytes first.
    #[track_caller]
    pub fn plain_after(address: SocketAddr, preamble: &[u8]) -> Self {
        let mut connection = Self::plain(address);
        connection.send(preamble);
        connection
    }

    /// Connects without TLS; returns an error if the connection is refused.
    pub fn try_plain(address: SocketAddr) -> io::Result<Self> {
        let socket = connect(address)?;
        Ok(Self {
            stream: Box::new(socket.try_clone()?),
            socket,
            reader: Reader::new(),
            certificate: None,
            key_exchange: None,
            resumed: false,
        })
    }

    /// Connects over TLS with this SNI and HTTP/1.1.
    #[track_caller]
    pub fn tls(address: SocketAddr, sni: &str) -> Self {
        Self::try_tls(address, sni).unwrap()
    }

    /// Connects over TLS; returns an error if the handshake fails. An IP address as name sends no
    /// SNI.
    pub fn try_tls(address: SocketAddr, sni: &str) -> io::Result<Self> {
        Self::try_tls_after(address, sni, b"")
    }

    /// Same after these bytes without TLS, such as a PROXY protocol header.
    pub fn try_tls_after(address: SocketAddr, sni: &str, preamble: &[u8]) -> io::Result<Self> {
        let mut socket = connect(address)?;
        socket.write_all(preamble)?;
        Self::secure(socket, sni, trusting(&[b"http/1.1"]))
    }

    /// Over TLS with this SNI, as a configuration of the test says.
    #[track_caller]
    pub fn tls_with(address: SocketAddr, sni: &str, config: &Arc<ClientConfig>) -> Self {
        Self::try_tls_with(address, sni, config).unwrap()
    }

    /// The same; an error when the handshake fails.
    pub fn try_tls_with(address: SocketAddr, sni: &str, config: &Arc<ClientConfig>) -> io::Result<Self> {
        Self::secure(connect(address)?, sni, config.clone())
    }

    fn secure(socket: TcpStream, sni: &str, config: Arc<ClientConfig>) -> io::Result<Self> {
        let name = ServerName::try_from(sni.to_owned()).map_err(io::Error::other)?;
        let mut session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let mut copy = socket.try_clone()?;
        while session.is_handshaking() {
            session.complete_io(&mut copy)?;
        }
        let certificate = session.peer_certificates().and_then(|chain| chain.first()).map(|der| der.to_vec());
        let key_exchange = session.negotiated_key_exchange_group().map(|group| group.name());
        let resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
        let stream = Box::new(StreamOwned::new(session, copy));
        Ok(Self { stream, socket, reader: Reader::new(), certificate, key_exchange, resumed })
    }

    /// Returns the certificate that the gateway presented, in DER.
    pub fn certificate(&self) -> &[u8] {
        self.certificate.as_deref().unwrap_or_default()
    }

    /// Returns the group of the TLS key exchange.
    pub fn key_exchange(&self) -> Option<NamedGroup> {
        self.key_exchange
    }

    /// Whether the handshake resumed an earlier session.
    pub fn was_resumed(&self) -> bool {
        self.resumed
    }

    /// Sends these bytes.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).unwrap();
    }

    /// Sends these bytes; returns an error if the peer is gone.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// Returns the next response.
    #[track_caller]
    pub fn response(&mut self) -> Response {
        self.try_response(Side::Response).unwrap().expect("the connection ended without a response")
    }

    /// Returns the next response; `None` if the connection ends instead.
    pub fn try_response(&mut self, side: Side) -> io::Result<Option<Response>> {
        let Some(message) = self.reader.message(&mut *self.stream, side)? else { return Ok(None) };
        let status = message.start.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status =
            status.ok_or_else(|| io::Error::other(format!("no status line: {:?}", message.start)))?;
        Ok(Some(Response { status, message }))
    }

    /// Sends a GET and keeps the connection.
    #[track_caller]
    pub fn get(&mut self, host: &str, target: &str) -> Response {
        self.request("GET", host, target, &[], "")
    }

    /// Sends a request with fields and a body.
    #[track_caller]
    pub fn request(
        &mut self,
        method: &str,
        host: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: &str,
    ) -> Response {
        self.try_request(method, host, target, fields, body)
            .unwrap()
            .expect("the connection ended without a response")
    }

    /// Sends a request; returns `None` if the connection ends without a response.
    pub fn try_request(
        &mut self,
        method: &str,
        host: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: &str,
    ) -> io::Result<Option<Response>> {
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
        for (name, value) in fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        text.push_str(body);
        self.try_send(text)?;
        self.try_response(if method == "HEAD" { Side::Head } else { Side::Response })
    }

    /// Reads exactly `count` bytes, for data after an upgrade.
    #[track_caller]
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        self.reader.bytes(&mut *self.stream, count).unwrap()
    }

    /// Reads everything until the peer closes the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = self.reader.take_rest();
        // A reset is an end, too; the bytes before it count.
        let _ = self.stream.read_to_end(&mut bytes);
        bytes
    }

    /// Returns whether the peer closes the connection without sending another byte.
    pub fn is_closed(&mut self) -> bool {
        self.rest().is_empty()
    }

    /// Closes the sending side of the connection.
    pub fn finish_sending(&self) {
        // The peer may have closed it already.
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({:?})", self.socket)
    }
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Returns a configuration that accepts any certificate: tests compare the certificate itself.
pub fn trusting(protocols: &[&[u8]]) -> Arc<ClientConfig> {
    Arc::new(trust::trusting(rustls::ALL_VERSIONS, protocols))
}
