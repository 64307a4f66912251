//! Receives several datagrams with one system call (`recvmmsg`).

use std::cell::RefCell;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::RawFd;

use nix::cmsg_space;
use nix::libc;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrStorage, recvmmsg};

use super::socket::{Datagram, Local};

/// Datagrams per system call.
const BATCH: usize = 16;
/// Maximum size of a datagram in bytes. Only memory that is written becomes resident.
const LONGEST: usize = 64 * 1024;

thread_local! {
    /// One part per datagram of a batch, shared by all sockets of a worker.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Receives the available datagrams, up to one batch.
pub(super) fn receive(descriptor: RawFd, mut each: impl FnMut(Datagram<'_>)) -> io::Result<()> {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.is_empty() {
            *buffer = vec![0; BATCH * LONGEST];
        }
        // Created for each call: the kernel overwrites the lengths, and the crate would reuse them
        // as the available space.
        let mut headers =
            MultiHeaders::<SockaddrStorage>::preallocate(BATCH, Some(cmsg_space!(libc::in6_pktinfo)));
        let mut slices: Vec<_> = buffer.chunks_mut(LONGEST).map(|part| [IoSliceMut::new(part)]).collect();
        let received = recvmmsg(descriptor, &mut headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None)?;
        for message in received {
            if let Some((client, local)) = addresses(&message)
                && let Some(bytes) = message.iovs().next().or(Some(&[]))
            {
                each(Datagram { client, local, bytes });
            }
        }
        Ok(())
    })
}

/// Returns the client of a datagram, and the local address that it was sent to.
fn addresses(message: &RecvMsg<'_, '_, SockaddrStorage>) -> Option<(SocketAddr, Local)> {
    let from = message.address?;
    let client = match (from.as_sockaddr_in(), from.as_sockaddr_in6()) {
        (Some(address), _) => SocketAddr::V4((*address).into()),
        (_, Some(address)) => SocketAddr::V6((*address).into()),
        _ => return None,
    };
    let local = message.cmsgs().ok()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4PacketInfo(info) => Some(Local::from(info)),
        ControlMessageOwned::Ipv6PacketInfo(info) => Some(Local::from(info)),
        _ => None,
    });
    Some((client, local?))
}
