//! `kubectl port-forward` and `kubectl exec`: starts a program for each connection and relays its
//! bytes. The program consists of the kubelet's packages (`lab/go/streams`), because the streams of
//! both are in SPDY, for which there is no library in Rust.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::{fs, io};

use anyhow::{Context, Result};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
use tokio::process::{Child, Command};
use tracing::debug;

use super::NodeContext;
use super::response::{Body, text};
use crate::network;
use crate::process::Process;
use crate::programs::{Unit, find};

/// The file of a Pod that names its network namespace.
const NETWORK: &str = "network";

/// Records the network namespace of a Pod, which it has before its first container, and while none
/// of them runs.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn record_network(pod_dir: &Path, netns: &str) -> io::Result<()> {
    fs::create_dir_all(pod_dir)?;
    fs::write(pod_dir.join(NETWORK), netns)
}

/// Forwards connections to ports of a Pod.
pub async fn port_forward(
    node: &NodeContext,
    namespace: &str,
    pod: &str,
    request: Request<Incoming>,
) -> Response<Body> {
    let dir = node.running_pod_dir(namespace, pod);
    let netns = dir.and_then(|dir| fs::read_to_string(dir.join(NETWORK)).ok());
    let Some(netns) = netns else {
        return text(StatusCode::NOT_FOUND, format!("no Pod {namespace}/{pod} runs here"));
    };
    relayed(&[&format!("--net={}", network::path(&netns).display())], &["port-forward"], request).await
}

/// Runs a command in a container.
pub async fn exec(
    node: &NodeContext,
    namespace: &str,
    pod: &str,
    container: &str,
    request: Request<Incoming>,
) -> Response<Body> {
    let record = node.running_pod_dir(namespace, pod).map(|dir| dir.join("processes").join(container));
    let process = record.and_then(|record| Process::read(&record)).filter(|process| process.is_alive());
    match process {
        Some(process) => relayed(&[], &["exec", &process.pid().to_string()], request).await,
        None => {
            let message = format!("no container {container} of a Pod {namespace}/{pod} runs here");
            text(StatusCode::NOT_FOUND, message)
        }
    }
}

async fn relayed(namespaces: &[&str], arguments: &[&str], request: Request<Incoming>) -> Response<Body> {
    let response = relay(namespaces, arguments, request).await;
    response.unwrap_or_else(|error| text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")))
}

/// Starts the program in these namespaces, sends it the request, and returns its response. If that
/// is an upgrade, relays what follows until one side has ended.
async fn relay(
    namespaces: &[&str],
    arguments: &[&str],
    mut request: Request<Incoming>,
) -> Result<Response<Body>> {
    let (own, theirs) = UnixStream::pair()?;
    own.set_nonblocking(true)?;
    let program = find(Unit::Streams, "streams")?;
    let mut child = Command::new("nsenter")
        .args(namespaces)
        .arg("--")
        .arg(program)
        .args(arguments)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .kill_on_drop(true)
        .spawn()
        .context("cannot run nsenter")?;
    let (mut sender, connection) = handshake(TokioIo::new(tokio::net::UnixStream::from_std(own)?)).await?;
    tokio::spawn(connection.with_upgrades());
    let mut sent = Request::new(Empty::<Bytes>::new());
    *sent.method_mut() = request.method().clone();
    *sent.uri_mut() = request.uri().clone();
    *sent.headers_mut() = request.headers().clone();
    let mut response = sender.send_request(sent).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let client = hyper::upgrade::on(&mut request);
        let server = hyper::upgrade::on(&mut response);
        tokio::spawn(async move {
            if let Err(error) = splice(client, server, &mut child).await {
                debug!("a stream to a Pod: {error:#}");
            }
        });
        let (head, _) = response.into_parts();
        return Ok(Response::from_parts(head, Empty::new().boxed_unsync()));
    }
    let (head, body) = response.into_parts();
    let body = http_body_util::Full::new(body.collect().await?.to_bytes());
    Ok(Response::from_parts(head, body.boxed_unsync()))
}

async fn splice(
    client: hyper::upgrade::OnUpgrade,
    server: hyper::upgrade::OnUpgrade,
    child: &mut Child,
) -> Result<()> {
    let (client, server) = tokio::try_join!(client, server)?;
    let copied = copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(server)).await;
    child.kill().await?;
    copied?;
    Ok(())
}
