//! The memory of idle connections.

use std::net::SocketAddr;

use tokio::net::TcpStream;

use super::child::Running;
use super::load::tcp;
use super::sample::Idle;
use super::scenario::IdleProtocol;
use super::setup::HOST;
use crate::client::GatewayTarget;
use crate::crowd::{AT_ONCE, gather, open, still};
use crate::tls::trusting_common;

/// Number of connections that are held open.
const CONNECTIONS: usize = 9_500;
/// The same for TCP, where each needs two descriptors of a proxy.
const TCP_CONNECTIONS: usize = 4_000;

/// Opens connections with one request each, and closes them again.
///
/// # Errors
/// The proxy refuses a connection.
pub async fn measure(running: &Running, protocol: IdleProtocol) -> anyhow::Result<Idle> {
    let setup = &running.setup;
    let target = match protocol {
        IdleProtocol::Http => GatewayTarget::plain(setup.http, HOST),
        IdleProtocol::Https => GatewayTarget::tls(setup.https, HOST, trusting_common()),
        IdleProtocol::Tcp => {
            tcp::opened(setup.stream).await?;
            return held(running, TCP_CONNECTIONS, async |count| open_tcp(setup.stream, count).await).await;
        }
    };
    held(running, CONNECTIONS, async |count| open(&target, count).await).await
}

/// Measures `count` connections that `open` opens.
async fn held<C>(
    running: &Running,
    count: usize,
    open: impl AsyncFn(usize) -> anyhow::Result<Vec<C>>,
) -> anyhow::Result<Idle> {
    // Excludes the one-time cost of the first connections.
    drop(open(AT_ONCE * 4).await?);
    let before = still(|| running.memory()).await?;
    let connections = open(count).await?;
    let during = still(|| running.memory()).await?;
    drop(connections);
    let after = still(|| running.memory()).await?;
    let taken = during.saturating_sub(before) as f64;
    let given_back = during.saturating_sub(after) as f64 / taken.max(1.0);
    Ok(Idle { each: taken / count as f64, given_back })
}

/// Opens connections with one echo each.
async fn open_tcp(address: SocketAddr, count: usize) -> anyhow::Result<Vec<TcpStream>> {
    gather(count, || async move { Ok(tcp::echoed(address).await?) }).await
}
