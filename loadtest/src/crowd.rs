//! Thousands of connections that have each had one request and then do nothing.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::client::{Connection, Target};

/// Connections that are opened at the same time.
pub const AT_ONCE: usize = 64;
/// How long memory must stay the same before it is read.
const STILL: Duration = Duration::from_millis(500);
/// What still moves when it stays the same, bytes.
const NOISE: u64 = 64 * 1024;

/// Opens connections, each with one request.
///
/// # Errors
/// One is refused, or its request is.
pub async fn open(target: &Target, count: usize) -> anyhow::Result<Vec<Connection>> {
    let mut opening = JoinSet::new();
    let mut connections = Vec::with_capacity(count);
    for index in 0..count {
        if index >= AT_ONCE
            && let Some(opened) = opening.join_next().await
        {
            connections.push(opened??);
        }
        let target = target.clone();
        opening.spawn(async move {
            let mut connection = target.connect().await?;
            let answer = connection.get("/").await?;
            anyhow::ensure!(answer.status == 200 && !answer.close, "{answer:?}");
            anyhow::Ok(connection)
        });
    }
    while let Some(opened) = opening.join_next().await {
        connections.push(opened??);
    }
    Ok(connections)
}

/// Memory once it has stopped moving.
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
