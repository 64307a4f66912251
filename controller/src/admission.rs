//! The validating webhook: what is wrong with an Ingress is said to whoever applies it, before it is stored.
//!
//! A review is the translation with one object replaced, so the webhook refuses what would be refused, for the same
//! reasons, in the order and with the words of ingress-nginx where it has them. It executes nothing and writes nothing.
//! What may come later (a Secret, a Service) and what Sluice itself lacks is a warning: the object is not at fault.
//!
//! Where no verdict can be given, because not everything is known yet or the program is busy, the answer is 503: what
//! happens then is for the `failurePolicy` of the cluster to decide, and not for us.

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

use crate::duties::Findings;
use crate::input::Input;
use crate::options::Options;
use certificate::Certificates;
use request::Reviewer;

/// Where the webhook is, and with which certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionOptions {
    /// `--validating-webhook`.
    pub address: SocketAddr,
    /// `--validating-webhook-certificate`.
    pub certificate: PathBuf,
    /// `--validating-webhook-key`.
    pub key: PathBuf,
}

/// One review that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reviewed {
    /// Of which Ingress.
    pub name: NamespacedName,
    /// Whether it may be stored.
    pub allowed: bool,
    /// Bytes of the request.
    pub bytes: usize,
    /// Ingresses and hosts that were looked at.
    pub looked_at: usize,
    /// How long the verdict took, with the wait for its turn.
    pub verdict: Duration,
    /// From the request to its answer.
    pub total: Duration,
}

/// Who is told of reviews.
pub type OnReview = Arc<dyn Fn(&Reviewed) + Send + Sync>;

/// Why the webhook cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// Somebody else has the port.
    #[error("port {0} is already in use. Please check the flag --validating-webhook")]
    InUse(u16),
    /// The address cannot be listened on for another reason.
    #[error("cannot listen on {address} ({error}); give another address with --validating-webhook")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
}

/// Listens, and gives what serves for as long as the program runs. To be called on a Tokio runtime.
///
/// # Errors
/// The address cannot be listened on. A certificate that cannot be used is a problem and not an error: it may come later.
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
        // A machine without IPv6.
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
