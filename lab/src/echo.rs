//! The backend of cluster tests: answers with which Pod it is and what it was asked, and behaves as told.
//!
//! `?status=503` sets the answer's status, `?delay_ms=200` its delay; `/log/TEXT` prints a line; `/unready` and
//! `/ready` switch what the readiness probe `/healthz` gets; `/crash` ends the program with 3. On SIGTERM it goes on for
//! `--drain-ms`, then takes no more connections and ends when the running requests have.

use std::convert::Infallible;
use std::net::{Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use clap::Args;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

/// How the echo server behaves.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Where it listens.
    #[arg(long, env = "PORT", default_value_t = 8080)]
    port: u16,
    /// How long it goes on after SIGTERM as if nothing were, in milliseconds.
    #[arg(long, env = "DRAIN_MS", default_value_t = 0)]
    drain_ms: u64,
}

/// What requests can change.
struct State {
    ready: AtomicBool,
    crash: Notify,
}

/// Serves until SIGTERM.
///
/// # Errors
/// When the port is taken.
pub async fn run(options: Options) -> Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, options.port));
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    println!("listening on port {}", options.port);
    let state = Arc::new(State { ready: AtomicBool::new(true), crash: Notify::new() });
    let connections = GracefulShutdown::new();
    let ending = async {
        terminate.recv().await;
        println!("draining");
        tokio::time::sleep(Duration::from_millis(options.drain_ms)).await;
    };
    tokio::pin!(ending);
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => continue,
            },
            () = &mut ending => break,
            () = state.crash.notified() => return Ok(ExitCode::from(3)),
        };
        // An answer goes out at once, whatever the client has in flight.
        let _ = stream.set_nodelay(true);
        let state = state.clone();
        let service = service_fn(move |request| {
            let state = state.clone();
            async move { Ok::<_, Infallible>(answer(request, &state).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service);
        let connection = connections.watch(connection);
        // A client that breaks off is its own business.
        tokio::spawn(async move { drop(connection.await) });
    }
    drop(listener);
    connections.shutdown().await;
    println!("ended");
    Ok(ExitCode::SUCCESS)
}

async fn answer(request: Request<Incoming>, state: &State) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let length = body.collect().await.map_or(0, |body| body.to_bytes().len());
    let path = head.uri.path();
    match path {
        "/healthz" => {
            let status = if state.ready.load(Ordering::Relaxed) {
                StatusCode::OK
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            return plain(status, Bytes::new());
        }
        "/ready" | "/unready" => state.ready.store(path == "/ready", Ordering::Relaxed),
        "/crash" => {
            state.crash.notify_one();
            return std::future::pending().await;
        }
        _ => {}
    }
    if let Some(line) = path.strip_prefix("/log/") {
        println!("{line}");
    }
    if let Some(delay) = query(&head.uri, "delay_ms") {
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
    let status =
        query(&head.uri, "status").and_then(|code| StatusCode::from_u16(u16::try_from(code).ok()?).ok());
    let headers: Vec<(String, String)> = head
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let variable = |name| std::env::var(name).ok();
    let answer = json!({
        "pod": variable("HOSTNAME"),
        "namespace": variable("NAMESPACE"),
        "node": variable("NODE_NAME"),
        "method": head.method.as_str(),
        "path": head.uri.path_and_query().map(ToString::to_string),
        "headers": headers,
        "body_length": length,
    });
    let mut response = plain(status.unwrap_or(StatusCode::OK), Bytes::from(answer.to_string()));
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    response
}

fn plain(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
}

fn query(uri: &http::Uri, name: &str) -> Option<u64> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(known, _)| *known == name)?.1.parse().ok()
}
