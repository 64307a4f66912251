//! Free ports for programs that are told theirs.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::sync::{LazyLock, Mutex};

/// Below the range that the system takes source ports of connections from, so that none of those gets in the
/// way between the choice of a port and its use.
const RANGE: std::ops::Range<u16> = 12_000..32_000;

static TAKEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// A port that is free now and that no other test of this process gets.
pub(crate) fn reserve() -> u16 {
    let mut taken = TAKEN.lock().unwrap();
    let width = usize::from(RANGE.end - RANGE.start);
    let start = std::process::id() as usize * 97 + taken.len() * 7;
    for step in 0..width {
        let port = RANGE.start + u16::try_from((start + step) % width).unwrap();
        let free = || {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
                && TcpListener::bind((Ipv6Addr::LOCALHOST, port)).is_ok()
        };
        if !taken.contains(&port) && free() {
            taken.insert(port);
            return port;
        }
    }
    panic!("no free port in {RANGE:?}");
}
