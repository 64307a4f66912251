//! What the threads of a process wait for, as Linux lists it.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;

/// The state of a TCP socket, as `/proc/net/tcp` writes it.
#[derive(Clone, Copy, Debug)]
pub enum TcpState {
    /// `TCP_ESTABLISHED`
    Established,
    /// `TCP_LISTEN`
    Listening,
}

impl TcpState {
    fn text(self) -> &'static str {
        match self {
            Self::Established => "01",
            Self::Listening => "0A",
        }
    }
}

/// Returns how many IPv4 sockets with this local port and state each epoll instance of a process
/// watches; instances that watch none are omitted.
///
/// # Panics
/// The process has ended.
pub fn watched(process: u32, local: SocketAddr, state: TcpState) -> Vec<usize> {
    let port = format!(":{:04X}", local.port());
    let table = fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap();
    // sl, local address, remote address, state, queues, timer, retransmits, uid, timeout, inode
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let inodes: Vec<String> = rows
        .filter(|row| row.len() > 9 && row[1].ends_with(&port) && row[3] == state.text())
        .map(|row| format!("ino:{:x} ", row[9].parse::<u64>().unwrap()))
        .collect();
    let descriptors = fs::read_dir(format!("/proc/{process}/fdinfo")).unwrap();
    // Descriptors of one instance have the same text, and those of two instances different data.
    let instances: BTreeSet<String> =
        descriptors.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok()).collect();
    let counts =
        instances.iter().map(|watched| inodes.iter().filter(|inode| watched.contains(*inode)).count());
    counts.filter(|count| *count > 0).collect()
}
