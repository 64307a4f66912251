//! One listening socket.

use std::io;
use std::net::{SocketAddr, TcpListener};

use sluice_config::Bind;

/// Connections that the kernel keeps for us, if `net.core.somaxconn` lets it.
pub(super) const BACKLOG: u16 = 4096;

/// Binds and listens. `[::]` takes IPv6 only, so that `0.0.0.0` can stand beside it and peers keep their own
/// form of address.
pub(super) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
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
    socket.bind(&address.into())?;
    socket.listen(BACKLOG.into())?;
    Ok(socket.into())
}

/// Whether the machine has no such kind of addresses: `[::]` next to `0.0.0.0` is no error then.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    let unsupported = [rustix::io::Errno::AFNOSUPPORT, rustix::io::Errno::ADDRNOTAVAIL];
    error.raw_os_error().is_some_and(|code| unsupported.iter().any(|errno| errno.raw_os_error() == code))
}

/// Why a socket is not bound, in one line that says what to do.
pub(super) fn explain(error: &io::Error, address: SocketAddr, bind: &Bind) -> String {
    let (port, source) = (address.port(), &bind.source);
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("port {port} is already in use; free it or choose another with {source}")
        }
        io::ErrorKind::PermissionDenied => format!(
            "not allowed to bind port {port}; give the program the capability NET_BIND_SERVICE or choose a port \
             above 1023 with {source}"
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!("the address {} is not one of this machine; correct the bind address", address.ip())
        }
        _ => format!("cannot listen on {address}: {error}; check {source} and the bind address"),
    }
}
