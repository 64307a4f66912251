//! An endpoint as Pingora connects to it.

use std::time::Duration;

use pingora_core::protocols::ALPN;
use pingora_core::upstreams::peer::{HttpPeer, HttpUpstreamRequestPolicy};
use sluice_config::UpstreamProtocol;

use crate::pipeline::Upstream;

/// The peer for one try.
pub(super) fn peer(upstream: &Upstream) -> Box<HttpPeer> {
    let tls = match upstream.protocol {
        UpstreamProtocol::Http => false,
        UpstreamProtocol::HttpsUnverified => true,
    };
    // An address is never sent as SNI (RFC 6066 §3), and ingress-nginx sends none by default. Not an empty name:
    // Pingora takes that for a wish not to verify, which must be said where it is meant.
    let name = if tls { upstream.address.ip().to_string() } else { String::new() };
    let mut peer = HttpPeer::new(upstream.address, tls, name);
    peer.group_key = upstream.group;
    let options = &mut peer.options;
    options.verify_cert = false;
    options.verify_hostname = false;
    options.alpn = ALPN::H1;
    // The pipeline takes connection fields out, and lets other upgrades than WebSocket pass.
    options.http_upstream_request_policy = HttpUpstreamRequestPolicy::preserve();
    options.connection_timeout = upstream.connect_timeout;
    options.total_connection_timeout = upstream.connect_timeout;
    options.read_timeout = upstream.read_timeout;
    options.write_timeout = upstream.send_timeout;
    // No time in the pool is none at all; no value would be for ever.
    options.idle_timeout = Some(upstream.idle_timeout.unwrap_or(Duration::ZERO));
    Box::new(peer)
}
