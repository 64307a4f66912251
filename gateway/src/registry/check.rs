//! Construction of active checks: Pingora's for TCP and HTTP, and one for gRPC with the same
//! interface.

mod grpc;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::header::{HeaderValue, USER_AGENT};
use pingora_core::connectors::http::Connector as HttpConnector;
use pingora_core::connectors::{ConnectorOptions, TransportConnector};
use pingora_core::upstreams::peer::{HttpPeer, PeerOptions};
use pingora_core::{Error, ErrorType};
use pingora_load_balancing::health_check::{HealthCheck, HttpHealthCheck, TcpHealthCheck};
use sluice_config::{CheckKind, StatusRange};

use super::prober::ProbePolicy;
use crate::tls::anchor;
use grpc::GrpcHealthCheck;

/// `User-Agent` of checks, for the logs of applications.
const AGENT: HeaderValue = HeaderValue::from_static("sluice-health-check");

/// Why a check cannot be created.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckError {
    /// The path or host is invalid.
    #[error("the check {0} cannot be made: its path or host is not valid in a request")]
    Target(String),
    /// The endpoints of the Service port have the maximum number of checks.
    #[error("its Service port has {0} other checks already, and there can be no more")]
    TooMany(usize),
    /// A system call failed.
    #[error("no connector for checks: {0}")]
    Connector(#[from] std::io::Error),
}

impl CheckError {
    /// Returns whether the same check may be possible later.
    pub(super) fn may_pass(&self) -> bool {
        !matches!(self, Self::Target(_))
    }
}

/// Creates a check. Costs several hundred microseconds, so equal checks share one.
///
/// # Errors
/// See [`CheckError`].
pub(super) fn make(check: &sluice_config::HealthCheck, tls: bool) -> Result<Arc<ProbePolicy>, CheckError> {
    let bad = || CheckError::Target(check.to_string());
    let (healthy, unhealthy) = (check.healthy as usize, check.unhealthy as usize);
    let options = options()?;
    let made: Box<dyn HealthCheck + Send + Sync> = match &check.kind {
        CheckKind::Tcp => {
            let mut made = TcpHealthCheck::new();
            made.set_connector(TransportConnector::new(Some(options)));
            made.consecutive_success = healthy;
            made.consecutive_failure = unhealthy;
            limit(&mut made.peer_template.options, check.timeout);
            made
        }
        CheckKind::Http { path, host, statuses } => {
            HeaderValue::from_str(host).map_err(|_| bad())?;
            let connector = HttpConnector::new(Some(options));
            let mut made = HttpHealthCheck::new_custom(host, tls, connector);
            made.consecutive_success = healthy;
            made.consecutive_failure = unhealthy;
            made.req.set_uri(path.parse::<Uri>().map_err(|_| bad())?);
            made.req.insert_header(USER_AGENT, AGENT).map_err(|_| bad())?;
            let statuses = statuses.clone();
            made.validator = Some(Box::new(move |head| expect(&statuses, head.status.as_u16())));
            limit(&mut made.peer_template.options, check.timeout);
            Box::new(made)
        }
        CheckKind::Grpc { host, service } => {
            let peer = peer(host, tls, check.timeout);
            let connector = TransportConnector::new(Some(options));
            Box::new(
                GrpcHealthCheck::new(peer, connector, host, service, [unhealthy, healthy]).ok_or_else(bad)?,
            )
        }
    };
    Ok(Arc::new(ProbePolicy {
        interval: check.interval,
        timeout: check.timeout,
        port: check.port,
        check: made,
    }))
}

fn expect(statuses: &[StatusRange], status: u16) -> Result<(), Box<Error>> {
    match statuses.iter().any(|range| range.range().contains(&status)) {
        true => Ok(()),
        false => Error::e_explain(ErrorType::CustomCode("unexpected status", status), "in a health check"),
    }
}

/// Returns the peer template of a gRPC check. Each check sets its address.
fn peer(host: &str, tls: bool, timeout: Duration) -> HttpPeer {
    let name = if tls { host.split(':').next().unwrap_or_default().to_owned() } else { String::new() };
    let mut peer = HttpPeer::new("0.0.0.0:1", tls, name);
    peer.options.set_http_version(2, 2);
    limit(&mut peer.options, timeout);
    peer
}

/// Sets timeouts, and disables verification: endpoints are connected to without it by default.
fn limit(options: &mut PeerOptions, timeout: Duration) {
    options.verify_cert = false;
    options.verify_hostname = false;
    for limit in [
        &mut options.connection_timeout,
        &mut options.total_connection_timeout,
        &mut options.read_timeout,
        &mut options.write_timeout,
    ] {
        *limit = Some(timeout);
    }
}

/// Uses a trust anchor of our own: loading the system's costs time and memory, and nothing is
/// verified.
fn options() -> Result<ConnectorOptions, std::io::Error> {
    let mut options = ConnectorOptions::new(1);
    options.ca_file = Some(anchor::path()?);
    Ok(options)
}
