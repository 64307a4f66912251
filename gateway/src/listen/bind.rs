//! One listening socket.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;

use sluice_config::{Bind, BindError, TransportProtocol};
use socket2::{SockRef, Socket, Type};

use crate::stream::udp::prepare;

/// Length of the accept queue, which the kernel limits to `net.core.somaxconn`.
pub(super) const BACKLOG: u16 = 4096;

/// A listening socket.
#[derive(Clone, Debug)]
pub(crate) enum ListenSocket {
    /// Connections.
    Tcp(Arc<TcpListener>),
    /// Datagrams.
    Udp(Arc<UdpSocket>),
}

impl ListenSocket {
    /// Returns the bound address, with the actual port.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(socket) => socket.local_addr(),
            Self::Udp(socket) => socket.local_addr(),
        }
    }

    /// Whether both are the same socket.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(one), Self::Tcp(other)) => Arc::ptr_eq(one, other),
            (Self::Udp(one), Self::Udp(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    pub(super) fn transport(&self) -> TransportProtocol {
        match self {
            Self::Tcp(_) => TransportProtocol::Tcp,
            Self::Udp(_) => TransportProtocol::Udp,
        }
    }

    fn options(&self) -> SockRef<'_> {
        match self {
            Self::Tcp(socket) => SockRef::from(&**socket),
            Self::Udp(socket) => SockRef::from(&**socket),
        }
    }
}

/// Binds and listens. `[::]` accepts IPv6 only, so that it can coexist with `0.0.0.0` and peers
/// keep their own address family.
///
/// `beside` are the gateway's own sockets on the same port whose address contains this one or is
/// contained in it. The kernel lets both listen if both have `SO_REUSEPORT` at this moment, and
/// gives each connection to the more specific socket. The option is cleared afterwards: another
/// process, also another gateway, must get the error that the port is in use.
pub(super) fn bind(
    address: SocketAddr,
    transport: TransportProtocol,
    beside: &[ListenSocket],
) -> io::Result<ListenSocket> {
    let domain = socket2::Domain::for_address(address);
    let kind = match transport {
        TransportProtocol::Tcp => Type::STREAM,
        TransportProtocol::Udp => Type::DGRAM,
    };
    let socket = Socket::new(domain, kind.nonblocking(), None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if transport == TransportProtocol::Udp {
        prepare(socket.as_fd(), address)?;
    } else {
        // A restart must not wait for connections of the previous process. For UDP the option would
        // let another process take the port.
        socket.set_reuse_address(true)?;
        // Accepted sockets inherit it. Without it the last segment of an answer may wait for the
        // acknowledgement of the segment before.
        socket.set_tcp_nodelay(true)?;
    }
    let open = || {
        socket.bind(&address.into())?;
        match transport {
            TransportProtocol::Tcp => socket.listen(BACKLOG.into()),
            TransportProtocol::Udp => Ok(()),
        }
    };
    if beside.is_empty() {
        open()?;
    } else {
        let sharing = |on| {
            let sockets = beside.iter().map(ListenSocket::options).chain([SockRef::from(&socket)]);
            sockets.map(|socket| socket.set_reuse_port(on)).fold(Ok(()), io::Result::and)
        };
        let bound = sharing(true).and_then(|()| open());
        // Restored whether or not the bind succeeded.
        let alone = sharing(false);
        bound.and(alone)?;
    }
    Ok(match transport {
        TransportProtocol::Tcp => ListenSocket::Tcp(Arc::new(socket.into())),
        TransportProtocol::Udp => ListenSocket::Udp(Arc::new(socket.into())),
    })
}

/// Returns whether the machine lacks the address family, which is no error if `0.0.0.0` is bound
/// too.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    let unsupported = [rustix::io::Errno::AFNOSUPPORT, rustix::io::Errno::ADDRNOTAVAIL];
    error.raw_os_error().is_some_and(|code| unsupported.iter().any(|errno| errno.raw_os_error() == code))
}

/// Returns why a socket is not bound, and the remedy.
pub(super) fn explain(error: &io::Error, address: SocketAddr, bind: &Bind) -> BindError {
    let (port, source) = (address.port(), &bind.source);
    let (message, remedy) = match error.kind() {
        io::ErrorKind::AddrInUse => {
            (format!("port {port} is already in use"), format!("free it or choose another with {source}"))
        }
        io::ErrorKind::PermissionDenied => (
            format!("not allowed to bind port {port}"),
            format!(
                "give the program the capability NET_BIND_SERVICE or choose a port above 1023 with {source}"
            ),
        ),
        io::ErrorKind::AddrNotAvailable => (
            format!("the address {} is not one of this machine", address.ip()),
            "correct bind-address, or give the machine this address".to_owned(),
        ),
        _ => (format!("cannot listen on {address}: {error}"), format!("check {source} and the bind address")),
    };
    let foreign = error.kind() == io::ErrorKind::AddrNotAvailable;
    BindError { message, remedy, foreign, instead: Vec::new() }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn own_sockets_may_overlap_and_foreign_ones_may_not() {
        let tcp = |address, beside: &[ListenSocket]| bind(address, TransportProtocol::Tcp, beside);
        let wide = tcp((Ipv4Addr::UNSPECIFIED, 0).into(), &[]).unwrap();
        let port = wide.local_addr().unwrap().port();
        let narrow = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let in_use = |address| tcp(address, &[]).unwrap_err().kind() == io::ErrorKind::AddrInUse;
        assert!(in_use(narrow));
        let beside = tcp(narrow, std::slice::from_ref(&wide)).unwrap();
        assert!(in_use(narrow) && in_use(wide.local_addr().unwrap()));
        drop(wide);
        assert!(in_use(narrow) && in_use((Ipv4Addr::UNSPECIFIED, port).into()));
        let wide = tcp((Ipv4Addr::UNSPECIFIED, port).into(), std::slice::from_ref(&beside)).unwrap();
        assert!(in_use(narrow) && in_use((Ipv4Addr::UNSPECIFIED, port).into()));
        let client = std::net::TcpStream::connect(narrow).unwrap();
        let (ListenSocket::Tcp(beside), ListenSocket::Tcp(wide)) = (beside, wide) else { panic!() };
        assert_eq!(beside.accept().unwrap().1, client.local_addr().unwrap(), "to the more specific one");
        assert!(wide.accept().is_err());
    }

    #[test]
    fn a_port_of_datagrams_is_ours_alone_and_may_be_one_of_connections_too() {
        let udp = |address, beside: &[ListenSocket]| bind(address, TransportProtocol::Udp, beside);
        let any = || {
            let wide = udp((Ipv4Addr::UNSPECIFIED, 0).into(), &[]).unwrap();
            let narrow = SocketAddr::from((Ipv4Addr::LOCALHOST, wide.local_addr().unwrap().port()));
            (wide, narrow)
        };
        // Connections may have the port in use.
        let (wide, narrow) = std::iter::repeat_with(any)
            .find(|(_, narrow)| std::net::TcpListener::bind(narrow).is_ok())
            .unwrap();
        let in_use = |address| udp(address, &[]).unwrap_err().kind() == io::ErrorKind::AddrInUse;
        assert!(in_use(narrow) && in_use(wide.local_addr().unwrap()));
        let beside = udp(narrow, std::slice::from_ref(&wide)).unwrap();
        assert!(in_use(narrow) && in_use(wide.local_addr().unwrap()));
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        client.send_to(b"x", narrow).unwrap();
        let (ListenSocket::Udp(beside), ListenSocket::Udp(wide)) = (beside, wide) else { panic!() };
        let mut byte = [0];
        assert_eq!(beside.recv_from(&mut byte).unwrap().1, client.local_addr().unwrap());
        assert!(wide.recv_from(&mut byte).is_err());
        bind(narrow, TransportProtocol::Tcp, &[]).unwrap();
    }
}
