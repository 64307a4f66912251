//! TCP that proxies forward without interpreting it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Work;
use crate::bench::origin::streams::{ECHO, FLOOD};

/// Time limit of a client for the first connection, and for an echo.
const TIMEOUT: Duration = Duration::from_secs(5);
const MIB: u64 = 1024 * 1024;

/// One kind of TCP traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tcp {
    /// The origin sends as much as the clients receive. A MiB counts as one request.
    Throughput,
    /// Connections with one echo each.
    Connections,
}

/// Counters of all clients.
#[derive(Debug, Default)]
struct Tally {
    is_over: AtomicBool,
    done: AtomicU64,
    failed: AtomicU64,
}

impl Tcp {
    const fn clients(self) -> usize {
        match self {
            Self::Throughput => 8,
            Self::Connections => 32,
        }
    }

    /// Runs the load.
    ///
    /// # Errors
    /// The proxy does not forward connections.
    pub async fn run(self, address: SocketAddr, duration: Duration) -> anyhow::Result<Work> {
        opened(address).await?;
        let tally = Arc::<Tally>::default();
        let started = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..self.clients() {
            let tally = tally.clone();
            tasks.spawn(async move {
                match self {
                    Self::Throughput => tally.receive(address).await,
                    Self::Connections => tally.connect(address).await,
                }
            });
        }
        tokio::time::sleep(duration).await;
        tally.is_over.store(true, Ordering::Relaxed);
        while tasks.join_next().await.is_some() {}
        let done = tally.done.load(Ordering::Relaxed);
        let served = if self == Self::Throughput { done / MIB } else { done };
        let failed = tally.failed.load(Ordering::Relaxed);
        Ok(Work { served, failed, in_time: served, elapsed: started.elapsed(), latency: None })
    }
}

impl Tally {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    /// Receives the flood of one connection.
    async fn receive(&self, address: SocketAddr) {
        let flooded = async {
            let mut stream = TcpStream::connect(address).await?;
            stream.write_all(&FLOOD).await?;
            let mut buffer = vec![0; 1 << 20];
            while self.goes_on() {
                // The kernel drops the bytes without a copy (`MSG_TRUNC`), so that the load is not
                // the bottleneck.
                let take = || Ok(recv(&stream, &mut buffer[..], RecvFlags::TRUNC)?.1);
                match stream.async_io(Interest::READABLE, take).await? {
                    0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                    count => self.done.fetch_add(count as u64, Ordering::Relaxed),
                };
            }
            std::io::Result::Ok(())
        };
        self.failed.fetch_add(u64::from(flooded.await.is_err()), Ordering::Relaxed);
    }

    /// Opens one connection after the other.
    async fn connect(&self, address: SocketAddr) {
        while self.goes_on() {
            match timeout(TIMEOUT, echoed(address)).await {
                Ok(Ok(_)) => self.done.fetch_add(1, Ordering::Relaxed),
                _ => self.failed.fetch_add(1, Ordering::Relaxed),
            };
        }
    }
}

/// Waits until the proxy forwards connections, which may be later than its first response to HTTP.
///
/// # Errors
/// It does not in time.
pub async fn opened(address: SocketAddr) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        match timeout(TIMEOUT, echoed(address)).await? {
            Ok(_) => return Ok(()),
            Err(error) if started.elapsed() > TIMEOUT => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Opens a connection and receives one echo.
///
/// # Errors
/// The connection fails.
pub async fn echoed(address: SocketAddr) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(&ECHO).await?;
    stream.read_exact(&mut [0; ECHO.len()]).await?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use sluice_testing::ports;

    use super::*;
    use crate::bench::origin::server;

    #[tokio::test]
    async fn both_kinds_of_traffic_pass_without_a_failure() {
        let [address] = ports::addresses();
        let _origin = tokio::spawn(server::serve(address));
        for traffic in [Tcp::Connections, Tcp::Throughput] {
            let work = traffic.run(address, Duration::from_millis(200)).await.unwrap();
            assert!(work.served > 0 && work.failed == 0, "{traffic:?}: {work:?}");
        }
    }
}
