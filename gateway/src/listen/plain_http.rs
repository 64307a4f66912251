//! Detects clients that send HTTP without TLS to a port for TLS.
//!
//! The first byte is inspected as the handshake reads it, so clients with TLS cost no other system
//! call. A record of TLS begins with the byte 22, and a method of HTTP with a capital letter.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Returns whether the first bytes of a connection begin a request of HTTP.
pub(super) fn is_plain_http(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(u8::is_ascii_uppercase)
}

/// A client's stream at the beginning of a handshake. Reading fails if the client sends HTTP.
#[derive(Debug)]
pub(super) struct FirstBytes {
    stream: TcpStream,
    is_inspected: bool,
    /// What was read, if it is HTTP.
    plain: Vec<u8>,
}

impl FirstBytes {
    /// Wraps a stream of which nothing was read.
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, is_inspected: false, plain: Vec::new() }
    }

    /// Returns the stream, and the bytes that were read if they are HTTP.
    pub(super) fn into_parts(self) -> (TcpStream, Vec<u8>) {
        (self.stream, self.plain)
    }
}

impl AsyncRead for FirstBytes {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        let read = &buf.filled()[before..];
        if !this.is_inspected && is_plain_http(read) {
            this.plain = read.to_vec();
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        this.is_inspected = true;
        Poll::Ready(Ok(()))
    }
}

/// Sends alerts.
impl AsyncWrite for FirstBytes {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
