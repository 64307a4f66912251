//! UDP sockets: listening sockets, which several addresses of the machine may share, and sockets
//! connected to endpoints.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg, setsockopt, sockopt};
use socket2::{Domain, SockRef, Socket, Type};
use tokio::io::Interest;

use super::batch::{self, Left};
use super::datagram::{Datagram, Local};

/// Size of the kernel's buffer for a busy worker, if `net.core.rmem_max` permits.
const RECEIVE_BUFFER: usize = 1 << 20;

/// The listening socket.
#[derive(Debug)]
pub(super) struct ClientSocket {
    socket: tokio::net::UdpSocket,
    port: u16,
}

/// Prepares a UDP socket before it is bound, so that each datagram arrives with its destination
/// address.
pub(crate) fn prepare(socket: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    match address {
        SocketAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?,
        SocketAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?,
    }
    // A smaller buffer works too, so errors are ignored.
    let _ = SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER);
    Ok(())
}

/// Opens a socket that is connected to an endpoint, and sends a first datagram. The kernel drops
/// datagrams from other senders.
pub(super) fn connect(endpoint: SocketAddr, datagram: &[u8]) -> io::Result<tokio::net::UdpSocket> {
    // The kernel chooses the local address and port when it connects the socket.
    let socket = Socket::new(Domain::for_address(endpoint), Type::DGRAM.nonblocking(), None)?;
    socket.connect(&endpoint.into())?;
    socket.send(datagram)?;
    tokio::net::UdpSocket::from_std(socket.into())
}

/// Sends a further datagram. Uses a system call directly: the runtime has not registered a new
/// socket as writable yet.
pub(super) fn send(socket: &tokio::net::UdpSocket, datagram: &[u8]) -> io::Result<()> {
    SockRef::from(socket).send(datagram).map(drop)
}

/// Receives the available datagrams of the endpoint's socket, up to a small batch. The error is the
/// reason why the endpoint cannot be reached.
pub(super) fn receive(
    socket: &tokio::net::UdpSocket,
    interest: Interest,
    each: impl FnMut(&[u8]),
) -> io::Result<Left> {
    until_empty(socket, interest, || batch::receive_connected(socket.as_raw_fd(), each))
}

/// Receives a batch. If it empties the socket, the runtime's readiness is cleared: otherwise one
/// more call per batch would only find that nothing is left.
fn until_empty(
    socket: &tokio::net::UdpSocket,
    interest: Interest,
    receive: impl FnOnce() -> io::Result<Left>,
) -> io::Result<Left> {
    let mut left = Left::None;
    let result = socket.try_io(interest, || match receive()? {
        Left::Maybe => {
            left = Left::Maybe;
            Ok(())
        }
        Left::None => Err(io::ErrorKind::WouldBlock.into()),
    });
    match result {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(left),
    }
}

impl ClientSocket {
    pub(super) fn new(socket: &UdpSocket) -> io::Result<Self> {
        let socket = tokio::net::UdpSocket::from_std(socket.try_clone()?)?;
        Ok(Self { port: socket.local_addr()?.port(), socket })
    }

    /// Waits for datagrams.
    pub(super) async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Receives one batch.
    pub(super) fn receive(&self, each: impl FnMut(Datagram<'_>)) {
        let receive = || batch::receive(self.socket.as_raw_fd(), each);
        if let Err(error) = until_empty(&self.socket, Interest::READABLE, receive) {
            tracing::debug!(%error, "cannot receive a datagram");
        }
    }

    /// Sends a datagram from the address that the client used. Never waits: datagrams that the
    /// kernel does not accept are lost, as on any network.
    pub(super) fn send(&self, from: Local, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        let (descriptor, flags) = (self.socket.as_raw_fd(), MsgFlags::MSG_DONTWAIT);
        let (slices, to) = ([IoSlice::new(bytes)], SockaddrStorage::from(to));
        match from.ip {
            IpAddr::V4(ip) => {
                let address = libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) };
                let none = libc::in_addr { s_addr: 0 };
                let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: none };
                sendmsg(descriptor, &slices, &[ControlMessage::Ipv4PacketInfo(&info)], flags, Some(&to))?;
            }
            IpAddr::V6(ip) => {
                let address = libc::in6_addr { s6_addr: ip.octets() };
                let info = libc::in6_pktinfo { ipi6_addr: address, ipi6_ifindex: from.interface };
                sendmsg(descriptor, &slices, &[ControlMessage::Ipv6PacketInfo(&info)], flags, Some(&to))?;
            }
        }
        Ok(())
    }

    /// Returns a local address with the port.
    pub(super) fn address(&self, local: Local) -> Option<SocketAddr> {
        Some(SocketAddr::new(local.ip, self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn connected() -> (tokio::net::UdpSocket, UdpSocket) {
        let endpoint = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = connect(endpoint.local_addr().unwrap(), b"first").unwrap();
        endpoint.connect(socket.local_addr().unwrap()).unwrap();
        (socket, endpoint)
    }

    #[tokio::test]
    async fn each_batch_was_followed_by_a_call_that_found_nothing() {
        let (socket, endpoint) = connected().await;
        for round in 0..3_u8 {
            endpoint.send(&[round]).unwrap();
            // No datagram is lost because the readiness of the socket was cleared.
            socket.readable().await.unwrap();
            let mut received = Vec::new();
            let left = receive(&socket, Interest::READABLE, |bytes| received.push(bytes.to_vec()));
            assert_eq!((left.unwrap(), received), (Left::None, vec![vec![round]]));
            let again = socket.try_io::<()>(Interest::READABLE, || panic!("the socket was asked again"));
            assert_eq!(again.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[tokio::test]
    async fn a_full_batch_leaves_the_rest_for_the_next_one() {
        let (socket, endpoint) = connected().await;
        for number in 0..6_u8 {
            endpoint.send(&[number]).unwrap();
        }
        socket.readable().await.unwrap();
        let mut received = Vec::new();
        let mut batch =
            || receive(&socket, Interest::READABLE, |bytes| received.extend_from_slice(bytes)).unwrap();
        assert_eq!((batch(), batch()), (Left::Maybe, Left::None));
        assert_eq!(received, [0, 1, 2, 3, 4, 5]);
    }
}
