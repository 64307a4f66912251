//! The TLS handshake: the certificate by the name that the client asks for, under one deadline.

use std::io;
use std::sync::Arc;

use rustls::ServerConnection;
use rustls::server::Acceptor;
use sluice_config::GroupId;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::TlsStream;

use crate::connection::info::TlsInfo;
use crate::worker::Worker;

/// What came of it.
pub(super) struct Secured {
    pub(super) stream: Box<TlsStream<TcpStream>>,
    pub(super) info: TlsInfo,
    /// ALPN chose HTTP/2.
    pub(super) http2: bool,
}

/// Does it within the time that a request head may take.
pub(super) async fn secure(stream: TcpStream, group: &GroupId, worker: &Worker) -> io::Result<Secured> {
    let patience = worker.state.settings().client_header_timeout;
    timeout(patience, handshake(stream, group, worker)).await?
}

async fn handshake(stream: TcpStream, group: &GroupId, worker: &Worker) -> io::Result<Secured> {
    let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let server_name = start.client_hello().server_name().map(canonical);
    let config = worker.certificates.config(group, server_name.as_deref());
    let stream = start.into_stream(config).await?;
    let (_, connection) = stream.get_ref();
    let alpn = match connection.alpn_protocol() {
        Some(b"h2") => "h2",
        Some(b"http/1.1") => "http/1.1",
        _ => "",
    };
    let info = TlsInfo { server_name, version: version(connection), cipher: cipher(connection), alpn };
    let http2 = alpn == "h2";
    Ok(Secured { stream: Box::new(stream.into()), info, http2 })
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

/// OpenSSL's name of the cipher suite, which is what logs of nginx have.
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
