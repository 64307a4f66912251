//! Clients that send the bytes that a test gives them, in the clear or over TLS.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, NamedGroup, StreamOwned};
use serde_json::Value;

use crate::trust;
use crate::wait::PATIENCE;
use crate::wire::{Message, Reader, Side};

/// One GET on a connection of its own.
#[track_caller]
pub fn get(address: SocketAddr, host: &str, target: &str) -> Response {
    Connection::plain(address).get(host, target)
}

/// One GET over TLS, with the host as SNI.
#[track_caller]
pub fn get_tls(address: SocketAddr, host: &str, target: &str) -> Response {
    Connection::tls(address, host).get(host, target)
}

/// A response, whole.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    message: Message,
}

impl Response {
    /// First value of a field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.message.header(name)
    }

    /// All values of a field.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.message.all(name)
    }

    /// The status line.
    pub fn status_line(&self) -> &str {
        &self.message.start
    }

    /// All fields.
    pub fn headers(&self) -> &[(String, String)] {
        &self.message.headers
    }

    /// The content.
    pub fn body(&self) -> &[u8] {
        &self.message.body
    }

    /// The content as text.
    pub fn text(&self) -> String {
        self.message.text()
    }

    /// The content as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.message.body).unwrap_or_default()
    }

    /// The name of the echoing backend; empty when none answered.
    pub fn backend(&self) -> String {
        self.json()["backend"].as_str().unwrap_or_default().to_owned()
    }

    /// All values of a field as the echoing backend received it.
    pub fn received(&self, name: &str) -> Vec<String> {
        let json = self.json();
        let fields = json["headers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let named =
            fields.iter().filter(|field| field[0].as_str().is_some_and(|n| n.eq_ignore_ascii_case(name)));
        named.filter_map(|field| field[1].as_str()).map(str::to_owned).collect()
    }

    /// The `name=value` of the cookie that is set.
    pub fn cookie(&self) -> Option<String> {
        let field = self.header("set-cookie")?;
        field.split(';').next().map(str::to_owned)
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection that can be used for any number of requests.
pub struct Connection {
    stream: Box<dyn Stream>,
    socket: TcpStream,
    reader: Reader,
    certificate: Option<Vec<u8>>,
    key_exchange: Option<NamedGroup>,
}

impl Connection {
    /// In the clear.
    #[track_caller]
    pub fn plain(address: SocketAddr) -> Self {
        Self::try_plain(address).unwrap()
    }

    /// In the clear, after these bytes.
    #[track_caller]
    pub fn plain_after(address: SocketAddr, preamble: &[u8]) -> Self {
        let mut connection = Self::plain(address);
        connection.send(preamble);
        connection
    }

    /// In the clear; an error when it is refused.
    pub fn try_plain(address: SocketAddr) -> io::Result<Self> {
        let socket = connect(address)?;
        Ok(Self {
            stream: Box::new(socket.try_clone()?),
            socket,
            reader: Reader::new(),
            certificate: None,
            key_exchange: None,
        })
    }

    /// Over TLS with this SNI, HTTP/1.1.
    #[track_caller]
    pub fn tls(address: SocketAddr, sni: &str) -> Self {
        Self::try_tls(address, sni).unwrap()
    }

    /// Over TLS; an error when the handshake fails. An IP address as name sends no SNI.
    pub fn try_tls(address: SocketAddr, sni: &str) -> io::Result<Self> {
        Self::try_tls_after(address, sni, b"")
    }

    /// The same after these bytes in the clear, such as a header of the PROXY protocol.
    pub fn try_tls_after(address: SocketAddr, sni: &str, preamble: &[u8]) -> io::Result<Self> {
        let mut socket = connect(address)?;
        socket.write_all(preamble)?;
        let name = ServerName::try_from(sni.to_owned()).map_err(io::Error::other)?;
        let mut session = ClientConnection::new(trusting(&[b"http/1.1"]), name).map_err(io::Error::other)?;
        let mut copy = socket.try_clone()?;
        while session.is_handshaking() {
            session.complete_io(&mut copy)?;
        }
        let certificate = session.peer_certificates().and_then(|chain| chain.first()).map(|der| der.to_vec());
        let key_exchange = session.negotiated_key_exchange_group().map(|group| group.name());
        let stream = Box::new(StreamOwned::new(session, copy));
        Ok(Self { stream, socket, reader: Reader::new(), certificate, key_exchange })
    }

    /// The certificate that the gateway showed, in DER.
    pub fn certificate(&self) -> &[u8] {
        self.certificate.as_deref().unwrap_or_default()
    }

    /// How the TLS keys were agreed on.
    pub fn key_exchange(&self) -> Option<NamedGroup> {
        self.key_exchange
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).unwrap();
    }

    /// Sends bytes as they are; an error when the other side is gone.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// The next response.
    #[track_caller]
    pub fn response(&mut self) -> Response {
        self.try_response(Side::Response).unwrap().expect("the connection ended without a response")
    }

    /// The next response; `None` when the connection ends instead.
    pub fn try_response(&mut self, side: Side) -> io::Result<Option<Response>> {
        let Some(message) = self.reader.message(&mut *self.stream, side)? else { return Ok(None) };
        let status = message.start.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status =
            status.ok_or_else(|| io::Error::other(format!("no status line: {:?}", message.start)))?;
        Ok(Some(Response { status, message }))
    }

    /// GET, with the connection kept.
    #[track_caller]
    pub fn get(&mut self, host: &str, target: &str) -> Response {
        self.request("GET", host, target, &[], "")
    }

    /// A request with fields and a body.
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

    /// A request; `None` when the connection ends without an answer.
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

    /// Exactly so many bytes, for what comes after an upgrade.
    #[track_caller]
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        self.reader.bytes(&mut *self.stream, count).unwrap()
    }

    /// Everything until the other side ends the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = self.reader.take_rest();
        // A reset is an end too; what came before it counts.
        let _ = self.stream.read_to_end(&mut bytes);
        bytes
    }

    /// Whether the other side ends the connection, without another byte.
    pub fn is_closed(&mut self) -> bool {
        self.rest().is_empty()
    }

    /// Says that no more bytes come.
    pub fn finish_sending(&self) {
        // The other side may have gone first.
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

/// A configuration that takes any certificate: tests compare the certificate itself.
pub fn trusting(protocols: &[&[u8]]) -> Arc<ClientConfig> {
    Arc::new(trust::trusting(rustls::ALL_VERSIONS, protocols))
}
