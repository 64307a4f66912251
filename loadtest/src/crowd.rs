//! Thousands of connections that are idle after one request each.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::client::{Connection, GatewayTarget};

/// Number of connections that are opened concurrently.
pub const AT_ONCE: usize = 64;
/// Time for which memory must be stable before it is read.
const STILL: Duration = Duration::from_millis(500);
/// Change in bytes that counts as stable.
const NOISE: u64 = 64 * 1024;

/// Opens connections and sends one request on each.
///
/// # Errors
/// A connection or its request is refused.
pub async fn open(target: &GatewayTarget, count: usize) -> anyhow::Result<Vec<Connection>> {
    gather(count, || {
        let target = target.clone();
        async move {
            let mut connection = target.connect().await?;
            let answer = connection.get("/").await?;
            anyhow::ensure!(answer.status == 200 && !answer.close, "{answer:?}");
            Ok(connection)
        }
    })
    .await
}

/// Opens `count` connections with `open`, [`AT_ONCE`] at a time.
///
/// # Errors
/// That of the first connection that fails.
pub async fn gather<C: Send + 'static, F>(count: usize, open: impl Fn() -> F) -> anyhow::Result<Vec<C>>
where
    F: Future<Output = anyhow::Result<C>> + Send + 'static,
{
    let mut opening = JoinSet::new();
    let mut connections = Vec::with_capacity(count);
    for index in 0..count {
        if index >= AT_ONCE
            && let Some(opened) = opening.join_next().await
        {
            connections.push(opened??);
        }
        opening.spawn(open());
    }
    while let Some(opened) = opening.join_next().await {
        connections.push(opened??);
    }
    Ok(connections)
}

/// Returns the memory once it is stable.
///
/// # Errors
/// It cannot be read.
pub async fn still(memory: impl Fn() -> anyhow::Result<u64>) -> anyhow::Result<u64> {
    let mut last = memory()?;
    loop {
        tokio::time::sleep(STILL).await;
        let now = memory()?;
        if now.abs_diff(last) < NOISE {
            return Ok(now);
        }
        last = now;
    }
}
