//! Why a certificate is not acceptable, in OpenSSL's words: the text behind `FAILED:` in
//! `$ssl_client_verify`, which endpoints and log queries compare.

/// Why a certificate is not acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.as_str())]
pub(crate) enum ChainFailure {
    /// It is self-signed, and no authority.
    SelfSigned,
    /// Its chain ends with a self-signed certificate that is no authority.
    SelfSignedInChain,
    /// Its chain ends before an authority, or is longer than it may be.
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
    /// The KeyUsage of one of the chain does not include to sign certificates.
    CertificateSigning,
    /// One of the chain may issue certificates with fewer others below it.
    PathLength,
    /// It is for other purposes, or one of its chain may not issue certificates for this one.
    Purpose,
    /// It is for other names than that of the endpoint.
    Name,
    /// Its name is outside of those that one of its chain may issue certificates for.
    NameConstraint,
    /// It, or one of its chain, has a critical extension that is not known.
    CriticalExtension,
    /// Anything else.
    Unspecified,
}

impl ChainFailure {
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
            Self::CertificateSigning => "key usage does not include certificate signing",
            Self::PathLength => "path length constraint exceeded",
            Self::Purpose => "unsuitable certificate purpose",
            Self::Name => "hostname mismatch",
            Self::NameConstraint => "permitted subtree violation",
            Self::CriticalExtension => "unhandled critical extension",
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

    /// Converts an error of webpki.
    pub(super) fn of(error: &webpki::Error) -> Self {
        use webpki::Error;
        match error {
            Error::CertExpired { .. } => Self::Expired,
            Error::CertNotValidYet { .. } => Self::NotYetValid,
            Error::CertRevoked => Self::Revoked,
            Error::UnknownRevocationStatus => Self::NoRevocationList,
            Error::CrlExpired { .. } => Self::RevocationListExpired,
            Error::InvalidSignatureForPublicKey => Self::Signature,
            Error::EndEntityUsedAsCa | Error::RequiredEkuNotFoundContext(_) => Self::Purpose,
            Error::PathLenConstraintViolated => Self::PathLength,
            Error::NameConstraintViolation => Self::NameConstraint,
            Error::UnsupportedCriticalExtension => Self::CriticalExtension,
            _ => Self::Unspecified,
        }
    }
}
