//! Accepts connections.
//!
//! [`Listeners`] bind the sockets. One worker accepts from each (`accept`), in an order that also
//! suits overload (`arrivals`), and assigns each connection to a worker (`assignment`). The worker
//! reads the PROXY protocol header, if one is expected (`proxy_protocol`), and performs the TLS
//! handshake (`handshake`) unless the server name is passed through (`client_hello`) or the client
//! sends HTTP without TLS, which is refused with a response (`plain_http`). The loop of the
//! protocol (`downstream`, `stream`) then serves the connection until it ends.

pub(crate) mod accept;
mod arrivals;
pub(crate) mod assignment;
mod bind;
mod client_hello;
mod handshake;
mod listeners;
mod plain_http;
mod proxy_header;
mod proxy_protocol;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

use sluice_config::{BindProtocol, GroupId};

pub(crate) use bind::ListenSocket;
pub use listeners::Listeners;
pub(crate) use listeners::{ListenerSet, ListenerSocket, SocketKey};

use crate::connection::idle::IdleSlot;
use crate::connection::info::{ConnectionInfo, Texts};
use crate::downstream::http1::Http1;
use crate::downstream::http2::Http2;
use crate::io::transport::Transport;
use crate::io::wire::Wire;
use crate::state::snapshot::PublishedSnapshot;
use crate::stream::{AcceptedConnection, StreamConnection};
use crate::worker::Worker;
use handshake::Negotiated;
use listeners::ListenerTarget;

#[cfg(any(test, feature = "fuzzing"))]
pub use client_hello::trial as try_client_hello;
#[cfg(any(test, feature = "fuzzing"))]
pub use proxy_header::trial as try_proxy_header;

/// A connection whose protocol is known.
enum Opened {
    /// HTTP, ready for the first request.
    Http(HttpConnection),
    /// A stream that is forwarded unread.
    Stream(Box<StreamConnection>),
}

/// A connection that is ready for its first request.
struct HttpConnection {
    wire: Box<Wire>,
    worker: Arc<Worker>,
    info: Arc<ConnectionInfo>,
    /// ALPN chose HTTP/2.
    http2: bool,
}

/// Serves one connection until it ends.
async fn serve(opening: Pin<Box<impl Future<Output = Option<Opened>>>>, idle: &IdleSlot) {
    let HttpConnection { wire, worker, info, http2 } = match idle.unless_chosen(opening).await.flatten() {
        None => return,
        Some(Opened::Http(connection)) => connection,
        Some(Opened::Stream(stream)) => {
            // Bytes may arrive at any time: a stream is never idle like a connection between two
            // requests.
            idle.end();
            return Box::pin(stream.serve()).await;
        }
    };
    match http2 {
        true => Box::pin(Http2::new(worker, info).serve(wire, idle)).await,
        // Without TLS, the first bytes may still start HTTP/2.
        false => Http1::new(worker, info, idle).serve(wire).await,
    }
}

/// Opens a connection of a TCP service. `None` if it was refused.
async fn open_stream(
    accepted: AcceptedConnection,
    group: &GroupId,
    worker: Arc<Worker>,
) -> Option<Box<StreamConnection>> {
    let snapshot = PublishedSnapshot::take(&worker.state);
    let route = snapshot.streams.service(group)?.clone();
    let compiled_settings = snapshot.compiled_settings.clone();
    drop(snapshot);
    let accepts_proxy = route.accepts_proxy.clone();
    let mut stream = Box::new(StreamConnection::new(accepted, route, worker.clone()));
    if let Some(entry) = accepts_proxy {
        let time_limit = compiled_settings.settings.forwarded.proxy_protocol_timeout;
        let (client, peer) = stream.client();
        let rules = &compiled_settings.forwarded;
        let received = proxy_protocol::receive(client, peer, rules, time_limit, Some(&entry), &worker);
        match Box::pin(received).await {
            Ok(proxied) => stream.set_proxied(proxied),
            Err(()) => {
                stream.refuse();
                return None;
            }
        }
    }
    Some(stream)
}

/// Opens a connection. `None` if it was refused or the handshake failed.
async fn open(
    accepted: AcceptedConnection,
    entry: ListenerTarget,
    port: u16,
    worker: Arc<Worker>,
) -> Option<Opened> {
    if entry.protocol.is_raw() {
        return open_stream(accepted, &entry.group, worker).await.map(Opened::Stream);
    }
    let AcceptedConnection { mut stream, peer, number, opened } = accepted;
    let compiled_settings = PublishedSnapshot::take(&worker.state).compiled_settings.clone();
    let settings = &compiled_settings.settings.forwarded;
    let mut proxied = None;
    if settings.proxy_protocol {
        let (rules, time_limit) = (&compiled_settings.forwarded, settings.proxy_protocol_timeout);
        // In a box, because few gateways have it.
        proxied = Box::pin(proxy_protocol::receive(&mut stream, peer, rules, time_limit, None, &worker))
            .await
            .ok()?;
    }
    drop(compiled_settings);
    let mut received = Vec::new();
    let (transport, tls, http2) = match entry.protocol {
        BindProtocol::Https => {
            // In a box, because the future of a handshake is large and lives short.
            match Box::pin(handshake::secure(stream, &entry.group, &worker)).await {
                Ok(Negotiated::Secured(secured)) => {
                    (secured.transport, Some(Box::new(secured.info)), secured.http2)
                }
                Ok(Negotiated::Plain { stream, received: request }) => {
                    worker.state.telemetry.handshake_failed();
                    received = request;
                    (Transport::Plain(stream), None, false)
                }
                Ok(Negotiated::Passed { stream, hello, server_name, route }) => {
                    let accepted = AcceptedConnection { stream, peer, number, opened };
                    let mut stream = Box::new(StreamConnection::new(accepted, route, worker));
                    stream.set_proxied(proxied);
                    stream.set_client_hello(hello, &server_name);
                    return Some(Opened::Stream(stream));
                }
                Err(error) => {
                    tracing::debug!(client = %peer, %error, "TLS handshake failed");
                    worker.state.telemetry.handshake_failed();
                    return None;
                }
            }
        }
        BindProtocol::Http | BindProtocol::Tcp | BindProtocol::Udp => (Transport::Plain(stream), None, false),
    };
    let ListenerTarget { group, declared_port, protocol } = entry;
    let connected_to = match &proxied {
        // Clients know our own port by another number.
        Some(proxied) if proxied.destination.port() != port => proxied.destination.port(),
        _ => declared_port,
    };
    let nearest = proxied.as_ref().map_or(peer, |proxied| proxied.source).ip();
    let texts = Texts::new(nearest, connected_to);
    let info = Arc::new(ConnectionInfo {
        peer,
        proxied,
        group,
        declared_port,
        port,
        protocol,
        tls,
        texts,
        number,
        opened,
        requests: AtomicU32::new(0),
        retired: AtomicBool::new(false),
    });
    let mut wire = Wire::new(transport);
    wire.ahead.extend_from_slice(&received);
    Some(Opened::Http(HttpConnection { wire, worker, info, http2 }))
}
