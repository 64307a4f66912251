//! A certificate as nginx's variables have it.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::distinguished_name;

/// Text of a certificate; all of it is empty for one that cannot be parsed.
#[derive(Debug)]
pub struct CertificateText {
    /// `$ssl_client_s_dn`: the subject (RFC 2253).
    pub subject: HeaderValue,
    /// `$ssl_client_i_dn`: the issuer.
    pub issuer: HeaderValue,
    /// `$ssl_client_serial`, hexadecimal.
    pub serial: Box<str>,
    /// `$ssl_client_fingerprint`: SHA-1 of the certificate, hexadecimal.
    pub fingerprint: Box<str>,
    /// `$ssl_client_v_start`, such as `Nov 25 03:00:00 2026 GMT`.
    pub valid_from: Box<str>,
    /// `$ssl_client_v_end`.
    pub valid_until: Box<str>,
    /// The end of validity in Unix seconds.
    pub(super) not_after: i64,
}

impl CertificateText {
    pub(super) fn of(der: &CertificateDer<'_>) -> Self {
        let field = |text: String| HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
        let Ok((_, certificate)) = X509Certificate::from_der(der) else {
            return Self {
                subject: HeaderValue::from_static(""),
                issuer: HeaderValue::from_static(""),
                serial: "".into(),
                fingerprint: "".into(),
                valid_from: "".into(),
                valid_until: "".into(),
                not_after: 0,
            };
        };
        let validity = certificate.validity();
        let not_after = validity.not_after.timestamp();
        Self {
            subject: field(distinguished_name::rfc2253(certificate.subject())),
            issuer: field(distinguished_name::rfc2253(certificate.issuer())),
            serial: serial(certificate.raw_serial()).into(),
            fingerprint: hex(digest(&SHA1_FOR_LEGACY_USE_ONLY, der).as_ref(), "0123456789abcdef").into(),
            valid_from: time(validity.not_before.timestamp()).into(),
            valid_until: time(not_after).into(),
            not_after,
        }
    }
}

/// In PEM, with its final line break.
pub(super) fn pem(der: &CertificateDer<'_>) -> String {
    let base64 = STANDARD.encode(der);
    let mut pem = String::with_capacity(base64.len() + base64.len() / 64 + 64);
    pem.push_str("-----BEGIN CERTIFICATE-----\n");
    let mut rest = &*base64;
    while !rest.is_empty() {
        let (line, others) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = others;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

/// In PEM, each byte escaped that is not unreserved in URLs (RFC 3986 §2.3).
pub(super) fn escaped(der: &CertificateDer<'_>) -> String {
    let pem = pem(der);
    let mut text = String::with_capacity(pem.len() + pem.len() / 8);
    for character in pem.chars() {
        match character {
            'A'..='Z' | 'a'..='z' | '0'..='9' | '-' | '.' | '_' | '~' => text.push(character),
            // PEM is ASCII.
            other => text.push_str(&format!("%{:02X}", u32::from(other))),
        }
    }
    text
}

/// As OpenSSL prints it (`i2a_ASN1_INTEGER`).
fn serial(bytes: &[u8]) -> String {
    let digits = match bytes {
        [0, rest @ ..] if !rest.is_empty() => rest,
        bytes => bytes,
    };
    hex(digits, HEX)
}

const HEX: &str = "0123456789ABCDEF";

fn hex(bytes: &[u8], digits: &str) -> String {
    let digit = |value: u8| char::from(digits.as_bytes()[usize::from(value & 0xf)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// As OpenSSL prints it (`ASN1_TIME_print`).
fn time(seconds: i64) -> String {
    Timestamp::from_second(seconds)
        .map(|time| time.strftime("%b %e %H:%M:%S %Y GMT").to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_reads_as_openssl_prints_it() {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "Example");
        params.distinguished_name.push(rcgen::DnType::CommonName, "client");
        params.serial_number = Some(vec![0x0a, 0xff].into());
        params.not_before = rcgen::date_time_ymd(2026, 1, 5);
        params.not_after = rcgen::date_time_ymd(2036, 11, 25);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let text = CertificateText::of(certificate.der());
        assert_eq!(text.subject, "CN=client,O=Example");
        assert_eq!(text.issuer, text.subject);
        assert_eq!(&*text.serial, "0AFF");
        assert_eq!(&*text.valid_from, "Jan  5 00:00:00 2026 GMT");
        assert_eq!(&*text.valid_until, "Nov 25 00:00:00 2036 GMT");
        assert_eq!(text.fingerprint.len(), 40);
        assert_eq!(pem(certificate.der()), certificate.pem().replace("\r\n", "\n"));
        let escaped = escaped(certificate.der());
        assert!(escaped.starts_with("-----BEGIN%20CERTIFICATE-----%0AMII"), "{escaped}");
        assert!(escaped.ends_with("%0A-----END%20CERTIFICATE-----%0A"), "{escaped}");
        assert!(!escaped.contains(['+', '/', '=', '\n', ' ']));
    }

    #[test]
    fn a_serial_number_has_no_sign_byte() {
        assert_eq!(serial(&[0x00, 0x9f, 0x01]), "9F01");
        assert_eq!(serial(&[0x00]), "00");
        assert_eq!(serial(&[0x02]), "02");
    }

    #[test]
    fn what_is_no_certificate_has_no_text() {
        let text = CertificateText::of(&CertificateDer::from(b"nonsense".as_slice()));
        assert_eq!(text.subject, "");
        assert_eq!(&*text.serial, "");
    }
}
