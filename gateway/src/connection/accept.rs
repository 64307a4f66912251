//! From an accepted socket to the protocol spoken on it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http::StatusCode;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_http::ResponseHeader;
use rustls::ProtocolVersion;
use rustls::server::Acceptor;
use sluice_config::BindProtocol;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::bind::BoundSocket;
use super::head::Limits;
use super::io::{ClientIo, Transport};
use super::{ConnectionInfo, TlsInfo, http1, http2, refusal};
use crate::worker::Worker;

/// First octet of a TLS handshake record (RFC 8446 §5.1).
const HANDSHAKE: u8 = 0x16;

/// Serves one connection from its first octet to its end.
pub(crate) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    socket: Arc<BoundSocket>,
    worker: Arc<Worker>,
) {
    // The kernel has it no longer, or never knew the option: the connection works without.
    let _ = stream.set_nodelay(true);
    let Ok(local) = stream.local_addr() else { return };
    let info = ConnectionInfo {
        peer,
        local,
        group: socket.group.clone(),
        declared_port: socket.declared_port,
        protocol: socket.protocol,
        tls: None,
    };
    drop(socket);
    match info.protocol {
        BindProtocol::Http => {
            let io = ClientIo::new(Transport::Plain(stream), digest(info));
            http1::serve(Box::new(io), worker).await;
        }
        BindProtocol::Https => match Box::pin(secure(stream, info, &worker)).await {
            Some((io, true)) => Box::pin(http2::serve(io, &worker)).await,
            Some((io, false)) => http1::serve(io, worker).await,
            None => {}
        },
    }
}

/// The handshake, under the deadline of a request head. Says whether HTTP/2 was chosen.
async fn secure(
    stream: TcpStream,
    mut info: ConnectionInfo,
    worker: &Worker,
) -> Option<(Box<ClientIo>, bool)> {
    let until = Instant::now() + worker.state.tuning.load().client_header_timeout;
    let mut first = [0];
    let peeked = timeout_at(until, stream.peek(&mut first)).await;
    match peeked {
        Ok(Ok(1)) if first[0] == HANDSHAKE => {}
        Ok(Ok(1)) => {
            refuse_plain(stream, info, worker, until).await;
            return None;
        }
        _ => return None,
    }
    match timeout_at(until, handshake(stream, worker)).await {
        Ok(Ok(stream)) => {
            let (tls, http2) = facts(&stream);
            info.tls = Some(tls);
            let io = ClientIo::new(Transport::Tls(Box::new(stream)), digest(info));
            Some((Box::new(io), http2))
        }
        _ => {
            worker.state.telemetry.handshake_failed();
            None
        }
    }
}

async fn handshake(stream: TcpStream, worker: &Worker) -> io::Result<TlsStream<TcpStream>> {
    let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let config = worker.certificates.config_for(start.client_hello().server_name());
    start.into_stream(config).await
}

/// Plain HTTP on the TLS port, as nginx answers it: with 400, not with silence.
async fn refuse_plain(stream: TcpStream, info: ConnectionInfo, worker: &Worker, until: Instant) {
    let tuning = worker.state.tuning.load_full();
    let limits = Limits { line: tuning.max_request_line, head: tuning.max_request_head };
    let mut io = Box::new(ClientIo::new(Transport::Plain(stream), digest(info)));
    if http1::read_head_refusing(&mut io, limits, until).await {
        refusal::refuse(io, worker, StatusCode::BAD_REQUEST).await;
    }
}

fn facts(stream: &TlsStream<TcpStream>) -> (TlsInfo, bool) {
    let (_, session) = stream.get_ref();
    let tls = TlsInfo {
        server_name: session.server_name().map(|name| name.to_ascii_lowercase().into()),
        version: match session.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        },
        cipher: session
            .negotiated_cipher_suite()
            .and_then(|suite| suite.suite().as_str())
            .unwrap_or("unknown"),
    };
    (tls, session.alpn_protocol() == Some(b"h2"))
}

/// The facts in the shape that reaches a driver's session.
fn digest(info: ConnectionInfo) -> Arc<ProxyDigest> {
    // 200 is a status, so the head can be built; nobody looks at it.
    let head = ResponseHeader::build(StatusCode::OK, None).map(Box::new);
    let head = head.unwrap_or_else(|_| Box::new(http::Response::new(()).into_parts().0.into()));
    Arc::new(ProxyDigest::new(head, Some(Box::new(Arc::new(info)))))
}
