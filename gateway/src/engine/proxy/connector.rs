//! Connections to endpoints for Pingora. Made here, so that they count towards the descriptor
//! limits and a local shortage is distinguished from a failing endpoint.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::task::{Context, Poll};

use async_trait::async_trait;
use pingora_core::connectors::L4Connect;
use pingora_core::protocols::l4::socket::SocketAddr;
use pingora_core::protocols::l4::stream::Stream;
use pingora_core::protocols::l4::virt::{VirtualSockOpt, VirtualSocket, VirtualSocketStream};
use pingora_core::upstreams::peer::{Tracer, Tracing};
use pingora_core::{Error, ErrorType, OrErr};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;

use super::Result;
use crate::connection::drain::Drain;
use crate::pipeline::Upstream;
use crate::process::descriptors::{self, CapacityWait, DescriptorPermit, Shortage};
use crate::upstream::tls::EndpointTlsConfig;

/// No connection could be made because of a local shortage: descriptors, memory or ports.
pub(super) const NO_ROOM: ErrorType = ErrorType::Custom("no room for a connection");

/// Makes the connection of one attempt, if Pingora's pool has none.
#[derive(Debug)]
pub(super) struct Connector {
    clients: Arc<Clients>,
    stage: AtomicU8,
    /// The route's TLS configuration, and whether the connection is for HTTP/2.
    tls: Option<(Arc<EndpointTlsConfig>, bool)>,
    /// The name of the endpoint's certificate, if the request determines it.
    server_name: Option<Arc<str>>,
}

/// The counts of client connections. In a handle per worker, because every request counts a
/// reference.
#[derive(Debug)]
pub(super) struct Clients(pub(super) Arc<Drain>);

/// The phase that a connection has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ConnectStage {
    /// Waiting for a connection slot.
    Waiting = 0,
    /// The TCP handshake is incomplete.
    Tcp = 1,
    /// TCP is established; the TLS handshake is incomplete.
    Tls = 2,
}

impl Connector {
    pub(super) fn new(clients: Arc<Clients>, upstream: &Upstream) -> Arc<Self> {
        let tls = upstream.tls.clone().map(|config| (config, upstream.protocol.is_http2()));
        let (stage, server_name) = (AtomicU8::new(ConnectStage::Waiting as u8), upstream.server_name.clone());
        Arc::new(Self { clients, stage, tls, server_name })
    }

    /// Returns the phase that was reached.
    pub(super) fn stage(&self) -> ConnectStage {
        match self.stage.load(Relaxed) {
            0 => ConnectStage::Waiting,
            1 => ConnectStage::Tcp,
            _ => ConnectStage::Tls,
        }
    }
}

#[async_trait]
impl L4Connect for Connector {
    async fn connect(&self, address: &SocketAddr) -> Result<Stream> {
        let SocketAddr::Inet(address) = address else {
            return Error::e_explain(ErrorType::InternalError, "endpoints have addresses");
        };
        let mut since = Some(Instant::now());
        let mut wait = CapacityWait::new(&mut since);
        loop {
            // Held until the stream itself is counted.
            if let Some(_place) = DescriptorPermit::take(self.clients.0.connections()) {
                self.stage.store(ConnectStage::Tcp as u8, Relaxed);
                match TcpStream::connect(*address).await {
                    Ok(stream) => {
                        self.stage.store(ConnectStage::Tls as u8, Relaxed);
                        let Some((config, http2)) = &self.tls else { return Ok(stream.into()) };
                        stream.set_nodelay(true).or_err(ErrorType::ConnectError, "to set an option")?;
                        return match config.connect(stream, *http2, self.server_name.as_deref()).await {
                            Ok(stream) => Ok(VirtualSocketStream::new(Box::new(Encrypted(stream))).into()),
                            Err(error) => {
                                Error::e_because(ErrorType::TLSHandshakeFailure, "with an endpoint", error)
                            }
                        };
                    }
                    Err(error) => match Shortage::of(&error) {
                        Some(Shortage::Passing) => {}
                        Some(Shortage::Ports) => return Error::e_because(NO_ROOM, "to connect", error),
                        None => return Error::e_because(ErrorType::ConnectError, "to connect", error),
                    },
                }
            }
            self.stage.store(ConnectStage::Waiting as u8, Relaxed);
            if !wait.for_descriptor().await {
                return Err(Error::new(NO_ROOM));
            }
        }
    }
}

/// A TLS stream made by the gateway, which Pingora treats as a plain one.
#[derive(Debug)]
struct Encrypted(TlsStream<TcpStream>);

impl VirtualSocket for Encrypted {
    /// Does nothing: the options are set on the TCP stream.
    fn set_socket_option(&self, _: VirtualSockOpt) -> io::Result<()> {
        Ok(())
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(cx)
    }
}

/// Counts one of Pingora's streams towards the descriptors while it is open, also in the pool.
pub(super) fn counted() -> Tracer {
    Tracer(Box::new(Counted))
}

#[derive(Debug)]
struct Counted;

impl Tracing for Counted {
    fn on_connected(&self) {
        descriptors::opened();
    }

    fn on_disconnected(&self) {
        descriptors::closed();
    }

    fn boxed_clone(&self) -> Box<dyn Tracing> {
        Box::new(Self)
    }
}
