//! Receives the use of another replica's limits.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::identity::ReplicaIdentity;
use super::message::{Greeting, read_batch};
use super::own_replica::OwnReplica;
use super::publisher::SIGN_OF_LIFE;

/// Time limit for connecting, with TLS and the greeting.
const CONNECT: Duration = Duration::from_secs(3);

/// Time after which a silent replica counts as gone.
const SILENCE: Duration = SIGN_OF_LIFE.saturating_mul(3);

/// Limits of the pause between two attempts.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// Failed attempts after which a replica is reported as unreachable: a new one may not listen yet.
const ATTEMPTS: u32 = 3;

/// What is known about an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReplicaState {
    /// Not heard yet, or not any more.
    Silent,
    /// Not heard after several attempts, for this reason.
    Unreachable(String),
    /// It reports its use.
    Heard,
    /// The address of this replica itself.
    Own,
}

/// Why a replica is not heard.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it does not answer in time")]
    Timeout(#[from] tokio::time::error::Elapsed),
    #[error("it uses another version of the Secret")]
    OtherKey,
}

/// Subscribes to the replica at an address, again and again. Does not return.
pub(super) async fn subscribe(
    address: SocketAddr,
    identity: Arc<ReplicaIdentity>,
    own: OwnReplica,
    report: impl Fn(ReplicaState),
) {
    let (mut attempts, mut pause) = (0, PAUSES[0]);
    loop {
        let (was_heard, fault) = listen(address, &identity, &own, &report).await;
        if was_heard {
            (attempts, pause) = (0, PAUSES[0]);
        }
        attempts += 1;
        report(match attempts < ATTEMPTS {
            true => ReplicaState::Silent,
            false => ReplicaState::Unreachable(fault.to_string()),
        });
        // All replicas lose one that ends at the same time.
        sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        pause = (pause * 2).min(PAUSES[1]);
    }
}

/// Listens to the replica until it ends. Returns whether it was heard, and why it is not any more.
async fn listen(
    address: SocketAddr,
    identity: &ReplicaIdentity,
    own: &OwnReplica,
    report: impl Fn(ReplicaState),
) -> (bool, Fault) {
    let connect = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let stream = identity.connector.connect(identity.name.clone(), stream).await?;
        let mut stream = BufReader::new(stream);
        let greeting = Greeting::read(&mut stream).await?;
        Ok::<_, io::Error>((stream, greeting))
    };
    let (mut stream, greeting) = match timeout(CONNECT, connect).await {
        Ok(Ok(connected)) => connected,
        Ok(Err(error)) => return (false, error.into()),
        Err(elapsed) => return (false, elapsed.into()),
    };
    let is_own = greeting.instance == own.instance;
    if !is_own && greeting.fingerprint != identity.fingerprint {
        return (false, Fault::OtherKey);
    }
    report(if is_own { ReplicaState::Own } else { ReplicaState::Heard });
    let mut buffer = Vec::new();
    loop {
        match timeout(SILENCE, read_batch(&mut stream, &mut buffer)).await {
            Ok(Ok(entries)) if !is_own => {
                own.limiter.add_use(entries.inspect(|_| own.counts.received.inc()));
            }
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return (true, error.into()),
            Err(elapsed) => return (true, elapsed.into()),
        }
    }
}
