//! Client certificates that a host requires: `auth-tls-*`.
//!
//! The handshake accepts any certificate. These checks decide for each request whether the
//! certificate of its connection is acceptable, with the current authorities and revocation lists.
//! A connection may be older than the verification of its host. Its certificate, if it has one,
//! decides all the same; then the connection ends, because the next handshake requests another one.

use std::sync::Arc;

use http::header::{HeaderName, HeaderValue};
use regex::bytes::Regex;
use sluice_config::{CertificateErrorPage, ClientCertificateMode, ClientVerification};

use super::error::PolicyError;
use super::resources::{ResourceSlot, Resources};
use crate::connection::info::ConnectionInfo;
use crate::expression::bounded_bytes_regex;
use crate::message::edit::RequestTarget;
use crate::message::fields::FieldsMut;
use crate::router::{host_of, normalise};
use crate::tls::{ClientAuthorities, ClientIdentity, ClientTls};

static CERTIFICATE: HeaderName = HeaderName::from_static("ssl-client-cert");
static ISSUER: HeaderName = HeaderName::from_static("ssl-client-issuer-dn");
static SUBJECT: HeaderName = HeaderName::from_static("ssl-client-subject-dn");
static VERIFY: HeaderName = HeaderName::from_static("ssl-client-verify");

/// The compiled requirements of a host.
#[derive(Debug)]
pub struct ClientCertificates {
    mode: ClientCertificateMode,
    verification: ClientVerification,
    authorities: Arc<ResourceSlot<ClientAuthorities>>,
    pub(crate) error_page: Option<ErrorPage>,
    subject: Option<Regex>,
    passes_certificate: bool,
}

/// What clients without an acceptable certificate get in place of 400.
#[derive(Debug)]
pub(crate) enum ErrorPage {
    /// A redirect to this URL.
    Url(HeaderValue),
    /// The page at this path of the host.
    Path(RequestTarget),
}

impl ErrorPage {
    fn compile(page: &CertificateErrorPage) -> Result<Self, PolicyError> {
        match page {
            CertificateErrorPage::Url(url) => HeaderValue::from_str(url)
                .map(Self::Url)
                .map_err(|_| PolicyError::HeaderValue("location".to_owned())),
            CertificateErrorPage::Path(path) => RequestTarget::new(path.to_string())
                .filter(|target| normalise(target.path()).is_ok())
                .map(Self::Path)
                .ok_or_else(|| PolicyError::ErrorPage(path.to_string())),
        }
    }
}

/// The decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CertificateDecision {
    /// The request may continue.
    Accepted,
    /// The connection has no TLS, and therefore no certificate.
    Unencrypted,
    /// The connection was made for a host with another verification, or for an earlier one of this
    /// host, and has no acceptable certificate.
    Misdirected,
    /// The client presented no certificate.
    Missing,
    /// The certificate is not acceptable.
    Invalid,
    /// The subject of the certificate is not accepted.
    Subject,
    /// The Secret with the authorities is not usable.
    Closed,
}

/// The verification that the handshake of a connection was made for, beside that of a host.
enum Handshake<'c> {
    /// The same.
    Current(&'c ClientTls),
    /// An earlier one of this host, or none.
    Earlier(Option<&'c ClientTls>),
    /// That of another host.
    Other,
}

impl ClientCertificates {
    /// Compiles the requirements of a host.
    ///
    /// # Errors
    /// The error page or the expression is invalid, or the resource is of another kind.
    pub fn compile(
        policy: &sluice_config::ClientCertificates,
        resources: &Resources,
    ) -> Result<Self, PolicyError> {
        let sluice_config::ClientCertificates { mode, verification, error_page, subject, passes_certificate } =
            policy;
        let expression = |text: &Arc<str>| {
            bounded_bytes_regex(text).map_err(|_| PolicyError::Expression(text.to_string()))
        };
        Ok(Self {
            mode: *mode,
            verification: verification.clone(),
            authorities: resources.client_authorities(&verification.authorities)?,
            error_page: error_page.as_ref().map(ErrorPage::compile).transpose()?,
            subject: subject.as_ref().map(expression).transpose()?,
            passes_certificate: *passes_certificate,
        })
    }

    /// Returns the decision as text for `explain`.
    pub(crate) fn describe(&self) -> &'static str {
        match self.mode {
            ClientCertificateMode::Off => "no certificate is requested",
            ClientCertificateMode::Required => {
                "a valid certificate passes, others get 400 or auth-tls-error-page"
            }
            ClientCertificateMode::Optional => "a valid certificate passes, or none; others get 400",
            ClientCertificateMode::OptionalAnyAuthority => "a certificate of any authority passes, or none",
        }
    }

    /// Returns whether clients without a certificate are refused.
    pub(crate) fn is_required(&self) -> bool {
        self.mode == ClientCertificateMode::Required
    }

    /// Decides on a request for this authority.
    pub(crate) fn decide(&self, connection: &ConnectionInfo, authority: &HeaderValue) -> CertificateDecision {
        if self.mode == ClientCertificateMode::Off || connection.tls.is_none() {
            return self.judge(connection, self.identity(connection, authority));
        }
        let handshake = self.handshake(connection, authority);
        if let Handshake::Other = handshake {
            return CertificateDecision::Misdirected;
        }
        if self.authorities.load().is_none() {
            return CertificateDecision::Closed;
        }
        match (handshake, self.judge(connection, self.identity(connection, authority))) {
            (_, CertificateDecision::Accepted) => CertificateDecision::Accepted,
            // The client may have an acceptable one that this handshake did not request.
            (Handshake::Earlier(_), _) => CertificateDecision::Misdirected,
            (_, refusal) => refusal,
        }
    }

    /// Decides by the client's identity.
    fn judge(&self, connection: &ConnectionInfo, identity: ClientIdentity<'_>) -> CertificateDecision {
        let unencrypted = connection.tls.is_none();
        match (self.mode, identity.result()) {
            (ClientCertificateMode::Required, None) if !unencrypted => return CertificateDecision::Missing,
            (ClientCertificateMode::OptionalAnyAuthority, Some(Err(failure)))
                if failure.is_unknown_authority() => {}
            (_, Some(Err(_))) => return CertificateDecision::Invalid,
            _ => {}
        }
        if let Some(subject) = &self.subject
            && !subject.is_match(identity.subject().as_bytes())
        {
            return CertificateDecision::Subject;
        }
        match unencrypted && self.is_required() {
            true => CertificateDecision::Unencrypted,
            false => CertificateDecision::Accepted,
        }
    }

    /// Returns whether the handshake of a connection was made before this verification was that of
    /// its host.
    pub(crate) fn is_newer_than(&self, connection: &ConnectionInfo, authority: &HeaderValue) -> bool {
        self.mode != ClientCertificateMode::Off
            && matches!(self.handshake(connection, authority), Handshake::Earlier(_))
    }

    fn handshake<'c>(&self, connection: &'c ConnectionInfo, authority: &HeaderValue) -> Handshake<'c> {
        let Some(tls) = &connection.tls else { return Handshake::Other };
        let client = tls.client.as_deref();
        if let Some(client) = client.filter(|client| *client.verification == self.verification) {
            return Handshake::Current(client);
        }
        let is_own = |name: &str| authority.to_str().is_ok_and(|authority| host_of(authority) == name);
        match tls.server_name.as_deref().is_some_and(is_own) {
            true => Handshake::Earlier(client),
            false => Handshake::Other,
        }
    }

    /// Returns the identity of a connection's client for a request for this authority.
    pub(crate) fn identity<'c>(
        &self,
        connection: &'c ConnectionInfo,
        authority: &HeaderValue,
    ) -> ClientIdentity<'c> {
        if self.mode == ClientCertificateMode::Off {
            return ClientIdentity::default();
        }
        let client = match self.handshake(connection, authority) {
            Handshake::Current(client) => Some(client),
            Handshake::Earlier(client) => client,
            Handshake::Other => None,
        };
        match (client, &*self.authorities.load()) {
            (Some(client), Some(authorities)) => client.identity(authorities, self.verification.depth),
            _ => ClientIdentity::default(),
        }
    }

    /// Sets the fields about the client's certificate, and removes any that the client sent.
    pub(crate) fn set_fields(
        &self,
        connection: &ConnectionInfo,
        authority: &HeaderValue,
        fields: &mut impl FieldsMut,
    ) {
        let mut spoofed = Vec::new();
        fields.each(|name, _| {
            if is_reserved(name)
                && let Ok(name) = HeaderName::from_bytes(name)
            {
                spoofed.push(name);
            }
        });
        for name in &spoofed {
            fields.remove(name);
        }
        if connection.tls.is_none() {
            return;
        }
        let identity = self.identity(connection, authority);
        let mut set = |name: &HeaderName, value: &HeaderValue| {
            // nginx sends no field with an empty value.
            if !value.is_empty() {
                fields.set(name, value);
            }
        };
        set(&VERIFY, &identity.verify());
        set(&SUBJECT, identity.subject());
        set(&ISSUER, identity.issuer());
        if self.passes_certificate
            && let Some(presented) = identity.presented()
        {
            set(&CERTIFICATE, &presented.escaped());
        }
    }
}

/// Returns whether endpoints trust a field to come from the gateway. Some of them (CGI, WSGI) do
/// not distinguish underscores from hyphens.
fn is_reserved(name: &[u8]) -> bool {
    let same = |one: &u8, other: &u8| match one {
        b'_' => *other == b'-',
        one => one.eq_ignore_ascii_case(other),
    };
    [&CERTIFICATE, &ISSUER, &SUBJECT, &VERIFY].into_iter().any(|reserved| {
        let reserved = reserved.as_str().as_bytes();
        name.len() == reserved.len() && name.iter().zip(reserved).all(|(one, other)| same(one, other))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_fields_are_known_in_any_spelling() {
        for name in ["ssl-client-verify", "SSL-Client-Verify", "ssl_client_verify", "ssl_client-subject_dn"] {
            assert!(is_reserved(name.as_bytes()), "{name}");
        }
        for name in ["ssl-client", "ssl-client-verify2", "x-ssl-client-verify", "ssl-client-s-dn"] {
            assert!(!is_reserved(name.as_bytes()), "{name}");
        }
    }
}
