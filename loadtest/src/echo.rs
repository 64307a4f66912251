//! Backends for k6: listeners in this process that respond with their identity and behave as the
//! request specifies ([`sluice_testing::echo`]). [`crate::backend`] has cheaper ones.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Context;
use sluice_testing::echo::{Identity, answer, serve};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A backend that serves until it is dropped. Open requests are then completed, and upgraded
/// connections outlive it, like those of a Pod during its termination grace period.
#[derive(Debug)]
pub struct Echo {
    /// The address on which it listens.
    pub address: SocketAddr,
    /// Stops the backend when dropped.
    _stop: oneshot::Sender<()>,
}

impl Echo {
    /// Starts a backend with the identity of a Pod called `name`.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn start(ip: IpAddr, port: u16, name: &str) -> anyhow::Result<Self> {
        let listener =
            TcpListener::bind((ip, port)).await.with_context(|| format!("cannot bind {ip}:{port}"))?;
        let address = listener.local_addr()?;
        let identity = Arc::new(Identity { pod: Some(name.to_owned()), ..Identity::default() });
        let answer = move |request| {
            let identity = identity.clone();
            async move { answer(request, &identity).await }
        };
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(serve(listener, answer, async move { drop(stopped.await) }));
        Ok(Self { address, _stop: stop })
    }
}
