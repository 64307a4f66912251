//! A new connection for an attempt, where there is room for it, or one that comes back to the pool meanwhile.

use std::io;

use rustls::pki_types::ServerName;
use sluice_config::UpstreamProtocol;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::connection::{Connection, UNVERIFIED};
use super::pool;
use crate::descriptors::{DescriptorPermit, Lack, Wait};
use crate::io::transport::Transport;
use crate::pipeline::{FailureKind, Upstream};
use crate::registry::Admission;

/// How far a new connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The endpoint has not taken it.
    Tcp,
    /// It has, and TLS is to come.
    Tls,
}

/// What there is to know about room.
pub(crate) trait Room {
    /// Connections of clients.
    fn clients(&self) -> usize;
    /// Asks the endpoint for room.
    fn ask(&mut self) -> Admission;
    /// Whether to wait where there is none.
    fn may_wait(&self) -> bool {
        true
    }
    /// No room is needed any more.
    fn go(&mut self);
}

/// A connection to the endpoint. `waited_since` is when the request first had to wait for room, in any attempt.
pub(crate) async fn obtain(
    upstream: &Upstream,
    room: &mut impl Room,
    waited_since: &mut Option<Instant>,
) -> Result<Connection, FailureKind> {
    let mut wait = Wait::new(waited_since);
    loop {
        let admission = room.ask();
        let place = match admission {
            Admission::Refused => return Err(FailureKind::Shortage),
            Admission::Waits => None,
            // What is idle gives way to what is needed.
            Admission::Given => DescriptorPermit::take(room.clients()).or_else(|| {
                pool::let_go();
                DescriptorPermit::take(room.clients())
            }),
        };
        if let Some(place) = place {
            match connect(upstream, place).await {
                Err(Trouble::Lack(Lack::Passing)) => pool::let_go(),
                Err(Trouble::Lack(Lack::Ports)) => return Err(FailureKind::Shortage),
                Err(Trouble::Failed(kind)) => return Err(kind),
                Ok(connection) => return Ok(connection),
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
        if let Some(connection) = pool::take(upstream) {
            room.go();
            return Ok(connection);
        }
    }
}

/// Why there is no new connection.
enum Trouble {
    Lack(Lack),
    Failed(FailureKind),
}

async fn connect(upstream: &Upstream, place: DescriptorPermit) -> Result<Connection, Trouble> {
    let mut stage = Stage::Tcp;
    let open = open(upstream, &mut stage);
    let opened = match upstream.connect_timeout {
        Some(limit) => tokio::time::timeout(limit, open).await.ok(),
        None => Some(open.await),
    };
    let failed = |tcp, tls| Trouble::Failed(if stage == Stage::Tcp { tcp } else { tls });
    match opened {
        Some(Ok(stream)) => {
            Ok(Connection { stream, place, made: std::time::Instant::now(), served: 0, reused: false })
        }
        Some(Err(error)) => {
            tracing::debug!(address = %upstream.address, %error, "cannot connect to an endpoint");
            match Lack::of(&error) {
                Some(lack) => Err(Trouble::Lack(lack)),
                None => Err(failed(FailureKind::Connect, FailureKind::Handshake)),
            }
        }
        None => Err(failed(FailureKind::ConnectTimeout, FailureKind::HandshakeTimeout)),
    }
}

async fn open(upstream: &Upstream, stage: &mut Stage) -> io::Result<Transport> {
    let stream = TcpStream::connect(upstream.address).await?;
    *stage = Stage::Tls;
    stream.set_nodelay(true)?;
    match upstream.protocol {
        UpstreamProtocol::Http => Ok(Transport::Plain(stream)),
        UpstreamProtocol::HttpsUnverified => {
            // An address is never sent as SNI (RFC 6066 §3), as with ingress-nginx.
            let name = upstream.server_name.as_deref();
            let name = name.and_then(|name| ServerName::try_from(name.to_owned()).ok());
            let name = name.unwrap_or_else(|| ServerName::IpAddress(upstream.address.ip().into()));
            let stream = TlsConnector::from(UNVERIFIED.clone()).connect(name, stream).await?;
            Ok(Transport::Tls(Box::new(stream.into())))
        }
        // Where somebody asks a pool of gRPC what only HTTP/1.1 can be asked.
        UpstreamProtocol::Grpc | UpstreamProtocol::GrpcsUnverified => Err(io::ErrorKind::Unsupported.into()),
    }
}
