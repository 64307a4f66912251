//! Connections to endpoints for Pingora: made by us, so that they are counted among the descriptors, and what we lack is
//! told from what fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use async_trait::async_trait;
use pingora_core::connectors::L4Connect;
use pingora_core::protocols::l4::socket::SocketAddr;
use pingora_core::protocols::l4::stream::Stream;
use pingora_core::upstreams::peer::{Tracer, Tracing};
use pingora_core::{Error, ErrorType};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::Result;
use crate::descriptors::{self, DescriptorPermit, Lack, Wait};
use crate::drain::Drain;

/// There is no room for a connection, or something else that we lack for it.
pub(super) const NO_ROOM: ErrorType = ErrorType::Custom("no room for a connection");

/// Makes the connection of one attempt, where Pingora has none.
#[derive(Debug)]
pub(super) struct Connector {
    clients: Arc<Clients>,
    stage: AtomicU8,
}

/// Where connections of clients are counted. In a handle of this worker, because every request counts a reference.
#[derive(Debug)]
pub(super) struct Clients(pub(super) Arc<Drain>);

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    /// It waits for room.
    Waiting = 0,
    /// The endpoint has not taken it.
    Tcp = 1,
    /// It has, and TLS is to come.
    Tls = 2,
}

impl Connector {
    pub(super) fn new(clients: Arc<Clients>) -> Arc<Self> {
        Arc::new(Self { clients, stage: AtomicU8::new(Stage::Waiting as u8) })
    }

    /// How far it came.
    pub(super) fn stage(&self) -> Stage {
        match self.stage.load(Relaxed) {
            0 => Stage::Waiting,
            1 => Stage::Tcp,
            _ => Stage::Tls,
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
        let mut wait = Wait::new(&mut since);
        loop {
            // Held until the stream itself counts.
            if let Some(_place) = DescriptorPermit::take(self.clients.0.connections()) {
                self.stage.store(Stage::Tcp as u8, Relaxed);
                match TcpStream::connect(*address).await {
                    Ok(stream) => {
                        self.stage.store(Stage::Tls as u8, Relaxed);
                        return Ok(stream.into());
                    }
                    Err(error) => match Lack::of(&error) {
                        Some(Lack::Passing) => {}
                        Some(Lack::Ports) => return Error::e_because(NO_ROOM, "to connect", error),
                        None => return Error::e_because(ErrorType::ConnectError, "to connect", error),
                    },
                }
            }
            self.stage.store(Stage::Waiting as u8, Relaxed);
            if !wait.for_descriptor().await {
                return Err(Error::new(NO_ROOM));
            }
        }
    }
}

/// Counts a stream of Pingora's among the descriptors while it lives, in the pool too.
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
