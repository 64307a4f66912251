//! Certificates for tests: self-signed, or issued by an authority created for the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::SystemTime;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, CustomExtension,
    DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, RsaKeySize,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ResolvesServerCertUsingSni, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use x509_cert::der::Encode;
use x509_cert::der::asn1::{Ia5String, ObjectIdentifier};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{AccessDescription, AuthorityInfoAccessSyntax};

use crate::manifest;
use crate::ocsp::Signer;
use crate::trust;

/// Version 1 of X.509, self-signed, `CN=old.example`, valid from 2020 to 2120, which rcgen cannot
/// make.
const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBKTCBzwIURhhtZdrB4bWP8/DyHSVzDYWCUYEwCgYIKoZIzj0EAwIwFjEUMBIG
A1UEAwwLb2xkLmV4YW1wbGUwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAw
MDBaMBYxFDASBgNVBAMMC29sZC5leGFtcGxlMFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAEKiXBBML+x9sn1BxaEuSO0Vg3pA1IXesTX3ZYUKXROoKHuR+wI6eJG86A
n1SNU4aSH+kDAtdsjRg6mniDYiCG5zAKBggqhkjOPQQDAgNJADBGAiEAz7ix+qiA
f6nzRwNu3VFpEbR+vAjEfyA+ZkktVw4sjm0CIQD1C/aP3hqVVxa9gKMKYQE3ZoMN
/3z7lPDxpHNCsbF5kg==
-----END CERTIFICATE-----
";
const VERSION_1_KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgBhEEworLAXUAsQ8g
hR+bc9iXgjoHhL9DkiyzbM+UNHChRANCAAQqJcEEwv7H2yfUHFoS5I7RWDekDUhd
6xNfdlhQpdE6goe5H7Ajp4kbzoCfVI1ThpIf6QMC12yNGDqaeINiIIbn
-----END PRIVATE KEY-----
";

/// A unique certificate with its key.
#[derive(Clone, Debug)]
pub struct TestCertificate {
    /// The names for which it is valid.
    pub names: Vec<String>,
    /// The certificate in DER, as a client receives it.
    pub der: Vec<u8>,
    /// The certificate in PEM.
    pub pem: String,
    /// The key in PEM.
    pub key_pem: String,
    /// The key in DER (PKCS #8).
    pub key_der: Vec<u8>,
}

impl TestCertificate {
    /// Returns a self-signed certificate for these names.
    ///
    /// # Panics
    /// A name is not a DNS name.
    pub fn new(names: &[&str]) -> Self {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(owned(names)).unwrap();
        Self::of(names, &cert, &signing_key)
    }

    /// Returns a self-signed certificate with this period of validity.
    ///
    /// # Panics
    /// A name is not a DNS name, or a time is before 1970.
    pub fn with_life(names: &[&str], begin: SystemTime, end: SystemTime) -> Self {
        let time = |time: SystemTime| {
            rcgen::date_time_ymd(1970, 1, 1) + time.duration_since(SystemTime::UNIX_EPOCH).unwrap()
        };
        let mut params = CertificateParams::new(owned(names)).unwrap();
        (params.not_before, params.not_after) = (time(begin), time(end));
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self::of(names, &certificate, &key)
    }

    /// Returns a self-signed certificate with an RSA key.
    ///
    /// # Panics
    /// A name is not a DNS name.
    pub fn rsa(names: &[&str]) -> Self {
        let key = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
        let certificate = CertificateParams::new(owned(names)).unwrap().self_signed(&key).unwrap();
        Self::of(names, &certificate, &key)
    }

    /// Returns a self-signed certificate of version 1, whose only name is the common name
    /// `old.example`.
    pub fn of_version_1() -> Self {
        let key = KeyPair::from_pem(VERSION_1_KEY).unwrap();
        Self {
            names: Vec::new(),
            der: CertificateDer::from_pem_slice(VERSION_1.as_bytes()).unwrap().to_vec(),
            pem: VERSION_1.to_owned(),
            key_pem: VERSION_1_KEY.to_owned(),
            key_der: key.serialize_der(),
        }
    }

    fn of(names: &[&str], certificate: &rcgen::Certificate, key: &KeyPair) -> Self {
        Self {
            names: owned(names),
            der: certificate.der().to_vec(),
            pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            key_der: key.serialize_der(),
        }
    }

    /// Returns a Secret of type `kubernetes.io/tls` in namespace `default`.
    pub fn secret(&self, name: &str) -> String {
        self.secret_in("default", name)
    }

    /// Same as [`secret`](Self::secret) for another namespace.
    pub fn secret_in(&self, namespace: &str, name: &str) -> String {
        manifest::tls_secret_in(namespace, name, &self.pem, &self.key_pem)
    }

    /// Returns the configuration of a server that presents the certificate.
    ///
    /// # Panics
    /// The library rejects the key that it has generated.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        self.server_config_of(rustls::ALL_VERSIONS)
    }

    /// Same as [`server_config`](Self::server_config) for these TLS versions only.
    ///
    /// # Panics
    /// The library rejects the key that it has generated.
    pub fn server_config_of(&self, versions: &[&'static SupportedProtocolVersion]) -> Arc<ServerConfig> {
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(self.certified_key())));
        Arc::new(config)
    }

    /// Returns the configuration of a server that presents the certificate only to clients that
    /// send one of its names (SNI).
    ///
    /// # Panics
    /// The library rejects the key that it has generated.
    pub fn server_config_by_name(&self) -> Arc<ServerConfig> {
        let certified = self.certified_key();
        let mut resolver = ResolvesServerCertUsingSni::new();
        for name in &self.names {
            resolver.add(name, certified.clone()).unwrap();
        }
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(resolver));
        Arc::new(config)
    }

    /// Returns the configuration of a server that presents the certificate and requires a client
    /// certificate of this authority.
    ///
    /// # Panics
    /// The library rejects the key that it has generated.
    pub fn demanding_server_config(&self, authority: &Authority) -> Arc<ServerConfig> {
        let provider = Arc::new(default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(authority.issuer.der().clone()).unwrap();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![self.der.clone().into()], self.key())
            .unwrap();
        Arc::new(config)
    }

    /// Returns the configuration of a server that presents the certificate together with those of
    /// the authorities behind it, in this order.
    ///
    /// # Panics
    /// The library rejects the key that it has generated.
    pub fn server_config_behind(&self, intermediates: &[&Authority]) -> Arc<ServerConfig> {
        let others = intermediates.iter().map(|authority| authority.issuer.der().clone());
        let chain = std::iter::once(self.der.clone().into()).chain(others).collect();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, self.key())
            .unwrap();
        Arc::new(config)
    }

    /// For a client that presents this certificate, with those of these authorities behind it, and
    /// takes any certificate of a server.
    ///
    /// # Panics
    /// The library refuses the key, which it has made.
    pub fn presenting(&self, intermediates: &[&Authority], protocols: &[&[u8]]) -> Arc<ClientConfig> {
        let mut config = trust::trusting(rustls::ALL_VERSIONS, protocols);
        let key = default_provider().key_provider.load_private_key(self.key()).unwrap();
        let others = intermediates.iter().map(|authority| authority.issuer.der().clone());
        let chain = std::iter::once(self.der.clone().into()).chain(others).collect();
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key)));
        Arc::new(config)
    }

    fn certified_key(&self) -> CertifiedKey {
        let key = default_provider().key_provider.load_private_key(self.key()).unwrap();
        CertifiedKey::new(vec![self.der.clone().into()], key)
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key_der.clone()))
    }

    /// Returns the configuration of a client that trusts only this certificate.
    ///
    /// # Panics
    /// The library rejects the certificate that it has generated.
    pub fn client_config(&self) -> ClientConfig {
        client_config(self.der.clone().into())
    }
}

/// A certificate authority created for a test.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// Creates an authority.
    ///
    /// # Panics
    /// The machine has no source of random numbers.
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        Self { issuer: CertifiedIssuer::self_signed(authority(&unique("an authority")), key).unwrap() }
    }

    /// Creates an intermediate authority whose certificate this authority issues.
    ///
    /// # Panics
    /// The machine has no source of random numbers.
    pub fn intermediate(&self) -> Self {
        let key = KeyPair::generate().unwrap();
        Self {
            issuer: CertifiedIssuer::signed_by(authority(&unique("an intermediate")), key, &self.issuer)
                .unwrap(),
        }
    }

    /// Issues a certificate for these names.
    ///
    /// # Panics
    /// A name is not a DNS name.
    pub fn issue(&self, names: &[&str]) -> TestCertificate {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(owned(names)).unwrap().signed_by(&key, &self.issuer).unwrap();
        TestCertificate::of(names, &certificate, &key)
    }

    /// Returns a self-signed certificate of another authority that is valid as that of a server.
    ///
    /// # Panics
    /// A name is not a DNS name.
    pub fn self_signed(names: &[&str]) -> TestCertificate {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(owned(names)).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        TestCertificate::of(names, &certificate, &key)
    }

    /// Issues a certificate for these names that names an OCSP responder. Its PEM contains the
    /// certificate of the authority too.
    ///
    /// # Panics
    /// A name is not a DNS name, or the URL is not ASCII.
    pub fn issue_with_responder(&self, names: &[&str], url: &str) -> TestCertificate {
        let access = AuthorityInfoAccessSyntax(vec![AccessDescription {
            access_method: ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1"),
            access_location: GeneralName::UniformResourceIdentifier(Ia5String::new(url).unwrap()),
        }]);
        let extension =
            CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], access.to_der().unwrap());
        let mut params = CertificateParams::new(owned(names)).unwrap();
        params.custom_extensions.push(extension);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let own = TestCertificate::of(names, &certificate, &key);
        TestCertificate { pem: own.pem + &self.pem(), ..own }
    }

    /// Returns the authority as the signer of OCSP responses.
    ///
    /// # Panics
    /// The library rejects the key that it has generated.
    pub fn signer(&self) -> Signer {
        Signer::new(self.issuer.key().serialize_der(), self.issuer.der().clone(), false)
    }

    /// Issues a certificate for another signer of OCSP responses, with the permission to sign them
    /// or without.
    ///
    /// # Panics
    /// The machine has no random numbers.
    pub fn delegate(&self, is_authorised: bool) -> Signer {
        let mut params = CertificateParams::new(vec!["ocsp.example".to_owned()]).unwrap();
        params.extended_key_usages = match is_authorised {
            true => vec![ExtendedKeyUsagePurpose::OcspSigning],
            false => vec![ExtendedKeyUsagePurpose::ServerAuth],
        };
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Signer::new(key.serialize_der(), certificate.der().clone(), true)
    }

    /// Returns the certificate of the authority in DER.
    pub fn der(&self) -> &CertificateDer<'static> {
        self.issuer.der()
    }

    /// A certificate for a client, `CN=<name>,O=Example`, with this serial number.
    ///
    /// # Panics
    /// The machine has no random numbers.
    pub fn issue_client(&self, name: &str, serial: u64) -> TestCertificate {
        self.issue_client_until(name, serial, 2100)
    }

    /// The same, valid until the beginning of a year.
    ///
    /// # Panics
    /// The machine has no random numbers.
    pub fn issue_client_until(&self, name: &str, serial: u64, year: i32) -> TestCertificate {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Example");
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(serial.into());
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        TestCertificate::of(&[], &certificate, &key)
    }

    /// A revocation list in PEM with these serial numbers.
    ///
    /// # Panics
    /// The library refuses what it has made.
    pub fn revocation_list(&self, serials: &[u64]) -> String {
        let begin = rcgen::date_time_ymd(2020, 1, 1);
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: (*serial).into(),
            revocation_time: begin,
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: begin,
            next_update: rcgen::date_time_ymd(2100, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    /// Returns the authority's own certificate in PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Returns the configuration of a client that trusts only certificates of this authority.
    ///
    /// # Panics
    /// The library rejects the certificate that it has generated.
    pub fn client_config(&self) -> ClientConfig {
        client_config(self.issuer.der().clone())
    }
}

/// A name that no other authority of the process has.
fn unique(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    format!("{name} {}", COUNT.fetch_add(1, Relaxed))
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// Returns the configuration of a client that trusts only this certificate, of an authority or a
/// server.
///
/// # Panics
/// The library rejects the certificate.
pub fn client_config(root: CertificateDer<'static>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
