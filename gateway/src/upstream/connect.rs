//! Opens a connection for an attempt. If no slot is free, waits for one or for a connection that
//! returns to the pool.

use std::io;
use std::time::Duration;

use rustls::pki_types::ServerName;
use sluice_config::UpstreamProtocol;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::connection::{Connection, HTTP2, UNVERIFIED, UNVERIFIED_HTTP2};
use super::{http2, pool};
use crate::descriptors::{DescriptorPermit, Shortage, Wait};
use crate::failure::FailureKind;
use crate::io::transport::Transport;
use crate::registry::Admission;
use crate::upstream::attempt::Upstream;

/// The phase that a new connection has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectStage {
    /// The TCP handshake is incomplete.
    Tcp,
    /// TCP is established; the TLS handshake is incomplete.
    Tls,
}

/// Admission of new connections to an endpoint.
pub(crate) trait ConnectionGate {
    /// Returns the number of client connections.
    fn clients(&self) -> usize;
    /// Requests a connection slot of the endpoint.
    fn ask(&mut self) -> Admission;
    /// Returns whether to wait when no slot is free.
    fn may_wait(&self) -> bool {
        true
    }
    /// Reports that the slot is no longer needed.
    fn go(&mut self);
}

/// Origin of the connection of a request.
#[derive(Debug)]
pub(crate) enum Obtained<P> {
    /// From the pool, while the request waited for a slot.
    Pooled(P),
    /// Newly opened.
    New(Connection),
}

/// Returns an HTTP/1.1 connection to the endpoint. `waited_since` is the time at which the request
/// first had to wait for a slot, in any attempt.
pub(crate) async fn obtain(
    upstream: &Upstream,
    room: &mut impl ConnectionGate,
    waited_since: &mut Option<Instant>,
) -> Result<Connection, FailureKind> {
    match obtain_or(upstream, upstream.connect_timeout, room, waited_since, pool::take).await? {
        Obtained::Pooled(connection) | Obtained::New(connection) => Ok(connection),
    }
}

/// Opens a connection to the endpoint within `limit`. While no slot is free, takes a pooled one
/// from `take` instead, if there is one.
pub(super) async fn obtain_or<P>(
    upstream: &Upstream,
    limit: Option<Duration>,
    room: &mut impl ConnectionGate,
    waited_since: &mut Option<Instant>,
    take: impl Fn(&Upstream) -> Option<P>,
) -> Result<Obtained<P>, FailureKind> {
    let mut wait = Wait::new(waited_since);
    loop {
        let admission = room.ask();
        let place = match admission {
            Admission::Refused => return Err(FailureKind::Shortage),
            Admission::Waits => None,
            // Idle connections are closed if descriptors are needed.
            Admission::Given => DescriptorPermit::take(room.clients()).or_else(|| {
                let_go();
                DescriptorPermit::take(room.clients())
            }),
        };
        if let Some(place) = place {
            match connect(upstream, limit, place).await {
                Err(ConnectError::Shortage(Shortage::Passing)) => let_go(),
                Err(ConnectError::Shortage(Shortage::Ports)) => return Err(FailureKind::Shortage),
                Err(ConnectError::Failed(kind)) => return Err(kind),
                Ok(connection) => return Ok(Obtained::New(connection)),
            }
        }
        if !room.may_wait() {
            return Err(FailureKind::Shortage);
        }
        let goes_on = match admission {
            Admission::Waits => wait.for_endpoint().await,
            Admission::Given | Admission::Refused => wait.for_descriptor().await,
        };
        if !goes_on {
            return Err(FailureKind::Shortage);
        }
        if let Some(pooled) = take(upstream) {
            room.go();
            return Ok(Obtained::Pooled(pooled));
        }
    }
}

/// Closes idle connections to make room for a new one.
fn let_go() {
    pool::let_go();
    http2::let_go();
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
                Some(lack) => Err(ConnectError::Shortage(lack)),
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
        let stream = tls.connect(stream, upstream.protocol.is_http2()).await?;
        return Ok(Transport::Tls(Box::new(stream.into())));
    }
    let config = match upstream.protocol {
        UpstreamProtocol::Http | UpstreamProtocol::Grpc => return Ok(Transport::Plain(stream)),
        UpstreamProtocol::HttpsUnverified => &UNVERIFIED,
        UpstreamProtocol::GrpcsUnverified => &UNVERIFIED_HTTP2,
    };
    // Addresses are never sent as SNI (RFC 6066 §3), as in ingress-nginx.
    let name = upstream.server_name.as_deref();
    let name = name.and_then(|name| ServerName::try_from(name.to_owned()).ok());
    let name = name.unwrap_or_else(|| ServerName::IpAddress(upstream.address.ip().into()));
    let stream = TlsConnector::from((*config).clone()).connect(name, stream).await?;
    // For an endpoint without ALPN, the protocol of the rule applies, as in nginx.
    if upstream.protocol.is_http2()
        && stream.get_ref().1.alpn_protocol().is_some_and(|chosen| chosen != HTTP2)
    {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "it has chosen another protocol than HTTP/2"));
    }
    Ok(Transport::Tls(Box::new(stream.into())))
}
