//! Connections to Pods from the client's address, as made by load balancers that preserve it
//! (`externalTrafficPolicy: Local`).
//!
//! Such a connection is made inside the Pod's own network namespace, from an address that does not
//! exist there. Its packets carry a mark, which the accepting socket inherits, and marked packets
//! never leave the namespace ([`network::create_pod`]). The Pod's responses therefore return here
//! and not to the client.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Result, bail};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpSocket, TcpStream};

use crate::addresses::PodAddress;
use crate::layout::Layout;
use crate::network::{self, STAYS};

/// Connects to a port of a Pod from the address of `client`.
///
/// # Errors
/// Returns an error if there is no such Pod, or it does not accept the connection.
pub(crate) async fn connect(
    layout: &Layout,
    client: SocketAddr,
    endpoint: SocketAddr,
) -> io::Result<TcpStream> {
    let socket = socket(layout, client, endpoint).map_err(io::Error::other)?;
    TcpSocket::from_std_stream(socket.into()).connect(endpoint).await
}

fn socket(layout: &Layout, client: SocketAddr, endpoint: SocketAddr) -> Result<Socket> {
    let IpAddr::V4(pod) = endpoint.ip() else { bail!("{endpoint} is not the address of a Pod") };
    network::inside(&layout.pod_netns(&PodAddress::from(pod).tag()), || {
        fs::write("/proc/sys/net/ipv4/tcp_fwmark_accept", "1")?;
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_ip_transparent_v4(true)?;
        socket.set_mark(STAYS)?;
        socket.set_reuse_address(true)?;
        socket.bind(&client.into())?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    })
}
