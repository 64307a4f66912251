//! The life of a client connection.
//!
//! [`Listeners`] bind the sockets; every worker accepts from all of them (`accept`), and what it accepts begins in an
//! order that holds beyond its capacity too (`arrivals`). A connection does its TLS handshake (`handshake`), shows
//! which protocol it speaks, and is served by the loop of that protocol (`http1`, `http2`) until it ends. Whoever
//! reads from a connection goes through a `wire`, which keeps what was read ahead; Pingora gets a `lease` on it for
//! one request.

pub(crate) mod accept;
pub(crate) mod answer;
mod arrivals;
mod bind;
mod handshake;
mod http1;
pub(crate) mod http2;
mod lease;
pub(crate) mod link;
mod listeners;
pub(crate) mod refusal;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sluice_config::BindProtocol;
use tokio::net::TcpStream;

pub use listeners::Listeners;
pub(crate) use listeners::{ListenerSet, Listening, SocketKey};

use crate::connection_info::{ConnectionInfo, Texts};
use crate::io::transport::Transport;
use crate::io::wire::Wire;
use crate::worker::Worker;
use http1::Http1;
use http2::Http2;
use listeners::Entry;

/// Bytes of a request body that are read and dropped, so that the connection can go on after an answer that
/// came before the body's end.
pub(crate) const MAX_DRAIN: u64 = 64 * 1024;

/// How long a client may go on sending after it has been answered for the last time.
pub(crate) const LINGER: Duration = Duration::from_secs(5);
/// The same as [`MAX_DRAIN`] for a stream of HTTP/2, which holds up no other request meanwhile.
pub(crate) const MAX_SETTLED: u64 = 1024 * 1024;

/// Serves one connection until it ends.
async fn serve(stream: TcpStream, peer: SocketAddr, entry: Entry, worker: &Arc<Worker>) {
    let (transport, tls, http2) = match entry.protocol {
        BindProtocol::Http => (Transport::Plain(stream), None, false),
        // In a box, because the future of a handshake is large and lives short.
        BindProtocol::Https => match Box::pin(handshake::secure(stream, &entry.group, worker)).await {
            Ok(secured) => (Transport::Tls(secured.stream), Some(secured.info), secured.http2),
            Err(error) => {
                tracing::debug!(client = %peer, %error, "TLS handshake failed");
                worker.state.telemetry.handshake_failed();
                return;
            }
        },
    };
    let Entry { group, declared_port, protocol } = entry;
    let texts = Texts::new(peer, declared_port);
    let info = Arc::new(ConnectionInfo { peer, group, declared_port, protocol, tls, texts });
    let wire = Wire::new(transport);
    match http2 {
        true => Box::pin(Http2::new(worker.clone(), worker.engine(), info).serve(wire)).await,
        // Without TLS its first bytes may say that it is HTTP/2 all the same.
        false => Http1::new(worker.clone(), info).serve(wire).await,
    }
}
