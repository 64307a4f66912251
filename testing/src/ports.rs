//! Free ports for programs that receive their ports by flags. A process uses each port only once,
//! so that a program never receives connections meant for its predecessor.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::{LazyLock, Mutex};

/// Below the system's range of ephemeral ports, so that outgoing connections do not take a port
/// between its choice and its use, and below the node ports of Kubernetes.
const RANGE: std::ops::Range<u16> = 12_000..30_000;

static TAKEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// Returns a port that is currently free and that this process does not return again.
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
    let mut taken = TAKEN.lock().unwrap();
    let width = usize::from(RANGE.end - RANGE.start);
    let start = std::process::id() as usize * 97 + taken.len() * 7;
    for step in 0..width {
        let port = RANGE.start + u16::try_from((start + step) % width).unwrap();
        if !taken.contains(&port)
            && is_free(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
            && is_free(IpAddr::V6(Ipv6Addr::LOCALHOST), port)
            && let Some(took) = take(port)
        {
            taken.insert(port);
            return took;
        }
    }
    panic!("no free port in {RANGE:?}");
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
}
