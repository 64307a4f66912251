//! From the pipeline's choice of an endpoint to Pingora's peer.

use std::sync::Arc;
use std::time::Duration;

use pingora_core::upstreams::peer::{HttpPeer, HttpUpstreamRequestPolicy};

use super::connector::{Connector, counted};
use super::epoch::Reuse;
use crate::pipeline::Upstream;

/// Requests at a time on one connection of HTTP/2, as far as the endpoint takes them.
const STREAMS: usize = 100;
/// Bytes of a response of HTTP/2 that may wait for the client. Pingora passes no response on while an endpoint does not
/// take a request body: what fits in here is what an endpoint may say before it reads on.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// The same for all responses of a connection.
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;
/// How long a connection of HTTP/2 stays that gets no more requests.
const LEFT_BEHIND: Duration = Duration::from_secs(1);

/// The peer for one attempt. From an address, never from a name: Pingora would resolve it, blocking.
pub(super) fn peer(upstream: &Upstream, reuse: Reuse, connector: Arc<Connector>) -> HttpPeer {
    // The connector speaks TLS as the rule wants it, which Pingora cannot.
    let mut peer = match upstream.tls.is_none() && upstream.protocol.has_tls() {
        false => HttpPeer::new(upstream.address, false, String::new()),
        true => {
            // An address is never sent as SNI (RFC 6066 §3), as with ingress-nginx. Not an empty name: Pingora
            // takes that for a wish not to verify, and this must be said where it is meant.
            let mut peer = HttpPeer::new(upstream.address, true, upstream.address.ip().to_string());
            peer.options.verify_cert = false;
            peer.options.verify_hostname = false;
            peer
        }
    };
    peer.group_key = reuse.group;
    let options = &mut peer.options;
    options.custom_l4 = Some(connector);
    options.tracer = Some(counted());
    options.connection_timeout = upstream.connect_timeout;
    options.total_connection_timeout = upstream.connect_timeout;
    options.read_timeout = upstream.read_timeout;
    if upstream.protocol.is_http2() {
        options.set_http_version(2, 2);
        options.max_h2_streams = STREAMS;
        options.h2_stream_window_size = Some(STREAM_WINDOW);
        options.h2_connection_window_size = Some(CONNECTION_WINDOW);
        // Pingora would count from the head on, while the request body still moves: `session` does it.
        options.read_timeout = None;
    }
    options.write_timeout = upstream.send_timeout;
    options.idle_timeout = match reuse.keep {
        true => Some(upstream.keep_alive.idle),
        // Other streams may be on it. When the last of them has ended, nobody comes for it any more.
        false if upstream.protocol.is_http2() => Some(LEFT_BEHIND),
        false => None,
    };
    // The pipeline takes connection fields out itself, and lets other upgrades than WebSocket pass.
    options.http_upstream_request_policy = HttpUpstreamRequestPolicy::preserve();
    peer
}
