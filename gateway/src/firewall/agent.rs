//! The agent, as workers use it: streams over the pool of HTTP/2 connections of the worker.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderValue;

use super::stream::{MessageStream, StreamFault, call};
use crate::connection::drain::Drain;
use crate::registry::Endpoint;
use crate::upstream::attempt::{KeepAlive, Upstream};
use crate::upstream::connect::ConnectionGate;
use crate::upstream::http2::{self, StreamPermit};
use crate::upstream::obtain_http2;

/// The method of the protocol.
const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
/// Maximum number of idle connections of a worker.
const IDLE: usize = 16;
/// Limits of connections.
const KEEP_ALIVE: KeepAlive =
    KeepAlive { idle: Duration::from_secs(60), age: Duration::from_secs(3600), requests: u32::MAX };

/// The agent.
#[derive(Debug)]
pub(crate) struct Agent {
    endpoint: Arc<Endpoint>,
    /// Time limit for each decision, with the connection.
    pub(super) time_limit: Duration,
}

/// A worker's access to the agent.
#[derive(Clone, Copy)]
pub(crate) struct AgentLink<'w> {
    pub(crate) agent: &'w Agent,
    /// Counts the connections of clients, which share the descriptors.
    pub(crate) clients: &'w Drain,
    /// Idle connections that there is room for.
    pub(crate) idle: usize,
}

impl Agent {
    /// Creates the agent at this address.
    pub(crate) fn new(address: SocketAddr, time_limit: Duration) -> Self {
        let endpoint = Arc::new(Endpoint::new(address, None));
        endpoint.join();
        Self { endpoint, time_limit }
    }

    /// Returns the address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.endpoint.address()
    }
}

impl AgentLink<'_> {
    /// Opens a stream. `fresh`: over a connection that is made now.
    pub(super) async fn open(
        &self,
        configuration: &HeaderValue,
        fresh: bool,
    ) -> Result<(MessageStream, StreamPermit), StreamFault> {
        let Agent { endpoint, time_limit } = self.agent;
        let upstream = Upstream {
            fresh,
            connect_timeout: Some(*time_limit),
            ..Upstream::shared(endpoint, KEEP_ALIVE, Instant::now())
        };
        let permit = match http2::take(&upstream) {
            Some(permit) => permit,
            None => {
                let mut gate = ConnectionGate { in_flight: None, clients: self.clients, may_wait: true };
                obtain_http2::obtain(&upstream, &mut gate, &mut None, IDLE, self.idle)
                    .await
                    .map_err(StreamFault::Connection)?
            }
        };
        let request = call(PROCESS, upstream.address, Some(configuration));
        let (response, outgoing) = permit.send(request, false)?;
        Ok((MessageStream::new(response, outgoing), permit))
    }
}
