//! Backends for k6: listeners in this process that say who they are and behave as the request says
//! ([`sluice_testing::echo`]). [`crate::backend`] has those that answer as cheaply as possible.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Context;
use sluice_testing::echo::{Identity, answer, serve};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A backend that serves until it is dropped. Running requests are then finished, and upgraded connections outlive it, as
/// those of a Pod do during its termination grace period.
#[derive(Debug)]
pub struct Echo {
    /// Where it listens.
    pub address: SocketAddr,
    /// Dropped with it, which stops it.
    _stop: oneshot::Sender<()>,
}

impl Echo {
    /// Starts one that says it is the Pod `name`.
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
