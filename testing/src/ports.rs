//! Free ports for programs that take theirs from flags. Each is given out once in the life of a process, so that a program
//! never gets connections that were meant for the one before it.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::{LazyLock, Mutex};

/// Below the range that the system takes source ports of connections from, so that none of those gets in the
/// way between the choice of a port and its use; and below the node ports of Kubernetes.
const RANGE: std::ops::Range<u16> = 12_000..30_000;

static TAKEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// A port that is free now and that this process does not give out again.
///
/// # Panics
/// There is none.
pub fn reserve() -> u16 {
    choose(Some)
}

/// The same on 127.0.0.1, as often as is needed.
///
/// # Panics
/// There are too few.
pub fn addresses<const N: usize>() -> [SocketAddr; N] {
    [(); N].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, reserve())))
}

/// A listener on such a port of 127.0.0.1. A port that was free a moment ago need not be: a program that another test is
/// just starting holds all sockets that this process has open, until it is that program.
///
/// # Panics
/// There is none.
pub fn listen() -> TcpListener {
    choose(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
}

/// What `take` makes of the first free port that it takes.
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

/// Whether nothing listens there. Any other error, such as that of a machine without IPv6, does not mean that the port is
/// in use.
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
