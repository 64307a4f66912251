//! Where connections come in.
//!
//! [`Listeners`] bind the sockets; every worker accepts from all of them (`accept`), and what it accepts begins in an
//! order that holds beyond its capacity too (`arrivals`). A connection does its TLS handshake (`handshake`), shows
//! which protocol it speaks, and is served by the loop of that protocol (`downstream`) until it
//! ends.

pub(crate) mod accept;
mod arrivals;
mod bind;
mod handshake;
mod listeners;

use std::net::SocketAddr;
use std::sync::Arc;

use sluice_config::BindProtocol;
use tokio::net::TcpStream;

pub use listeners::Listeners;
pub(crate) use listeners::{ListenerSet, Listening, SocketKey};

use crate::connection_info::{ConnectionInfo, Texts};
use crate::downstream::http1::Http1;
use crate::downstream::http2::Http2;
use crate::io::transport::Transport;
use crate::io::wire::Wire;
use crate::worker::Worker;
use listeners::Entry;

/// Serves one connection until it ends.
async fn serve(stream: TcpStream, peer: SocketAddr, entry: Entry, port: u16, worker: &Arc<Worker>) {
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
    let info = Arc::new(ConnectionInfo { peer, group, declared_port, port, protocol, tls, texts });
    let wire = Wire::new(transport);
    match http2 {
        true => Box::pin(Http2::new(worker.clone(), info).serve(wire)).await,
        // Without TLS its first bytes may say that it is HTTP/2 all the same.
        false => Http1::new(worker.clone(), info).serve(wire).await,
    }
}
