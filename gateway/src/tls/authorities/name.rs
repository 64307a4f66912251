//! Whether the certificate of an endpoint is for the name that is required, as OpenSSL's
//! `X509_check_host` decides: the common name counts if there is no DNS name.

use std::net::IpAddr;

use rustls_pki_types::{CertificateDer, ServerName};
use webpki::EndEntityCert;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use super::Purpose;
use crate::tls::chain_failure::ChainFailure;

/// Checks the name. `is_constrained`: a certificate of the path has name constraints, which only
/// webpki evaluates, and not for common names.
pub(super) fn check(
    own: &CertificateDer<'_>,
    certificate: &X509Certificate<'_>,
    is_constrained: bool,
    purpose: Purpose<'_>,
) -> Result<(), ChainFailure> {
    let Purpose::Server(name) = purpose else { return Ok(()) };
    let is_named = match EndEntityCert::try_from(own) {
        Ok(own) => own.verify_is_valid_for_subject_name(name).is_ok(),
        // webpki does not read it, but its extensions may be known here.
        Err(_) => is_alternative_name(certificate, name),
    };
    if is_named {
        return Ok(());
    }
    let required = name.to_str();
    let mut names = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    if has_dns_name(certificate) || !names.any(|name| is_match(name, &required)) {
        return Err(ChainFailure::Name);
    }
    match is_constrained {
        true => Err(ChainFailure::NameConstraint),
        false => Ok(()),
    }
}

/// Returns whether a name is one of SubjectAltName.
fn is_alternative_name(certificate: &X509Certificate<'_>, name: &ServerName<'_>) -> bool {
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return false };
    let required = name.to_str();
    let address = required.parse().ok();
    names.value.general_names.iter().any(|name| match (name, address) {
        (GeneralName::DNSName(name), None) => is_match(name, &required),
        (GeneralName::IPAddress(name), Some(IpAddr::V4(address))) => **name == address.octets(),
        (GeneralName::IPAddress(name), Some(IpAddr::V6(address))) => **name == address.octets(),
        _ => false,
    })
}

fn has_dns_name(certificate: &X509Certificate<'_>) -> bool {
    let is_dns = |name: &GeneralName<'_>| matches!(name, GeneralName::DNSName(_) | GeneralName::Invalid(..));
    match certificate.subject_alternative_name() {
        Ok(names) => names.is_some_and(|names| names.value.general_names.iter().any(is_dns)),
        Err(_) => true,
    }
}

/// An asterisk stands for the first label of a name with at least three.
fn is_match(pattern: &str, name: &str) -> bool {
    if pattern.eq_ignore_ascii_case(name) {
        return true;
    }
    match (pattern.strip_prefix("*."), name.split_once('.')) {
        (Some(domain), Some((label, rest))) => {
            !label.is_empty() && domain.contains('.') && domain.eq_ignore_ascii_case(rest)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asterisk_is_one_label() {
        for (pattern, name, is) in [
            ("shop.example", "shop.example", true),
            ("Shop.Example", "shop.example", true),
            ("*.shop.example", "a.shop.example", true),
            ("*.shop.example", "a.b.shop.example", false),
            ("*.shop.example", "shop.example", false),
            ("*.example", "shop.example", false),
            ("*", "shop.example", false),
            ("shop.example.", "shop.example", false),
        ] {
            assert_eq!(is_match(pattern, name), is, "{pattern} {name}");
        }
    }
}
