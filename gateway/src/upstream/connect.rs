//! Obtains a connection for an attempt: a new one if it is admitted, or one that returns to the
//! pool meanwhile.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use rustls::pki_types::ServerName;
use sluice_config::UpstreamProtocol;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::connection::{Connection, HTTP2, UNVERIFIED, UNVERIFIED_HTTP2};
use super::{http2, pool};
use crate::connection::drain::Drain;
use crate::io::failure::FailureKind;
use crate::io::transport::Transport;
use crate::process::descriptors::{CapacityWait, DescriptorPermit, Shortage};
use crate::registry::{EndpointAdmission, InFlight};
use crate::upstream::attempt::Upstream;

/// The phase that a new connection has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectStage {
    /// The TCP handshake is incomplete.
    Tcp,
    /// TCP is established; the TLS handshake is incomplete.
    Tls,
}

/// Admission of new connections for one attempt.
pub(crate) struct ConnectionGate<'r> {
    /// The attempt's place at its endpoint, whose connections are limited; `None` is no limit.
    pub(crate) in_flight: Option<&'r mut InFlight>,
    /// Counts the connections of clients, which share the descriptors.
    pub(crate) clients: &'r Drain,
    /// Whether the request may wait for admission.
    pub(crate) may_wait: bool,
}

impl ConnectionGate<'_> {
    /// Requests a connection slot of the endpoint.
    fn admit(&mut self) -> EndpointAdmission {
        match self.in_flight.as_mut().map_or(EndpointAdmission::Given, |in_flight| in_flight.admit()) {
            EndpointAdmission::Waits if !self.may_wait => EndpointAdmission::Refused,
            admission => admission,
        }
    }

    /// Takes a descriptor, for which an idle connection gives way if necessary.
    fn take_descriptor(&self) -> Option<DescriptorPermit> {
        DescriptorPermit::take(self.clients.connections()).or_else(|| {
            close_idle();
            DescriptorPermit::take(self.clients.connections())
        })
    }

    /// Ends the wait: the request has a connection.
    fn leave(&mut self) {
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.go();
        }
    }
}

/// The origin of a connection.
#[derive(Debug)]
pub(crate) enum Obtained<P> {
    /// The pool, while the request waited for admission.
    Pooled(P),
    /// A new connection.
    New(Connection),
}

/// Obtains an HTTP/1.1 connection. `waited_since` is when the request first had to wait for
/// admission, in any attempt.
pub(crate) async fn obtain(
    upstream: &Upstream,
    gate: &mut ConnectionGate<'_>,
    waited_since: &mut Option<Instant>,
) -> Result<Connection, FailureKind> {
    match obtain_or(upstream, upstream.connect_timeout, gate, waited_since, pool::take).await? {
        Obtained::Pooled(connection) | Obtained::New(connection) => Ok(connection),
    }
}

/// Opens a new connection to the endpoint, for one client connection.
pub(crate) async fn obtain_new(
    upstream: &Upstream,
    gate: &mut ConnectionGate<'_>,
    waited_since: &mut Option<Instant>,
) -> Result<Connection, FailureKind> {
    let none = |_: &Upstream| None::<Infallible>;
    match obtain_or(upstream, upstream.connect_timeout, gate, waited_since, none).await? {
        Obtained::New(connection) => Ok(connection),
        Obtained::Pooled(never) => match never {},
    }
}

/// Opens a connection within `limit`, or returns what `take` finds in a pool while none is
/// admitted.
pub(super) async fn obtain_or<P>(
    upstream: &Upstream,
    limit: Option<Duration>,
    gate: &mut ConnectionGate<'_>,
    waited_since: &mut Option<Instant>,
    take: impl Fn(&Upstream) -> Option<P>,
) -> Result<Obtained<P>, FailureKind> {
    let mut wait = CapacityWait::new(waited_since);
    loop {
        let admission = gate.admit();
        let place = match admission {
            EndpointAdmission::Refused => return Err(FailureKind::Shortage),
            EndpointAdmission::Waits => None,
            EndpointAdmission::Given => gate.take_descriptor(),
        };
        if let Some(place) = place {
            match connect(upstream, limit, place).await {
                Err(ConnectError::Shortage(Shortage::Passing)) => close_idle(),
                Err(ConnectError::Shortage(Shortage::Ports)) => return Err(FailureKind::Shortage),
                Err(ConnectError::Failed(kind)) => return Err(kind),
                Ok(connection) => return Ok(Obtained::New(connection)),
            }
        }
        if !gate.may_wait {
            return Err(FailureKind::Shortage);
        }
        let goes_on = match admission {
            EndpointAdmission::Waits => wait.for_endpoint().await,
            EndpointAdmission::Given | EndpointAdmission::Refused => wait.for_descriptor().await,
        };
        if !goes_on {
            return Err(FailureKind::Shortage);
        }
        if let Some(pooled) = take(upstream) {
            gate.leave();
            return Ok(Obtained::Pooled(pooled));
        }
    }
}

/// Closes idle connections, because a new one is needed.
fn close_idle() {
    pool::close_longest_idle();
    http2::close_longest_idle();
}

/// Reason why a connection was not established.
enum ConnectError {
    Shortage(Shortage),
    Failed(FailureKind),
}

async fn connect(
    upstream: &Upstream,
    limit: Option<Duration>,
    place: DescriptorPermit,
) -> Result<Connection, ConnectError> {
    let mut stage = ConnectStage::Tcp;
    let open = open(upstream, &mut stage);
    let opened = match limit {
        Some(limit) => tokio::time::timeout(limit, open).await.ok(),
        None => Some(open.await),
    };
    let failed = |tcp, tls| ConnectError::Failed(if stage == ConnectStage::Tcp { tcp } else { tls });
    match opened {
        Some(Ok(stream)) => {
            Ok(Connection { stream, place, made: std::time::Instant::now(), served: 0, reused: false })
        }
        Some(Err(error)) => {
            tracing::debug!(address = %upstream.address, %error, "cannot connect to an endpoint");
            match Shortage::of(&error) {
                Some(shortage) => Err(ConnectError::Shortage(shortage)),
                None => Err(failed(FailureKind::Connect, FailureKind::Handshake)),
            }
        }
        None => Err(failed(FailureKind::ConnectTimeout, FailureKind::HandshakeTimeout)),
    }
}

async fn open(upstream: &Upstream, stage: &mut ConnectStage) -> io::Result<Transport> {
    let stream = TcpStream::connect(upstream.address).await?;
    *stage = ConnectStage::Tls;
    stream.set_nodelay(true)?;
    if let Some(tls) = &upstream.tls {
        let stream =
            tls.connect(stream, upstream.protocol.is_http2(), upstream.server_name.as_deref()).await?;
        return Ok(Transport::Tls(Box::new(stream.into())));
    }
    let config = match upstream.protocol {
        UpstreamProtocol::Http
        | UpstreamProtocol::Grpc
        | UpstreamProtocol::FastCgi
        | UpstreamProtocol::Tcp => {
            return Ok(Transport::Plain(stream));
        }
        UpstreamProtocol::Udp => return Err(io::ErrorKind::Unsupported.into()),
        UpstreamProtocol::HttpsUnverified => &UNVERIFIED,
        UpstreamProtocol::GrpcsUnverified => &UNVERIFIED_HTTP2,
    };
    // Addresses are never sent as SNI (RFC 6066 §3), as in ingress-nginx.
    let name = upstream.server_name.as_deref();
    let name = name.and_then(|name| ServerName::try_from(name.to_owned()).ok());
    let name = name.unwrap_or_else(|| ServerName::IpAddress(upstream.address.ip().into()));
    let stream = TlsConnector::from((*config).clone()).connect(name, stream).await?;
    // An endpoint without ALPN gets the protocol of the rule, as in nginx.
    if upstream.protocol.is_http2()
        && stream.get_ref().1.alpn_protocol().is_some_and(|chosen| chosen != HTTP2)
    {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "it has chosen another protocol than HTTP/2"));
    }
    Ok(Transport::Tls(Box::new(stream.into())))
}
