//! Backends: listeners in this process that respond with their name at low cost.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A backend that serves until it is stopped or dropped. Upgraded connections outlive it, like
/// those of a Pod during its termination grace period.
#[derive(Debug)]
pub struct Backend {
    /// The address on which it listens.
    pub address: SocketAddr,
    stop: watch::Sender<bool>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    answer: Vec<u8>,
    started: Instant,
    /// Nanoseconds from `started` to the first request; 0 before that.
    first: AtomicU64,
    requests: AtomicU64,
}

impl Backend {
    /// Starts a backend.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn start(ip: IpAddr, port: u16, name: &str) -> anyhow::Result<Self> {
        let listener =
            TcpListener::bind((ip, port)).await.with_context(|| format!("cannot bind {ip}:{port}"))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            answer: format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len()).into_bytes(),
            started: Instant::now(),
            first: AtomicU64::new(0),
            requests: AtomicU64::new(0),
        });
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(shared.clone().accept(listener, stopped));
        Ok(Self { address, stop, shared })
    }

    /// Closes the listener and every connection that is not upgraded.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Returns the number of requests received.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Returns the time of its first request.
    pub fn first_request(&self) -> Option<Instant> {
        match self.shared.first.load(Ordering::Acquire) {
            0 => None,
            nanoseconds => Some(self.shared.started + Duration::from_nanos(nanoseconds)),
        }
    }
}

/// Starts a server that accepts connections and never responds. It runs until the process ends.
///
/// # Errors
/// The address cannot be bound.
pub async fn silent(ip: IpAddr, port: u16) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((ip, port)).await.with_context(|| format!("cannot bind {ip}:{port}"))?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        loop {
            // Out of file descriptors: the client waits in the queue of the socket.
            let Ok((mut stream, _)) = listener.accept().await else { continue };
            tokio::spawn(async move {
                // Ends when the client closes the connection.
                let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            });
        }
    });
    Ok(address)
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    async fn accept(self: Arc<Self>, listener: TcpListener, mut stopped: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = ended(&mut stopped) => return,
                accepted = listener.accept() => {
                    // Out of file descriptors: the client times out, and the run counts a failure.
                    let Ok((stream, _)) = accepted else { continue };
                    let serving = self.clone().serve(stream, stopped.clone());
                    tokio::spawn(async move {
                        // An error means that the gateway closed the connection.
                        let _ = serving.await;
                    });
                }
            }
        }
    }

    async fn serve(
        self: Arc<Self>,
        mut stream: TcpStream,
        mut stopped: watch::Receiver<bool>,
    ) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut buffer = Vec::with_capacity(2048);
        loop {
            let end = loop {
                if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                    break end + 4;
                }
                tokio::select! {
                    () = ended(&mut stopped) => return Ok(()),
                    count = stream.read_buf(&mut buffer) => if count? == 0 { return Ok(()) },
                }
            };
            let upgrade = is_upgrade(&buffer[..end]);
            buffer.drain(..end);
            self.count();
            if upgrade {
                return parrot(stream).await;
            }
            stream.write_all(&self.answer).await?;
        }
    }

    fn count(&self) {
        if self.requests.fetch_add(1, Ordering::Relaxed) == 0 {
            let nanoseconds = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1);
            self.first.store(nanoseconds, Ordering::Release);
        }
    }
}

async fn ended(stopped: &mut watch::Receiver<bool>) {
    // An error means that the backend was dropped, which ends it too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

fn is_upgrade(head: &[u8]) -> bool {
    head.to_ascii_lowercase().windows(10).any(|window| window == b"\r\nupgrade:")
}

/// Echoes everything until the other side closes.
async fn parrot(mut stream: TcpStream) -> std::io::Result<()> {
    stream
        .write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        .await?;
    let (mut reader, mut writer) = stream.split();
    tokio::io::copy(&mut reader, &mut writer).await.map(|_| ())
}
