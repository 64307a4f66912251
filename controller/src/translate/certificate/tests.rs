//! Reading TLS Secrets, and which hosts a certificate is for.

use rcgen::{CertificateParams, DnType, KeyPair};
use sluice_config::HostName;

use super::pem::{PemError, read};
use super::*;
use crate::store::Secret;

fn pair(names: &[&str]) -> (String, String) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, "the subject");
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn secret(certificate: &str, key: &str) -> Secret {
    let bytes = |text: &str| text.as_bytes().into();
    let data = [("tls.crt".into(), bytes(certificate)), ("tls.key".into(), bytes(key))];
    Secret {
        identity: Default::default(),
        name: NamespacedName::new("n", "tls"),
        fields: DataFields::All,
        data: data.into(),
    }
}

#[test]
fn a_secret_becomes_a_certificate_with_facts() {
    let (certificate, key) = pair(&["shop.example", "*.shop.example"]);
    let read = read(&NamespacedName::new("n", "tls"), &secret(&certificate, &key)).unwrap();
    assert_eq!(read.facts.names, ["shop.example", "*.shop.example"]);
    assert_eq!(read.facts.common_name.as_deref(), Some("the subject"));
    assert_eq!(read.facts.public_key_algorithm, "ECDSA");
    assert!(read.facts.serial_number.bytes().all(|b| b.is_ascii_digit()));
    assert!(read.facts.not_after > 0);
}

#[test]
fn faults_name_the_key_to_look_at() {
    let (certificate, key) = pair(&["a.example"]);
    let (_, other_key) = pair(&["b.example"]);
    let id = NamespacedName::new("n", "tls");
    assert!(matches!(read(&id, &secret(&certificate, &other_key)), Err(PemError::Mismatch)));
    assert!(matches!(read(&id, &secret("", &key)), Err(PemError::Chain(_))));
    assert!(matches!(read(&id, &secret("nonsense", &key)), Err(PemError::Chain(_))));
    assert!(matches!(read(&id, &secret(&certificate, "nonsense")), Err(PemError::Key(_))));
    let good = secret(&certificate, &key);
    let absent = Secret { data: good.data[..1].into(), ..good.clone() };
    let fault = read(&id, &absent).unwrap_err();
    assert_eq!((fault.field().as_str(), fault.to_string().as_str()), ("data[tls.key]", "has no key tls.key"));
}

#[test]
fn names_cover_hosts_by_one_label() {
    let covers = |names: &[&str], host: &HostPattern| {
        let facts = CertificateFacts {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            common_name: Some("cn.example".into()),
            ..CertificateFacts::default()
        };
        covers(&facts, host)
    };
    let exact = |name| HostPattern::Exact(HostName::new(name));
    let wildcard = |name| HostPattern::OneLabel(HostName::new(name));
    assert!(covers(&["A.example"], &exact("a.example")));
    assert!(covers(&["*.example"], &exact("a.example")));
    assert!(!covers(&["*.example"], &exact("a.b.example")));
    assert!(!covers(&["*.example"], &exact("example")));
    assert!(covers(&["*.example"], &wildcard("example")));
    assert!(!covers(&["a.example"], &wildcard("example")));
    assert!(covers(&[], &exact("cn.example")), "the common name counts where there is nothing else");
    assert!(!covers(&["a.example"], &exact("cn.example")));
}
