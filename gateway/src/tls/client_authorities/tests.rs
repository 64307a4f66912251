//! Chains against authorities, without a handshake.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
    date_time_ymd,
};
use rustls_pki_types::pem::PemObject;
use sluice_config::CaBundle;

use super::*;

type Issuer = CertifiedIssuer<'static, KeyPair>;

/// 2030-01-01.
const NOW: u64 = 1_893_456_000;

/// Made by OpenSSL 3.0: `openssl req -x509`, and `openssl x509 -req` for the client.
const OPENSSL_AUTHORITY: &[u8] = b"\
-----BEGIN CERTIFICATE-----
MIIBfDCCASGgAwIBAgIUDbZRcu0Gax9ceoF9GlHp5xpwAwEwCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHVGVzdCBDQTAgFw0yNjExMjUwMzM1MDhaGA8yMTI2MTEwMTAz
MzUwOFowEjEQMA4GA1UEAwwHVGVzdCBDQTBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABCePsRNb4IwltZGFvcZk4mnFjvPH1skM9gqvMq0VLD+RNYMTuRvhIV0CvIPM
aUus2kpt4lx5ldSJ4auVynszz/OjUzBRMB0GA1UdDgQWBBQg5TAuIO1/bspONZrk
XSECerPPHDAfBgNVHSMEGDAWgBQg5TAuIO1/bspONZrkXSECerPPHDAPBgNVHRMB
Af8EBTADAQH/MAoGCCqGSM49BAMCA0kAMEYCIQCTtD9Tkjl/EhlXYEQOBzPy/523
nPiqJXoADxvOiEfa1AIhAMICnytuUtz+dEjxhcQp3MCiPxrESSr67gDdRBI83AKz
-----END CERTIFICATE-----
";
const OPENSSL_CLIENT: &[u8] = b"\
-----BEGIN CERTIFICATE-----
MIIBHzCBxQIBAjAKBggqhkjOPQQDAjASMRAwDgYDVQQDDAdUZXN0IENBMCAXDTI2
MTEyNTAzMzUwOVoYDzIxMjYxMTAxMDMzNTA5WjAjMRAwDgYDVQQKDAdFeGFtcGxl
MQ8wDQYDVQQDDAZjbGllbnQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARMP1sR
KuErcWQJsfswECduux8QO/Z8TlcwjQmaQ9qe99PDpfIwpPH5TsHJzVZKZkD82Kpf
W0vLGven5TrOkfsEMAoGCCqGSM49BAMCA0kAMEYCIQDDHlqATwtWrphhH8kOBxjX
GcQvX69iAKoxjS9PDrjMzQIhAJUcAxGK8ehdKmbfVOM+Z+ONJg1E3+UclzjcAC53
iRJU
-----END CERTIFICATE-----
";

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2040, 1, 1));
    params
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = params(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn authority(name: &str) -> Issuer {
    Issuer::self_signed(authority_params(name), KeyPair::generate().unwrap()).unwrap()
}

fn client(issuer: &Issuer, change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
    let mut params = params("client");
    change(&mut params);
    params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap().der().clone()
}

fn revocations(issuer: &Issuer, serial: u64, until: i32) -> Vec<u8> {
    let begin = date_time_ymd(2020, 1, 1);
    let revoked = RevokedCertParams {
        serial_number: serial.into(),
        revocation_time: begin,
        reason_code: None,
        invalidity_date: None,
    };
    let params = CertificateRevocationListParams {
        this_update: begin,
        next_update: date_time_ymd(until, 1, 1),
        crl_number: 1.into(),
        issuing_distribution_point: None,
        revoked_certs: vec![revoked],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    params.signed_by(issuer).unwrap().der().to_vec()
}

fn trusting(issuers: &[&Issuer], revocations: &[Vec<u8>]) -> ClientAuthorities {
    let certificates = issuers.iter().map(|issuer| issuer.der().to_vec()).collect();
    let contract = sluice_config::ClientAuthorities {
        authorities: CaBundle { certificates },
        revocations: revocations.to_vec(),
    };
    ClientAuthorities::compile(&contract).unwrap()
}

fn verify(authorities: &ClientAuthorities, chain: &[CertificateDer<'static>]) -> Result<(), &'static str> {
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(NOW));
    authorities.verify(chain, 1, now).map_err(ClientFailure::as_str)
}

#[test]
fn a_certificate_of_an_authority_is_accepted() {
    let (ours, theirs) = (authority("ours"), authority("theirs"));
    let own = client(&ours, |_| ());
    assert_eq!(verify(&trusting(&[&ours], &[]), std::slice::from_ref(&own)), Ok(()));
    assert_eq!(verify(&trusting(&[&theirs, &ours], &[]), std::slice::from_ref(&own)), Ok(()));
    assert_eq!(
        verify(&trusting(&[&theirs], &[]), std::slice::from_ref(&own)),
        Err("unable to verify the first certificate")
    );
    let in_chain = verify(&trusting(&[&theirs], &[]), &[own, ours.der().clone()]);
    assert_eq!(in_chain, Err("self-signed certificate in certificate chain"));
    let alone = params("alone").self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone();
    assert_eq!(verify(&trusting(&[&ours], &[]), &[alone]), Err("self-signed certificate"));
}

#[test]
fn chains_end_at_the_depth() {
    let root = authority("root");
    let intermediate = |name: &str, issuer: &Issuer| {
        Issuer::signed_by(authority_params(name), KeyPair::generate().unwrap(), issuer).unwrap()
    };
    let first = intermediate("first", &root);
    let second = intermediate("second", &first);
    let (near, far) = (client(&first, |_| ()), client(&second, |_| ()));
    let ours = trusting(&[&root], &[]);
    assert_eq!(verify(&ours, &[near.clone(), first.der().clone()]), Ok(()));
    assert_eq!(verify(&ours, std::slice::from_ref(&near)), Err("unable to verify the first certificate"));
    let foreign = trusting(&[&authority("foreign")], &[]);
    assert_eq!(verify(&foreign, &[near, first.der().clone()]), Err("unable to get local issuer certificate"));
    let chain = [far, second.der().clone(), first.der().clone()];
    assert_eq!(verify(&ours, &chain), Err("certificate chain too long"));
}

#[test]
fn times_and_purposes_count() {
    let ours = authority("ours");
    let authorities = trusting(&[&ours], &[]);
    let expired = client(&ours, |params| params.not_after = date_time_ymd(2029, 1, 1));
    assert_eq!(verify(&authorities, &[expired]), Err("certificate has expired"));
    let early = client(&ours, |params| params.not_before = date_time_ymd(2031, 1, 1));
    assert_eq!(verify(&authorities, &[early]), Err("certificate is not yet valid"));
    let server = client(&ours, |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    assert_eq!(verify(&authorities, &[server]), Err("unsuitable certificate purpose"));
    assert_eq!(
        verify(&authorities, &[CertificateDer::from(b"x".as_slice())]),
        Err("unspecified certificate verification error")
    );
}

#[test]
fn with_revocation_lists_every_issuer_needs_a_current_one() {
    let (ours, theirs) = (authority("ours"), authority("theirs"));
    let serial = |serial: u64| {
        move |params: &mut CertificateParams| params.serial_number = Some(SerialNumber::from(serial))
    };
    let (good, bad) = (client(&ours, serial(1)), client(&ours, serial(2)));
    let authorities = trusting(&[&ours], &[revocations(&ours, 2, 2040)]);
    assert_eq!(verify(&authorities, std::slice::from_ref(&good)), Ok(()));
    assert_eq!(verify(&authorities, &[bad]), Err("certificate revoked"));
    let old = trusting(&[&ours], &[revocations(&ours, 2, 2029)]);
    assert_eq!(verify(&old, std::slice::from_ref(&good)), Err("CRL has expired"));
    let other = trusting(&[&ours, &theirs], &[revocations(&theirs, 2, 2040)]);
    assert_eq!(verify(&other, &[good]), Err("unable to get certificate CRL"));
}

#[test]
fn certificates_of_version_1_are_accepted_from_the_authority_itself() {
    let der = |pem| CertificateDer::from_pem_slice(pem).unwrap();
    let (root, own) = (der(OPENSSL_AUTHORITY), der(OPENSSL_CLIENT));
    let contract = sluice_config::ClientAuthorities {
        authorities: CaBundle { certificates: vec![root.to_vec()] },
        revocations: Vec::new(),
    };
    let ours = ClientAuthorities::compile(&contract).unwrap();
    assert_eq!(verify(&ours, std::slice::from_ref(&own)), Ok(()));
    let expired = UnixTime::since_unix_epoch(std::time::Duration::from_secs(5_000_000_000));
    assert_eq!(ours.verify(std::slice::from_ref(&own), 1, expired), Err(ClientFailure::Expired));
    let same_name = authority("Test CA");
    let others = trusting(&[&same_name], &[]);
    assert!(verify(&others, std::slice::from_ref(&own)).is_err(), "signed by another key");
    let mut changed = own.to_vec();
    let last = changed.len() - 1;
    changed[last] ^= 1;
    assert_eq!(verify(&ours, &[changed.into()]), Err("certificate signature failure"));
    let foreign = trusting(&[&authority("foreign")], &[]);
    assert_eq!(verify(&foreign, &[own]), Err("unable to verify the first certificate"));
}

#[test]
fn the_certificate_of_an_authority_may_be_that_of_a_client() {
    let (ours, theirs) = (authority("ours"), authority("theirs"));
    let own = [ours.der().clone()];
    assert_eq!(verify(&trusting(&[&ours], &[]), &own), Ok(()));
    assert_eq!(verify(&trusting(&[&theirs], &[]), &own), Err("self-signed certificate"));
    let mut below = authority_params("below");
    below.serial_number = Some(5.into());
    let key = KeyPair::generate().unwrap();
    let below = [below.signed_by(&key, &ours).unwrap().der().clone()];
    assert_eq!(verify(&trusting(&[&ours], &[revocations(&ours, 4, 2040)]), &below), Ok(()));
    let revoked = trusting(&[&ours], &[revocations(&ours, 5, 2040)]);
    assert_eq!(verify(&revoked, &below), Err("certificate revoked"));
    let old = trusting(&[&ours], &[revocations(&ours, 4, 2029)]);
    assert_eq!(verify(&old, &below), Err("CRL has expired"));
    let other = trusting(&[&ours, &theirs], &[revocations(&theirs, 4, 2040)]);
    assert_eq!(verify(&other, &below), Err("unable to get certificate CRL"));
    let mut server = authority_params("server");
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let server = [server.signed_by(&key, &ours).unwrap().der().clone()];
    assert_eq!(verify(&trusting(&[&ours], &[]), &server), Err("unsuitable certificate purpose"));
}

#[test]
fn what_cannot_be_an_authority_or_a_list_is_refused() {
    let ours = authority("ours");
    let compile = |certificate: &[u8], list: &[u8]| {
        let contract = sluice_config::ClientAuthorities {
            authorities: CaBundle { certificates: vec![certificate.to_vec()] },
            revocations: vec![list.to_vec()],
        };
        ClientAuthorities::compile(&contract).map(drop).map_err(|error| error.to_string())
    };
    let list = revocations(&ours, 1, 2040);
    assert_eq!(compile(ours.der(), &list), Ok(()));
    assert!(compile(b"x", &list).unwrap_err().contains("an authority cannot be used"));
    assert!(compile(ours.der(), b"x").unwrap_err().contains("ca.crl has a revocation list"));
}
