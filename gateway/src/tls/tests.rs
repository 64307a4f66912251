use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, NamedGroup, ProtocolVersion,
    ServerConfig, ServerConnection, SignatureScheme, SupportedProtocolVersion,
};
use sluice_config::certificate::CertificateFacts;
use sluice_config::{
    Certificate, CertificateId, Change, Delta, GroupId, Host, HostKey, HostName, HostPattern, HostTls,
    ListenerId, PrivateKey, Tuning,
};

use super::*;

fn id(name: &str) -> CertificateId {
    CertificateId::new("default", name)
}

/// A self-signed certificate in Secret `default/<name>`.
fn certificate(name: &str) -> Certificate {
    let key = KeyPair::generate().unwrap();
    let host = format!("{name}.example");
    let made = CertificateParams::new([host.clone()]).unwrap().self_signed(&key).unwrap();
    Certificate {
        id: id(name),
        chain: vec![made.der().to_vec()],
        key: PrivateKey::Pkcs8(key.serialize_der()),
        facts: CertificateFacts {
            names: vec![host],
            not_after: 1_900_000_000,
            ..CertificateFacts::default()
        },
    }
}

fn key(pattern: HostPattern) -> HostKey {
    HostKey { group: GroupId::ingress(), listener: ListenerId::any(), pattern }
}

fn exact(name: &str) -> HostKey {
    key(HostPattern::Exact(HostName::new(name)))
}

fn tls(name: &str) -> HostTls {
    HostTls { certificate: Some(id(name)) }
}

fn with(certificates: &[&Certificate]) -> CertificateStore {
    let store = CertificateStore::new().unwrap();
    for certificate in certificates {
        store.put(certificate).unwrap();
    }
    store
}

/// Takes any certificate: these tests ask which one is shown.
#[derive(Debug)]
struct Trusting(Arc<CryptoProvider>);

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn client(versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.resumption = Resumption::in_memory_sessions(32);
    config
}

struct Pair {
    client: ClientConnection,
    server: ServerConnection,
}

impl Pair {
    fn new(client: &Arc<ClientConfig>, server: Arc<ServerConfig>, name: &'static str) -> Self {
        let client = ClientConnection::new(client.clone(), ServerName::try_from(name).unwrap()).unwrap();
        let mut pair = Self { client, server: ServerConnection::new(server).unwrap() };
        pair.exchange();
        assert!(!pair.client.is_handshaking() && !pair.server.is_handshaking());
        pair
    }

    /// Moves bytes until neither side has any to send.
    fn exchange(&mut self) {
        while self.client.wants_write() || self.server.wants_write() {
            let mut bytes = Vec::new();
            self.client.write_tls(&mut bytes).unwrap();
            feed(&bytes, |reader| self.server.read_tls(reader));
            self.server.process_new_packets().unwrap();
            bytes.clear();
            self.server.write_tls(&mut bytes).unwrap();
            feed(&bytes, |reader| self.client.read_tls(reader));
            self.client.process_new_packets().unwrap();
        }
    }

    fn shown(&self) -> Vec<u8> {
        self.client.peer_certificates().unwrap()[0].to_vec()
    }
}

fn feed(mut bytes: &[u8], mut read: impl FnMut(&mut dyn std::io::Read) -> std::io::Result<usize>) {
    while !bytes.is_empty() {
        read(&mut bytes).unwrap();
    }
}

/// The certificate that a name is shown, by a real handshake.
fn shown(store: &CertificateStore, name: &'static str) -> Vec<u8> {
    let client = Arc::new(client(&[&rustls::version::TLS13]));
    Pair::new(&client, store.config_for(Some(name)), name).shown()
}

#[test]
fn the_most_specific_pattern_answers() {
    let store = with(&[]);
    let certificates = ["shop", "one", "wide", "wider", "any", "default"].map(|name| {
        store.put(&certificate(name)).unwrap();
        store.set_default(Some(id(name)));
        (name, store.config_for(None))
    });
    let name = |name: &str| HostName::new(name);
    store.set_host(&exact("shop.example"), Some(&tls("shop")));
    store.set_host(&key(HostPattern::OneLabel(name("example"))), Some(&tls("one")));
    store.set_host(&key(HostPattern::Suffix(name("deep.example"))), Some(&tls("wide")));
    store.set_host(&key(HostPattern::Suffix(name("example"))), Some(&tls("wider")));
    let answers = |sni: Option<&str>, name: &str| {
        let config = store.config_for(sni);
        let found = certificates.iter().find(|(_, each)| Arc::ptr_eq(each, &config)).map(|(name, _)| *name);
        assert_eq!(found, Some(name), "{sni:?}");
    };
    answers(Some("shop.example"), "shop");
    answers(Some("SHOP.Example."), "shop");
    answers(Some("other.example"), "one");
    answers(Some("deep.example"), "one");
    answers(Some("a.deep.example"), "wide");
    answers(Some("b.a.deep.example"), "wide");
    answers(Some("a.b.example"), "wider");
    for unknown in [Some("example"), Some("elsewhere.test"), Some("notexample"), Some("."), Some(""), None] {
        answers(unknown, "default");
    }
    store.set_host(&key(HostPattern::Any), Some(&tls("any")));
    for unknown in [Some("example"), Some("elsewhere.test"), None] {
        answers(unknown, "any");
    }
}

#[test]
fn names_without_certificate_get_the_default_then_the_fallback() {
    let store = with(&[]);
    let fallback = store.config_for(None);
    store.set_default(Some(id("late")));
    assert!(Arc::ptr_eq(&store.config_for(Some("a.example")), &fallback));
    store.put(&certificate("late")).unwrap();
    let default = store.config_for(Some("a.example"));
    assert!(!Arc::ptr_eq(&default, &fallback));

    // A host that asks for the default does not fall to a wildcard.
    store.put(&certificate("wild")).unwrap();
    store.set_host(&key(HostPattern::OneLabel(HostName::new("example"))), Some(&tls("wild")));
    assert!(!Arc::ptr_eq(&store.config_for(Some("a.example")), &default));
    store.set_host(&exact("a.example"), Some(&HostTls { certificate: None }));
    assert!(Arc::ptr_eq(&store.config_for(Some("a.example")), &default));
    store.set_default(None);
    assert!(Arc::ptr_eq(&store.config_for(Some("a.example")), &fallback));
    // A host without TLS does.
    store.set_host(&exact("a.example"), None);
    assert!(!Arc::ptr_eq(&store.config_for(Some("a.example")), &fallback));
}

#[test]
fn host_and_certificate_come_and_go_in_any_order() {
    let store = with(&[]);
    let fallback = store.config_for(None);
    let is_fallback = || Arc::ptr_eq(&store.config_for(Some("shop.example")), &fallback);
    store.set_host(&exact("shop.example"), Some(&tls("shop")));
    assert!(is_fallback());
    let shop = certificate("shop");
    store.put(&shop).unwrap();
    assert_eq!(shown(&store, "shop.example"), shop.chain[0]);
    store.remove(&shop.id);
    assert!(is_fallback());
    store.put(&shop).unwrap();
    assert_eq!(shown(&store, "shop.example"), shop.chain[0]);
    store.set_host(&exact("shop.example"), None);
    assert!(is_fallback());
}

#[test]
fn one_listener_leaving_a_name_leaves_it_to_the_other() {
    let store = with(&[&certificate("a"), &certificate("b")]);
    let at = |group: &str| HostKey { group: GroupId(group.into()), ..exact("shop.example") };
    store.set_host(&at("2"), Some(&tls("b")));
    let b = store.config_for(Some("shop.example"));
    store.set_host(&at("1"), Some(&tls("a")));
    assert!(!Arc::ptr_eq(&store.config_for(Some("shop.example")), &b));
    store.remove(&id("a"));
    assert!(Arc::ptr_eq(&store.config_for(Some("shop.example")), &b));
    store.set_host(&at("1"), None);
    assert!(Arc::ptr_eq(&store.config_for(Some("shop.example")), &b));
}

#[test]
fn hosts_share_the_configuration_of_their_certificate() {
    let store = with(&[&certificate("shop")]);
    store.set_host(&exact("a.example"), Some(&tls("shop")));
    store.set_host(&exact("b.example"), Some(&tls("shop")));
    let [a, b] = ["a.example", "b.example"].map(|name| store.config_for(Some(name)));
    assert!(Arc::ptr_eq(&a, &b));
}

#[test]
fn a_swap_is_seen_by_new_connections_and_not_by_running_ones() {
    use std::io::{Read, Write};
    let old = certificate("shop");
    let new = certificate("shop");
    let store = with(&[&old]);
    store.set_host(&exact("shop.example"), Some(&tls("shop")));
    let config = Arc::new(client(&[&rustls::version::TLS13]));
    let mut running = Pair::new(&config, store.config_for(Some("shop.example")), "shop.example");
    store.put(&new).unwrap();
    assert_eq!(shown(&store, "shop.example"), new.chain[0]);
    running.client.writer().write_all(b"still here").unwrap();
    running.exchange();
    let mut text = [0; 10];
    running.server.reader().read_exact(&mut text).unwrap();
    assert_eq!((&text, running.shown()), (b"still here", old.chain[0].clone()));
}

#[test]
fn an_unusable_certificate_is_refused_and_the_last_good_one_stays() {
    let good = certificate("shop");
    let store = with(&[&good]);
    store.set_host(&exact("shop.example"), Some(&tls("shop")));
    let mismatch = Certificate { key: certificate("other").key, ..good.clone() };
    let no_key = Certificate { key: PrivateKey::Pkcs8(b"none".to_vec()), ..good.clone() };
    let no_chain = Certificate { chain: Vec::new(), ..good.clone() };
    let damaged = Certificate { chain: vec![b"none".to_vec()], ..good.clone() };
    for (bad, words) in [
        (&mismatch, "tls.key is not the key of the first certificate"),
        (&no_key, "the private key in tls.key cannot be used"),
        (&no_chain, "the first certificate in tls.crt cannot be used"),
        (&damaged, "the first certificate in tls.crt cannot be used"),
    ] {
        let error = store.put(bad).unwrap_err().to_string();
        assert!(error.starts_with("Secret default/shop: ") && error.contains(words), "{error}");
        assert_eq!(shown(&store, "shop.example"), good.chain[0]);
    }
}

#[test]
fn keys_of_every_kind_are_taken() {
    let mut rsa = certificate("rsa");
    let pair = KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let made = CertificateParams::new(["rsa.example".to_owned()]).unwrap().self_signed(&pair).unwrap();
    rsa.chain = vec![made.der().to_vec()];
    rsa.key = PrivateKey::Pkcs8(pair.serialize_der());
    let store = with(&[&rsa]);
    store.set_host(&exact("rsa.example"), Some(&tls("rsa")));
    assert_eq!(shown(&store, "rsa.example"), rsa.chain[0]);
    for algorithm in [&rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519] {
        let pair = KeyPair::generate_for(algorithm).unwrap();
        let made = CertificateParams::new(["rsa.example".to_owned()]).unwrap().self_signed(&pair).unwrap();
        rsa.chain = vec![made.der().to_vec()];
        rsa.key = PrivateKey::Pkcs8(pair.serialize_der());
        store.put(&rsa).unwrap();
        assert_eq!(shown(&store, "rsa.example"), rsa.chain[0]);
    }
}

#[test]
fn the_fallback_is_recognised_by_its_subject() {
    let store = with(&[]);
    let der = shown(&store, "nobody.example");
    let (_, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
    let subject = certificate.subject();
    let text = |name: Option<&x509_parser::x509::AttributeTypeAndValue<'_>>| {
        name.unwrap().as_str().unwrap().to_owned()
    };
    assert_eq!(text(subject.iter_common_name().next()), "Kubernetes Ingress Controller Fake Certificate");
    assert_eq!(text(subject.iter_organization().next()), "Acme Co");
    let names = &certificate.subject_alternative_name().unwrap().unwrap().value.general_names;
    assert_eq!(names.as_slice(), [x509_parser::extensions::GeneralName::DNSName("ingress.local")]);
    assert!(certificate.validity().is_valid());
    assert_eq!(certificate.validity().not_after.timestamp(), store.describe()[0].not_after);
}

#[test]
fn http2_is_offered_unless_switched_off() {
    let shop = certificate("shop");
    let store = with(&[&shop]);
    store.set_host(&exact("shop.example"), Some(&tls("shop")));
    let config = Arc::new(client(&[&rustls::version::TLS13]));
    let spoken = |name: &'static str| {
        let pair = Pair::new(&config, store.config_for(Some(name)), name);
        pair.server.alpn_protocol().unwrap().to_vec()
    };
    assert_eq!([spoken("shop.example"), spoken("nobody.example")], [b"h2", b"h2"]);
    store.set_http2(false);
    assert_eq!([spoken("shop.example"), spoken("nobody.example")], [b"http/1.1", b"http/1.1"]);
    assert_eq!(shown(&store, "shop.example"), shop.chain[0]);
    store.put(&certificate("shop")).unwrap();
    assert_eq!(spoken("shop.example"), b"http/1.1");
    store.set_http2(true);
    assert_eq!([spoken("shop.example"), spoken("nobody.example")], [b"h2", b"h2"]);
}

#[test]
fn key_exchange_is_post_quantum_by_default() {
    let store = with(&[]);
    assert_eq!(store.config_for(None).crypto_provider().kx_groups[0].name(), NamedGroup::X25519MLKEM768);
    let config = Arc::new(client(&[&rustls::version::TLS13]));
    let pair = Pair::new(&config, store.config_for(None), "nobody.example");
    let group = pair.server.negotiated_key_exchange_group().unwrap();
    assert_eq!(group.name(), NamedGroup::X25519MLKEM768);
}

#[test]
fn tls12_sessions_resume_across_certificates_and_tls13_gets_no_tickets() {
    let store = with(&[&certificate("shop")]);
    store.set_host(&exact("shop.example"), Some(&tls("shop")));
    let connect = |config: &Arc<ClientConfig>, name| {
        let pair = Pair::new(config, store.config_for(Some(name)), name);
        (pair.server.protocol_version().unwrap(), pair.server.handshake_kind().unwrap())
    };
    let config = Arc::new(client(&[&rustls::version::TLS12]));
    assert_eq!(connect(&config, "shop.example"), (ProtocolVersion::TLSv1_2, HandshakeKind::Full));
    // The new certificate's configuration knows the sessions of the old one's.
    store.put(&certificate("shop")).unwrap();
    assert_eq!(connect(&config, "shop.example").1, HandshakeKind::Resumed);
    assert_eq!(connect(&config, "nobody.example").1, HandshakeKind::Full);

    let config = Arc::new(client(&[&rustls::version::TLS13]));
    for _ in 0..2 {
        assert_eq!(connect(&config, "shop.example"), (ProtocolVersion::TLSv1_3, HandshakeKind::Full));
    }
}

#[test]
fn a_delta_is_taken_in_whole_and_its_bad_parts_refused() {
    let store = with(&[]);
    let fallback = store.config_for(None);
    let good = Arc::new(certificate("good"));
    let bad = Arc::new(Certificate { chain: Vec::new(), ..certificate("bad") });
    let host = |name: &str, certificate: &str| {
        let key = exact(name);
        let tls = Some(tls(certificate));
        Change::Put(key.clone(), Arc::new(Host { key, tls, rules: Vec::new(), fall_through: false }))
    };
    let refused = store.apply(&Delta {
        tuning: Some(Arc::new(Tuning { use_http2: false, ..Tuning::default() })),
        certificates: vec![
            Change::Put(bad.id.clone(), bad.clone()),
            Change::Put(good.id.clone(), good.clone()),
        ],
        hosts: vec![host("good.example", "good"), host("bad.example", "bad")],
        ..Delta::default()
    });
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].subject, "certificate default/bad");
    assert!(refused[0].reason.starts_with("Secret default/bad: "), "{}", refused[0].reason);
    let config = store.config_for(Some("good.example"));
    assert_eq!(config.alpn_protocols, [b"http/1.1"]);
    assert_eq!(shown(&store, "good.example"), good.chain[0]);

    let removals = Delta {
        certificates: vec![Change::Remove(good.id.clone())],
        hosts: vec![Change::Remove(exact("good.example"))],
        ..Delta::default()
    };
    assert_eq!(store.apply(&removals), []);
    assert_eq!(shown(&store, "good.example"), good.chain[0], "removals come last");
    store.apply_removals(&removals);
    assert_ne!(shown(&store, "good.example"), good.chain[0]);
    assert!(!Arc::ptr_eq(&store.config_for(None), &fallback), "HTTP/2 was switched off");
}

#[test]
fn the_description_says_who_answers_for_whom() {
    let store = with(&[&certificate("shop"), &certificate("default")]);
    store.set_host(&exact("shop.example"), Some(&tls("shop")));
    store.set_host(&key(HostPattern::OneLabel(HostName::new("shop.example"))), Some(&tls("shop")));
    store.set_host(&exact("lost.example"), Some(&tls("missing")));
    let all = store.describe();
    assert_eq!(all.len(), 3);
    assert_eq!(all[1].secret.as_deref(), Some("default/shop"));
    assert_eq!(all[1].hosts, ["*.shop.example", "shop.example"]);
    assert_eq!((&all[1].names[..], all[1].not_after), (&["shop.example".to_owned()][..], 1_900_000_000));
    assert_eq!((&all[2].secret, &all[2].hosts[..]), (&None, &["lost.example".to_owned()][..]));
    assert_eq!([all[0].default, all[1].default, all[2].default], [false, false, true]);

    store.set_default(Some(id("default")));
    let all = store.describe();
    assert_eq!(all[0].hosts, ["lost.example"]);
    assert_eq!([all[0].default, all[1].default, all[2].default], [true, false, false]);
    let json = serde_json::to_value(&all).unwrap();
    assert_eq!(json[0]["secret"], "default/default");
}

#[test]
fn a_configuration_is_small() {
    // What 5,000 certificates cost beside their chains and keys. The library's builder alone would take 30 KiB.
    assert!(size_of::<ServerConfig>() <= 512, "{}", size_of::<ServerConfig>());
    let store = with(&[&certificate("a"), &certificate("b")]);
    store.set_host(&exact("a.example"), Some(&tls("a")));
    store.set_host(&exact("b.example"), Some(&tls("b")));
    let [a, b] = ["a.example", "b.example"].map(|name| store.config_for(Some(name)));
    assert!(Arc::ptr_eq(&a.session_storage, &b.session_storage));
    assert!(Arc::ptr_eq(&a.cert_compression_cache, &b.cert_compression_cache));
    assert!(Arc::ptr_eq(a.crypto_provider(), b.crypto_provider()));
}
