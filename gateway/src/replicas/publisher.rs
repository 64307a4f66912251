//! Sends the use of this replica's limits to the replicas that subscribe.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWriteExt, BufWriter};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, broadcast};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::identity::ReplicaIdentity;
use super::message::{self, Greeting};
use super::own_replica::OwnReplica;
use crate::io::bind::bind;

/// Interval between two batches. What replicas grant too much is the use of this time.
const BATCHES: Duration = Duration::from_millis(100);

/// Interval after which a batch without entries is sent.
pub(super) const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// Time limit for a handshake, and for sending one batch.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Batches that a slow subscriber may be late. It is disconnected then, and counts as one that does
/// not hear this replica.
pub(super) const QUEUE: usize = 64;

/// Maximum number of connections.
const CONNECTIONS: usize = 1024;

/// Interval between two attempts to bind the address.
const RETRY: Duration = Duration::from_secs(1);

/// Sends what clients have used to `batches`. Does not return.
pub(super) async fn collect(own: OwnReplica, batches: broadcast::Sender<Bytes>) {
    let mut ticks = interval(BATCHES);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Instant::now();
    loop {
        ticks.tick().await;
        let all = own.limiter.take_use();
        own.counts.sent.inc_by(all.len() as u64);
        // Without subscribers, what was used is dropped.
        if all.is_empty() && last.elapsed() >= SIGN_OF_LIFE {
            last = Instant::now();
            let _ = batches.send(message::batch(&[]));
        }
        for batch in message::batches(&all) {
            last = Instant::now();
            let _ = batches.send(batch);
        }
    }
}

/// Accepts subscribers and sends them batches. Calls `report` with the reason while the address
/// cannot be bound. Does not return.
pub(super) async fn publish(
    address: SocketAddr,
    identity: Arc<ReplicaIdentity>,
    greeting: Greeting,
    batches: broadcast::Sender<Bytes>,
    report: impl Fn(Option<String>),
) {
    let listener = loop {
        match bind(address).await {
            Ok(listener) => break listener,
            Err(error) => report(Some(error.to_string())),
        }
        sleep(RETRY).await;
    };
    report(None);
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        // Never closed.
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a replica");
                sleep(RETRY).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let (identity, received) = (identity.clone(), batches.subscribe());
        connections.spawn(async move {
            let _permit = permit;
            if let Err(error) = serve(stream, &identity, greeting, received).await {
                tracing::debug!(%error, "the connection of a replica has ended");
            }
        });
    }
}

/// Sends the greeting and batches until the subscriber leaves or is too slow.
async fn serve(
    stream: TcpStream,
    identity: &ReplicaIdentity,
    greeting: Greeting,
    mut batches: broadcast::Receiver<Bytes>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let stream = timeout(TIME_LIMIT, identity.acceptor.accept(stream)).await??;
    let mut stream = BufWriter::new(stream);
    let mut next = greeting.encode();
    loop {
        let send = async {
            stream.write_all(&next).await?;
            stream.flush().await
        };
        timeout(TIME_LIMIT, send).await??;
        next = batches.recv().await.map_err(io::Error::other)?;
    }
}
