//! UDP services: one session per client address and port, and local address.
//!
//! A session has its own socket, connected to its endpoint, so that the kernel delivers only
//! datagrams of this endpoint. It ends with the last expected response, after an idle time, or when
//! it is the longest idle one and its slot is needed. One task serves a listening socket with all
//! of its sessions; the table needs no lock.

mod batch;
mod datagram;
mod reply;
mod session_key;
mod socket;
mod table;

use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use sluice_config::{GroupId, TransportProtocol};
use tokio::sync::oneshot;

use super::session::{NO_ENDPOINTS, StreamSession, UNREACHABLE};
use crate::connection::drain::ShutdownPhase;
use crate::process::descriptors::DescriptorPermit;
use crate::registry::{Endpoint, EndpointAdmission, PickError, PickRequest};
use crate::state::snapshot::PublishedSnapshot;
use crate::worker::Worker;

pub(crate) use socket::prepare;

use datagram::Datagram;
use reply::{Ending, Peer, Retry, replies};
use session_key::SessionKey;
use socket::{ClientSocket, connect};
use table::Table;

/// A session in progress.
type Running = Pin<Box<dyn Future<Output = Ending> + Send>>;

/// Sessions per listening socket: the connections of a worker in ingress-nginx.
const MOST_SESSIONS: usize = 16_384;

/// Serves a socket until `stop` is dropped or sent to. During shutdown, sessions that expect a
/// response have one more second.
pub(crate) async fn serve(
    socket: Arc<UdpSocket>,
    group: GroupId,
    worker: Arc<Worker>,
    mut stop: oneshot::Receiver<()>,
) {
    let socket = match ClientSocket::new(&socket) {
        Ok(socket) => Arc::new(socket),
        Err(error) => return tracing::error!(%error, %group, "cannot receive datagrams"),
    };
    let mut listener = Listener { socket, group, worker, table: Table::default() };
    let mut sessions = FuturesUnordered::<Running>::new();
    loop {
        tokio::select! {
            biased;
            _ = &mut stop => break,
            Some(ending) = sessions.next() => {
                if let Some(retry) = listener.ended(ending) {
                    sessions.extend(listener.open(retry));
                }
            }
            received = listener.socket.readable() => {
                if let Err(error) = received {
                    tracing::error!(%error, group = %listener.group, "cannot receive datagrams");
                    break;
                }
                let socket = listener.socket.clone();
                socket.receive(|datagram| sessions.extend(listener.take(&datagram)));
            }
        }
    }
    let worker = listener.worker.clone();
    if worker.drain.shared().phase() >= ShutdownPhase::Draining {
        tokio::select! {
            () = worker.drain.wait_for_closing() => {}
            () = listener.end_all(&mut sessions) => return,
        }
    }
    listener.table.close_all();
    listener.end_all(&mut sessions).await;
}

/// A listening socket with its sessions.
struct Listener {
    socket: Arc<ClientSocket>,
    group: GroupId,
    worker: Arc<Worker>,
    table: Table,
}

impl Listener {
    /// Forwards a datagram. Returns the session that it begins, if any.
    fn take(&mut self, datagram: &Datagram<'_>) -> Option<Running> {
        let key = SessionKey { client: datagram.client, local: datagram.local };
        if let Some(peer) = self.table.get(&key) {
            if peer.is_member() {
                peer.send(datagram.bytes, &self.worker.state);
                return None;
            }
            // As in kube-proxy: datagrams for an endpoint that is gone would be lost silently.
            self.table.remove(&key);
        }
        let snapshot = PublishedSnapshot::take(&self.worker.state);
        let Some(route) = snapshot.streams.service(&self.group).cloned() else {
            self.worker.state.telemetry.datagram_dropped();
            return None;
        };
        let begun = (self.worker.state.telemetry.connection_opened(), Instant::now());
        let mut session =
            StreamSession::new(&self.worker.state, route, TransportProtocol::Udp, begun, key.client);
        session.server = self.socket.address(key.local);
        session.received(datagram.bytes.len() as u64);
        self.open(Retry { key, session, tried: Vec::new(), datagram: datagram.bytes.into() })
    }

    /// Opens a session at the next endpoint and sends its first datagram there.
    fn open(&mut self, begin: Retry) -> Option<Running> {
        let Retry { key, mut session, mut tried, datagram } = begin;
        let settings = PublishedSnapshot::take(&self.worker.state).compiled_settings.settings.clone();
        let pool = session.route.pool.clone();
        let telemetry = self.worker.state.telemetry.clone();
        self.make_room();
        loop {
            let now = Instant::now();
            let endpoint = match pool.pick(&PickRequest { key: None, tried: &tried, now }) {
                Ok(endpoint) => endpoint,
                Err(error) => {
                    let none = error == PickError::NoEndpoints;
                    session.status = if none { NO_ENDPOINTS } else { UNREACHABLE };
                    telemetry.datagram_dropped();
                    break;
                }
            };
            session.attempts.push(endpoint.address());
            let mut in_flight = endpoint.enter();
            let place = match in_flight.admit() {
                EndpointAdmission::Given => DescriptorPermit::take(self.worker.drain.shared().connections()),
                EndpointAdmission::Waits | EndpointAdmission::Refused => None,
            };
            let Some(place) = place else {
                // The next datagram ends another one.
                self.table.evict(&telemetry);
                telemetry.datagram_dropped();
                break;
            };
            match connect(endpoint.address(), &datagram) {
                Ok(socket) => {
                    session.upstream_sent += datagram.len() as u64;
                    let peer = Arc::new(Peer::new(socket, endpoint, &session));
                    self.table.insert(key, peer.clone());
                    let retry = Retry { key, session, tried, datagram };
                    let client = self.socket.clone();
                    return Some(Box::pin(replies(peer, client, retry, (in_flight, place), settings)));
                }
                Err(error) => {
                    tracing::debug!(%error, endpoint = %endpoint.address(), "cannot send a datagram");
                    tried.push(endpoint);
                }
            }
            if !may_retry(&tried, &settings.stream) {
                telemetry.datagram_dropped();
                break;
            }
        }
        telemetry.connection_closed();
        None
    }

    fn make_room(&mut self) {
        let limit = match self.worker.client_limit() {
            0 => MOST_SESSIONS,
            limit => limit.min(MOST_SESSIONS),
        };
        while self.table.len() >= limit {
            self.table.evict(&self.worker.state.telemetry);
        }
    }

    /// Waits for the end of all sessions, without retries.
    async fn end_all(&mut self, sessions: &mut FuturesUnordered<Running>) {
        while let Some(ending) = sessions.next().await {
            if self.ended(ending).is_some() {
                self.worker.state.telemetry.connection_closed();
            }
        }
    }

    /// Removes a session that has ended. Returns the retry at another endpoint, if any.
    fn ended(&mut self, ending: Ending) -> Option<Retry> {
        self.table.remove_if(&ending.key, &ending.peer);
        if ending.retry.is_none() {
            self.worker.state.telemetry.connection_closed();
        }
        ending.retry
    }
}

/// Returns whether another attempt is allowed after these.
fn may_retry(tried: &[Arc<Endpoint>], settings: &sluice_config::StreamSettings) -> bool {
    const MOST_ATTEMPTS: usize = 16;
    let most = match settings.next_upstream_tries as usize {
        0 => MOST_ATTEMPTS,
        tries => tries.min(MOST_ATTEMPTS),
    };
    settings.next_upstream && tried.len() < most
}
