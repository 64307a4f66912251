//! The validating webhook: rejects invalid Ingresses before the API server stores them.
//!
//! A review is the translation with one object replaced. The webhook therefore rejects exactly what
//! translation rejects, for the same reasons, in the order and with the messages of ingress-nginx
//! where it has them. A review executes nothing and writes nothing. A missing Secret or Service, or
//! a missing feature of Sluice, is a warning, because the object itself is valid.
//!
//! If no verdict is possible, because the state is incomplete or the program is overloaded, the
//! response is 503. The `failurePolicy` of the cluster then applies.

pub(crate) mod certificate;
mod connections;
mod decision;
mod request;
mod server;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sluice_config::NamespacedName;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::cluster::Findings;
use crate::input::Input;
use crate::options::Options;
use certificate::Certificates;
use request::Reviewer;

/// Address and certificate of the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionOptions {
    /// `--validating-webhook`.
    pub address: SocketAddr,
    /// `--validating-webhook-certificate`.
    pub certificate: PathBuf,
    /// `--validating-webhook-key`.
    pub key: PathBuf,
}

/// The outcome of one review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reviewed {
    /// Name of the Ingress.
    pub name: NamespacedName,
    /// Whether the Ingress may be stored.
    pub allowed: bool,
    /// Size of the request in bytes.
    pub bytes: usize,
    /// Number of Ingresses and hosts that the review computed.
    pub looked_at: usize,
    /// Time to the verdict, including the wait in the queue.
    pub verdict: Duration,
    /// Time from the request to the response.
    pub total: Duration,
}

/// Callback for finished reviews.
pub type OnReview = Arc<dyn Fn(&Reviewed) + Send + Sync>;

/// Errors of [`start`].
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// The port is in use by another program.
    #[error("port {0} is already in use. Please check the flag --validating-webhook")]
    InUse(u16),
    /// Binding failed for another reason.
    #[error("cannot listen on {address} ({error}); give another address with --validating-webhook")]
    Bind {
        /// Address of the listener.
        address: SocketAddr,
        /// Error of the system.
        error: io::Error,
    },
}

/// Binds the address and returns a future that serves reviews as long as the program runs. Must be
/// called on a Tokio runtime.
///
/// # Errors
/// Returns an error if the address cannot be bound. An invalid certificate is a problem instead of
/// an error, because a valid one may be mounted later.
pub async fn start(
    admission: AdmissionOptions,
    options: &Options,
    inputs: mpsc::WeakSender<Input>,
    on_review: OnReview,
) -> Result<impl Future<Output = ()> + Send + use<>, AdmissionError> {
    let listener = bind(admission.address).await?;
    tracing::info!(address = %admission.address, "the validating webhook listens");
    let reviewer = Arc::new(Reviewer::new(options, inputs.clone(), on_review));
    let certificates = Certificates::new(admission.certificate, admission.key);
    let tls = server::tls(certificates.current());
    Ok(async move {
        tokio::select! {
            () = certificates.watch(Findings::new(inputs)) => {}
            () = server::run(listener, tls, reviewer) => {}
        }
    })
}

async fn bind(address: SocketAddr) -> Result<TcpListener, AdmissionError> {
    let bound = match TcpListener::bind(address).await {
        // The machine may lack IPv6.
        Err(error) if error.kind() != io::ErrorKind::AddrInUse && address.ip() == IpAddr::from([0u16; 8]) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    };
    bound.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => AdmissionError::InUse(address.port()),
        _ => AdmissionError::Bind { address, error },
    })
}
