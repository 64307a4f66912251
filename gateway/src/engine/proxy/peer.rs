//! Converts the pipeline's choice of an endpoint to Pingora's peer.

use std::sync::Arc;
use std::time::Duration;

use pingora_core::upstreams::peer::{HttpPeer, HttpUpstreamRequestPolicy};

use super::connector::{Connector, counted};
use super::epoch::Reuse;
use crate::pipeline::Upstream;

/// Maximum of concurrent requests on an HTTP/2 connection, within the endpoint's own limit.
const STREAMS: usize = 100;
/// Maximum bytes of an HTTP/2 response that wait for the client. Pingora relays no response while
/// an endpoint does not accept the request body, so an endpoint may respond this much before it
/// reads on.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// Maximum bytes of all responses of a connection that wait.
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;
/// How long an HTTP/2 connection stays open after its last request.
const LEFT_BEHIND: Duration = Duration::from_secs(1);

/// Returns the peer for one attempt. Made from an address and never from a name, which Pingora
/// would resolve with a blocking call.
pub(super) fn peer(upstream: &Upstream, reuse: Reuse, connector: Arc<Connector>) -> HttpPeer {
    // The connector handles TLS with the route's settings, which Pingora does not support.
    let mut peer = match upstream.tls.is_none() && upstream.protocol.has_tls() {
        false => HttpPeer::new(upstream.address, false, String::new()),
        true => {
            // An address is never sent as SNI (RFC 6066 §3), as in ingress-nginx. Not an empty
            // name: Pingora would skip verification, which must be an explicit setting.
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
    if upstream.protocol.is_http2() {
        options.set_http_version(2, 2);
        options.max_h2_streams = STREAMS;
        options.h2_stream_window_size = Some(STREAM_WINDOW);
        options.h2_connection_window_size = Some(CONNECTION_WINDOW);
    }
    options.write_timeout = upstream.send_timeout;
    options.idle_timeout = match reuse.keep {
        true => Some(upstream.keep_alive.idle),
        // The connection may have other streams. After the last one it is not reused.
        false if upstream.protocol.is_http2() => Some(LEFT_BEHIND),
        false => None,
    };
    // The pipeline removes connection-specific fields, and allows upgrades other than WebSocket.
    options.http_upstream_request_policy = HttpUpstreamRequestPolicy::preserve();
    peer
}
