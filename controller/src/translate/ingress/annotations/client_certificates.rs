//! Client certificates.

use std::sync::Arc;

use http::Uri;
use sluice_config::{
    ClientCertificateMode, ClientCertificates, ClientVerification, NamespacedName, ResourceKey, ResourceKind,
};

use super::{Annotation, Settings};
use crate::translate::expression;
use crate::translate::setting::{Reference, Risk, Unreadable};
use crate::translate::value::{self, Type};

pub(crate) const SECRET: &str = "auth-tls-secret";

const MODES: &[(&str, ClientCertificateMode)] = &[
    ("on", ClientCertificateMode::Required),
    ("off", ClientCertificateMode::Off),
    ("optional", ClientCertificateMode::Optional),
    ("optional_no_ca", ClientCertificateMode::OptionalAnyAuthority),
];

/// The annotations of this family, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificateSettings {
    secret: Option<NamespacedName>,
    mode: ClientCertificateMode,
    depth: u32,
    error_page: Option<Arc<str>>,
    subject: Option<Arc<str>>,
    passes_certificate: bool,
}

impl Default for ClientCertificateSettings {
    fn default() -> Self {
        Self {
            secret: None,
            mode: ClientCertificateMode::default(),
            depth: 1,
            error_page: None,
            subject: None,
            passes_certificate: false,
        }
    }
}

impl ClientCertificateSettings {
    /// Returns the policy for the hosts of the Ingress, if it has one.
    fn policy(&self) -> Option<Arc<ClientCertificates>> {
        let authorities = ResourceKey { kind: ResourceKind::ClientAuthorities, name: self.secret.clone()? };
        Some(Arc::new(ClientCertificates {
            mode: self.mode,
            verification: ClientVerification { authorities, depth: self.depth },
            error_page: self.error_page.clone(),
            subject: self.subject.clone(),
            passes_certificate: self.passes_certificate,
        }))
    }
}

/// Computes the policy of the hosts.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    settings.routes.client_certificates = settings.client_certificates.policy();
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            SECRET,
            value::secret(),
            "",
            "Secret with the authorities that verify clients (ca.crt) and, optionally, their \
             revocation lists (ca.crl). The settings of the oldest Ingress of a host that names one \
             apply to all paths of the host. While the Secret is missing or unusable, the host \
             answers 403. Requests over plain http that are not redirected to https are refused \
             too, unless clients may come without a certificate.",
            |settings, value| settings.client_certificates.secret = Some(value),
        )
        .unreadable(Unreadable::Close, Reference::Close, "")
        .location(Risk::Medium)
        .for_whole_host()
        .protects(),
        Annotation::served(
            "auth-tls-match-cn",
            subject(),
            "",
            "Regular expression that must match the subject of the client's certificate (RFC 2253, \
             such as CN=client,O=Example); other clients get 403.",
            |settings, value| settings.client_certificates.subject = Some(value),
        )
        .unreadable(Unreadable::Close, Reference::Reject, "both keep requests out")
        .beside(SECRET)
        .location(Risk::High)
        .for_whole_host()
        .protects(),
        Annotation::served(
            "auth-tls-verify-client",
            value::exactly_one_of(MODES),
            "on",
            "on requires a certificate, optional accepts clients without one, optional_no_ca also \
             accepts certificates of unknown authorities, off requests none.",
            |settings, value| settings.client_certificates.mode = value,
        )
        .beside(SECRET)
        .location(Risk::Medium),
        Annotation::served(
            "auth-tls-verify-depth",
            // 0 is the default, as in ingress-nginx.
            value::count().map(|depth| depth.max(1)),
            "1",
            "Maximum number of intermediate certificates between the client's and the authority's.",
            |settings, value| settings.client_certificates.depth = value,
        )
        .beside(SECRET)
        .location(Risk::Low),
        Annotation::served(
            "auth-tls-error-page",
            url(),
            "",
            "URL that clients without an acceptable certificate are redirected to, in place of 400.",
            |settings, value| settings.client_certificates.error_page = Some(value),
        )
        .unreadable(Unreadable::Default, Reference::Reject, "clients are refused with 400 all the same")
        .beside(SECRET)
        .except("a path of the host itself is ignored: clients get 400")
        .location(Risk::High),
        Annotation::served(
            "auth-tls-pass-certificate-to-upstream",
            value::bool(),
            "false",
            "Send the certificate to endpoints in the field ssl-client-cert, URL-encoded PEM.",
            |settings, value| settings.client_certificates.passes_certificate = value,
        )
        .unreadable(Unreadable::Default, Reference::Reject, "the certificate stays with the gateway")
        .beside(SECRET)
        .location(Risk::Low),
    ]
}

/// An expression that ingress-nginx accepts: `CN=`, followed by a linear-time expression.
fn subject() -> Type<Arc<str>> {
    value::text().called("CN= and a regular expression").and_then(|text| {
        let behind = text.strip_prefix("CN=").ok_or("must start with CN=")?;
        expression::compile(behind).map_err(|reason| format!("is no regular expression: {reason}"))?;
        expression::compile(&text).map_err(|reason| format!("is no regular expression: {reason}"))?;
        Ok::<_, String>(text)
    })
}

/// A URL for a redirect of the client.
fn url() -> Type<Arc<str>> {
    value::field().called("URL").and_then(|text| {
        let uri = text.parse::<Uri>().ok();
        let is_url = uri.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
        });
        match is_url {
            true => Ok(text),
            false => Err("is no URL that begins with http:// or https://"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::value::Author;

    #[test]
    fn a_subject_is_an_expression_behind_cn() {
        for good in ["CN=client", "CN=(a|b).*", "CN=^x$"] {
            assert_eq!(subject().parse(good, &Author::OPERATOR).as_deref(), Ok(good));
        }
        for bad in ["client", "cn=client", "CN=(", "CN=a(?=b)", "CN=x{1000}{1000}{1000}"] {
            assert!(subject().parse(bad, &Author::OPERATOR).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_error_page_is_a_url() {
        for good in ["https://example.com/cert", "http://example.com:8080"] {
            assert!(url().parse(good, &Author::OPERATOR).is_ok(), "{good}");
        }
        for bad in ["/cert", "@named", "example.com/cert", "ftp://example.com", "https://", "https:///x"] {
            assert!(url().parse(bad, &Author::OPERATOR).is_err(), "{bad}");
        }
    }
}
