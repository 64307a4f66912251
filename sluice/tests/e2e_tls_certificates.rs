//! Certificates with RSA and ECDSA keys for one name.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs::{self, cipher_suite};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, SignatureScheme, SupportedCipherSuite};
use serde_json::json;

use super::e2e_tls_defaults::openssl;
use crate::harness::manifest;
use crate::harness::{Backend, Connection, Folder, Gateway, TestCertificate, trust};

const HOST: &str = "shop.example";
const HTTP_1: &[&[u8]] = &[b"http/1.1"];

/// A gateway for one host with two certificates.
struct Site {
    _backend: Backend,
    _folder: Folder,
    gateway: Gateway,
    ecdsa: TestCertificate,
    rsa: TestCertificate,
}

impl Site {
    fn new() -> Self {
        let backend = Backend::echo("shop");
        let folder = Folder::with(manifest::nginx_class() + &manifest::service_with("shop", &[&backend]));
        let (ecdsa, rsa) = (TestCertificate::new(&[HOST]), TestCertificate::rsa(&[HOST]));
        folder.write("ecdsa.yaml", ecdsa.secret("ecdsa"));
        folder.write("rsa.yaml", rsa.secret("rsa"));
        folder.write("ingress.yaml", ingress());
        let gateway = Gateway::start(&folder);
        Self { _backend: backend, _folder: folder, gateway, ecdsa, rsa }
    }

    fn certificate(&self, config: &Arc<ClientConfig>) -> Vec<u8> {
        Connection::tls_with(self.gateway.https, HOST, config).certificate().to_vec()
    }
}

fn ingress() -> String {
    let entry = |secret: &str| json!({"hosts": [HOST], "secretName": secret});
    manifest::document(&json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "ingressClassName": "nginx",
            "tls": [entry("ecdsa"), entry("rsa")],
            "rules": [{"host": HOST, "http": {"paths": [{"path": "/", "pathType": "Prefix",
                "backend": {"service": {"name": "shop", "port": {"number": 80}}}}]}}],
        },
    }))
}

/// A client that verifies only these signatures, with these cipher suites of TLS 1.2 if there are
/// any.
fn limited(schemes: &[SignatureScheme], suites: &[SupportedCipherSuite]) -> Arc<ClientConfig> {
    let mut provider = aws_lc_rs::default_provider();
    let mut algorithms = provider.signature_verification_algorithms;
    let mapping = algorithms.mapping.iter().filter(|(scheme, _)| schemes.contains(scheme));
    algorithms.mapping = Box::leak(mapping.copied().collect());
    provider.signature_verification_algorithms = algorithms;
    let versions: &[_] = if suites.is_empty() { &[&TLS13] } else { &[&TLS12] };
    if !suites.is_empty() {
        provider.cipher_suites = suites.to_vec();
    }
    Arc::new(trust::trusting_with(provider, versions, HTTP_1))
}

#[test]
fn clients_get_the_certificate_that_they_support() {
    use SignatureScheme::{ECDSA_NISTP256_SHA256, RSA_PKCS1_SHA256, RSA_PSS_SHA256};
    let site = Site::new();
    let rsa_suites = [cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256];
    let ecdsa_suites = [cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256];
    let both = [ECDSA_NISTP256_SHA256, RSA_PSS_SHA256, RSA_PKCS1_SHA256];
    let of_rsa = [RSA_PSS_SHA256, RSA_PKCS1_SHA256];
    for suites in [&[][..], &ecdsa_suites] {
        assert_eq!(site.certificate(&limited(&both, suites)), site.ecdsa.der, "the first of both");
    }
    for config in [limited(&of_rsa, &[]), limited(&of_rsa, &rsa_suites), limited(&both, &rsa_suites)] {
        assert_eq!(site.certificate(&config), site.rsa.der);
    }
    let kinds: [(&[&str], &str); 5] = [
        (&["-sigalgs", "ECDSA+SHA256:RSA-PSS+SHA256"], "ECDSA"),
        (&["-sigalgs", "RSA-PSS+SHA256"], "RSA-PSS"),
        (&["-tls1_2", "-sigalgs", "RSA+SHA256"], "RSA"),
        (&["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"], "RSA-PSS"),
        (&["-tls1_2"], "ECDSA"),
    ];
    for (options, kind) in kinds {
        let Some((connected, text)) = openssl(site.gateway.https, HOST, &[&["-brief"][..], options].concat())
        else {
            return;
        };
        let is_chosen = text.lines().any(|line| *line == format!("Signature type: {kind}"));
        assert!(connected && is_chosen, "{options:?}: {text}");
    }
}
