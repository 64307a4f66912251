//! The backend of cluster tests: responds with its Pod and the received request, and behaves as the
//! request specifies ([`sluice_testing::echo`]).
//!
//! In addition, as a Pod: `/log/TEXT` prints a line; `/unready` and `/ready` change the response to
//! the readiness probe `/healthz`; `/crash` ends the program with exit code 3. After SIGTERM it
//! serves for `--drain-ms` longer, then accepts no more connections and exits when open requests
//! are complete. With the corresponding ports it also implements gRPC's health service, with the
//! state of `/healthz`, and sends datagrams back with its name and the sender's address.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use clap::Args;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use sluice_testing::echo::{self, Identity};
use sluice_testing::grpc::GrpcBackend;
use tokio::net::{TcpListener, UdpSocket};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

/// Options of the echo server.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Port on which it listens.
    #[arg(long, env = "PORT", default_value_t = 8080)]
    port: u16,
    /// Time in milliseconds for which it keeps serving after SIGTERM.
    #[arg(long, env = "DRAIN_MS", default_value_t = 0)]
    drain_ms: u64,
    /// Port of gRPC's health service.
    #[arg(long, env = "GRPC_PORT")]
    grpc_port: Option<u16>,
    /// Port for datagrams.
    #[arg(long, env = "UDP_PORT")]
    udp_port: Option<u16>,
}

/// State that requests can change.
struct State {
    identity: Identity,
    ready: AtomicBool,
    crash: Notify,
    grpc: Option<GrpcBackend>,
}

/// Serves until SIGTERM.
///
/// # Errors
/// Returns an error if the port is taken.
pub async fn run(options: Options) -> Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, options.port));
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    println!("listening on port {}", options.port);
    let variable = |name| std::env::var(name).ok();
    let identity =
        Identity { pod: variable("HOSTNAME"), namespace: variable("NAMESPACE"), node: variable("NODE_NAME") };
    let grpc = options.grpc_port.map(|port| GrpcBackend::at((Ipv4Addr::UNSPECIFIED, port).into()));
    if let Some(port) = options.udp_port {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).await?;
        tokio::spawn(send_back(socket, identity.pod.clone().unwrap_or_default()));
    }
    let state = Arc::new(State { identity, ready: AtomicBool::new(true), crash: Notify::new(), grpc });
    let ending = async {
        terminate.recv().await;
        println!("draining");
        tokio::time::sleep(Duration::from_millis(options.drain_ms)).await;
    };
    let shared = state.clone();
    let answer = move |request| {
        let state = shared.clone();
        async move { answer(request, &state).await }
    };
    tokio::select! {
        () = echo::serve(listener, answer, ending) => {}
        () = state.crash.notified() => return Ok(ExitCode::from(3)),
    }
    println!("ended");
    Ok(ExitCode::SUCCESS)
}

/// Answers each datagram with `POD ADDRESS TEXT`.
async fn send_back(socket: UdpSocket, pod: String) {
    let mut datagram = [0; 2048];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut datagram).await else { continue };
        let answer = [format!("{pod} {from} ").as_bytes(), &datagram[..length]].concat();
        // An error means that the client is gone.
        let _ = socket.send_to(&answer, from).await;
    }
}

async fn answer(request: Request<Incoming>, state: &State) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    match path {
        "/healthz" => {
            let mut response = Response::new(Full::default());
            if !state.ready.load(Ordering::Relaxed) {
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            }
            return response;
        }
        "/ready" | "/unready" => {
            state.ready.store(path == "/ready", Ordering::Relaxed);
            if let Some(grpc) = &state.grpc {
                grpc.set_healthy(path == "/ready");
            }
        }
        "/crash" => {
            state.crash.notify_one();
            return std::future::pending().await;
        }
        _ => {}
    }
    if let Some(line) = path.strip_prefix("/log/") {
        println!("{line}");
    }
    echo::answer(request, &state.identity).await
}
