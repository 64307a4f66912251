//! From the pipeline's choice of an endpoint to Pingora's peer.

use std::sync::Arc;

use pingora_core::upstreams::peer::{HttpPeer, HttpUpstreamRequestPolicy};
use sluice_config::UpstreamProtocol;

use super::epoch::Reuse;
use super::l4::{Connector, counted};
use crate::pipeline::Upstream;

/// The peer for one try. From an address, never from a name: Pingora would resolve it, blocking.
pub(super) fn peer(upstream: &Upstream, reuse: Reuse, connector: Arc<Connector>) -> HttpPeer {
    let mut peer = match upstream.protocol {
        UpstreamProtocol::Http => HttpPeer::new(upstream.address, false, String::new()),
        UpstreamProtocol::HttpsUnverified => {
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
    options.write_timeout = upstream.send_timeout;
    options.idle_timeout = reuse.keep.then_some(upstream.keep_alive.idle);
    // The pipeline takes connection fields out itself, and lets other upgrades than WebSocket pass.
    options.http_upstream_request_policy = HttpUpstreamRequestPolicy::preserve();
    peer
}
