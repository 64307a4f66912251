//! A TCP relay with fault injection: in front of the API server it cuts, freezes, delays or refuses
//! connections of a client under test. It relays bytes, so TLS and client certificates pass
//! unchanged.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The behaviour of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Relays everything.
    Pass,
    /// Relays everything with this delay.
    Delay(Duration),
    /// Keeps connections open, accepts new ones, and relays nothing, like an unresponsive peer.
    Freeze,
    /// Closes new connections at once. Open ones continue.
    Refuse,
}

/// A relay from its own address to another.
#[derive(Debug)]
pub struct Wire {
    address: SocketAddr,
    control: Arc<Control>,
    acceptor: JoinHandle<()>,
}

#[derive(Debug)]
struct Control {
    behaviour: watch::Sender<Behaviour>,
    /// Incremented for each cut; every connection ends when it changes.
    cuts: watch::Sender<u64>,
    open: AtomicUsize,
    taken: AtomicUsize,
}

impl Wire {
    /// Creates a wire to `target` that listens on a free port of `listen`'s address. It ends when
    /// dropped.
    ///
    /// # Errors
    /// Returns an error if the address cannot be listened on.
    pub async fn new(listen: SocketAddr, target: SocketAddr) -> Result<Self> {
        let listener =
            TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
        let address = listener.local_addr()?;
        let control = Arc::new(Control {
            behaviour: watch::Sender::new(Behaviour::Pass),
            cuts: watch::Sender::new(0),
            open: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
        });
        let acceptor = tokio::spawn(accept(listener, target, control.clone()));
        Ok(Self { address, control, acceptor })
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes its behaviour, for open connections too.
    pub fn set(&self, behaviour: Behaviour) {
        self.control.behaviour.send_replace(behaviour);
    }

    /// Cuts every open connection.
    pub fn cut(&self) {
        self.control.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> usize {
        self.control.open.load(Ordering::Relaxed)
    }

    /// Returns the number of connections accepted so far, including refused ones.
    pub fn taken(&self) -> usize {
        self.control.taken.load(Ordering::Relaxed)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.acceptor.abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, control: Arc<Control>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        control.taken.fetch_add(1, Ordering::Relaxed);
        if *control.behaviour.borrow() == Behaviour::Refuse {
            continue;
        }
        let control = control.clone();
        // Subscribed before the task runs, so that an earlier cut also ends this connection.
        let mut cut = control.cuts.subscribe();
        control.open.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            tokio::select! {
                _ = cut.changed() => {}
                () = relay(client, target, &control.behaviour) => {}
            }
            control.open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

async fn relay(client: TcpStream, target: SocketAddr, behaviour: &watch::Sender<Behaviour>) {
    flowing(&mut behaviour.subscribe()).await;
    let Ok(server) = TcpStream::connect(target).await else { return };
    for stream in [&client, &server] {
        // Avoids delays of small writes.
        let _ = stream.set_nodelay(true);
    }
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    tokio::join!(
        copy(client_reads, server_writes, behaviour.subscribe()),
        copy(server_reads, client_writes, behaviour.subscribe()),
    );
}

/// Copies one direction to its end. A delay holds back each piece that was read, so a delayed wire
/// also has low throughput.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut behaviour: watch::Receiver<Behaviour>,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        flowing(&mut behaviour).await;
        if to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    // An error means that the other side has already closed.
    let _ = to.shutdown().await;
}

/// Waits while the wire is frozen, and for its delay.
async fn flowing(behaviour: &mut watch::Receiver<Behaviour>) {
    let now = behaviour.wait_for(|now| *now != Behaviour::Freeze).await.map(|now| *now);
    if let Ok(Behaviour::Delay(delay)) = now {
        sleep(delay).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    /// Starts an echo server and a wire to it.
    async fn wire() -> Wire {
        let listener = TcpListener::bind(LOOPBACK).await.unwrap();
        let target = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (mut reads, mut writes) = stream.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut reads, &mut writes).await });
            }
        });
        Wire::new(LOOPBACK, target).await.unwrap()
    }

    async fn echoes(stream: &mut TcpStream) -> bool {
        let mut answer = [0; 2];
        stream.write_all(b"hi").await.is_ok()
            && stream.read_exact(&mut answer).await.is_ok()
            && &answer == b"hi"
    }

    #[tokio::test]
    async fn a_cut_ends_open_connections_and_no_later_one() {
        let wire = wire().await;
        let mut before = TcpStream::connect(wire.address()).await.unwrap();
        assert!(echoes(&mut before).await);
        assert_eq!((wire.open(), wire.taken()), (1, 1));
        wire.cut();
        assert!(!echoes(&mut before).await);
        let mut after = TcpStream::connect(wire.address()).await.unwrap();
        assert!(echoes(&mut after).await);
    }

    #[tokio::test]
    async fn a_frozen_wire_relays_nothing_until_it_thaws() {
        let wire = wire().await;
        let mut stream = TcpStream::connect(wire.address()).await.unwrap();
        assert!(echoes(&mut stream).await);
        wire.set(Behaviour::Freeze);
        stream.write_all(b"hi").await.unwrap();
        let mut answer = [0; 2];
        let silence = timeout(Duration::from_millis(100), stream.read_exact(&mut answer)).await;
        assert!(silence.is_err(), "a frozen wire has answered");
        wire.set(Behaviour::Pass);
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"hi");
    }

    #[tokio::test]
    async fn a_refusing_wire_closes_at_once_and_leaves_open_ones_alone() {
        let wire = wire().await;
        let mut before = TcpStream::connect(wire.address()).await.unwrap();
        assert!(echoes(&mut before).await);
        wire.set(Behaviour::Refuse);
        let mut after = TcpStream::connect(wire.address()).await.unwrap();
        assert!(!echoes(&mut after).await);
        assert!(echoes(&mut before).await);
    }
}
