//! One UDP session: relays the endpoint's datagrams to the client.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use sluice_config::GlobalSettings;
use tokio::io::{Interest, Ready};
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::batch::Left;
use super::may_retry;
use super::session_key::SessionKey;
use super::socket::{self, ClientSocket};
use crate::process::descriptors::DescriptorPermit;
use crate::registry::{Endpoint, InFlight};
use crate::state::State;
use crate::stream::session::{SERVED, StreamSession};

/// Responses that are sent before other sessions run.
const TURN: u64 = 32;

/// The readiness that a session awaits at its endpoint's socket.
const RESPONSE: Interest = Interest::READABLE.add(Interest::ERROR);

/// The endpoint side of a session, which receives the client's datagrams.
#[derive(Debug)]
pub(super) struct Peer {
    socket: UdpSocket,
    endpoint: Arc<Endpoint>,
    /// The endpoint's membership in its set when the session began.
    membership: u64,
    began: Instant,
    /// Datagrams from the client.
    requests: AtomicU64,
    /// Their bytes.
    received: AtomicU64,
    /// Milliseconds from `began` to the last of them.
    last: AtomicU64,
    /// The endpoint's machine has reported that the port is closed.
    is_refused: AtomicBool,
    is_closed: AtomicBool,
    changed: Notify,
}

/// The data to begin a session at another endpoint.
pub(super) struct Retry {
    pub(super) key: SessionKey,
    pub(super) session: StreamSession,
    pub(super) tried: Vec<Arc<Endpoint>>,
    /// The first datagram.
    pub(super) datagram: Box<[u8]>,
}

/// The end of a session.
pub(super) struct Ending {
    pub(super) key: SessionKey,
    pub(super) peer: Arc<Peer>,
    /// The retry at another endpoint, if any.
    pub(super) retry: Option<Retry>,
}

impl Peer {
    /// Creates a session whose first datagram was sent.
    pub(super) fn new(socket: UdpSocket, endpoint: Arc<Endpoint>, session: &StreamSession) -> Self {
        Self {
            socket,
            membership: endpoint.membership(),
            endpoint,
            began: Instant::now(),
            requests: AtomicU64::new(1),
            received: AtomicU64::new(session.bytes_received()),
            last: AtomicU64::new(0),
            is_refused: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    /// Returns whether the endpoint still has the membership of the session.
    pub(super) fn is_member(&self) -> bool {
        self.membership != 0 && self.endpoint.membership() == self.membership
    }

    /// Sends a further datagram of the client.
    pub(super) fn send(&self, bytes: &[u8], state: &State) {
        self.requests.fetch_add(1, Relaxed);
        self.received.fetch_add(bytes.len() as u64, Relaxed);
        self.last.store(self.began.elapsed().as_millis() as u64, Relaxed);
        match socket::send(&self.socket, bytes) {
            Ok(()) => {}
            // The error concerns an earlier datagram.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.is_refused.store(true, Relaxed);
                self.changed.notify_one();
            }
            Err(_) => state.telemetry.datagram_dropped(),
        }
    }

    /// Ends the session.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Relaxed);
        self.changed.notify_one();
    }
}

/// Relays responses until the session ends.
pub(super) async fn replies(
    peer: Arc<Peer>,
    client: Arc<ClientSocket>,
    begin: Retry,
    places: (InFlight, DescriptorPermit),
    settings: Arc<GlobalSettings>,
) -> Ending {
    let settings = &settings.stream;
    let Retry { key, mut session, mut tried, datagram } = begin;
    let mut first = Some(datagram);
    let mut responses = 0;
    let mut active = peer.began;
    let mut sent = session.bytes_sent();
    // Set anew when it fires, not at each datagram: setting it takes a lock of the runtime.
    let mut idle = pin!(sleep_until(peer.began + settings.timeout));
    let is_refused = loop {
        let expected = peer.requests.load(Relaxed) * u64::from(settings.responses);
        if responses >= expected || peer.is_closed.load(Relaxed) {
            break false;
        }
        if peer.is_refused.load(Relaxed) {
            break true;
        }
        tokio::select! {
            biased;
            () = peer.changed.notified() => {}
            // Includes errors: readability alone would miss the report that the port is closed.
            ready = peer.socket.ready(RESPONSE) => {
                let Ok(ready) = ready else { break false };
                let passed = pass_on((&peer.socket, ready), &client, (key, &session));
                responses += passed.datagrams;
                sent += passed.bytes;
                session.upstream_received += passed.bytes;
                session.sent(sent);
                if passed.datagrams > 0 {
                    active = Instant::now();
                    first = None;
                    session.status = SERVED;
                    peer.endpoint.succeeded(peer.began.into_std());
                }
                if passed.is_refused {
                    break true;
                }
            }
            () = &mut idle => {
                // An endpoint that never responds has not refused a datagram all this time.
                peer.endpoint.succeeded(peer.began.into_std());
                session.received(peer.received.load(Relaxed));
                let last = peer.began + Duration::from_millis(peer.last.load(Relaxed));
                let deadline = last.max(active) + settings.timeout;
                if deadline <= Instant::now() {
                    break false;
                }
                idle.as_mut().reset(deadline);
            }
        }
    };
    drop(places);
    let received = peer.received.load(Relaxed);
    session.received(received);
    session.upstream_sent = received;
    let mut retry = None;
    if is_refused {
        session.route.pool.failed(&peer.endpoint, std::time::Instant::now());
        tried.push(peer.endpoint.clone());
        if let Some(datagram) = first.filter(|_| may_retry(&tried, settings)) {
            retry = Some(Retry { key, session, tried, datagram });
            return Ending { key, peer, retry };
        }
    } else {
        // A response is optional: the datagrams were sent.
        session.status = SERVED;
    }
    Ending { key, peer, retry }
}

/// Responses that were relayed.
#[derive(Default)]
struct Passed {
    datagrams: u64,
    bytes: u64,
    is_refused: bool,
}

/// Relays the datagrams of the endpoint's socket, which has this readiness.
fn pass_on(
    (endpoint, ready): (&UdpSocket, Ready),
    client: &ClientSocket,
    (key, session): (SessionKey, &StreamSession),
) -> Passed {
    // tokio attempts an operation for one interest only: with both, it never reads the socket,
    // which then stays ready forever.
    let interest = if ready.is_readable() { Interest::READABLE } else { Interest::ERROR };
    let mut passed = Passed::default();
    while passed.datagrams < TURN {
        let received = socket::receive(endpoint, interest, |bytes| {
            if client.send(key.local, key.client, bytes).is_err() {
                session.dropped();
            }
            passed.datagrams += 1;
            passed.bytes += bytes.len() as u64;
        });
        match received {
            Ok(Left::Maybe) => {}
            Ok(Left::None) => break,
            Err(error) => {
                passed.is_refused = error.kind() == io::ErrorKind::ConnectionRefused;
                break;
            }
        }
    }
    passed
}
