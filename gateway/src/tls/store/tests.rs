//! Which certificate a name gets, without a handshake.

use sluice_config::certificate::CertificateFacts;
use sluice_config::{
    CaBundle, CipherSuites, ClientAuthorities, ClientCertificateMode, ClientCertificates, Generation,
    GlobalSettings, HostName, HostPattern, HostTls, ListenerId, NamespacedName, PrivateKey, Resource,
    ResourceKey,
};
use sluice_testing::certificate::TestCertificate;

use super::*;

fn id(name: &str) -> CertificateId {
    CertificateId::new("shop", name)
}

fn certificate(name: &str) -> Certificate {
    let names = vec![format!("{name}.example")];
    let made = TestCertificate::new(&[&names[0]]);
    Certificate {
        id: id(name),
        chain: vec![made.der],
        key: PrivateKey::Pkcs8(made.key_der),
        facts: CertificateFacts { names, not_after: 7, ..Default::default() },
    }
}

fn put(certificate: &Certificate) -> Delta {
    let change = Change::Put(certificate.id.clone(), Arc::new(certificate.clone()));
    Delta { generation: Generation(1), certificates: vec![change], ..Delta::default() }
}

fn key(group: &str, pattern: HostPattern) -> HostKey {
    HostKey { group: GroupId(group.into()), listener: ListenerId::any(), pattern }
}

fn host(group: &str, pattern: HostPattern, tls: Option<Option<&str>>) -> Delta {
    let key = key(group, pattern);
    let tls = tls.map(|certificate| HostTls { certificate: certificate.map(id), ..HostTls::default() });
    let host = Host {
        key: key.clone(),
        alias_of: None,
        has_https: tls.is_some(),
        tls,
        passthrough: None,
        client_certificates: None,
        cipher_suites: None,
        rules: Vec::new(),
        fall_through: false,
    };
    Delta { hosts: vec![Change::Put(key, Arc::new(host))], ..Delta::default() }
}

fn default(name: Option<&str>, use_http2: bool) -> Delta {
    let settings =
        GlobalSettings { default_certificate: name.map(id), use_http2, ..GlobalSettings::default() };
    Delta { settings: Some(Arc::new(settings)), ..Delta::default() }
}

fn name(name: &str) -> HostName {
    HostName::new(name)
}

/// Names of the certificate in a configuration; `None` for the fallback.
fn chosen(store: &CertificateStore, group: &str, sni: Option<&str>) -> Option<String> {
    let table = store.table.load();
    let chosen = store.config(&GroupId(group.into()), sni).unwrap().config.cert_resolver.clone();
    let found = table.certificates.iter().find(|(_, served)| Arc::ptr_eq(&served.resolver, &chosen));
    assert!(found.is_some() || Arc::ptr_eq(&table.fallback.resolver, &chosen));
    found.map(|(id, _)| id.name.to_string())
}

#[test]
fn the_most_specific_name_decides() {
    let store = CertificateStore::new().unwrap();
    for name in ["a", "wild", "deep", "rest", "default"] {
        assert_eq!(store.apply(&put(&certificate(name))), []);
    }
    store.apply(&host("g", HostPattern::Exact(name("a.example")), Some(Some("a"))));
    store.apply(&host("g", HostPattern::OneLabel(name("example")), Some(Some("wild"))));
    store.apply(&host("g", HostPattern::Suffix(name("example")), Some(Some("deep"))));
    store.apply(&host("g", HostPattern::Exact(name("plain.example")), None));
    store.apply(&host("g", HostPattern::Exact(name("unnamed.example")), Some(None)));
    store.apply(&host("g", HostPattern::Exact(name("missing.example")), Some(Some("missing"))));
    let expect = |sni: Option<&str>, expected: Option<&str>| {
        assert_eq!(chosen(&store, "g", sni).as_deref(), expected, "{sni:?}");
    };
    expect(Some("a.example"), Some("a"));
    expect(Some("b.example"), Some("wild"));
    expect(Some("c.b.example"), Some("deep"));
    expect(Some("plain.example"), Some("wild"));
    expect(Some("unnamed.example"), None);
    expect(Some("missing.example"), None);
    expect(Some("example"), None);
    expect(Some("else"), None);
    expect(None, None);
    assert_eq!(chosen(&store, "other", Some("a.example")), None, "names belong to a group");
    store.apply(&default(Some("default"), true));
    expect(Some("unnamed.example"), Some("default"));
    expect(Some("missing.example"), Some("default"));
    expect(Some("else"), Some("default"));
    expect(None, Some("default"));
    store.apply(&host("g", HostPattern::Any, Some(Some("rest"))));
    expect(Some("else"), Some("rest"));
    expect(None, Some("rest"));
}

#[test]
fn a_bad_certificate_is_refused_and_the_last_good_one_stays() {
    let store = CertificateStore::new().unwrap();
    let good = certificate("a");
    store.apply(&put(&good));
    store.apply(&host("g", HostPattern::Exact(name("a.example")), Some(Some("a"))));
    let other = certificate("other");
    let bad = [
        (
            Certificate { key: other.key.clone(), ..good.clone() },
            "tls.key does not belong to the first certificate",
        ),
        (Certificate { chain: Vec::new(), ..good.clone() }, "tls.crt holds no certificate"),
        (Certificate { key: PrivateKey::Pkcs8(b"x".to_vec()), ..good.clone() }, "tls.key must be an RSA"),
        (Certificate { chain: vec![b"x".to_vec()], ..good.clone() }, "tls.key must be an RSA"),
    ];
    for (bad, words) in bad {
        let refused = store.apply(&put(&bad));
        assert_eq!(refused[0].subject.to_string(), "certificate shop/a");
        assert!(
            refused[0].reason.starts_with("Secret shop/a: ") && refused[0].reason.contains(words),
            "{refused:?}"
        );
        assert_eq!(chosen(&store, "g", Some("a.example")).as_deref(), Some("a"));
    }
}

#[test]
fn removals_and_introspection() {
    let store = CertificateStore::new().unwrap();
    store.apply(&put(&certificate("a")));
    store.apply(&host("g", HostPattern::Exact(name("a.example")), Some(Some("a"))));
    store.apply(&host("g", HostPattern::OneLabel(name("b.example")), Some(None)));
    let list = store.list();
    assert_eq!(list.len(), 2);
    assert_eq!(
        (list[0].id.clone(), list[0].default, list[0].hosts.clone()),
        (None, true, vec!["*.b.example".into()])
    );
    assert_eq!((list[1].id.clone(), list[1].default, list[1].not_after), (Some(id("a")), false, 7));
    assert_eq!(
        (list[1].names.clone(), list[1].hosts.clone()),
        (vec!["a.example".into()], vec!["a.example".into()])
    );
    let gone = Delta {
        hosts: vec![Change::Remove(key("g", HostPattern::OneLabel(name("b.example"))))],
        certificates: vec![Change::Remove(id("a"))],
        ..Delta::default()
    };
    store.remove(&gone);
    assert_eq!(chosen(&store, "g", Some("a.example")), None);
    let list = store.list();
    assert_eq!((list.len(), list[0].hosts.clone()), (1, vec!["a.example".to_owned()]));
    store.remove(&Delta {
        hosts: vec![Change::Remove(key("g", HostPattern::Exact(name("a.example"))))],
        ..Delta::default()
    });
    assert!(store.table.load().groups.is_empty());
}

#[test]
fn http2_is_offered_unless_it_is_off() {
    let store = CertificateStore::new().unwrap();
    store.apply(&put(&certificate("a")));
    store.apply(&host("g", HostPattern::Any, Some(Some("a"))));
    let offered =
        |group: &str| store.config(&GroupId(group.into()), None).unwrap().config.alpn_protocols.len();
    assert_eq!((offered("g"), offered("other")), (2, 2));
    store.apply(&default(None, false));
    assert_eq!((offered("g"), offered("other")), (1, 1));
    assert_eq!(chosen(&store, "g", None).as_deref(), Some("a"));
}

fn authorities(name: &str) -> ResourceKey {
    ResourceKey { kind: ResourceKind::ClientAuthorities, name: NamespacedName::new("shop", name) }
}

/// A host that verifies clients by the authorities of this name.
fn verifying(host: &str, mode: ClientCertificateMode, by: &str) -> Delta {
    let key = key("g", HostPattern::Exact(name(host)));
    let client_certificates = ClientCertificates {
        mode,
        verification: ClientVerification { authorities: authorities(by), depth: 1 },
        error_page: None,
        subject: None,
        passes_certificate: false,
    };
    let host = Host {
        key: key.clone(),
        alias_of: None,
        tls: None,
        has_https: false,
        passthrough: None,
        client_certificates: Some(Arc::new(client_certificates)),
        cipher_suites: None,
        rules: Vec::new(),
        fall_through: false,
    };
    Delta { hosts: vec![Change::Put(key, Arc::new(host))], ..Delta::default() }
}

fn verification(store: &CertificateStore, sni: &str) -> Option<String> {
    let config = store.config(&GroupId("g".into()), Some(sni)).unwrap();
    config.verification.map(|one| one.authorities.name.name.to_string())
}

#[test]
fn a_host_has_the_certificate_of_a_wildcard_and_a_verification_of_its_own() {
    let store = CertificateStore::new().unwrap();
    store.apply(&put(&certificate("wild")));
    store.apply(&host("g", HostPattern::OneLabel(name("example")), Some(Some("wild"))));
    store.apply(&verifying("a.example", ClientCertificateMode::Required, "ours"));
    store.apply(&verifying("off.example", ClientCertificateMode::Off, "ours"));
    assert_eq!(chosen(&store, "g", Some("a.example")).as_deref(), Some("wild"));
    assert_eq!(verification(&store, "a.example").as_deref(), Some("ours"));
    for other in ["b.example", "off.example", "else"] {
        assert_eq!(verification(&store, other), None, "{other}");
    }
}

#[test]
fn hosts_with_equal_settings_share_a_profile_until_the_last_is_gone() {
    let store = CertificateStore::new().unwrap();
    for host in ["a.example", "b.example"] {
        store.apply(&verifying(host, ClientCertificateMode::Required, "ours"));
    }
    store.apply(&verifying("c.example", ClientCertificateMode::Optional, "theirs"));
    let count = || store.table.load().profiles.count();
    assert_eq!(count(), 2);
    store.apply(&verifying("b.example", ClientCertificateMode::Optional, "theirs"));
    assert_eq!(count(), 2);
    store.apply(&verifying("a.example", ClientCertificateMode::Optional, "theirs"));
    assert_eq!(count(), 1);
    for host in ["a.example", "b.example", "c.example"] {
        let key = key("g", HostPattern::Exact(name(host)));
        store.remove(&Delta { hosts: vec![Change::Remove(key)], ..Delta::default() });
    }
    assert_eq!(count(), 0);
}

#[test]
fn clients_are_told_the_names_of_the_authorities_in_force() {
    let store = CertificateStore::new().unwrap();
    store.apply(&verifying("a.example", ClientCertificateMode::Required, "ours"));
    let named = || store.table.load().profiles.authorities(&authorities("ours"));
    assert_eq!(named(), 0);
    let content = |certificates| {
        let content = ClientAuthorities { authorities: CaBundle { certificates }, revocations: Vec::new() };
        let change = Change::Put(authorities("ours"), Arc::new(Resource::ClientAuthorities(content)));
        Delta { resources: vec![change], ..Delta::default() }
    };
    let made = TestCertificate::new(&["ca"]);
    store.apply(&content(vec![made.der.clone(), made.der]));
    assert_eq!(named(), 2);
    store.apply(&content(vec![b"x".to_vec()]));
    assert_eq!(named(), 0);
    assert_eq!(verification(&store, "a.example").as_deref(), Some("ours"));
}

fn tuned(change: impl FnOnce(&mut GlobalSettings)) -> Delta {
    let mut settings = GlobalSettings::default();
    change(&mut settings);
    Delta { settings: Some(Arc::new(settings)), ..Delta::default() }
}

fn config(store: &CertificateStore) -> Option<Arc<ServerConfig>> {
    Some(store.config(&GroupId("g".into()), Some("a.example"))?.config)
}

#[test]
fn sessions_are_resumed_from_the_cache_unless_settings_say_otherwise() {
    let store = CertificateStore::new().unwrap();
    let shown = || {
        let config = config(&store).unwrap();
        (config.session_storage.can_cache(), config.ticketer.enabled(), config.send_tls13_tickets)
    };
    assert_eq!(shown(), (true, false, 1));
    store.apply(&tuned(|settings| settings.tls.sessions.tickets = true));
    assert_eq!(shown(), (true, true, 2));
    store.apply(&tuned(|settings| settings.tls.sessions.cache = 0));
    assert_eq!(shown(), (false, false, 0));
}

#[test]
fn a_session_is_kept_by_its_profile_alone_and_over_changes_of_others() {
    let store = CertificateStore::new().unwrap();
    let storage = |sni: &str| {
        let config = store.config(&GroupId("g".into()), Some(sni)).unwrap().config;
        config.session_storage.clone()
    };
    for (host, by) in [("a.example", "ours"), ("b.example", "ours"), ("c.example", "theirs")] {
        store.apply(&verifying(host, ClientCertificateMode::Required, by));
    }
    assert!(storage("a.example").put(vec![1], vec![2]));
    assert_eq!(storage("b.example").get(&[1]), Some(vec![2]));
    assert_eq!((storage("c.example").get(&[1]), storage("else").get(&[1])), (None, None));
    store.apply(&default(None, false));
    assert_eq!(storage("a.example").get(&[1]), Some(vec![2]));
    store.apply(&tuned(|settings| settings.tls.sessions.timeout = std::time::Duration::from_secs(60)));
    assert_eq!(storage("a.example").get(&[1]), None, "it may be too old now");
}

#[test]
fn versions_suites_and_groups_are_those_of_the_settings() {
    use rustls::{CipherSuite, NamedGroup, ProtocolVersion};
    let store = CertificateStore::new().unwrap();
    let suites = |config: &ServerConfig, version| {
        let suites = config.crypto_provider().cipher_suites.iter();
        let of_version = suites.filter(|suite| suite.version().version == version);
        of_version.map(|suite| suite.suite()).collect::<Vec<_>>()
    };
    store.apply(&tuned(|settings| {
        settings.tls.suites.list = Some([0xc02f, 0xc02c].into());
        settings.tls.groups = Some([0x18, 0x1d].into());
    }));
    let chosen = config(&store).unwrap();
    assert!(chosen.ignore_client_order);
    assert_eq!(
        suites(&chosen, ProtocolVersion::TLSv1_2),
        [
            CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        ]
    );
    assert_eq!(suites(&chosen, ProtocolVersion::TLSv1_3).len(), 3);
    let groups: Vec<NamedGroup> =
        chosen.crypto_provider().kx_groups.iter().map(|group| group.name()).collect();
    assert_eq!(groups, [NamedGroup::secp384r1, NamedGroup::X25519]);
    store.apply(&tuned(|settings| {
        settings.tls.suites.list = Some([].into());
        settings.tls.versions.v1_3 = false;
    }));
    assert!(config(&store).is_none(), "nothing is offered in place of what is not spoken");
    store.apply(&tuned(|settings| settings.tls.versions.v1_2 = false));
    assert!(!config(&store).unwrap().ignore_client_order);
}

#[test]
fn thousands_of_hosts_with_equal_settings_share_one_configuration() {
    let store = CertificateStore::new().unwrap();
    let hosts = |count: u32, change: &dyn Fn(&mut Host)| Delta {
        hosts: (0..count)
            .map(|number| {
                let key = key("g", HostPattern::Exact(name(&format!("{number}.example"))));
                let mut host = Host {
                    key: key.clone(),
                    alias_of: None,
                    tls: Some(HostTls::default()),
                    has_https: true,
                    passthrough: None,
                    client_certificates: None,
                    cipher_suites: None,
                    rules: Vec::new(),
                    fall_through: false,
                };
                change(&mut host);
                Change::Put(key, Arc::new(host))
            })
            .collect(),
        ..Delta::default()
    };
    let storage = |sni: &str| {
        let config = store.config(&GroupId("g".into()), Some(sni)).unwrap().config;
        (config.session_storage.clone(), config.crypto_provider().clone())
    };
    let count = || store.table.load().profiles.count();
    let are_shared = || {
        let (one, other) = (storage("0.example"), storage("4999.example"));
        Arc::ptr_eq(&one.0, &other.0) && Arc::ptr_eq(&one.1, &other.1)
    };
    store.apply(&hosts(5000, &|_| {}));
    assert!(count() == 0 && are_shared(), "the default one");
    // Each host has a copy of the settings of its own, as after a change of each.
    store.apply(&hosts(5000, &|host| {
        let suites = CipherSuites { list: Some([0xc02f].into()), server_order: None };
        host.cipher_suites = Some(Arc::new(suites));
    }));
    assert!(count() == 1 && are_shared());
    store.apply(&hosts(1, &|_| {}));
    assert!(count() == 1 && !are_shared());
    store.apply(&hosts(5000, &|_| {}));
    assert_eq!(count(), 0, "a configuration ends with its last host");
}

#[test]
fn the_defaults_offer_forward_secrecy_and_authenticated_encryption_only() {
    use rustls::ProtocolVersion::{TLSv1_2, TLSv1_3};
    let store = CertificateStore::new().unwrap();
    let config = config(&store).unwrap();
    let suites = &config.crypto_provider().cipher_suites;
    assert_eq!(suites.len(), 9);
    for suite in suites {
        let name = suite.suite().as_str().unwrap_or_default();
        assert!(
            ["GCM_SHA256", "GCM_SHA384", "CHACHA20_POLY1305_SHA256"].iter().any(|end| name.ends_with(end))
        );
        match suite.version().version {
            TLSv1_3 => {}
            TLSv1_2 => assert!(name.starts_with("TLS_ECDHE_"), "{name}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(config.max_early_data_size, 0);
}

#[test]
fn a_staple_belongs_to_one_version_of_a_certificate() {
    let store = CertificateStore::new().unwrap();
    store.apply(&put(&certificate("a")));
    assert!(store.to_staple().is_none(), "it is off");
    store.apply(&tuned(|settings| settings.staple_ocsp = true));
    let to_staple = store.to_staple().unwrap();
    let [(id, old)] = &to_staple.certificates[..] else { panic!() };
    let staple = || store.table.load().certificates[id].served.ocsp.clone();
    store.staple(id, old, Some(vec![1]));
    assert_eq!(staple(), Some(vec![1]));
    store.apply(&put(&certificate("a")));
    assert_eq!(staple(), None, "it is about the version before");
    store.staple(id, old, Some(vec![1]));
    assert_eq!(staple(), None);
    let new = store.to_staple().unwrap().certificates.remove(0).1;
    store.staple(id, &new, Some(vec![2]));
    store.staple(id, &new, None);
    assert_eq!(staple(), None);
}
