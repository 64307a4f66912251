//! A gateway in this process that answers the checked requests: the data plane that serves, with
//! the checked configuration, on loopback.
//!
//! Its decisions are those of the router and the pipeline, because it runs them. Each connection
//! begins with a PROXY header, so that address lists see the client of the request. The gateway's
//! access log has the rule, the Service and the endpoint of each request ([`records`]). A second
//! data plane without listeners has the unchanged configuration and explains the decisions.

mod adapted;
mod explanation;
mod records;
mod stub;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sluice_config::{Generation, GroupId, Report, Snapshot};
use sluice_gateway::admin;
use sluice_gateway::data_plane::DataPlane;
use sluice_gateway::telemetry::{AccessLog, Telemetry, TelemetryOptions};
use sluice_gateway::worker::engine_choice::EngineChoice;
use tokio::time::timeout;

use super::http_client::{HttpClient, NoResponse, ResponseHead};
use super::requests::CheckedRequest;
use crate::flags::ExplainRequest;
use crate::show::explanation::page;
pub(super) use explanation::Explanation;
pub(super) use records::Record;
use records::Records;

/// Time limit for the log line of a response.
const LOG_TIMEOUT: Duration = Duration::from_secs(15);

/// The endpoints of the rehearsal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoints {
    /// A stub on loopback answers in place of every endpoint. Nothing leaves this machine.
    Stub,
    /// The endpoints of the configuration.
    Real,
}

/// The running gateway.
pub(super) struct Rehearsal {
    /// Answers the requests. It runs until this is dropped.
    _served: DataPlane,
    explained: DataPlane,
    http: SocketAddr,
    https: SocketAddr,
    records: Arc<Records>,
    next: AtomicU16,
    client: HttpClient,
}

/// The response of the rehearsal, with its log line.
#[derive(Debug)]
pub(super) struct Rehearsed {
    pub(super) head: ResponseHead,
    /// Absent if the gateway has logged nothing in time.
    pub(super) record: Option<Record>,
}

impl Rehearsal {
    /// Starts the gateway. Must be called on a Tokio runtime, which has to run for as long.
    ///
    /// # Errors
    /// A thread cannot be started, or a port of loopback cannot be bound.
    pub(super) async fn start(snapshot: &Snapshot, endpoints: Endpoints) -> Result<Self> {
        let stub = match endpoints {
            Endpoints::Stub => Some(stub::start().await.context("cannot listen on loopback")?),
            Endpoints::Real => None,
        };
        let records = Arc::<Records>::default();
        let log = AccessLog::to(records.clone().writer()).context("cannot start a thread")?;
        let served = plane(&adapted::adapted(snapshot, stub), log)?;
        let (http, https) = (served.1, served.2);
        let (explained, ..) = plane(&adapted::without_sockets(snapshot), AccessLog::none())?;
        let (Some(http), Some(https)) = (http, https) else {
            bail!("cannot listen on loopback; check the limit of open files")
        };
        Ok(Self {
            _served: served.0,
            explained,
            http,
            https,
            records,
            next: AtomicU16::new(1),
            client: HttpClient::new(),
        })
    }

    /// Sends a request to the gateway.
    ///
    /// # Errors
    /// There is no response.
    pub(super) async fn send(&self, request: &CheckedRequest) -> Result<Rehearsed, NoResponse> {
        // The port of the client in the PROXY header identifies the request in the log.
        let port = self.next.fetch_add(1, Ordering::Relaxed).max(1);
        let record = self.records.expect(port);
        let (address, declared) = if request.https { (self.https, 443) } else { (self.http, 80) };
        let preface = proxy_header(request.client, port, declared);
        let address = (&*address.ip().to_string(), address.port());
        let mut head = self.client.send(address, preface.as_bytes(), request).await?;
        // Some redirects name the port of the socket, which is a free one here.
        head.rename_port(address.1, declared);
        let record = timeout(LOG_TIMEOUT, record).await;
        Ok(Rehearsed { head, record: record.ok().and_then(Result::ok) })
    }

    /// Explains the decision for a request.
    pub(super) fn explain(&self, request: &CheckedRequest) -> Explanation {
        let fields = request.fields.iter();
        let headers =
            fields.map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())));
        let query = page(&ExplainRequest {
            host: request.authority.clone(),
            path: request.target.clone(),
            method: request.method.to_string(),
            headers: headers.collect(),
            https: request.https,
            client: request.client.to_string(),
        });
        let query = query.split_once('?').map_or("", |(_, query)| query);
        Explanation::of(admin::explain(self.explained.state(), query))
    }
}

/// Starts a data plane with a configuration. Returns the addresses of its first two listeners.
fn plane(snapshot: &Snapshot, log: AccessLog) -> Result<(DataPlane, Option<SocketAddr>, Option<SocketAddr>)> {
    let telemetry = Arc::new(Telemetry::new(TelemetryOptions::default(), log)?);
    let (plane, _) = DataPlane::start(1, EngineChoice::Direct, telemetry)?;
    let (_, binds) = plane.apply(&snapshot.to_delta(Generation(1)));
    let mut addresses = binds.into_iter().filter_map(|report| match report {
        Report::Binds { group, results } if group == GroupId::ingress() => Some(results),
        _ => None,
    });
    let addresses = addresses.next().unwrap_or_default();
    let address = |number: usize| {
        addresses.get(number).filter(|bound| bound.error.is_none()).map(|bound| bound.address)
    };
    Ok((plane, address(0), address(1)))
}

/// Returns a header of the PROXY protocol, version 1.
fn proxy_header(client: IpAddr, port: u16, declared: u16) -> String {
    match client {
        IpAddr::V4(client) => format!("PROXY TCP4 {client} 127.0.0.1 {port} {declared}\r\n"),
        IpAddr::V6(client) => format!("PROXY TCP6 {client} ::1 {port} {declared}\r\n"),
    }
}
