//! What the origin does with connections and datagrams that are not HTTP.

use std::net::SocketAddr;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Begins a connection whose bytes are echoed, including these.
pub const ECHO: [u8; 3] = *b"ECH";
/// Begins a connection on which the origin sends zeros until it is closed.
pub const FLOOD: [u8; 3] = *b"FLO";

/// Bytes per write of a flood.
const WRITE: usize = 128 * 1024;

/// Sends zeros until the connection ends.
pub(super) async fn flood(mut stream: TcpStream) -> std::io::Result<()> {
    stream.read_exact(&mut [0; FLOOD.len()]).await?;
    let zeros = vec![0; WRITE];
    loop {
        stream.write_all(&zeros).await?;
    }
}

/// Echoes everything that arrives on a connection.
pub(super) async fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    let (mut reader, mut writer) = stream.split();
    tokio::io::copy(&mut reader, &mut writer).await.map(|_| ())
}

/// Echoes datagrams, from the thread of the caller, until the socket fails.
///
/// # Errors
/// The address cannot be bound.
pub fn echo_datagrams(address: SocketAddr) -> anyhow::Result<()> {
    let socket = std::net::UdpSocket::bind(address).with_context(|| format!("cannot bind {address}"))?;
    let mut buffer = [0; 2048];
    loop {
        // An error belongs to an earlier datagram, whose sender has closed its socket.
        if let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], from);
        }
    }
}
