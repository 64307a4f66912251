//! Client certificates.

use std::sync::Arc;

use http::Uri;
use sluice_config::{
    CertificateErrorPage, ClientCertificateMode, ClientCertificates, ClientVerification, NamespacedName,
    ResourceKey, ResourceKind,
};

use super::{Annotation, Settings};
use crate::translate::expression;
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::value::{self, Type};

const SECRET: &str = "auth-tls-secret";

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
    error_page: Option<CertificateErrorPage>,
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
        .unreadable(Unreadable::Close, ReferenceTreatment::Close, "")
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
        .unreadable(Unreadable::Close, ReferenceTreatment::Reject, "both keep requests out")
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
            value::chain_depth(),
            "1",
            "Maximum number of intermediate certificates between the client's and the authority's.",
            |settings, value| settings.client_certificates.depth = value,
        )
        .beside(SECRET)
        .location(Risk::Low),
        Annotation::served(
            "auth-tls-error-page",
            error_page(),
            "",
            "What clients without an acceptable certificate get in place of 400: a redirect to this URL, \
             or the page at this path of the host. Such a page is served without a certificate: as a GET \
             (or HEAD) request without a body, with all other checks of its own rule, and with the \
             status that its endpoint returns.",
            |settings, value| settings.client_certificates.error_page = Some(value),
        )
        .unreadable(
            Unreadable::Default,
            ReferenceTreatment::Reject,
            "clients are refused with 400 all the same",
        )
        .beside(SECRET)
        .location(Risk::High),
        Annotation::served(
            "auth-tls-pass-certificate-to-upstream",
            value::bool(),
            "false",
            "Send the certificate to endpoints in the field ssl-client-cert, URL-encoded PEM.",
            |settings, value| settings.client_certificates.passes_certificate = value,
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Reject, "the certificate stays with the gateway")
        .beside(SECRET)
        .location(Risk::Low),
    ]
}

/// An expression that ingress-nginx accepts: `CN=`, followed by a linear-time expression.
fn subject() -> Type<Arc<str>> {
    value::text().called("CN= and a regular expression").and_then(|text| {
        let behind = text.strip_prefix("CN=").ok_or("must start with CN=")?;
        expression::compile(behind)
            .map_err(|reason| format!("is not a valid regular expression: {reason}"))?;
        expression::compile(&text)
            .map_err(|reason| format!("is not a valid regular expression: {reason}"))?;
        Ok::<_, String>(text)
    })
}

/// A URL for a redirect of the client, or a path of the host.
fn error_page() -> Type<CertificateErrorPage> {
    value::field().called("URL, or path with an optional query").and_then(|text| {
        let uri = text.parse::<Uri>().ok();
        let is_url = uri.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
        });
        match (is_url, is_path_of_host(&text)) {
            (true, _) => Ok(CertificateErrorPage::Url(text)),
            (false, true) => Ok(CertificateErrorPage::Path(text)),
            (false, false) => Err("is neither a URL that begins with http:// or https:// nor a plain path"),
        }
    })
}

/// Returns whether a text is a path that is already normal, with an optional query. `$` is
/// excluded, because it would begin a variable in nginx.
fn is_path_of_host(text: &str) -> bool {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let Some(rest) = path.strip_prefix('/') else { return false };
    let mut segments = rest.split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        if segment.is_empty() && !is_last || matches!(segment, "." | "..") {
            return false;
        }
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!&'()*+,;=:@/".contains(&byte);
    path.bytes().all(fits) && query.bytes().all(|byte| fits(byte) || b"%?".contains(&byte))
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
    fn an_error_page_is_a_url_or_a_path() {
        let read = |text: &str| error_page().parse(text, &Author::OPERATOR);
        for url in ["https://example.com/cert", "http://example.com:8080"] {
            assert_eq!(read(url).ok(), Some(CertificateErrorPage::Url(url.into())));
        }
        for path in ["/", "/cert", "/a/b-c_d.html", "/a/", "/cert?why=none&x=%20", "/..a/b"] {
            assert_eq!(read(path).ok(), Some(CertificateErrorPage::Path(path.into())));
        }
        for bad in [
            "",
            "@named",
            "example.com/cert",
            "ftp://example.com",
            "https://",
            "https:///x",
            "//example.com",
            "/a//b",
            "/../a",
            "/a/.",
            "/a%2fb",
            "/a b",
            "/a#b",
            "/a?u=$request_uri",
            "/a\\b",
            "/é",
            "?a",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
