//! The certificate that a client has presented on a connection.

mod distinguished_name;
mod text;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use http::HeaderValue;
use rustls_pki_types::{CertificateDer, UnixTime};
use sluice_config::ClientVerification;

pub use text::CertificateText;

use super::chain_failure::ChainFailure;
use super::client_authorities::ClientAuthorities;

/// How long the result of a verification holds on a connection whose authorities do not change: a
/// certificate may expire meanwhile.
const RECHECK: Duration = Duration::from_secs(60);

static EMPTY: HeaderValue = HeaderValue::from_static("");

/// The part of a connection that concerns client certificates. Connections to hosts that request
/// none have no such part.
#[derive(Debug)]
pub struct ClientTls {
    /// The verification that the handshake was made for.
    pub(crate) verification: Arc<ClientVerification>,
    /// The client's certificate, if it has presented one.
    pub(crate) presented: Option<PresentedCertificate>,
}

/// A certificate chain whose first key the client has proved to hold. The chain is not verified
/// yet.
#[derive(Debug)]
pub struct PresentedCertificate {
    chain: Box<[CertificateDer<'static>]>,
    text: OnceLock<CertificateText>,
    verified: ArcSwapOption<Verified>,
}

/// The result of a verification.
#[derive(Debug)]
struct Verified {
    /// The content of the Secret that it was made with.
    authorities: Arc<ClientAuthorities>,
    depth: u32,
    at: Instant,
    result: Result<(), ChainFailure>,
}

/// The client of a request, as far as its certificate proves it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientIdentity<'c> {
    presented: Option<&'c PresentedCertificate>,
    result: Option<Result<(), ChainFailure>>,
}

impl ClientTls {
    /// Creates the part of a connection whose handshake was made for this verification.
    pub(crate) fn new(verification: Arc<ClientVerification>, chain: Option<&[CertificateDer<'_>]>) -> Self {
        let presented = chain.filter(|chain| !chain.is_empty()).map(PresentedCertificate::new);
        Self { verification, presented }
    }

    /// The client, verified with these authorities, which may be others than those of the
    /// handshake.
    pub(crate) fn identity(&self, authorities: &Arc<ClientAuthorities>, depth: u32) -> ClientIdentity<'_> {
        let presented = self.presented.as_ref();
        let result = presented.map(|presented| presented.verify(authorities, depth));
        ClientIdentity { presented, result }
    }
}

impl<'c> ClientIdentity<'c> {
    /// The certificate, whatever the verification came to.
    pub(crate) fn presented(&self) -> Option<&'c PresentedCertificate> {
        self.presented
    }

    /// The result of the verification; `None` without a certificate.
    pub(crate) fn result(&self) -> Option<Result<(), ChainFailure>> {
        self.result
    }

    /// `$ssl_client_verify`.
    pub(crate) fn verify(&self) -> HeaderValue {
        match self.result {
            None => HeaderValue::from_static("NONE"),
            Some(Ok(())) => HeaderValue::from_static("SUCCESS"),
            Some(Err(failure)) => HeaderValue::try_from(format!("FAILED:{}", failure.as_str()))
                .unwrap_or(HeaderValue::from_static("FAILED")),
        }
    }

    /// `$ssl_client_s_dn`; empty without a certificate.
    pub(crate) fn subject(&self) -> &HeaderValue {
        self.presented.map_or(&EMPTY, |presented| &presented.text().subject)
    }

    /// `$ssl_client_i_dn`.
    pub(crate) fn issuer(&self) -> &HeaderValue {
        self.presented.map_or(&EMPTY, |presented| &presented.text().issuer)
    }
}

impl PresentedCertificate {
    fn new(chain: &[CertificateDer<'_>]) -> Self {
        Self {
            chain: chain.iter().map(|der| der.clone().into_owned()).collect(),
            text: OnceLock::new(),
            verified: ArcSwapOption::const_empty(),
        }
    }

    /// Returns the text form that logs and endpoints use.
    pub(crate) fn text(&self) -> &CertificateText {
        self.text.get_or_init(|| CertificateText::of(&self.chain[0]))
    }

    /// Returns it as a field value, percent-encoded (`$ssl_client_escaped_cert`).
    pub(crate) fn escaped(&self) -> HeaderValue {
        HeaderValue::try_from(text::escaped(&self.chain[0])).unwrap_or(HeaderValue::from_static(""))
    }

    /// Returns it in PEM (`$ssl_client_raw_cert`).
    pub(crate) fn pem(&self) -> String {
        text::pem(&self.chain[0])
    }

    /// Returns the whole days until it expires (`$ssl_client_v_remain`).
    pub(crate) fn days_left(&self) -> u64 {
        let end = u64::try_from(self.text().not_after).unwrap_or_default();
        end.saturating_sub(UnixTime::now().as_secs()) / 86_400
    }

    /// A chain is verified once for each content of the Secret and depth, and again after a minute.
    fn verify(&self, authorities: &Arc<ClientAuthorities>, depth: u32) -> Result<(), ChainFailure> {
        let now = Instant::now();
        if let Some(known) = &*self.verified.load()
            && Arc::ptr_eq(&known.authorities, authorities)
            && known.depth == depth
            && now.duration_since(known.at) < RECHECK
        {
            return known.result;
        }
        let result = authorities.verify(&self.chain, depth, UnixTime::now());
        let authorities = authorities.clone();
        self.verified.store(Some(Arc::new(Verified { authorities, depth, at: now, result })));
        result
    }
}
