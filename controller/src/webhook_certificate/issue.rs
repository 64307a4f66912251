//! Issues a certificate from a new authority of its own.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};

/// How far validity starts in the past, for machines whose clocks are slow.
const EARLIER: Duration = Duration::from_secs(60 * 60);

/// An authority and its certificate in PEM. The authority's key is discarded, so that it cannot
/// sign anything else.
pub(super) struct Issued {
    pub(super) authority: String,
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Issues a certificate for these names and addresses.
pub(super) fn issue(hosts: &[String], lifetime: Duration, now: Timestamp) -> Result<Issued, rcgen::Error> {
    let seconds = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let (begin, end) = (epoch + (seconds.saturating_sub(EARLIER)), epoch + (seconds + lifetime));

    let mut params = CertificateParams::default();
    params.distinguished_name = named("sluice webhook authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params.not_before, params.not_after) = (begin, end);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name = named("sluice webhook");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = (begin, end);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &authority)?;
    Ok(Issued { authority: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}
