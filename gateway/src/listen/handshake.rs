//! The TLS handshake, with one deadline: chooses the certificate by the requested server name.
//! Connections for hosts with TLS passthrough, and those without TLS, leave with all bytes that
//! were read.

use std::io;
use std::sync::Arc;

use rustls::server::Acceptor;
use rustls::{HandshakeKind, ServerConnection};
use sluice_config::{ClientVerification, GroupId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

use super::client_hello::{ClientHello, HelloFacts, HelloReader};
use super::plain_http::{FirstBytes, is_plain_http};
use crate::connection::info::TlsInfo;
use crate::io::budget::Reservation;
use crate::io::early_tls::EarlyTls;
use crate::io::transport::Transport;
use crate::state::snapshot::PublishedSnapshot;
use crate::stream_table::StreamRoute;
use crate::tls::{ClientTls, HandshakeConfig};
use crate::worker::Worker;

/// A handshake that has ended, or has accepted early data.
pub(super) struct Secured {
    pub(super) transport: Transport,
    pub(super) info: TlsInfo,
    /// ALPN chose HTTP/2.
    pub(super) http2: bool,
}

/// The outcome of a handshake.
pub(super) enum Negotiated {
    /// TLS ends here.
    Secured(Secured),
    /// TLS is passed through to an endpoint.
    Passed {
        stream: TcpStream,
        /// The bytes that were read.
        hello: Vec<u8>,
        server_name: String,
        route: Arc<StreamRoute>,
    },
    /// The client sends HTTP without TLS.
    Plain {
        stream: TcpStream,
        /// The bytes that were read.
        received: Vec<u8>,
    },
}

/// Runs the handshake within the time limit of a request head.
pub(super) async fn secure(stream: TcpStream, group: &GroupId, worker: &Worker) -> io::Result<Negotiated> {
    let time_limit = worker.state.settings().client_header_timeout;
    timeout(time_limit, negotiate(stream, group, worker)).await?
}

async fn negotiate(mut stream: TcpStream, group: &GroupId, worker: &Worker) -> io::Result<Negotiated> {
    let reads_hello = {
        let snapshot = PublishedSnapshot::take(&worker.state);
        snapshot.streams.passes_any() || snapshot.compiled_settings.settings.tls.early_data
    };
    if !reads_hello {
        let mut acceptor = LazyConfigAcceptor::new(Acceptor::default(), FirstBytes::new(stream));
        let start = match (&mut acceptor).await {
            Ok(StartHandshake { accepted, io, .. }) => {
                StartHandshake::from_parts(accepted, io.into_parts().0)
            }
            Err(error) => {
                return match acceptor.take_io().map(FirstBytes::into_parts) {
                    Some((stream, received)) if !received.is_empty() => {
                        Ok(Negotiated::Plain { stream, received })
                    }
                    _ => Err(error),
                };
            }
        };
        return handshake(start, false, group, worker).await.map(Negotiated::Secured);
    }
    let (hello, facts) = read_hello(&mut stream).await?;
    if is_plain_http(&hello) {
        return Ok(Negotiated::Plain { stream, received: hello });
    }
    if let Some(server_name) = facts.server_name {
        let snapshot = PublishedSnapshot::take(&worker.state);
        let route = snapshot.streams.passthrough(&snapshot.routes, group, &server_name).cloned();
        if let Some(route) = route {
            return Ok(Negotiated::Passed { stream, hello, server_name, route });
        }
    }
    let start = replay(stream, &hello).await?;
    drop(hello);
    handshake(start, facts.offers_early_data, group, worker).await.map(Negotiated::Secured)
}

/// Reads to the end of the ClientHello, or up to the first byte that cannot belong to one. Returns
/// the bytes and what they say.
async fn read_hello(stream: &mut TcpStream) -> io::Result<(Vec<u8>, HelloFacts)> {
    let mut reader = HelloReader::default();
    // Counts in the memory budget while the bytes are held.
    let mut share = Reservation::of_flow();
    let mut part = [0; 1024];
    loop {
        let wanted = reader.missing().min(part.len());
        let read = stream.read(&mut part[..wanted]).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let hello = reader.push(&part[..read]);
        share.hold(reader.size());
        match hello {
            ClientHello::Incomplete => {}
            ClientHello::Complete(facts) => return Ok((reader.into_bytes(), facts)),
            ClientHello::Other => return Ok((reader.into_bytes(), HelloFacts::default())),
        }
    }
}

/// Begins the handshake with bytes that were read before.
async fn replay(mut stream: TcpStream, mut hello: &[u8]) -> io::Result<StartHandshake<TcpStream>> {
    let mut acceptor = Acceptor::default();
    while !hello.is_empty() {
        acceptor.read_tls(&mut hello)?;
        match acceptor.accept() {
            Ok(None) => {}
            // Data behind the ClientHello within its record is malformed.
            Ok(Some(_)) if !hello.is_empty() => break,
            Ok(Some(accepted)) => return Ok(StartHandshake::from_parts(accepted, stream)),
            Err((error, mut alert)) => {
                let mut bytes = Vec::new();
                alert.write_all(&mut bytes)?;
                // The client may have left.
                let _ = stream.write_all(&bytes).await;
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

async fn handshake(
    start: StartHandshake<TcpStream>,
    offers_early_data: bool,
    group: &GroupId,
    worker: &Worker,
) -> io::Result<Secured> {
    let server_name = start.client_hello().server_name().map(canonical);
    let Some(config) = choose(group, server_name.as_deref(), worker) else {
        return Err(refuse(start.io).await);
    };
    let HandshakeConfig { config, verification } = config;
    let (transport, info) = if offers_early_data && config.max_early_data_size > 0 {
        let stream = EarlyTls::accept(start.accepted, start.io, config).await?;
        let info = tls_info(stream.connection(), server_name, verification);
        let info = TlsInfo { progress: Some(stream.progress()), ..info };
        (Transport::Early(Box::new(stream)), info)
    } else {
        let stream = start.into_stream(config).await?;
        let info = tls_info(stream.get_ref().1, server_name, verification);
        (Transport::Tls(Box::new(stream.into())), info)
    };
    let http2 = info.alpn == "h2";
    Ok(Secured { transport, info, http2 })
}

fn tls_info(
    connection: &ServerConnection,
    server_name: Option<Arc<str>>,
    verification: Option<Arc<ClientVerification>>,
) -> TlsInfo {
    let alpn = match connection.alpn_protocol() {
        Some(b"h2") => "h2",
        Some(b"http/1.1") => "http/1.1",
        _ => "",
    };
    let client = verification
        .map(|verification| Box::new(ClientTls::new(verification, connection.peer_certificates())));
    TlsInfo {
        server_name,
        version: version(connection),
        cipher: cipher(connection),
        alpn,
        resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        client,
        progress: None,
    }
}

/// What the handshake is made with; `None` if it is refused.
fn choose(group: &GroupId, name: Option<&str>, worker: &Worker) -> Option<HandshakeConfig> {
    let snapshot = PublishedSnapshot::take(&worker.state);
    let is_refused = snapshot.compiled_settings.settings.tls.rejects_unknown_names
        && !name.is_some_and(|name| snapshot.routes.names_host(group, name));
    if is_refused { None } else { worker.certificates.config(group, name) }
}

/// Ends a handshake with the alert for a name that is not served (RFC 6066 §3), as nginx does.
async fn refuse(mut stream: TcpStream) -> io::Error {
    /// A record of TLS 1.2 with a fatal alert, `unrecognized_name` (RFC 8446 §5.1, §6).
    const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];
    match stream.write_all(&ALERT).await {
        Ok(()) => io::Error::other("no host has the name that the client asks for"),
        Err(error) => error,
    }
}

/// As host names are compared: in lower case, without a final dot.
fn canonical(name: &str) -> Arc<str> {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase().into()
}

fn version(connection: &ServerConnection) -> &'static str {
    match connection.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
        _ => "TLSv1.2",
    }
}

/// Returns OpenSSL's name of the cipher suite, as in nginx's logs.
fn cipher(connection: &ServerConnection) -> &'static str {
    use rustls::CipherSuite as Suite;
    let Some(suite) = connection.negotiated_cipher_suite() else { return "" };
    match suite.suite() {
        Suite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        Suite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        Suite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        Suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        Suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        Suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
        Suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        Suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        Suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        other => other.as_str().unwrap_or_default(),
    }
}
