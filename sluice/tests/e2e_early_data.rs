//! Requests in early data of TLS 1.3 (RFC 8446 §2.3, RFC 8470), and their replay.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection};

use crate::harness::manifest::{self, opaque_secret};
use crate::harness::wire::{Message, Reader, Side};
use crate::harness::{
    Authority, Backend, Connection, Folder, Gateway, Ingress, PATIENCE, Reply, TestCertificate, await_until,
    trust,
};

const HOST: &str = "shop.example";
const ON: (&str, &str) = ("ssl-early-data", "true");
const GET: &str = "GET /early HTTP/1.1\r\nHost: shop.example\r\n\r\n";
const POST: &str = "POST /early HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 2\r\n\r\nhi";

fn site(backend: &Backend, keys: &[(&str, &str)]) -> Folder {
    let folder = Folder::with(manifest::nginx_class() + &manifest::service_with("shop", &[backend]));
    folder.write("server.yaml", TestCertificate::new(&[HOST]).secret("server"));
    folder.write("ingress.yaml", ingress().text());
    let format = ("log-format-upstream", "$request_method $uri $status early=$ssl_early_data");
    folder.write("config.yaml", manifest::config_map("default/config", &[&[format], keys].concat()));
    folder
}

fn ingress() -> Ingress {
    Ingress::new("shop").path(HOST, "/", "shop").tls(&[HOST], "server")
}

fn start(folder: &Folder) -> Gateway {
    Gateway::with(folder, &["--configmap", "default/config"])
}

/// A client of HTTP/1.1 with a session of the gateway.
fn client(gateway: &Gateway) -> Arc<ClientConfig> {
    resumable(gateway, trust::trusting(&[&TLS13], &[b"http/1.1"]), GET.as_bytes())
}

/// Gets a session, which arrives with the response to these bytes.
fn resumable(gateway: &Gateway, mut config: ClientConfig, request: &[u8]) -> Arc<ClientConfig> {
    config.enable_early_data = true;
    let config = Arc::new(config);
    let mut first = FirstFlight::send(gateway.https, &config, &[]);
    first.finish();
    first.write(request);
    assert_ne!(first.read(&mut [0; 4096]).unwrap(), 0);
    config
}

/// A connection whose client has sent its first flight, and nothing else until it
/// [finishes](Self::finish).
struct FirstFlight {
    tls: ClientConnection,
    socket: TcpStream,
    reader: Reader,
}

impl FirstFlight {
    fn send(address: SocketAddr, config: &Arc<ClientConfig>, early: &[u8]) -> Self {
        let (tls, flight) = Self::record(config, early);
        let mut socket = connect(address);
        socket.write_all(&flight).unwrap();
        Self { tls, socket, reader: Reader::new() }
    }

    /// Makes a ClientHello, followed by these bytes as early data.
    fn record(config: &Arc<ClientConfig>, early: &[u8]) -> (ClientConnection, Vec<u8>) {
        let mut tls = ClientConnection::new(config.clone(), HOST.try_into().unwrap()).unwrap();
        let mut flight = Vec::new();
        if let Some(mut writer) = tls.early_data() {
            writer.write_all(early).unwrap();
        }
        while tls.wants_write() {
            tls.write_tls(&mut flight).unwrap();
        }
        (tls, flight)
    }

    fn response(&mut self) -> Message {
        let mut reader = std::mem::take(&mut self.reader);
        let message = reader.message(self, Side::Response).unwrap().unwrap();
        self.reader = reader;
        message
    }

    /// Sends the end of the handshake.
    fn finish(&mut self) {
        while self.tls.is_handshaking() {
            self.receive().unwrap();
        }
        self.flush();
    }

    fn request(&mut self, bytes: &str) -> Message {
        self.write(bytes.as_bytes());
        self.response()
    }

    fn write(&mut self, bytes: &[u8]) {
        // rustls holds 64 KiB.
        for part in bytes.chunks(16 * 1024) {
            self.tls.writer().write_all(part).unwrap();
            self.flush();
        }
    }

    fn flush(&mut self) {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.socket).unwrap();
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        if self.tls.read_tls(&mut self.socket)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.tls.process_new_packets().map_err(io::Error::other)?;
        Ok(())
    }

    /// Whether the gateway accepts early data, which its first flight says.
    fn is_accepted(&mut self) -> bool {
        while self.tls.is_handshaking() {
            self.receive().unwrap();
        }
        self.tls.is_early_data_accepted()
    }
}

/// Reads without sending, so that the gateway does not get the end of the handshake.
impl Read for FirstFlight {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.receive()?,
                read => return read,
            }
        }
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn status(message: &Message) -> &str {
    message.start.split(' ').nth(1).unwrap()
}

#[test]
fn a_safe_request_is_answered_before_the_handshake_ends_and_marked() {
    let backend = Backend::echo("shop");
    let folder = site(&backend, &[ON]);
    let gateway = start(&folder);
    let config = client(&gateway);
    let mut early = FirstFlight::send(gateway.https, &config, GET.as_bytes());
    let response = early.response();
    assert_eq!(status(&response), "200");
    assert!(response.text().to_ascii_lowercase().contains(r#"["early-data","1"]"#), "{}", response.text());
    gateway.await_access("GET /early 200 early=1");
    early.finish();
    let late = early.request(GET);
    assert_eq!(status(&late), "200");
    assert!(!late.text().to_ascii_lowercase().contains("early-data"), "{}", late.text());
    gateway.await_access("GET /early 200 early=-");
}

#[test]
fn early_data_is_followed_by_a_large_request_and_response() {
    let backend = Backend::echo("shop");
    let folder = site(&backend, &[ON]);
    let gateway = start(&folder);
    let config = client(&gateway);
    let mut early = FirstFlight::send(gateway.https, &config, GET.as_bytes());
    assert_eq!(status(&early.response()), "200");
    early.finish();
    let body = "x".repeat(300_000);
    let large =
        format!("POST /large HTTP/1.1\r\nHost: shop.example\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let response = early.request(&large);
    assert_eq!(status(&response), "200");
    assert!(response.text().contains(&body));
}

#[test]
fn a_request_that_is_not_safe_gets_425_until_the_handshake_has_ended() {
    let backend = Backend::echo("shop");
    let folder = site(&backend, &[ON]);
    let gateway = start(&folder);
    let upgrade =
        "GET /early HTTP/1.1\r\nHost: shop.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    for request in [POST, upgrade] {
        let config = client(&gateway);
        let before = backend.requests();
        let mut early = FirstFlight::send(gateway.https, &config, request.as_bytes());
        assert_eq!(status(&early.response()), "425", "{request}");
        assert_eq!(backend.requests(), before, "{request}");
        early.finish();
        assert_eq!(status(&early.request(POST)), "200");
    }
}

#[test]
fn a_425_of_an_endpoint_is_passed_on_and_not_tried_again() {
    let backend = Backend::with("shop", |request| match request.header("early-data") {
        Some("1") => Reply::status(425),
        _ => Reply::Echo,
    });
    let folder =
        site(&backend, &[ON, ("proxy-next-upstream", "error timeout http_500 http_503 non_idempotent")]);
    let gateway = start(&folder);
    let config = client(&gateway);
    let before = backend.requests();
    let mut early = FirstFlight::send(gateway.https, &config, GET.as_bytes());
    assert_eq!(status(&early.response()), "425");
    assert_eq!(backend.requests(), before + 1);
    early.finish();
    assert_eq!(status(&early.request(GET)), "200");
}

#[test]
fn requests_of_http_2_are_served_in_early_data() {
    let backend = Backend::echo("shop");
    let folder = site(&backend, &[ON]);
    let gateway = start(&folder);
    let headers = [&[0x82, 0x87, 0x84, 0x41, 12][..], HOST.as_bytes()].concat();
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    };
    let preface = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat();
    let bytes = [&preface[..], &frame(1, 5, 1, &headers)].concat();
    let config = resumable(&gateway, trust::trusting(&[&TLS13], &[b"h2"]), &preface);
    let mut early = FirstFlight::send(gateway.https, &config, &bytes);
    let mut received = Vec::new();
    while !String::from_utf8_lossy(&received).to_ascii_lowercase().contains(r#"["early-data","1"]"#) {
        let mut part = [0; 4096];
        let read = early.read(&mut part).unwrap();
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&received));
        received.extend_from_slice(&part[..read]);
    }
}

#[test]
fn a_recorded_first_flight_is_served_once() {
    let backend = Backend::echo("shop");
    let folder = site(&backend, &[ON]);
    let gateway = start(&folder);
    let config = client(&gateway);
    let (_, flight) = FirstFlight::record(&config, GET.as_bytes());
    let before = backend.requests();
    let [_first, _replay] = [(), ()].map(|()| {
        let mut socket = connect(gateway.https);
        socket.write_all(&flight).unwrap();
        // The gateway has answered the ClientHello, and with it decided on the early data.
        socket.read_exact(&mut [0; 5]).unwrap();
        socket
    });
    await_until("the first request", || backend.requests() > before);
    // A request that comes later is served.
    assert_eq!(Connection::tls(gateway.https, HOST).get(HOST, "/later").status, 200);
    assert_eq!(backend.requests(), before + 2);
}

#[test]
fn early_data_is_refused_by_default_with_tickets_and_client_certificates() {
    let backend = Backend::echo("shop");
    let off = site(&backend, &[]);
    let tickets = site(&backend, &[ON, ("ssl-session-tickets", "true")]);
    for folder in [&off, &tickets] {
        let gateway = start(folder);
        let config = client(&gateway);
        let mut early = FirstFlight::send(gateway.https, &config, GET.as_bytes());
        assert!(!early.is_accepted());
        early.flush();
        assert_eq!(status(&early.request(POST)), "200", "the connection serves what follows");
    }
    let authority = Authority::new();
    let folder = site(&backend, &[ON]);
    folder.write("clients.yaml", opaque_secret("clients", &[("ca.crt", &*authority.pem())]));
    folder.write("ingress.yaml", ingress().annotation("auth-tls-secret", "default/clients").text());
    let gateway = start(&folder);
    let own = authority.issue_client("client", 7).presenting(&[], &[b"http/1.1"]);
    let config = resumable(&gateway, ClientConfig::clone(&own), GET.as_bytes());
    let mut early = FirstFlight::send(gateway.https, &config, GET.as_bytes());
    assert!(!early.is_accepted());
    early.flush();
    assert_eq!(status(&early.request(GET)), "200");
}

#[test]
fn a_client_that_offers_early_data_and_sends_none_is_served() {
    let backend = Backend::echo("shop");
    let folder = site(&backend, &[ON]);
    let gateway = start(&folder);
    let config = client(&gateway);
    for _ in 0..3 {
        let mut connection = Connection::tls_with(gateway.https, HOST, &config);
        assert_eq!(connection.request("POST", HOST, "/", &[], "hello").status, 200);
    }
}
