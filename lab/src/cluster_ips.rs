//! Connections to Service addresses (`clusterIP`), in place of kube-proxy: each is relayed to one
//! of the Service's endpoints.
//!
//! All these addresses are local to a separate network namespace, where one socket per port number
//! accepts connections to all of them. Thousands of Services therefore cost nothing while unused,
//! and no port of the lab's namespace is occupied. TCP over IPv4 only; [`crate::datagrams`] relays
//! UDP.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use k8s_openapi::api::core::v1::Service;
use tokio::net::{TcpListener, TcpStream};
use tracing::warn;

use crate::backends::{Known, TCP, ports, relay};
use crate::network;

/// The ports that are listened on.
pub(crate) struct ClusterIps {
    known: Arc<Mutex<Known>>,
    netns: String,
    ports: HashSet<u16>,
}

impl ClusterIps {
    /// Creates an instance that listens in the network namespace `netns`.
    pub(crate) fn new(known: Arc<Mutex<Known>>, netns: String) -> Self {
        Self { known, netns, ports: HashSet::new() }
    }

    /// Listens on the ports of a Service, unless it already does. Ports stay open after the Service
    /// is deleted: a connection to an address without a Service is closed.
    pub(crate) fn open(&mut self, service: &Service) {
        for (port, _) in ports(service, TCP) {
            if !self.ports.insert(port) {
                continue;
            }
            match listen(&self.netns, port) {
                Ok(listener) => drop(tokio::spawn(accept(listener, self.known.clone()))),
                Err(error) => {
                    warn!(port, "cannot answer on addresses of Services: {error:#}");
                    self.ports.remove(&port);
                }
            }
        }
    }
}

fn listen(netns: &str, port: u16) -> Result<TcpListener> {
    let socket = network::inside(netns, || {
        let listener = std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    })?;
    Ok(TcpListener::from_std(socket)?)
}

async fn accept(listener: TcpListener, known: Arc<Mutex<Known>>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let Ok(address) = client.local_addr() else { continue };
        let candidates = known.lock().unwrap_or_else(PoisonError::into_inner).behind(address, TCP);
        let Some(candidates) = candidates else { continue };
        tokio::spawn(relay(client, candidates.in_turn(fastrand::usize(..)), None, TcpStream::connect));
    }
}
