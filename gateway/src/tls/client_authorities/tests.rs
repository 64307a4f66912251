//! Chains against authorities, without a handshake.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, CustomExtension,
    DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose,
    NameConstraints, RevokedCertParams, SerialNumber, date_time_ymd,
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

/// Version 1 of X.509, valid from 2020 to 2120: a root, and a client of it.
const VERSION_1_AUTHORITY: &[u8] = b"\
-----BEGIN CERTIFICATE-----
MIIBIjCByQIUEWTK7A4Ki/YBsecYWt0wA3bHknowCgYIKoZIzj0EAwIwEzERMA8G
A1UEAwwIT2xkIHJvb3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBa
MBMxETAPBgNVBAMMCE9sZCByb290MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
7h6CngRHCSlBgn5KyF+FZdKhC4hyIfuZFutSwkOg8XwtQ/syzL3/6n52jusbEG7l
t91wBp46kQKBKaRfDuayizAKBggqhkjOPQQDAgNIADBFAiB6YziFenTz9MtysqBz
Z+Yc5oU0aUMZaHHM5sk6KdVgcwIhAKv/+wXQhIOFBvimiwwCyr7b+4Hxm+mNNJg3
WeeIgMDs
-----END CERTIFICATE-----
";
const VERSION_1_CLIENT: &[u8] = b"\
-----BEGIN CERTIFICATE-----
MIIBJDCBywIUCRtqJ7JR4ciiokqT9NiJk6jSQfAwCgYIKoZIzj0EAwIwEzERMA8G
A1UEAwwIT2xkIHJvb3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBa
MBUxEzARBgNVBAMMCm9sZCBjbGllbnQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AAROGXhWFTWH8Oe6l+5lOax85NpK3X7/t2FUkba608z3snOfhFBhcnIlRpG1VAJG
peydkuZNAvj0qjXooBnkZy+fMAoGCCqGSM49BAMCA0gAMEUCIQDCLlXyq92qqapN
YMQ293lCHi/mefN3UbllvxmcFlIbfQIgP8Ft6ACtTLxDe2OLU4ag5XXF/I9KFzht
P/li3udNZIk=
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
    authorities.verify(chain, 1, now).map_err(ChainFailure::as_str)
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
    assert_eq!(verify(&ours, &chain), Err("unable to get local issuer certificate"));
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
    assert_eq!(ours.verify(std::slice::from_ref(&own), 1, expired), Err(ChainFailure::Expired));
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

fn changed(name: &str, change: impl FnOnce(&mut CertificateParams)) -> Issuer {
    let mut params = authority_params(name);
    change(&mut params);
    Issuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Returns a certificate of an authority, presented by a client.
fn client_authority(issuer: &Issuer) -> CertificateDer<'static> {
    client(issuer, |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained))
}

#[test]
fn a_certificate_of_an_expired_or_improper_authority_is_not_accepted() {
    let server = || vec![ExtendedKeyUsagePurpose::ServerAuth];
    let critical = || {
        let mut unknown = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
        unknown.set_criticality(true);
        vec![unknown]
    };
    for (authority, failure) in [
        (
            changed("a", |params| {
                params.is_ca = IsCa::ExplicitNoCa;
                params.key_usages.clear();
            }),
            "unsuitable certificate purpose",
        ),
        (
            changed("b", |params| {
                params.is_ca = IsCa::NoCa;
                params.key_usages.clear();
            }),
            "unsuitable certificate purpose",
        ),
        (changed("c", |params| params.not_after = date_time_ymd(2029, 1, 1)), "certificate has expired"),
        (
            changed("d", |params| params.not_before = date_time_ymd(2031, 1, 1)),
            "certificate is not yet valid",
        ),
        (
            changed("e", |params| params.key_usages = vec![KeyUsagePurpose::DigitalSignature]),
            "key usage does not include certificate signing",
        ),
        (changed("f", |params| params.extended_key_usages = server()), "unsuitable certificate purpose"),
        (changed("g", |params| params.custom_extensions = critical()), "unhandled critical extension"),
    ] {
        let ours = trusting(&[&authority], &[]);
        assert_eq!(verify(&ours, &[client(&authority, |_| ())]), Err(failure));
        assert_eq!(verify(&ours, &[client_authority(&authority)]), Err(failure));
    }
    let root = changed("root", |params| params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0)));
    let between =
        Issuer::signed_by(authority_params("between"), KeyPair::generate().unwrap(), &root).unwrap();
    let ours = trusting(&[&root], &[]);
    let chain = [client(&between, |_| ()), between.der().clone()];
    assert_eq!(verify(&ours, &chain), Err("path length constraint exceeded"));
    assert_eq!(verify(&ours, &[client(&root, |_| ())]), Ok(()));
    // Of two with the same name and key, the one that may vouches.
    let key = KeyPair::generate().unwrap();
    let of_key = |params: CertificateParams| params.self_signed(&key).unwrap().der().to_vec();
    let mut old = authority_params("renewed");
    old.not_after = date_time_ymd(2029, 1, 1);
    let certificates = vec![of_key(old), of_key(authority_params("renewed"))];
    let contract =
        sluice_config::ClientAuthorities { authorities: CaBundle { certificates }, revocations: Vec::new() };
    let renewed = rcgen::Issuer::new(authority_params("renewed"), &key);
    let own = params("client").signed_by(&KeyPair::generate().unwrap(), &renewed).unwrap().der().clone();
    assert_eq!(verify(&ClientAuthorities::compile(&contract).unwrap(), &[own]), Ok(()));
}

#[test]
fn a_certificate_that_is_itself_trusted_needs_no_authority() {
    let pinned = changed("pinned", |params| {
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages.clear();
    });
    let ours = trusting(&[&pinned], &[]);
    assert_eq!(verify(&ours, &[pinned.der().clone()]), Ok(()));
    // The holder of its key may not identify as another.
    assert_eq!(verify(&ours, &[client(&pinned, |_| ())]), Err("unsuitable certificate purpose"));
    let expired = UnixTime::since_unix_epoch(std::time::Duration::from_secs(5_000_000_000));
    assert_eq!(ours.verify(&[pinned.der().clone()], 1, expired), Err(ChainFailure::Expired));
}

/// Returns critical extensions by identifier and content.
fn critical<const N: usize>(extensions: [(&[u64], &[u8]); N]) -> Vec<CustomExtension> {
    let extension = |(oid, content): (&[u64], &[u8])| {
        let mut extension = CustomExtension::from_oid_content(oid, content.to_vec());
        extension.set_criticality(true);
        extension
    };
    extensions.map(extension).into()
}

#[test]
fn critical_policies_are_known_extensions() {
    let policies = (&[2, 5, 29, 32][..], &b"\x30\x07\x30\x05\x06\x03\x2a\x03\x04"[..]);
    let constraints = (&[2, 5, 29, 36][..], &b"\x30\x03\x80\x01\x03"[..]);
    let inhibits_any = (&[2, 5, 29, 54][..], &b"\x02\x01\x00"[..]);
    let unknown = (&[1, 2, 3, 4][..], &b"\x05\x00"[..]);
    let own = |issuer: &Issuer, extensions| {
        client(issuer, |params| {
            let names = ["*.shop.example", "10.0.0.1", "::1"].map(str::to_owned);
            let names = CertificateParams::new(names).unwrap();
            params.subject_alt_names = names.subject_alt_names;
            params.custom_extensions = extensions;
        })
    };
    let root = changed("root", |params| params.custom_extensions = critical([policies]));
    let below = |name: &str, issuer: &Issuer, extensions| {
        let mut params = authority_params(name);
        params.custom_extensions = extensions;
        Issuer::signed_by(params, KeyPair::generate().unwrap(), issuer).unwrap()
    };
    let between = below("between", &root, critical([constraints, inhibits_any]));
    let odd = below("odd", &root, critical([unknown]));
    let short = below("short", &between, Vec::new());
    let revoked = |serial| trusting(&[&root], &[revocations(&root, serial, 2040)]);
    let unhandled = Err("unhandled critical extension");
    let ours = trusting(&[&root], &[]);
    for (chain, result) in [
        (vec![own(&root, critical([policies]))], Ok(())),
        (vec![own(&root, critical([policies, unknown]))], unhandled),
        (vec![own(&between, Vec::new()), between.der().clone()], Ok(())),
        (vec![own(&between, critical([policies])), between.der().clone()], Ok(())),
        (vec![own(&between, critical([unknown])), between.der().clone()], unhandled),
        (vec![own(&odd, Vec::new()), odd.der().clone()], unhandled),
        (
            vec![own(&short, Vec::new()), short.der().clone(), between.der().clone()],
            Err("unable to get local issuer certificate"),
        ),
    ] {
        assert_eq!(verify(&ours, &chain), result);
        let authorities = Authorities::compile(&CaBundle { certificates: vec![root.der().to_vec()] });
        let (authorities, now) = (authorities.unwrap(), std::time::Duration::from_secs(NOW));
        let endpoint = |name: &'static str| {
            let (name, now) = (name.try_into().unwrap(), UnixTime::since_unix_epoch(now));
            let verified = authorities.verify_endpoint(&chain[0], &chain[1..], &name, 1, now);
            verified.map_err(ChainFailure::as_str)
        };
        for name in ["a.shop.example", "10.0.0.1", "::1"] {
            assert_eq!(endpoint(name), result, "{name}");
        }
        for name in ["shop.example", "10.0.0.2", "::2"] {
            assert_eq!(endpoint(name), result.and(Err("hostname mismatch")), "{name}");
        }
    }
    let mut own = params("client");
    (own.serial_number, own.custom_extensions) = (Some(5.into()), critical([policies]));
    let own = [own.signed_by(&KeyPair::generate().unwrap(), &root).unwrap().der().clone()];
    assert_eq!(verify(&revoked(4), &own), Ok(()));
    assert_eq!(verify(&revoked(5), &own), Err("certificate revoked"));
    let foreign = trusting(&[&authority("foreign")], &[]);
    assert_eq!(verify(&foreign, &own), Err("unable to verify the first certificate"));
}

#[test]
fn the_search_for_an_authority_has_an_end() {
    let (ours, theirs) = (trusting(&[&authority("ours")], &[]), authority("loop"));
    let own = client(&theirs, |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    let chain: Vec<_> = std::iter::once(own).chain(vec![theirs.der().clone(); 40]).collect();
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(NOW));
    assert!(ours.verify(&chain, 100, now).is_err());
}

#[test]
fn a_root_of_version_1_is_an_authority() {
    let der = |pem| CertificateDer::from_pem_slice(pem).unwrap();
    let (root, own) = (der(VERSION_1_AUTHORITY), der(VERSION_1_CLIENT));
    let contract = sluice_config::ClientAuthorities {
        authorities: CaBundle { certificates: vec![root.to_vec()] },
        revocations: Vec::new(),
    };
    let ours = ClientAuthorities::compile(&contract).unwrap();
    assert_eq!(verify(&ours, &[own]), Ok(()));
    assert_eq!(verify(&ours, &[root]), Ok(()));
}

#[test]
fn what_webpki_cannot_read_is_not_accepted_below_name_constraints() {
    let constrained = changed("constrained", |params| {
        let permitted_subtrees = vec![GeneralSubtree::DnsName("shop.example".to_owned())];
        params.name_constraints = Some(NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() });
    });
    let ours = trusting(&[&constrained], &[]);
    assert_eq!(verify(&ours, &[client(&constrained, |_| ())]), Ok(()));
    assert_eq!(verify(&ours, &[client_authority(&constrained)]), Err("permitted subtree violation"));
    assert_eq!(verify(&ours, &[constrained.der().clone()]), Ok(()));
}

#[test]
fn key_usage_limits_clients_and_intermediates() {
    let root = authority("root");
    let ours = trusting(&[&root], &[]);
    let usage = |usage| move |params: &mut CertificateParams| params.key_usages = vec![usage];
    for (usages, result) in [
        (KeyUsagePurpose::DigitalSignature, Ok(())),
        (KeyUsagePurpose::KeyAgreement, Ok(())),
        (KeyUsagePurpose::KeyEncipherment, Err("unsuitable certificate purpose")),
    ] {
        assert_eq!(verify(&ours, &[client(&root, usage(usages))]), result);
    }
    let between = |usages: Vec<KeyUsagePurpose>| {
        let mut params = authority_params("between");
        params.key_usages = usages;
        let issuer = Issuer::signed_by(params, KeyPair::generate().unwrap(), &root).unwrap();
        verify(&ours, &[client(&issuer, |_| ()), issuer.der().clone()])
    };
    assert_eq!(between(vec![KeyUsagePurpose::KeyCertSign]), Ok(()));
    assert_eq!(between(Vec::new()), Ok(()));
    let signs_none = between(vec![KeyUsagePurpose::DigitalSignature]);
    assert_eq!(signs_none, Err("key usage does not include certificate signing"));
}

#[test]
fn optional_no_ca_refuses_expired_certificates_of_version_1() {
    let der = |pem| CertificateDer::from_pem_slice(pem).unwrap();
    let foreign = trusting(&[&authority("foreign")], &[]);
    for own in [der(VERSION_1_AUTHORITY), der(VERSION_1_CLIENT)] {
        let at = |seconds| {
            let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
            foreign.verify(std::slice::from_ref(&own), 1, now).unwrap_err()
        };
        assert!(at(NOW).is_unknown_authority());
        assert_eq!(at(1_500_000_000), ChainFailure::NotYetValid);
        assert_eq!(at(5_000_000_000), ChainFailure::Expired);
    }
}

#[test]
fn optional_no_ca_decides_by_the_last_failure_of_openssl() {
    let (ours, root) = (trusting(&[&authority("ours")], &[]), authority("root"));
    let between =
        Issuer::signed_by(authority_params("between"), KeyPair::generate().unwrap(), &root).unwrap();
    let server = |params: &mut CertificateParams| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    };
    // Only the time counts of a certificate that came alone.
    assert_eq!(verify(&ours, &[client(&root, server)]), Err("unable to verify the first certificate"));
    let chain = [client(&between, server), between.der().clone()];
    assert_eq!(verify(&ours, &chain), Err("unsuitable certificate purpose"));
    assert_eq!(
        verify(&ours, &[changed("alone", server).der().clone()]),
        Err("unsuitable certificate purpose")
    );
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
