//! The certificate for names that have none: self-signed at start, with the names that
//! ingress-nginx gives its own, because people recognise them in a browser and scripts look for
//! them.

use std::sync::Arc;

use jiff::{Timestamp, ToSpan, tz::TimeZone};
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::sign::CertifiedKey;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::error::TlsError;
use super::provider::provider;

/// DNS name in the certificate.
pub(super) const NAME: &str = "ingress.local";
const COMMON_NAME: &str = "Kubernetes Ingress Controller Fake Certificate";
const ORGANIZATION: &str = "Acme Co";

/// Makes one, good for a year from yesterday. Gives its end of validity in Unix seconds too.
pub(super) fn make() -> Result<(Arc<CertifiedKey>, i64), TlsError> {
    let now = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let date = |date: jiff::civil::Date| {
        // Months and days of a civil date are in the range of their types.
        rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    let mut params = CertificateParams::new([NAME.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, COMMON_NAME);
    params.distinguished_name.push(DnType::OrganizationName, ORGANIZATION);
    params.not_before = date(now.saturating_sub(1.day()));
    params.not_after = date(now.saturating_add(1.year()));
    let not_after = params.not_after.unix_timestamp();
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let der = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let key = CertifiedKey::from_der(vec![certificate.der().clone()], der, &provider())?;
    Ok((Arc::new(key), not_after))
}
