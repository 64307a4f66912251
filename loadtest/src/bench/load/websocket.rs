//! WebSocket clients that send a short message and wait for its echo, at full speed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::Work;
use crate::bench::setup::{HOST, Setup};
use crate::client::GatewayTarget;

/// Number of WebSockets.
const SOCKETS: usize = 64;
/// A masked text frame of 100 bytes (RFC 6455). Proxies forward it unchanged.
const MESSAGE: [u8; 106] = frame();

const fn frame() -> [u8; 106] {
    let mut bytes = [b'x'; 106];
    bytes[0] = 0x81;
    bytes[1] = 0x80 | 100;
    let mut index = 2;
    while index < 6 {
        bytes[index] = 0;
        index += 1;
    }
    bytes
}

/// Runs the load. One message and its echo count as one request.
///
/// # Errors
/// A WebSocket cannot be opened.
pub async fn run(setup: &Setup, duration: Duration) -> anyhow::Result<Work> {
    let target = GatewayTarget::plain(setup.http, HOST);
    let mut sockets = Vec::new();
    for _ in 0..SOCKETS {
        let mut connection = target.connect().await?;
        connection.upgrade().await?;
        sockets.push(connection);
    }
    let served = Arc::new(AtomicU64::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for mut socket in sockets {
        let (served, over) = (served.clone(), over.clone());
        tasks.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                socket.echo(&MESSAGE).await?;
                served.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    tokio::time::sleep(duration).await;
    over.store(true, Ordering::Relaxed);
    let mut failed = 0;
    while let Some(ended) = tasks.join_next().await {
        failed += u64::from(ended?.is_err());
    }
    let served = served.load(Ordering::Relaxed);
    Ok(Work { served, failed, in_time: served, elapsed: started.elapsed(), latency: None })
}
