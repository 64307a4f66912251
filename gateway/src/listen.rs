//! Where connections come in.
//!
//! [`Listeners`] bind the sockets; every worker accepts from all of them (`accept`), and what it accepts begins in an
//! order that holds beyond its capacity too (`arrivals`). A connection says for whom it is, where a proxy in front has taken it
//! (`proxy_protocol`), does its TLS handshake (`handshake`), shows
//! which protocol it speaks, and is served by the loop of that protocol (`downstream`) until it
//! ends.

pub(crate) mod accept;
mod arrivals;
mod bind;
mod handshake;
mod listeners;
mod proxy_header;
mod proxy_protocol;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use sluice_config::BindProtocol;
use tokio::net::TcpStream;

pub use listeners::Listeners;
pub(crate) use listeners::{ListenerSet, Listening, SocketKey};

use crate::connection::idle::IdleSlot;
use crate::connection::info::{ConnectionInfo, Texts};
use crate::downstream::http1::Http1;
use crate::downstream::http2::Http2;
use crate::io::transport::Transport;
use crate::io::wire::Wire;
use crate::state::snapshot::Snapshot;
use crate::worker::Worker;
use listeners::ListenerTarget;

#[cfg(any(test, feature = "fuzzing"))]
pub use proxy_header::trial as try_proxy_header;

/// A connection that has begun.
struct AcceptedStream {
    stream: TcpStream,
    peer: SocketAddr,
    /// Tells it from others in the log.
    number: u64,
    opened: Instant,
}

/// A connection that is ready for its first request.
struct Opened {
    wire: Box<Wire>,
    worker: Arc<Worker>,
    info: Arc<ConnectionInfo>,
    /// ALPN chose HTTP/2.
    http2: bool,
}

/// Serves one connection until it ends.
async fn serve(opening: Pin<Box<impl Future<Output = Option<Opened>>>>, idle: &IdleSlot) {
    let Some(Opened { wire, worker, info, http2 }) = idle.unless_chosen(opening).await.flatten() else {
        return;
    };
    match http2 {
        true => Box::pin(Http2::new(worker, info).serve(wire, idle)).await,
        // Without TLS its first bytes may say that it is HTTP/2 all the same.
        false => Http1::new(worker, info, idle).serve(wire).await,
    }
}

/// Makes a connection ready for its first request. `None` where nothing comes of it.
async fn open(
    accepted: AcceptedStream,
    entry: ListenerTarget,
    port: u16,
    worker: Arc<Worker>,
) -> Option<Opened> {
    let AcceptedStream { mut stream, peer, number, opened } = accepted;
    let compiled_settings = Snapshot::take(&worker.state).compiled_settings.clone();
    let settings = &compiled_settings.settings.forwarded;
    let mut proxied = None;
    if settings.proxy_protocol {
        let (rules, patience) = (&compiled_settings.forwarded, settings.proxy_protocol_timeout);
        // In a box, because few gateways have it.
        proxied =
            Box::pin(proxy_protocol::receive(&mut stream, peer, rules, patience, &worker)).await.ok()?;
    }
    drop(compiled_settings);
    let (transport, tls, http2) = match entry.protocol {
        BindProtocol::Http => (Transport::Plain(stream), None, false),
        // In a box, because the future of a handshake is large and lives short.
        BindProtocol::Https => match Box::pin(handshake::secure(stream, &entry.group, &worker)).await {
            Ok(secured) => (Transport::Tls(secured.stream), Some(secured.info), secured.http2),
            Err(error) => {
                tracing::debug!(client = %peer, %error, "TLS handshake failed");
                worker.state.telemetry.handshake_failed();
                return None;
            }
        },
    };
    let ListenerTarget { group, declared_port, protocol } = entry;
    let connected_to = match &proxied {
        // Clients know our own port by another number.
        Some(proxied) if proxied.destination.port() != port => proxied.destination.port(),
        _ => declared_port,
    };
    let nearest = proxied.as_ref().map_or(peer, |proxied| proxied.source).ip();
    let texts = Texts::new(nearest, connected_to);
    let requests = AtomicU32::new(0);
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
        requests,
    });
    Some(Opened { wire: Wire::new(transport), worker, info, http2 })
}
