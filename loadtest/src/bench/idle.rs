//! The memory of idle connections.

use super::child::Running;
use super::sample::Idle;
use super::setup::HOST;
use crate::client::Target;
use crate::crowd::{AT_ONCE, open, still};
use crate::tls::trusting_common;

/// Number of connections that are held open.
const CONNECTIONS: usize = 9_500;

/// Opens connections with one request each, and closes them again.
///
/// # Errors
/// The proxy refuses a connection.
pub async fn measure(running: &Running, tls: bool) -> anyhow::Result<Idle> {
    let target = match tls {
        false => Target::plain(running.setup.http, HOST),
        true => Target::tls(running.setup.https, HOST, trusting_common()),
    };
    // Excludes the one-time cost of the first connections.
    drop(open(&target, AT_ONCE * 4).await?);
    let before = still(|| running.memory()).await?;
    let connections = open(&target, CONNECTIONS).await?;
    let during = still(|| running.memory()).await?;
    drop(connections);
    let after = still(|| running.memory()).await?;
    let taken = during.saturating_sub(before) as f64;
    let given_back = during.saturating_sub(after) as f64 / taken.max(1.0);
    Ok(Idle { each: taken / CONNECTIONS as f64, given_back })
}
