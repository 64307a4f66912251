use sluice_config::{Change, Delta, Host, Refusal};

use super::*;
use crate::pipeline::tests::fixture::{Plane, exact, forward, host_key, pool_key, rule, service};

fn stream(pool: &str) -> Stream {
    Stream { pool: pool_key(pool), service: service(pool), accepts_proxy: false, sends_proxy: false }
}

fn put(plane: &mut Plane, pattern: HostPattern, passed: Option<&str>) -> Vec<Refusal> {
    let host = Host {
        key: host_key(pattern),
        alias_of: None,
        tls: None,
        has_https: false,
        passthrough: passed.map(|pool| Arc::new(stream(pool))),
        client_certificates: None,
        cipher_suites: None,
        rules: vec![rule("/", forward("web"))],
        fall_through: false,
    };
    plane.apply(Delta { hosts: vec![Change::Put(host.key.clone(), Arc::new(host))], ..Delta::default() })
}

fn target(plane: &Plane, name: &str) -> Option<String> {
    let published = plane.state.published.load();
    let found = published.streams.passthrough(&published.routes, &GroupId::ingress(), name);
    found.map(|route| route.name.to_string())
}

#[test]
fn the_most_specific_host_of_a_server_name_decides() {
    let mut plane = Plane::simple(&[1]);
    let label = |name: &str| HostPattern::OneLabel(HostName::new(name));
    assert!(!plane.state.published.load().streams.passes_any());
    assert_eq!(put(&mut plane, label("shop.example"), Some("web")), []);
    assert_eq!(put(&mut plane, exact("ended.shop.example"), None), []);
    let passed = Some("tls-shop-web-80".to_owned());
    assert_eq!(target(&plane, "any.shop.example"), passed);
    assert_eq!(target(&plane, "ended.shop.example"), None, "it is terminated");
    assert_eq!(target(&plane, "two.labels.shop.example"), None);
    assert_eq!(target(&plane, "shop.example"), None);
    assert_eq!(put(&mut plane, HostPattern::Any, Some("web")), []);
    assert_eq!(target(&plane, "other.example"), passed);
    assert_eq!(target(&plane, "a.example"), None, "a host of its own");
    let removals = [label("shop.example"), HostPattern::Any].map(|pattern| Change::Remove(host_key(pattern)));
    plane.apply(Delta { hosts: removals.into(), ..Delta::default() });
    assert_eq!(target(&plane, "any.shop.example"), None);
    assert!(!plane.state.published.load().streams.passes_any());
}

#[test]
fn a_target_without_its_pool_is_refused_and_terminates() {
    let mut plane = Plane::simple(&[1]);
    let [refusal] = &put(&mut plane, exact("b.example"), Some("unknown"))[..] else { panic!() };
    assert_eq!(refusal.code, Code::PartRefused);
    assert_eq!(target(&plane, "b.example"), None);
}

#[test]
fn series_of_a_target_go_with_the_last_listener_that_has_it() {
    let mut plane = Plane::simple(&[1]);
    let series = "sluice_streams_open{namespace=\"shop\",port=\"80\",protocol=\"tls\",service=\"web\"} 0";
    put(&mut plane, exact("b.example"), Some("web"));
    put(&mut plane, exact("c.example"), Some("web"));
    assert!(plane.metrics().contains(series), "{}", plane.metrics());
    put(&mut plane, exact("b.example"), None);
    assert!(plane.metrics().contains(series));
    put(&mut plane, exact("c.example"), None);
    assert!(!plane.metrics().contains(series));
}
