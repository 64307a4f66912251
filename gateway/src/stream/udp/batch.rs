//! Receives several datagrams with one system call (`recvmmsg`).

use std::cell::RefCell;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::RawFd;

use nix::cmsg_space;
use nix::libc;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrLike, SockaddrStorage, recvmmsg,
};

use super::datagram::{Datagram, Local};

/// Maximum number of datagrams per system call.
const BATCH: usize = 16;
/// Datagrams per system call of an endpoint's socket, which mostly has one.
const SMALL_BATCH: usize = 4;
/// Maximum size of a datagram in bytes. Only memory that is written becomes resident.
const LONGEST: usize = 64 * 1024;

thread_local! {
    /// Shared by all sockets of a worker.
    static BUFFERS: RefCell<Buffers> = const { RefCell::new(Buffers { bytes: Vec::new(), batch: BATCH }) };
}

struct Buffers {
    /// One part per datagram of a batch.
    bytes: Vec<u8>,
    /// The size of the next batch from clients: twice that of the last one, because each place has
    /// headers that are created for each call.
    batch: usize,
}

/// Whether a socket may have more datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Maybe,
    None,
}

/// Receives the available datagrams of clients, up to one batch.
pub(super) fn receive(descriptor: RawFd, mut each: impl FnMut(Datagram<'_>)) -> io::Result<Left> {
    BUFFERS.with_borrow_mut(|buffers| {
        let batch = buffers.batch;
        let space = Some(cmsg_space!(libc::in6_pktinfo));
        let headers = MultiHeaders::<SockaddrStorage>::preallocate(batch, space);
        let received = buffers.receive(descriptor, headers, batch, |message| {
            if let Some((client, local)) = addresses(message) {
                each(Datagram { client, local, bytes: bytes(message) });
            }
        })?;
        buffers.batch = (received * 2).clamp(SMALL_BATCH, BATCH);
        Ok(left(received, batch))
    })
}

/// Receives the available datagrams of a connected socket, up to a small batch. The error is the
/// reason why its endpoint cannot be reached.
pub(super) fn receive_connected(descriptor: RawFd, mut each: impl FnMut(&[u8])) -> io::Result<Left> {
    BUFFERS.with_borrow_mut(|buffers| {
        let headers = MultiHeaders::<()>::preallocate(SMALL_BATCH, None);
        let received = buffers.receive(descriptor, headers, SMALL_BATCH, |message| each(bytes(message)))?;
        Ok(left(received, SMALL_BATCH))
    })
}

/// An incomplete batch has emptied the socket. A datagram that arrives later is reported anew.
fn left(received: usize, batch: usize) -> Left {
    if received < batch { Left::None } else { Left::Maybe }
}

impl Buffers {
    /// Receives up to `batch` messages and returns their number. The headers serve one call: the
    /// kernel overwrites the lengths, and the crate would reuse them as the available space.
    fn receive<S: SockaddrLike + Copy>(
        &mut self,
        descriptor: RawFd,
        mut headers: MultiHeaders<S>,
        batch: usize,
        mut each: impl FnMut(&RecvMsg<'_, '_, S>),
    ) -> io::Result<usize> {
        if self.bytes.is_empty() {
            self.bytes = vec![0; BATCH * LONGEST];
        }
        let parts = self.bytes.chunks_mut(LONGEST).take(batch);
        let mut slices: Vec<_> = parts.map(|part| [IoSliceMut::new(part)]).collect();
        let messages = recvmmsg(descriptor, &mut headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None)?;
        let mut received = 0;
        for message in messages {
            each(&message);
            received += 1;
        }
        Ok(received)
    }
}

fn bytes<'m, S>(message: &'m RecvMsg<'_, '_, S>) -> &'m [u8] {
    message.iovs().next().unwrap_or_default()
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
