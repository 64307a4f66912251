//! Log line and metrics of one stream. Dropping the session ends the stream.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_config::TransportProtocol;
use smallvec::SmallVec;

use crate::connection::info::ProxiedAddresses;
use crate::state::State;
use crate::stream_table::StreamRoute;
use crate::telemetry::StreamRecord;

/// Status of a stream that was served.
pub(super) const SERVED: u16 = 200;
/// Status of a stream without a valid PROXY protocol header.
pub(super) const MALFORMED: u16 = 400;
/// Status of a stream that no endpoint accepted.
pub(super) const UNREACHABLE: u16 = 502;
/// Status of a stream whose Service has no endpoints.
pub(super) const NO_ENDPOINTS: u16 = 503;

/// One stream.
#[derive(Debug)]
pub(super) struct StreamSession {
    state: Arc<State>,
    pub(super) route: Arc<StreamRoute>,
    transport: TransportProtocol,
    /// `$connection`.
    number: u64,
    began: Instant,
    pub(super) peer: SocketAddr,
    pub(super) proxied: Option<Box<ProxiedAddresses>>,
    /// Address that the client sent to.
    pub(super) server: Option<SocketAddr>,
    /// Server name of TLS that is passed through.
    pub(super) server_name: Option<Arc<str>>,
    pub(super) status: u16,
    /// Endpoints that were tried, in order.
    pub(super) attempts: SmallVec<[SocketAddr; 1]>,
    pub(super) connect: Option<Duration>,
    /// Bytes from the client.
    received: u64,
    /// Bytes to the client.
    sent: u64,
    /// Bytes to the endpoint.
    pub(super) upstream_sent: u64,
    /// Bytes from the endpoint.
    pub(super) upstream_received: u64,
}

impl StreamSession {
    pub(super) fn new(
        state: &Arc<State>,
        route: Arc<StreamRoute>,
        transport: TransportProtocol,
        (number, began): (u64, Instant),
        peer: SocketAddr,
    ) -> Self {
        route.meters.open.inc();
        Self {
            state: state.clone(),
            route,
            transport,
            number,
            began,
            peer,
            proxied: None,
            server: None,
            server_name: None,
            status: UNREACHABLE,
            attempts: SmallVec::new(),
            connect: None,
            received: 0,
            sent: 0,
            upstream_sent: 0,
            upstream_received: 0,
        }
    }

    pub(super) fn bytes_received(&self) -> u64 {
        self.received
    }

    pub(super) fn bytes_sent(&self) -> u64 {
        self.sent
    }

    /// Counts a datagram that could not be sent to the client.
    pub(super) fn dropped(&self) {
        self.state.telemetry.datagram_dropped();
    }

    /// Records the number of bytes from the client so far.
    pub(super) fn received(&mut self, total: u64) {
        self.route.meters.received.inc_by(total.saturating_sub(self.received));
        self.received = self.received.max(total);
    }

    /// Records the number of bytes to the client so far.
    pub(super) fn sent(&mut self, total: u64) {
        self.route.meters.sent.inc_by(total.saturating_sub(self.sent));
        self.sent = self.sent.max(total);
    }
}

impl Drop for StreamSession {
    fn drop(&mut self) {
        self.route.meters.open.dec();
        self.route.meters.ended(self.status);
        let record = StreamRecord {
            number: self.number,
            transport: self.transport,
            peer: self.peer,
            proxied: self.proxied.as_deref(),
            server: self.server,
            server_name: self.server_name.as_deref(),
            upstream: &self.route.name,
            status: self.status,
            received: self.received,
            sent: self.sent,
            upstream_sent: self.upstream_sent,
            upstream_received: self.upstream_received,
            time: self.began.elapsed(),
            attempts: &self.attempts,
            connect: self.connect,
        };
        self.state.telemetry.log_stream(&self.state.settings(), &record);
    }
}
