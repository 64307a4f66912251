//! The certificate for names that have none, where `--default-ssl-certificate` names none either.
//!
//! Made at every start and never stored. Subject and name are the reference's, because monitoring and runbooks
//! recognise a missing certificate by them.

use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::TlsError;

/// Common name of the subject.
const COMMON_NAME: &str = "Kubernetes Ingress Controller Fake Certificate";
/// Organisation of the subject.
const ORGANIZATION: &str = "Acme Co";
/// The only subject alternative name.
pub(super) const NAME: &str = "ingress.local";

/// The certificate with its key.
pub(super) struct Fallback {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) key: PrivateKeyDer<'static>,
    /// End of validity, Unix seconds.
    pub(super) not_after: i64,
}

/// Makes one on P-256, valid from yesterday (clocks differ) for a year.
pub(super) fn make() -> Result<Fallback, TlsError> {
    let today = jiff::Timestamp::now().to_zoned(TimeZone::UTC).date();
    let mut params = CertificateParams::new([NAME.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, ORGANIZATION);
    params.distinguished_name.push(DnType::CommonName, COMMON_NAME);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let midnight =
        |date: Date| rcgen::date_time_ymd(date.year().into(), date.month() as u8, date.day() as u8);
    params.not_before = midnight(today.saturating_sub(1.day()));
    params.not_after = midnight(today.saturating_add(1.year()));
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok(Fallback {
        certificate: certificate.der().clone(),
        key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        not_after: params.not_after.unix_timestamp(),
    })
}
