//! UDP for Services, on their cluster IPs and load balancer addresses. Datagrams of a client are
//! relayed to one endpoint as long as it is one of the Service's, and its datagrams are sent back
//! to the client. Endpoints see the lab's address, as behind a load balancer with masquerading.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::backends::{Known, UDP};
use crate::layout::Layout;
use crate::network;

/// Time without a datagram from the endpoint after which a client is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// Maximum size of a datagram in bytes.
const LONGEST: usize = 65_507;

/// The addresses that are listened on.
pub(crate) struct Datagrams {
    known: Arc<Mutex<Known>>,
    layout: Layout,
    listening: HashMap<SocketAddr, JoinHandle<()>>,
}

/// The relay between one client and one address.
struct Conversation {
    endpoint: SocketAddr,
    socket: Arc<UdpSocket>,
    answers: JoinHandle<()>,
}

impl Datagrams {
    pub(crate) fn new(known: Arc<Mutex<Known>>, layout: Layout) -> Self {
        Self { known, layout, listening: HashMap::new() }
    }

    /// Listens on exactly the current addresses of Services.
    pub(crate) fn settle(&mut self) {
        let wanted = lock(&self.known).udp_addresses();
        self.listening.retain(|address, task| {
            let keep = wanted.contains(address);
            if !keep {
                task.abort();
            }
            keep
        });
        for address in wanted {
            if self.listening.contains_key(&address) {
                continue;
            }
            // Retried at the next event: the address of a load balancer is added at its Service's
            // next event at the latest.
            match self.listen(address) {
                Ok(socket) => {
                    info!(%address, "is answered over UDP");
                    let task = tokio::spawn(serve(Arc::new(socket), address, self.known.clone()));
                    self.listening.insert(address, task);
                }
                Err(error) => warn!(%address, "cannot listen for datagrams: {error:#}"),
            }
        }
    }

    fn listen(&self, address: SocketAddr) -> Result<UdpSocket> {
        let bind = || {
            let socket = std::net::UdpSocket::bind(address)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = match lock(&self.known).is_balancer(address) {
            true => bind(),
            false => network::inside(&self.layout.services_netns(), bind),
        }?;
        Ok(UdpSocket::from_std(socket)?)
    }
}

impl Conversation {
    /// Starts to relay datagrams of `endpoint` to `client`.
    async fn begin(client: SocketAddr, endpoint: SocketAddr, own: Arc<UdpSocket>) -> io::Result<Self> {
        let socket = Arc::new(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?);
        socket.connect(endpoint).await?;
        let back = socket.clone();
        let answers = tokio::spawn(async move {
            let mut datagram = vec![0; LONGEST];
            while let Ok(received) = timeout(FORGOTTEN, back.recv(&mut datagram)).await {
                // An endpoint that refused one datagram may accept the next.
                let Ok(length) = received else { continue };
                let _ = own.send_to(&datagram[..length], client).await;
            }
        });
        Ok(Self { endpoint, socket, answers })
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.answers.abort();
    }
}

async fn serve(own: Arc<UdpSocket>, address: SocketAddr, known: Arc<Mutex<Known>>) {
    let mut conversations: HashMap<SocketAddr, Conversation> = HashMap::new();
    let mut datagram = vec![0; LONGEST];
    loop {
        let Ok((length, client)) = own.recv_from(&mut datagram).await else { continue };
        let endpoints = lock(&known).behind(address, UDP).unwrap_or_default().in_turn(fastrand::usize(..));
        conversations.retain(|_, known| !known.answers.is_finished() && endpoints.contains(&known.endpoint));
        if !conversations.contains_key(&client)
            && let Some(endpoint) = endpoints.first()
            && let Ok(new) = Conversation::begin(client, *endpoint, own.clone()).await
        {
            conversations.insert(client, new);
        }
        // Lost datagrams are normal for UDP.
        if let Some(conversation) = conversations.get(&client) {
            let _ = conversation.socket.send(&datagram[..length]).await;
        }
    }
}

fn lock(known: &Mutex<Known>) -> std::sync::MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
