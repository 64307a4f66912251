//! Which certificate a name gets, without a handshake.

use sluice_config::certificate::CertificateFacts;
use sluice_config::{Generation, GlobalSettings, Host, HostName, HostPattern, ListenerId, PrivateKey};
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
    let tls = tls.map(|certificate| HostTls { certificate: certificate.map(id) });
    let host = Host { key: key.clone(), tls, passthrough: None, rules: Vec::new(), fall_through: false };
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
    let config = store.config(&GroupId(group.into()), sni);
    let table = store.table.load();
    let found = table.certificates.iter().find(|(_, served)| Arc::ptr_eq(&served.config, &config));
    assert!(found.is_some() || Arc::ptr_eq(&table.fallback.config, &config));
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
    let offered = |group: &str| store.config(&GroupId(group.into()), None).alpn_protocols.len();
    assert_eq!((offered("g"), offered("other")), (2, 2));
    store.apply(&default(None, false));
    assert_eq!((offered("g"), offered("other")), (1, 1));
    assert_eq!(chosen(&store, "g", None).as_deref(), Some("a"));
    let config = store.config(&GroupId("g".into()), None);
    assert_eq!(config.send_tls13_tickets, 0);
    assert!(!config.ticketer.enabled());
}

#[test]
fn a_change_keeps_what_it_does_not_concern() {
    let store = CertificateStore::new().unwrap();
    store.apply(&put(&certificate("a")));
    store.apply(&host("g", HostPattern::Any, Some(Some("a"))));
    let before = store.config(&GroupId("g".into()), None);
    store.apply(&put(&certificate("b")));
    store.apply(&default(Some("b"), true));
    assert!(Arc::ptr_eq(&before, &store.config(&GroupId("g".into()), None)));
}
