//! One listening socket: how it is opened, and what to tell the operator when it cannot be.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};

use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted. The kernel cuts it to `net.core.somaxconn`, 4096 by default.
const BACKLOG: i32 = 4096;

/// Binds and listens, non-blocking. An IPv6 socket takes IPv6 alone, so that `[::]` and `0.0.0.0` can both be
/// bound and addresses are reported as what they are.
pub(super) fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Without it a restart has to wait for the connections of the program before (TIME_WAIT).
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Whether the machine does not have the address's kind of address at all.
pub(super) fn is_unsupported_family(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error())
}

/// Why an address could not be bound and what to do. `source` is where the port comes from.
pub(super) fn explain(address: SocketAddr, source: &str, error: &io::Error) -> String {
    let port = address.port();
    let place = place(source);
    match error.kind() {
        ErrorKind::AddrInUse => {
            format!("port {port} is already in use on {}; free it or choose another {place}", address.ip())
        }
        ErrorKind::PermissionDenied => format!(
            "no permission to bind port {port}; it needs the capability NET_BIND_SERVICE or a port above 1023 \
             {place}"
        ),
        ErrorKind::AddrNotAvailable => format!(
            "cannot listen on {address} ({source}): the address is not on this host; bind one that is, or all \
             with 0.0.0.0 and [::]"
        ),
        _ if is_unsupported_family(error) => format!(
            "cannot listen on {address} ({source}): this machine has no {}; bind other addresses",
            if address.is_ipv6() { "IPv6" } else { "IPv4" }
        ),
        _ => format!("cannot listen on {address} ({source}): {error}"),
    }
}

/// Where a port can be changed: `with --http-port`, `in Gateway infra/web`.
pub(super) fn place(source: &str) -> String {
    let preposition = if source.starts_with("--") { "with" } else { "in" };
    format!("{preposition} {source}")
}
