//! Checks responses of OCSP responders (RFC 6960 §3.2). Only a response that clients accept is
//! stapled: an invalid one would make them fail, where they go on without any.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage};
use x509_cert::der::{self, Decode, Encode};
use x509_ocsp::{BasicOcspResponse, CertStatus, OcspGeneralizedTime, OcspResponse, OcspResponseStatus};

use super::responder::Responder;
use crate::tls::provider::provider;
use crate::tls::signature;

/// `id-kp-OCSPSigning` (RFC 6960 §4.2.2.2), the content of the object identifier.
const OCSP_SIGNING: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x09];
/// By how much the clock of a responder may be ahead.
const SKEW: Duration = Duration::from_secs(300);
/// Validity of a response that has no end.
const ENDLESS: Duration = Duration::from_secs(3600);

/// A response that can be stapled.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Staple {
    /// The response in DER.
    pub(super) der: Vec<u8>,
    /// The end of its validity.
    pub(super) until: SystemTime,
}

/// Why a response cannot be stapled.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResponseFault {
    /// It is no OCSP response.
    #[error("is malformed: {0}")]
    Malformed(#[from] der::Error),
    /// The responder refuses to answer.
    #[error("has the status {0:?}")]
    Status(OcspResponseStatus),
    /// It is about other certificates.
    #[error("is not about the certificate")]
    Unrelated,
    /// No key that may has signed it.
    #[error("is not signed by the issuer of the certificate or a responder that it has authorised")]
    Signature,
    /// The certificate is not good.
    #[error("does not state that the certificate is good, but {0}")]
    NotGood(&'static str),
    /// Its time is over, or has not come.
    #[error("is expired or not valid yet")]
    Time,
}

/// Checks a response of a responder.
///
/// # Errors
/// See [`ResponseFault`].
pub(super) fn check(der: &[u8], responder: &Responder, now: SystemTime) -> Result<Staple, ResponseFault> {
    let response = OcspResponse::from_der(der)?;
    let bytes = match (response.response_status, response.response_bytes) {
        (OcspResponseStatus::Successful, Some(bytes)) => bytes,
        (status, _) => return Err(ResponseFault::Status(status)),
    };
    let basic = BasicOcspResponse::from_der(bytes.response.as_bytes())?;
    if !is_signed(&basic, responder, now)? {
        return Err(ResponseFault::Signature);
    }
    let mut answers = basic.tbs_response_data.responses.iter();
    let answer =
        answers.find(|answer| responder.is_about(&answer.cert_id)).ok_or(ResponseFault::Unrelated)?;
    match answer.cert_status {
        CertStatus::Good(_) => {}
        CertStatus::Revoked(_) => return Err(ResponseFault::NotGood("revoked")),
        CertStatus::Unknown(_) => return Err(ResponseFault::NotGood("unknown")),
    }
    let until = answer.next_update.map_or(now + ENDLESS, time);
    if time(answer.this_update) > now + SKEW || until <= now {
        return Err(ResponseFault::Time);
    }
    Ok(Staple { der: der.to_vec(), until })
}

fn time(time: OcspGeneralizedTime) -> SystemTime {
    UNIX_EPOCH + time.0.to_unix_duration()
}

/// Whether the issuer of the certificate, or a responder that it has authorised, has signed a
/// response.
fn is_signed(
    basic: &BasicOcspResponse,
    responder: &Responder,
    now: SystemTime,
) -> Result<bool, ResponseFault> {
    let signed = basic.tbs_response_data.to_der()?;
    let algorithm = basic.signature_algorithm.oid;
    let is_key =
        |key: &[u8]| signature::is_valid(key, algorithm.as_bytes(), &signed, basic.signature.raw_bytes());
    if is_key(&responder.issuer_key) {
        return Ok(true);
    }
    for delegate in basic.certs.iter().flatten() {
        let key = delegate.tbs_certificate.subject_public_key_info.to_der()?;
        if is_key(&key) && is_authorised(&delegate.to_der()?.into(), &responder.issuer, now) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an issuer has authorised the owner of a certificate to sign responses (RFC 6960
/// §4.2.2.2).
fn is_authorised(delegate: &CertificateDer<'_>, issuer: &CertificateDer<'_>, now: SystemTime) -> bool {
    let (Ok(delegate), Ok(anchor)) =
        (EndEntityCert::try_from(delegate), webpki::anchor_from_trusted_cert(issuer))
    else {
        return false;
    };
    let algorithms = provider().signature_verification_algorithms.all;
    let now = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap_or_default());
    let usage = KeyUsage::required(OCSP_SIGNING);
    delegate.verify_for_usage(algorithms, &[anchor], &[], now, usage, None, None).is_ok()
}

#[cfg(test)]
mod tests;
