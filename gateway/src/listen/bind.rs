//! One listening socket.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use sluice_config::{Bind, BindError};
use socket2::SockRef;

/// Connections that the kernel keeps for us, if `net.core.somaxconn` lets it.
pub(super) const BACKLOG: u16 = 4096;

/// Binds and listens. `[::]` takes IPv6 only, so that `0.0.0.0` can stand beside it and peers keep their own
/// form of address.
///
/// `beside` are sockets of ours that are in the way: on the same port, with an address that contains this one or is
/// contained in it. The kernel lets both listen if both say `SO_REUSEPORT` at this moment, and gives each connection
/// to the more specific one. They say so for no longer than that, so that another process, also one of ours, is
/// still told that the port is in use.
pub(super) fn bind(address: SocketAddr, beside: &[Arc<TcpListener>]) -> io::Result<TcpListener> {
    let domain = socket2::Domain::for_address(address);
    let socket =
        socket2::Socket::new(domain, socket2::Type::STREAM.nonblocking(), Some(socket2::Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // A restart must not wait for connections of the program before it.
    socket.set_reuse_address(true)?;
    // What is accepted inherits it. Without it the last segment of an answer may wait for the client's
    // acknowledgement of the one before.
    socket.set_tcp_nodelay(true)?;
    if beside.is_empty() {
        socket.bind(&address.into())?;
        socket.listen(BACKLOG.into())?;
        return Ok(socket.into());
    }
    let sharing = |on| {
        let sockets = beside.iter().map(|other| SockRef::from(&**other)).chain([SockRef::from(&socket)]);
        sockets.map(|socket| socket.set_reuse_port(on)).fold(Ok(()), io::Result::and)
    };
    let bound = sharing(true)
        .and_then(|()| socket.bind(&address.into()))
        .and_then(|()| socket.listen(BACKLOG.into()));
    // Whatever came of it.
    let alone = sharing(false);
    bound.and(alone)?;
    Ok(socket.into())
}

/// Whether the machine has no such kind of addresses: `[::]` next to `0.0.0.0` is no error then.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    let unsupported = [rustix::io::Errno::AFNOSUPPORT, rustix::io::Errno::ADDRNOTAVAIL];
    error.raw_os_error().is_some_and(|code| unsupported.iter().any(|errno| errno.raw_os_error() == code))
}

/// Why a socket is not bound, and what to do.
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
    fn our_own_sockets_may_overlap_and_nobody_elses() {
        let wide = Arc::new(bind((Ipv4Addr::UNSPECIFIED, 0).into(), &[]).unwrap());
        let port = wide.local_addr().unwrap().port();
        let narrow = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let in_use = |address| bind(address, &[]).unwrap_err().kind() == io::ErrorKind::AddrInUse;
        assert!(in_use(narrow));
        let beside = Arc::new(bind(narrow, std::slice::from_ref(&wide)).unwrap());
        assert!(in_use(narrow) && in_use(wide.local_addr().unwrap()));
        drop(wide);
        assert!(in_use(narrow) && in_use((Ipv4Addr::UNSPECIFIED, port).into()));
        let wide = bind((Ipv4Addr::UNSPECIFIED, port).into(), std::slice::from_ref(&beside)).unwrap();
        assert!(in_use(narrow) && in_use((Ipv4Addr::UNSPECIFIED, port).into()));
        let client = std::net::TcpStream::connect(narrow).unwrap();
        assert_eq!(beside.accept().unwrap().1, client.local_addr().unwrap(), "to the more specific one");
        assert!(wide.accept().is_err());
    }
}
