//! Binding of listening sockets.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;

/// Binds an address. On a machine without IPv6, all addresses are those of IPv4.
///
/// # Errors
/// The address cannot be bound.
pub(crate) async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error)
            if address.is_ipv6()
                && address.ip().is_unspecified()
                && error.kind() != io::ErrorKind::AddrInUse =>
        {
            let ipv4 = TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await;
            ipv4.map_err(|_| error)
        }
        bound => bound,
    }
}
