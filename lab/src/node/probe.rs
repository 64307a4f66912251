//! Execution of one probe or hook: an HTTP request, a TCP connection, a call of gRPC's health
//! service, or a command inside the container.

use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};
use k8s_openapi::api::core::v1::{Container, GRPCAction, HTTPGetAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rustls_pki_types::ServerName;
use sluice_testing::client::trusting;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::grpc_health;
use crate::exchange::exchange;
use crate::process::Process;

/// The target of a probe.
#[derive(Clone, Debug)]
pub struct ProbeTarget {
    /// The Pod's first address.
    pub address: IpAddr,
    /// The container's first process.
    pub process: Process,
    /// The container's environment.
    pub environment: Vec<(String, String)>,
}

/// The action of a probe. Errors contain the reason as text.
#[derive(Clone, Copy, Debug)]
pub enum ProbeAction<'a> {
    /// A GET, over TLS if the scheme is `HTTPS`, that must return 2xx or 3xx.
    Http(&'a HTTPGetAction),
    /// A connection that must be accepted.
    Tcp(Option<&'a String>, &'a IntOrString),
    /// A call of gRPC's health service, without TLS, that must report the named service as serving.
    Grpc(&'a GRPCAction),
    /// A command that must exit with 0.
    Exec(&'a [String]),
}

impl ProbeAction<'_> {
    /// Probes once.
    ///
    /// # Errors
    /// Returns an error if the probe fails or takes longer than `limit`.
    pub async fn run(
        self,
        container: &Container,
        target: &ProbeTarget,
        limit: Duration,
    ) -> Result<(), String> {
        let outcome = async {
            match self {
                Self::Http(action) => get(action, container, target).await,
                Self::Tcp(host, port) => connect(host, port, container, target).await.map(drop),
                Self::Grpc(action) => {
                    let port = IntOrString::Int(action.port);
                    let stream = connect(None, &port, container, target).await?;
                    grpc_health::check(stream, action.service.as_deref().unwrap_or_default()).await
                }
                Self::Exec(command) => exec(command, target).await,
            }
        };
        timeout(limit, outcome).await.unwrap_or_else(|_| Err(format!("no answer within {limit:?}")))
    }
}

async fn connect(
    host: Option<&String>,
    port: &IntOrString,
    container: &Container,
    target: &ProbeTarget,
) -> Result<TcpStream, String> {
    let address = match host.filter(|host| !host.is_empty()) {
        Some(host) => {
            host.parse().map_err(|_| format!("{host:?} is not an address, and the lab has no DNS"))?
        }
        None => target.address,
    };
    let socket = SocketAddr::new(address, number(port, container)?);
    TcpStream::connect(socket).await.map_err(|error| format!("{socket}: {error}"))
}

async fn get(action: &HTTPGetAction, container: &Container, target: &ProbeTarget) -> Result<(), String> {
    let stream = connect(action.host.as_ref(), &action.port, container, target).await?;
    let path = action.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
    let mut request = Request::get(path).body(Bytes::new()).map_err(|error| error.to_string())?;
    let headers = request.headers_mut();
    headers.insert(http::header::HOST, header(&target.address.to_string())?);
    headers.insert(http::header::USER_AGENT, HeaderValue::from_static("kube-probe/lab"));
    headers.insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    for given in action.http_headers.iter().flatten() {
        let name: HeaderName =
            given.name.parse().map_err(|_| format!("{:?} is not a header name", given.name))?;
        headers.insert(name, header(&given.value)?);
    }
    let answer = match action.scheme.as_deref() {
        Some("HTTPS") => exchange(secured(stream, target.address).await?, request).await,
        _ => exchange(stream, request).await,
    };
    let status = answer.map_err(|error| format!("{error:#}"))?.status();
    if (200..400).contains(&status.as_u16()) { Ok(()) } else { Err(format!("answered {status}")) }
}

/// Starts TLS without verification, as probes do.
async fn secured(stream: TcpStream, address: IpAddr) -> Result<TlsStream<TcpStream>, String> {
    let connector = TlsConnector::from(trusting(&[b"http/1.1"]));
    connector.connect(ServerName::from(address), stream).await.map_err(|error| format!("TLS: {error}"))
}

async fn exec(command: &[String], target: &ProbeTarget) -> Result<(), String> {
    let output = Command::new("/usr/bin/nsenter")
        .arg(format!("--target={}", target.process.pid()))
        .args(["--mount", "--pid", "--net", "--uts", "--ipc", "--root", "--wd", "--"])
        .args(command)
        .env_clear()
        .envs(target.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}

/// Returns a port by number, or by name among the container's ports.
fn number(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => container
            .ports
            .iter()
            .flatten()
            .find(|port| port.name.as_ref() == Some(name))
            .map(|port| port.container_port)
            .or_else(|| name.parse().ok()),
    };
    number
        .and_then(|number| u16::try_from(number).ok())
        .ok_or_else(|| format!("the container has no port {port:?}"))
}

fn header(value: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_str(value).map_err(|_| format!("{value:?} is not a header value"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sluice_testing::backend::Backend;
    use sluice_testing::certificate::TestCertificate;
    use sluice_testing::grpc::GrpcBackend;

    use super::*;

    #[tokio::test]
    async fn a_probe_by_https_takes_any_certificate() {
        let backend = Backend::tls("secured", TestCertificate::new(&["web.example"]).server_config());
        let container: Container = serde_json::from_value(json!({"name": "c"})).unwrap();
        let process = Process::own().unwrap();
        let target = ProbeTarget { address: backend.address.ip(), process, environment: Vec::new() };
        let action = |scheme: &str| -> HTTPGetAction {
            serde_json::from_value(json!({"port": backend.address.port(), "scheme": scheme})).unwrap()
        };
        assert_eq!(get(&action("HTTPS"), &container, &target).await, Ok(()));
        assert!(get(&action("HTTP"), &container, &target).await.is_err());
    }

    #[tokio::test]
    async fn a_grpc_probe_follows_the_health_service() {
        let backend = GrpcBackend::plain();
        let container: Container = serde_json::from_value(json!({"name": "c"})).unwrap();
        let process = Process::own().unwrap();
        let target = ProbeTarget { address: backend.address.ip(), process, environment: Vec::new() };
        let probe = async |service: &str| {
            let action = GRPCAction {
                port: backend.address.port().into(),
                service: Some(service.to_owned()),
                ..GRPCAction::default()
            };
            ProbeAction::Grpc(&action).run(&container, &target, Duration::from_secs(30)).await
        };
        assert_eq!(probe("").await, Ok(()));
        assert_eq!(probe("shop.Cart").await, Ok(()));
        assert_eq!(backend.seen()[0].uri.path(), "/grpc.health.v1.Health/Check");
        backend.set_healthy(false);
        assert!(probe("").await.is_err());
    }

    #[test]
    fn a_port_is_found_by_number_and_by_name() {
        let container: Container = serde_json::from_value(serde_json::json!({
            "name": "c", "ports": [{"name": "http", "containerPort": 8080}],
        }))
        .unwrap();
        assert_eq!(number(&IntOrString::Int(80), &container), Ok(80));
        assert_eq!(number(&IntOrString::String("http".into()), &container), Ok(8080));
        assert!(number(&IntOrString::String("https".into()), &container).is_err());
        assert!(number(&IntOrString::Int(70_000), &container).is_err());
    }
}
