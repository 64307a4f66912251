//! What single annotations do.

use std::sync::Arc;

use sluice_config::{AffinityMode, NamespacedName, Severity, Timeout};

use super::*;
use crate::translate::tuning;

fn ingress(annotations: &[(&str, &str)]) -> Ingress {
    let mut sorted: Vec<(Arc<str>, Box<str>)> =
        annotations.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    sorted.sort();
    Ingress {
        name: NamespacedName::new("default", "shop"),
        created: None,
        class_name: None,
        class_annotation: None,
        annotations: sorted.into(),
        default_backend: None,
        tls: Box::default(),
        rules: Box::default(),
    }
}

fn read(annotations: &[(&str, &str)]) -> Parsed {
    parse(&ingress(annotations), "nginx.ingress.kubernetes.io", true, &Gates::default())
}

fn read_unvalidated(annotations: &[(&str, &str)]) -> Parsed {
    parse(&ingress(annotations), "nginx.ingress.kubernetes.io", false, &Gates::default())
}

#[test]
fn all_annotations_are_there_once_with_words_for_people() {
    let names: Vec<&str> = setting::entries(FAMILIES).map(|entry| entry.name).collect();
    assert_eq!(names.len(), 136);
    assert_eq!(BY_NAME.len(), 136 + 2, "names and aliases are unique");
    let risks = |risk| setting::entries(FAMILIES).filter(|entry| entry.risk == risk).count();
    assert_eq!(
        [risks(Risk::Low), risks(Risk::Medium), risks(Risk::High), risks(Risk::Critical)],
        [76, 45, 10, 5]
    );
    let table = markdown_table();
    for entry in setting::entries(FAMILIES) {
        assert!(entry.doc.ends_with('.'), "{}", entry.name);
        assert!(table.contains(&format!("`{}`", entry.name)), "{}", entry.name);
        assert!(entry.scope != setting::Scope::Global, "{}", entry.name);
        if let Some(key) = entry.fallback {
            let known = setting::entries(tuning::FAMILIES).any(|other| other.name == key);
            assert!(known, "{} falls back to {key}, which is no key", entry.name);
        }
        if !entry.default.is_empty() {
            assert!(entry.value.check(entry.default).is_ok(), "default of {}", entry.name);
        }
    }
    assert_eq!(table.lines().count(), 136 + 2);
}

#[test]
fn served_annotations_are_typed() {
    let parsed = read(&[
        ("affinity", "cookie"),
        ("affinity-mode", "persistent"),
        ("session-cookie-name", "route"),
        ("session-cookie-max-age", "-1"),
        ("session-cookie-samesite", "lax"),
        ("proxy-read-timeout", "7"),
        ("proxy-next-upstream", "off"),
        ("proxy-next-upstream-timeout", "0"),
        ("backend-protocol", "https"),
        ("ssl-redirect", "F"),
    ]);
    assert_eq!(parsed.problems, []);
    assert_eq!(parsed.verdict, Verdict::Serve);
    let settings = parsed.settings;
    let cookie = settings.affinity.for_path("/cart").unwrap();
    assert_eq!((&*cookie.name, cookie.mode, &*cookie.path), ("route", AffinityMode::Persistent, "/cart"));
    assert_eq!(cookie.max_age, Some(-1));
    assert_eq!(settings.timeouts.read, Timeout::After(std::time::Duration::from_secs(7)));
    assert_eq!(settings.retry.timeout, Timeout::Off);
    assert_eq!(settings.retry.on, Some(sluice_config::NextUpstream::default()));
    assert_eq!(settings.protocol, UpstreamProtocol::HttpsUnverified);
    assert_eq!(settings.https_redirect.ssl, Some(false));
}

#[test]
fn a_cookie_path_that_would_inject_an_attribute_drops_the_ingress() {
    assert_eq!(read(&[("session-cookie-path", "/; Domain=evil")]).verdict, Verdict::Drop);
    assert_eq!(read(&[("session-cookie-name", "a=b")]).verdict, Verdict::Drop);
}

#[test]
fn invalid_values_never_open() {
    assert_eq!(read(&[("force-ssl-redirect", "banana")]).verdict, Verdict::Drop);
    assert!(matches!(read_unvalidated(&[("force-ssl-redirect", "banana")]).verdict, Verdict::Deny(_)));
    assert!(matches!(read_unvalidated(&[("whitelist-source-range", "banana\n")]).verdict, Verdict::Deny(_)));
    let parsed = read(&[("proxy-read-timeout", "60s")]);
    assert_eq!(parsed.verdict, Verdict::Serve);
    assert_eq!(parsed.settings.timeouts.read, Timeout::Inherit);
    assert_eq!(parsed.problems[0].severity, Severity::Error);
    assert_eq!(read(&[("backend-protocol", "gopher")]).settings.protocol, UpstreamProtocol::Http);
}

#[test]
fn known_annotations_that_are_not_implemented_fail_closed() {
    for (name, value) in [
        ("whitelist-source-range", "10.0.0.0/8"),
        ("auth-url", "http://auth"),
        ("limit-rps", "5"),
        ("auth-tls-secret", "default/ca"),
        ("rewrite-target", "/$1"),
        ("backend-protocol", "GRPC"),
    ] {
        let parsed = read(&[(name, value)]);
        assert!(matches!(parsed.verdict, Verdict::Deny(_)), "{name}");
        assert_eq!(parsed.problems[0].severity, Severity::Error, "{name}");
        assert!(parsed.problems[0].field.ends_with(&format!("/{name}]")), "{}", parsed.problems[0]);
    }
    for (name, value) in [("limit-rps", "0"), ("enable-cors", "false"), ("use-regex", "False")] {
        let parsed = read(&[(name, value)]);
        assert_eq!((parsed.verdict, parsed.problems.len()), (Verdict::Serve, 0), "{name} asks for nothing");
    }
    let harmless = read(&[("enable-access-log", "false"), ("proxy-buffering", "on")]);
    assert_eq!(harmless.verdict, Verdict::Serve);
    assert!(harmless.problems.iter().all(|problem| problem.severity == Severity::Warning));
    assert_eq!(harmless.problems.len(), 2);
    assert_eq!(read(&[("canary", "true")]).verdict, Verdict::Drop);
}

#[test]
fn gates_drop_what_they_forbid() {
    assert_eq!(read(&[("configuration-snippet", "return 200;")]).verdict, Verdict::Drop);
    let gates = Gates { risk: Risk::Low, blocked_words: vec!["evil".into()], ..Gates::default() };
    let gated = |name, value| parse(&ingress(&[(name, value)]), "p", true, &gates).verdict;
    assert_eq!(gated("affinity-mode", "balanced"), Verdict::Drop);
    assert_eq!(gated("affinity", "cookie"), Verdict::Serve);
    assert_eq!(gated("session-cookie-samesite", "evil"), Verdict::Drop);
}

#[test]
fn an_unknown_annotation_is_named_with_the_nearest_known_one() {
    let parsed = read(&[("ssl-redirct", "true")]);
    assert_eq!(parsed.verdict, Verdict::Serve);
    assert_eq!(parsed.problems[0].remedy, "did you mean nginx.ingress.kubernetes.io/ssl-redirect?");
    assert!(!read(&[("completely-else", "1")]).problems[0].remedy.contains("did you mean"));
}

#[test]
fn the_newer_name_wins_over_its_alias() {
    let parsed = read(&[("whitelist-source-range", "10.0.0.0/8"), ("allowlist-source-range", "::/0")]);
    assert_eq!(parsed.problems.len(), 2);
    assert!(parsed.problems.iter().any(|problem| problem.field.contains("whitelist")
        && problem.message.contains("allowlist-source-range is given too")));
}

#[test]
fn how_to_fix_a_protection_that_is_not_served_never_opens_the_route() {
    for (name, value) in
        [("whitelist-source-range", "10.0.0.0/8"), ("auth-url", "http://auth"), ("limit-rps", "5")]
    {
        let parsed = read(&[(name, value)]);
        let remedy = &parsed.problems[0].remedy;
        assert!(
            remedy.starts_with("leave it until") && remedy.contains("open to everybody"),
            "{name}: {remedy}"
        );
    }
    let strict = Gates { risk: Risk::Low, ..Gates::default() };
    let parsed = parse(&ingress(&[("auth-url", "http://auth")]), "p", true, &strict);
    assert!(parsed.problems[0].remedy.starts_with("leave it until"), "{}", parsed.problems[0]);
}

#[test]
fn every_problem_that_leaves_the_ingress_out_says_so() {
    let gates = Gates { risk: Risk::Low, blocked_words: vec!["evil".into()], ..Gates::default() };
    for (name, value) in [
        ("affinity-mode", "balanced"),
        ("session-cookie-samesite", "evil"),
        ("force-ssl-redirect", "banana"),
        ("canary", "true"),
    ] {
        let parsed = parse(&ingress(&[(name, value)]), "p", true, &gates);
        assert_eq!(parsed.verdict, Verdict::Drop, "{name}");
        let message = &parsed.problems[0].message;
        assert!(message.ends_with("the Ingress is left out and its routes answer 404"), "{name}: {message}");
    }
}
