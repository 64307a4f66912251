//! Free ports for programs that receive their ports by flags. A process uses a port again only when
//! it has used thousands of others, so that a program never receives connections meant for its
//! predecessor.
//!
//! Suites run in several processes at a time, and a port that is free when one process chooses it
//! may be that of another process before its program binds it. Each process therefore claims blocks
//! of ports by locks on files, which end with the process.

use std::collections::{HashSet, VecDeque};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::{LazyLock, Mutex};

/// Below the system's range of ephemeral ports, so that outgoing connections do not take a port
/// between its choice and its use, and below the node ports of Kubernetes.
const RANGE: Range<u16> = 12_000..30_000;
/// Number of ports in a block.
const BLOCK: u16 = 50;
const BLOCKS: u16 = (RANGE.end - RANGE.start) / BLOCK;

static PORTS: LazyLock<Mutex<Ports>> = LazyLock::new(Mutex::default);

/// The ports of this process.
#[derive(Default)]
struct Ports {
    /// Ports of the last claimed block that are not used yet.
    rest: Range<u16>,
    /// Blocks that this process has claimed, or found claimed by another process.
    visited: HashSet<u16>,
    /// Its blocks with their locked files. The first one was claimed, or used again, longest ago.
    claims: VecDeque<(u16, File)>,
}

/// Returns a port that is currently free and that this process has not used for long.
///
/// # Panics
/// No port is free.
pub fn reserve() -> u16 {
    choose(Some)
}

/// Returns `N` such ports on 127.0.0.1.
///
/// # Panics
/// Not enough ports are free.
pub fn addresses<const N: usize>() -> [SocketAddr; N] {
    [(); N].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, reserve())))
}

/// Returns a listener on such a port of 127.0.0.1. A port may be taken between the check and the
/// use: a process that another test is about to start holds all sockets of this process until its
/// `exec`.
///
/// # Panics
/// No port is free.
pub fn listen() -> TcpListener {
    choose(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
}

/// Returns the result of `take` for the first free port that it accepts.
fn choose<T>(mut take: impl FnMut(u16) -> Option<T>) -> T {
    let mut ports = PORTS.lock().unwrap();
    for _ in RANGE {
        let port = ports.next();
        if is_free(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
            && is_free(IpAddr::V6(Ipv6Addr::LOCALHOST), port)
            && let Some(took) = take(port)
        {
            return took;
        }
    }
    panic!("no free port in {RANGE:?}");
}

impl Ports {
    fn next(&mut self) -> u16 {
        loop {
            if let Some(port) = self.rest.next() {
                return port;
            }
            if !self.claim() {
                let oldest = self.claims.pop_front().expect("a block that no other process has");
                self.begin(oldest);
            }
        }
    }

    fn begin(&mut self, (block, file): (u16, File)) {
        let start = RANGE.start + block * BLOCK;
        self.rest = start..start + BLOCK;
        self.claims.push_back((block, file));
    }

    /// Claims a block that no process uses. Returns whether there is one.
    fn claim(&mut self) -> bool {
        let user = rustix::process::getuid().as_raw();
        let folder = std::env::temp_dir().join(format!("sluice-test-ports-{user}"));
        fs::create_dir_all(&folder).unwrap();
        // Processes begin at different blocks, so that each finds most of its blocks at once.
        let first = std::process::id() % u32::from(BLOCKS);
        for step in 0..BLOCKS {
            let block = (u16::try_from(first).unwrap() + step) % BLOCKS;
            if !self.visited.insert(block) {
                continue;
            }
            let path = folder.join(block.to_string());
            let file = File::options().create(true).truncate(false).write(true).open(path).unwrap();
            if file.try_lock().is_ok() {
                self.begin((block, file));
                return true;
            }
        }
        false
    }
}

/// Returns whether no socket listens on the port. Errors other than `AddrInUse`, such as that of a
/// machine without IPv6, do not mean that the port is in use.
fn is_free(ip: IpAddr, port: u16) -> bool {
    !matches!(TcpListener::bind((ip, port)), Err(error) if error.kind() == ErrorKind::AddrInUse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_lost_before_it_is_used_is_passed_over() {
        let mut offered = Vec::new();
        let got = choose(|port| {
            offered.push(port);
            (offered.len() > 1).then_some(port)
        });
        assert!(got != offered[0] && offered.len() == 2, "{got} of {offered:?}");
    }

    /// Suites that ran at the same time chose the same ports.
    #[test]
    fn a_block_of_another_process_is_passed_over() {
        let (mut own, mut other) = (Ports::default(), Ports::default());
        assert!(own.claim() && other.claim());
        assert!(own.rest != other.rest && !own.claims.is_empty());
    }
}
