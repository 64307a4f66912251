//! One TCP connection that is forwarded without being interpreted.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use sluice_config::TransportProtocol;
use tokio::net::TcpStream;

use super::connect::connect;
use super::proxy_line;
use super::session::{MALFORMED, SERVED, StreamSession};
use crate::connection::info::ProxiedAddresses;
use crate::io::alarm::Alarm;
use crate::io::deadlines::Deadline;
use crate::io::flow::Flow;
use crate::io::transport::Transport;
use crate::io::write_buffer::WriteBuffer;
use crate::process::descriptors::DescriptorPermit;
use crate::registry::InFlight;
use crate::state::snapshot::PublishedSnapshot;
use crate::stream_table::StreamRoute;
use crate::upstream::connection::Connection;
use crate::worker::Worker;

/// A connection of a client.
pub(crate) struct AcceptedConnection {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    /// Number in the log.
    pub(crate) number: u64,
    pub(crate) opened: Instant,
}

/// A connection whose target is known.
pub(crate) struct StreamConnection {
    client: TcpStream,
    /// Bytes that were read from the client to find the target.
    ahead: Vec<u8>,
    session: StreamSession,
    worker: Arc<Worker>,
}

/// Both directions.
struct Relay {
    client: Transport,
    endpoint: Transport,
    up: Flow,
    down: Flow,
    /// Idle time of both directions together.
    idle: Duration,
    idle_deadline: Deadline,
    session: StreamSession,
    _place: DescriptorPermit,
    _in_flight: InFlight,
}

impl StreamConnection {
    pub(crate) fn new(accepted: AcceptedConnection, route: Arc<StreamRoute>, worker: Arc<Worker>) -> Self {
        let AcceptedConnection { stream: client, peer, number, opened } = accepted;
        let mut session =
            StreamSession::new(&worker.state, route, TransportProtocol::Tcp, (number, opened), peer);
        session.server = client.local_addr().ok();
        Self { client, ahead: Vec::new(), session, worker }
    }

    /// Sets the addresses of a PROXY protocol header; `None` if the client is the peer.
    pub(crate) fn set_proxied(&mut self, proxied: Option<Box<ProxiedAddresses>>) {
        self.session.proxied = proxied;
    }

    /// Sets what was read of TLS that is passed through.
    pub(crate) fn set_client_hello(&mut self, hello: Vec<u8>, server_name: &str) {
        self.ahead = hello;
        self.session.server_name = Some(server_name.into());
    }

    /// Returns the socket, for a PROXY protocol header that precedes the stream.
    pub(crate) fn client(&mut self) -> (&mut TcpStream, SocketAddr) {
        (&mut self.client, self.session.peer)
    }

    /// Ends a connection without a valid PROXY protocol header.
    pub(crate) fn refuse(mut self) {
        self.session.status = MALFORMED;
    }

    /// Serves the connection until both sides have ended it, one breaks it, or it is idle for too
    /// long.
    pub(crate) fn serve(self: Box<Self>) -> impl Future<Output = ()> {
        // Boxed: the first is large and ends early, and the future would reserve room for its
        // arguments twice. The box of the connection is freed here and not at the end of the
        // stream.
        let begun = Box::pin((*self).begin());
        async move {
            let relay = begun.await;
            if let Some(mut relay) = relay {
                relay.run().await;
            }
        }
    }

    /// Connects to an endpoint; `None` if none could be reached.
    async fn begin(self) -> Option<Box<Relay>> {
        let Self { client, ahead, mut session, worker } = self;
        let compiled = PublishedSnapshot::take(&worker.state).compiled_settings.clone();
        let settings = &compiled.settings.stream;
        let (connection, in_flight) = match connect(&mut session, settings, &worker).await {
            Ok(connected) => connected,
            Err(status) => {
                session.status = status;
                return None;
            }
        };
        session.status = SERVED;
        Some(Box::new(Relay::new(client, &ahead, session, connection, in_flight, settings.timeout)))
    }
}

impl Relay {
    fn new(
        client: TcpStream,
        ahead: &[u8],
        session: StreamSession,
        connection: Connection,
        in_flight: InFlight,
        idle: Duration,
    ) -> Self {
        let Connection { stream: endpoint, place, .. } = connection;
        let mut first = WriteBuffer::default();
        if session.route.sends_proxy {
            let proxied = session.proxied.as_deref();
            let source = proxied.map_or(session.peer, |proxied| proxied.source);
            let own = session.server.unwrap_or(session.peer);
            let destination = proxied.map_or(own, |proxied| proxied.destination);
            first.push(proxy_line::line(source, destination).as_bytes());
        }
        let mut up = Flow::after(first, 0);
        up.push(ahead);
        Self {
            client: Transport::Plain(client),
            endpoint,
            up,
            down: Flow::default(),
            idle,
            idle_deadline: Deadline::default(),
            session,
            _place: place,
            _in_flight: in_flight,
        }
    }

    async fn run(&mut self) {
        let mut alarm = Alarm::default();
        if let Err(error) = poll_fn(|cx| self.poll(cx, &mut alarm)).await {
            tracing::debug!(client = %self.session.peer, %error, "a stream ended early");
        }
    }

    /// Moves bytes until neither side has more. Ready when both have ended.
    fn poll(&mut self, cx: &mut Context<'_>, alarm: &mut Alarm) -> Poll<io::Result<()>> {
        let Self { client, endpoint, up, down, idle_deadline, session, .. } = self;
        // Polls both before it checks for errors: a side that accepts no more bytes may have sent
        // some.
        let (sent, received) = (up.poll(cx, client, endpoint), down.poll(cx, endpoint, client));
        session.received(up.read());
        session.sent(down.read() - down.waiting());
        (session.upstream_sent, session.upstream_received) =
            (up.read() - up.waiting().min(up.read()), down.read());
        if (sent?, received?) == (Poll::Ready(()), Poll::Ready(())) {
            return Poll::Ready(Ok(()));
        }
        // Not `||`: both flags must be reset.
        if up.take_moved() | down.take_moved() {
            idle_deadline.end();
        }
        idle_deadline.begin(Some(self.idle));
        idle_deadline.poll(cx, alarm).map(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

#[cfg(test)]
mod tests;
