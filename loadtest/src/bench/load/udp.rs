//! Clients that send datagrams and receive their echo, at full speed.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::Work;

/// Number of clients, each with its own port, and so its own session in a proxy.
const CLIENTS: usize = 32;
/// Datagrams of a client on their way. All of them together fit into the receive buffer of one
/// socket (212,992 bytes by default, which the kernel counts with its own overhead).
const WINDOW: u64 = 6;
/// Bytes of a datagram.
const LENGTH: usize = 100;
/// Time after which missing echoes count as lost.
const TIMEOUT: Duration = Duration::from_millis(200);

/// One client.
struct Client {
    socket: UdpSocket,
    /// Number of windows that were sent. Each datagram begins with it, so that a late echo does
    /// not count for the next window.
    window: u64,
    lost: u64,
}

impl Client {
    fn new(address: SocketAddr) -> std::io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { socket, window: 0, lost: 0 })
    }

    fn send(&mut self) {
        self.window += 1;
        let mut datagram = [0; LENGTH];
        datagram[..8].copy_from_slice(&self.window.to_be_bytes());
        for _ in 0..WINDOW {
            // A failure shows as a missing echo.
            let _ = self.socket.send(&datagram);
        }
    }

    /// Receives the echoes of the last window, and returns how many there were.
    fn receive(&mut self) -> u64 {
        let (mut received, mut datagram) = (0, [0; LENGTH]);
        while received < WINDOW {
            match self.socket.recv(&mut datagram) {
                Ok(LENGTH) => received += u64::from(datagram[..8] == self.window.to_be_bytes()),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.lost += WINDOW - received;
        received
    }
}

/// Runs the load and blocks the thread. A datagram and its echo count as one request.
///
/// # Errors
/// The proxy forwards no datagrams, or no socket can be opened.
pub fn run(address: SocketAddr, duration: Duration) -> anyhow::Result<Work> {
    let clients = (0..CLIENTS).map(|_| Client::new(address));
    let mut clients = clients.collect::<std::io::Result<Vec<_>>>()?;
    let started = Instant::now();
    let mut served = 0;
    clients.iter_mut().for_each(Client::send);
    while started.elapsed() < duration {
        // The windows of all other clients are on their way meanwhile.
        for client in &mut clients {
            served += client.receive();
            client.send();
        }
    }
    served += clients.iter_mut().map(Client::receive).sum::<u64>();
    let failed = clients.iter().map(|client| client.lost).sum();
    Ok(Work { served, failed, in_time: served, elapsed: started.elapsed(), latency: None })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use sluice_testing::ports;

    use super::*;
    use crate::bench::origin::streams;

    #[test]
    fn every_echo_counts_once() {
        let [address] = ports::addresses();
        thread::spawn(move || streams::echo_datagrams(address));
        let work = run(address, Duration::from_millis(200)).unwrap();
        assert!(work.served > 0, "{work:?}");
        // The echo may start after the first windows were sent, which are then lost.
        assert_eq!((work.served + work.failed) % WINDOW, 0, "{work:?}");
    }
}
