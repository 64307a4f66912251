//! Client certificates of a host: ingress-nginx `auth-tls-*`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::resource::ResourceKey;

/// Requirements of a host on client certificates. They apply to all rules of the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClientCertificates {
    /// Whether a certificate is requested and which ones are accepted (`auth-tls-verify-client`).
    pub mode: ClientCertificateMode,
    /// Verification of the certificate. A request gets 421 if the server name (SNI) of its
    /// connection belongs to a host with another verification.
    pub verification: ClientVerification,
    /// What clients without an acceptable certificate get in place of 400 (`auth-tls-error-page`).
    pub error_page: Option<CertificateErrorPage>,
    /// Linear-time regular expression that must match the subject (RFC 2253); other clients get 403
    /// (`auth-tls-match-cn`).
    pub subject: Option<Arc<str>>,
    /// Whether endpoints get the certificate in the field `ssl-client-cert`
    /// (`auth-tls-pass-certificate-to-upstream`).
    pub passes_certificate: bool,
}

/// What clients without an acceptable certificate get in place of 400.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CertificateErrorPage {
    /// A redirect to this URL.
    Url(Arc<str>),
    /// The page at this path of the host, with an optional query. Method, body and certificate of
    /// the client's request do not apply to it.
    Path(Arc<str>),
}

/// How a client certificate is verified. Hosts with equal values share their TLS sessions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClientVerification {
    /// Authorities and revocation lists: a resource of kind `ClientAuthorities`
    /// (`auth-tls-secret`). Every request is refused while that resource is absent.
    pub authorities: ResourceKey,
    /// Maximum number of intermediate certificates between the client's certificate and the
    /// authority's (`auth-tls-verify-depth`).
    pub depth: u32,
}

/// ingress-nginx `auth-tls-verify-client`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ClientCertificateMode {
    /// `off`: no certificate is requested.
    Off,
    /// `on`: a certificate is required.
    #[default]
    Required,
    /// `optional`: a certificate that is sent must be valid.
    Optional,
    /// `optional_no_ca`: as `optional`, but certificates of unknown authorities are accepted; the
    /// endpoint decides.
    OptionalAnyAuthority,
}
