//! Backends for k6: listeners in this process that say who they are and behave as the request tells them
//! ([`sluice_testing::echo`]). [`crate::backend`] has those that answer as cheaply as possible.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Context;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use sluice_testing::echo::{Identity, answer};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A backend that serves until it is stopped or dropped. Running requests are then finished, and upgraded connections
/// outlive it, as those of a Pod do during its termination grace period.
#[derive(Debug)]
pub struct Echo {
    /// Where it listens.
    pub address: SocketAddr,
    stop: watch::Sender<()>,
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
        let identity = Identity { pod: Some(name.to_owned()), ..Identity::default() };
        let (stop, stopped) = watch::channel(());
        tokio::spawn(accept(listener, Arc::new(identity), stopped));
        Ok(Self { address, stop })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // Nobody listens any more: it is down already.
        let _ = self.stop.send(());
    }
}

async fn accept(listener: TcpListener, identity: Arc<Identity>, mut stopped: watch::Receiver<()>) {
    let connections = GracefulShutdown::new();
    loop {
        let stream = tokio::select! {
            _ = stopped.changed() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Out of file descriptors: the client notices, and the run counts a failure.
                Err(_) => continue,
            },
        };
        // An answer goes out at once, whatever the client has in flight.
        let _ = stream.set_nodelay(true);
        let identity = identity.clone();
        let service = service_fn(move |request| {
            let identity = identity.clone();
            async move { Ok::<_, Infallible>(answer(request, &identity).await) }
        });
        let server = auto::Builder::new(TokioExecutor::new()).http1_only();
        let connection = server.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let connection = connections.watch(connection.into_owned());
        // A gateway that breaks off is its own business.
        tokio::spawn(async move { drop(connection.await) });
    }
    drop(listener);
    connections.shutdown().await;
}
