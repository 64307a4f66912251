//! An endpoint as Pingora connects to it.

use std::time::Duration;

use pingora_core::protocols::ALPN;
use pingora_core::upstreams::peer::HttpPeer;
use sluice_config::UpstreamProtocol;

use crate::pipeline::Upstream;

/// The peer for one try.
pub(super) fn peer(upstream: &Upstream) -> Box<HttpPeer> {
    let tls = match upstream.protocol {
        UpstreamProtocol::Http => false,
        UpstreamProtocol::HttpsUnverified => true,
    };
    let mut peer = HttpPeer::new(upstream.address, tls, String::new());
    peer.group_key = upstream.group;
    let options = &mut peer.options;
    options.verify_cert = false;
    options.verify_hostname = false;
    options.alpn = ALPN::H1;
    options.connection_timeout = upstream.connect_timeout;
    options.total_connection_timeout = upstream.connect_timeout;
    options.read_timeout = upstream.read_timeout;
    options.write_timeout = upstream.send_timeout;
    // No time in the pool is none at all; no value would be for ever.
    options.idle_timeout = Some(upstream.idle_timeout.unwrap_or(Duration::ZERO));
    Box::new(peer)
}
