//! Why a client certificate is not acceptable, in OpenSSL's words: the text behind `FAILED:` in
//! `$ssl_client_verify`, which endpoints and log queries compare.

use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Why a client certificate is not acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientFailure {
    /// It is self-signed, and no authority.
    SelfSigned,
    /// Its chain ends with a self-signed certificate that is no authority.
    SelfSignedInChain,
    /// Its chain ends before an authority.
    NoLocalIssuer,
    /// It came alone, and no authority has issued it.
    FirstUnverified,
    /// It, or one of its chain, has expired.
    Expired,
    /// It, or one of its chain, is not valid yet.
    NotYetValid,
    /// It, or one of its chain, was revoked.
    Revoked,
    /// There are revocation lists, and none of the issuer.
    NoRevocationList,
    /// The revocation list of the issuer has expired.
    RevocationListExpired,
    /// A signature is wrong.
    Signature,
    /// One of the chain may issue no certificate.
    InvalidAuthority,
    /// One of the chain may issue certificates with fewer others below it.
    PathLength,
    /// There are more certificates up to the authority than `auth-tls-verify-depth`.
    ChainTooLong,
    /// It is for other purposes than to show it to servers.
    Purpose,
    /// Its name is outside of those that one of its chain may issue certificates for.
    NameConstraint,
    /// Anything else, such as an extension that is critical and not known.
    Unspecified,
}

impl ClientFailure {
    /// OpenSSL's words (`X509_verify_cert_error_string`).
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::SelfSigned => "self-signed certificate",
            Self::SelfSignedInChain => "self-signed certificate in certificate chain",
            Self::NoLocalIssuer => "unable to get local issuer certificate",
            Self::FirstUnverified => "unable to verify the first certificate",
            Self::Expired => "certificate has expired",
            Self::NotYetValid => "certificate is not yet valid",
            Self::Revoked => "certificate revoked",
            Self::NoRevocationList => "unable to get certificate CRL",
            Self::RevocationListExpired => "CRL has expired",
            Self::Signature => "certificate signature failure",
            Self::InvalidAuthority => "invalid CA certificate",
            Self::PathLength => "path length constraint exceeded",
            Self::ChainTooLong => "certificate chain too long",
            Self::Purpose => "unsuitable certificate purpose",
            Self::NameConstraint => "permitted subtree violation",
            Self::Unspecified => "unspecified certificate verification error",
        }
    }

    /// Whether nothing else is known to be wrong than that no authority vouches for it, which
    /// `optional_no_ca` accepts.
    pub(crate) fn is_unknown_authority(self) -> bool {
        matches!(
            self,
            Self::SelfSigned | Self::SelfSignedInChain | Self::NoLocalIssuer | Self::FirstUnverified
        )
    }

    /// What webpki says of a chain.
    pub(super) fn of(
        error: &webpki::Error,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
    ) -> Self {
        use webpki::Error;
        match error {
            Error::UnknownIssuer => Self::of_unknown_issuer(own, intermediates),
            Error::CertExpired { .. } => Self::Expired,
            Error::CertNotValidYet { .. } => Self::NotYetValid,
            Error::CertRevoked => Self::Revoked,
            Error::UnknownRevocationStatus => Self::NoRevocationList,
            Error::CrlExpired { .. } => Self::RevocationListExpired,
            Error::InvalidSignatureForPublicKey => Self::Signature,
            Error::EndEntityUsedAsCa => Self::InvalidAuthority,
            Error::PathLenConstraintViolated => Self::PathLength,
            Error::MaximumPathDepthExceeded => Self::ChainTooLong,
            Error::RequiredEkuNotFoundContext(_) => Self::Purpose,
            Error::NameConstraintViolation => Self::NameConstraint,
            _ => Self::Unspecified,
        }
    }

    /// Which of OpenSSL's four words for it applies depends on how far the chain goes.
    pub(super) fn of_unknown_issuer(own: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>]) -> Self {
        let parse = |der| X509Certificate::from_der(der).map(|(_, certificate)| certificate).ok();
        let Some(own) = parse(own) else { return Self::Unspecified };
        let is_self_issued = |certificate: &X509Certificate<'_>| {
            certificate.subject().as_raw() == certificate.issuer().as_raw()
        };
        if is_self_issued(&own) {
            return Self::SelfSigned;
        }
        let others: Vec<X509Certificate<'_>> = intermediates.iter().filter_map(|der| parse(der)).collect();
        let mut last = &own;
        // A chain has each certificate once.
        for _ in 0..others.len() {
            let issuer = others.iter().find(|other| other.subject().as_raw() == last.issuer().as_raw());
            let Some(issuer) = issuer else { break };
            if is_self_issued(issuer) {
                return Self::SelfSignedInChain;
            }
            last = issuer;
        }
        match std::ptr::eq(last, &own) {
            true => Self::FirstUnverified,
            false => Self::NoLocalIssuer,
        }
    }
}
