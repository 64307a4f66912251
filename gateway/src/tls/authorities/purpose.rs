//! What certificates are presented for.

use rustls_pki_types::ServerName;
use webpki::KeyUsage;
use x509_parser::extensions;

/// What a certificate is presented for.
#[derive(Clone, Copy, Debug)]
pub(in crate::tls) enum Purpose<'n> {
    /// A client identifies itself.
    Client,
    /// An endpoint identifies itself by this name.
    Server(&'n ServerName<'n>),
}

impl Purpose<'_> {
    /// Returns the ExtendedKeyUsage that every certificate of a path needs that has any.
    pub(super) fn extended_key_usage(self) -> KeyUsage {
        match self {
            Self::Client => KeyUsage::client_auth(),
            Self::Server(_) => KeyUsage::server_auth(),
        }
    }

    /// Returns whether an ExtendedKeyUsage allows it. As for OpenSSL, `anyExtendedKeyUsage` does
    /// not.
    pub(super) fn is_in(self, usage: &extensions::ExtendedKeyUsage<'_>) -> bool {
        match self {
            Self::Client => usage.client_auth,
            Self::Server(_) => usage.server_auth,
        }
    }

    /// Returns whether the KeyUsage of the peer's own certificate allows it.
    pub(super) fn is_allowed_by(self, usage: &extensions::KeyUsage) -> bool {
        let is_signing = usage.digital_signature() || usage.key_agreement();
        match self {
            Self::Client => is_signing,
            Self::Server(_) => is_signing || usage.key_encipherment(),
        }
    }
}
