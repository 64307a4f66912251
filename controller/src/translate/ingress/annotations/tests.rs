//! What single annotations do.

use std::collections::HashSet;
use std::sync::Arc;

use sluice_config::{
    AffinityMode, CacheKeyPart, CertificateErrorPage, ClientCertificateMode, Code, NamespacedName, Severity,
    Timeout, UpstreamProtocol,
};

use super::*;
use crate::options::Options;
use crate::store::Ingress;
use crate::store::OWN_PREFIX;
use crate::translate::declarations::NO_DECLARATIONS;
use crate::translate::global_settings;
use crate::translate::setting::{self, AnnotationLimits, Risk};

fn ingress(annotations: &[(&str, &str)]) -> Ingress {
    let mut sorted: Vec<(Arc<str>, Box<str>)> =
        annotations.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    sorted.sort();
    Ingress {
        identity: Default::default(),
        name: NamespacedName::new("default", "shop"),
        created: None,
        class_name: None,
        class_annotation: None,
        annotations: sorted.into(),
        default_backend: None,
        tls: Arc::default(),
        rules: Box::default(),
        published: Default::default(),
    }
}

fn read(annotations: &[(&str, &str)]) -> Parsed {
    parse(&ingress(annotations), &Options::default(), &AnnotationLimits::default(), &NO_DECLARATIONS)
}

fn read_unvalidated(annotations: &[(&str, &str)]) -> Parsed {
    let options = Options { enable_annotation_validation: false, ..Options::default() };
    parse(&ingress(annotations), &options, &AnnotationLimits::default(), &NO_DECLARATIONS)
}

fn status(parsed: &Parsed) -> Option<u16> {
    match &parsed.treatment {
        Treatment::Close(deny) => Some(deny.status),
        Treatment::Serve => None,
        Treatment::Canary { .. } => panic!("a canary"),
    }
}

#[test]
fn all_annotations_are_there_once_with_words_for_people() {
    // Those of ingress-nginx: ours have their prefix.
    let theirs = || TABLE.entries().filter(|entry| !entry.name.contains('/'));
    assert_eq!(theirs().count(), 136);
    assert_eq!(theirs().flat_map(Setting::names).collect::<HashSet<_>>().len(), 136 + 2);
    let own: HashSet<_> =
        TABLE.entries().flat_map(Setting::names).filter(|name| name.contains('/')).collect();
    assert!(own.iter().all(|name| name.starts_with(OWN_PREFIX)), "{own:?}");
    assert_eq!(own.len(), TABLE.entries().count() - 136);
    let risks = |risk| theirs().filter(|entry| entry.risk == risk).count();
    assert_eq!(
        [risks(Risk::Low), risks(Risk::Medium), risks(Risk::High), risks(Risk::Critical)],
        [76, 45, 10, 5]
    );
    for entry in TABLE.entries() {
        assert!(entry.scope != setting::SettingScope::Global, "{}", entry.name);
        if let Some(key) = entry.fallback_key {
            assert!(
                global_settings::TABLE.get(key).is_some(),
                "{} falls back to {key}, which is no key",
                entry.name
            );
        }
    }
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
    assert_eq!(parsed.treatment, Treatment::Serve);
    let settings = parsed.settings;
    let cookie = settings.routes.affinity.unwrap().for_path("/cart").unwrap();
    assert_eq!((&*cookie.name, cookie.mode, &*cookie.path), ("route", AffinityMode::Persistent, "/cart"));
    assert_eq!(cookie.max_age, Some(-1));
    assert_eq!(settings.policies.timeouts.read, Timeout::After(std::time::Duration::from_secs(7)));
    assert_eq!(settings.policies.retry.timeout, Timeout::Off);
    assert_eq!(settings.policies.retry.on, Some(sluice_config::NextUpstream::default()));
    assert_eq!(settings.routes.protocol, Some(UpstreamProtocol::HttpsUnverified));
    assert_eq!(settings.policies.https_redirect.ssl, Some(false));
}

#[test]
fn a_bad_cookie_setting_is_ignored_with_a_problem() {
    for (name, value) in [
        ("affinity-mode", "sometimes"),
        ("session-cookie-path", "/; Domain=evil"),
        ("session-cookie-name", "a=b"),
        ("session-cookie-domain", "a b"),
        ("session-cookie-secure", "yes"),
        ("session-cookie-samesite", "loose"),
        ("session-cookie-expires", "1h"),
        ("session-cookie-max-age", "99999999999"),
        ("session-cookie-change-on-failure", "no"),
    ] {
        for read in [read, read_unvalidated] {
            let good = read(&[("affinity", "cookie")]);
            let parsed = read(&[("affinity", "cookie"), (name, value)]);
            assert_eq!(parsed.treatment, Treatment::Serve, "{name}");
            assert_eq!(parsed.settings, good.settings, "{name}");
            assert_eq!(parsed.problems.len(), 1, "{name}");
            assert_eq!(parsed.problems[0].severity, Severity::Warning, "{name}");
        }
    }
    assert_eq!(read(&[("affinity", "ip")]).settings.policies.affinity, None);
    assert_eq!(read(&[("affinity", "ip")]).treatment, Treatment::Serve);
}

#[test]
fn a_path_that_no_cookie_can_have_gives_the_cookie_the_root() {
    let affinity = read(&[("affinity", "cookie")]).settings.routes.affinity.unwrap();
    for path in ["/a;b", "/caf\u{e9}", "/a b", "/a,b"] {
        assert_eq!(&*affinity.for_path(path).unwrap().path, "/", "{path}");
    }
}

#[test]
fn a_condition_that_is_none_leaves_the_default_and_off_leaves_nothing() {
    let parsed = read(&[("proxy-next-upstream", "error http_599")]);
    assert_eq!((parsed.treatment, parsed.settings.policies.retry.on), (Treatment::Serve, None));
    assert!(parsed.problems[0].message.contains("http_599"), "{}", parsed.problems[0]);
    let off = read(&[("proxy-next-upstream", "off")]);
    assert_eq!(off.settings.policies.retry.on, Some(sluice_config::NextUpstream::default()));
}

#[test]
fn numbers_have_ranges_also_without_validation() {
    for (name, value) in [
        ("proxy-read-timeout", "2147483648"),
        ("proxy-connect-timeout", "0"),
        ("proxy-next-upstream-tries", "4294967295"),
        ("proxy-next-upstream-timeout", "18446744073709551615"),
        ("session-cookie-expires", "9223372036854775807"),
    ] {
        for read in [read, read_unvalidated] {
            let parsed = read(&[(name, value)]);
            assert_eq!(
                (parsed.treatment, &parsed.settings),
                (Treatment::Serve, &Settings::default()),
                "{name}"
            );
            let message = &parsed.problems[0].message;
            assert!(message.contains(" from ") && message.contains(" to "), "{name}: {message}");
        }
    }
    assert_eq!(status(&read(&[("limit-rps", "4294967296")])), Some(404));
    assert_eq!(status(&read_unvalidated(&[("limit-rps", "4294967296")])), Some(503));
}

#[test]
fn an_unreadable_protection_never_opens() {
    for (name, value, closed) in [
        ("auth-type", "bearer", 404),
        ("limit-rps", "ten", 404),
        ("permanent-redirect", "shop example", 404),
        ("upstream-vhost", "a b", 404),
        ("whitelist-source-range", "banana", 503),
        ("denylist-source-range", "10.0.0.0/33", 503),
    ] {
        assert_eq!(status(&read(&[(name, value)])), Some(closed), "{name}");
        assert_eq!(status(&read_unvalidated(&[(name, value)])), Some(503), "{name}");
    }
    assert_eq!(status(&read_unvalidated(&[("whitelist-source-range", "banana\n")])), Some(503));
    assert_eq!(status(&read(&[("auth-url", "http://auth.example/"), ("auth-method", "BREW")])), Some(503));
    assert_eq!(status(&read(&[("proxy-ssl-secret", "upstream"), ("proxy-ssl-verify", "true")])), Some(503));
    let both = [("limit-rps", "ten"), ("whitelist-source-range", "banana")];
    assert_eq!(status(&read(&both)), Some(404), "the graver one");
}

#[test]
fn a_value_that_ingress_nginx_reads_leniently_is_ignored_with_a_warning() {
    for (name, value) in [
        ("limit-rate", "1m"),
        ("limit-rate-after", "10k"),
        ("force-ssl-redirect", "no"),
        ("ssl-redirect", "maybe"),
        ("use-regex", "yes"),
        ("rewrite-target", "/$1?x=$2"),
        ("enable-access-log", "off"),
        ("disable-proxy-intercept-errors", "on"),
        ("enable-global-auth", "no"),
        ("limit-burst-multiplier", "2x"),
        ("proxy-cookie-path", "/one"),
        ("proxy-cookie-domain", "a b c"),
        ("proxy-redirect-from", "~("),
        ("custom-headers", "a b"),
        ("satisfy", "Any"),
        ("affinity", "Cookie"),
        ("affinity-mode", "Persistent"),
        ("proxy-read-timeout", "60s"),
        ("backend-protocol", "gopher"),
        ("default-backend", "Not_a_service"),
        ("upstream-hash-by", "a b"),
        ("custom-http-errors", "abc"),
    ] {
        let parsed = read(&[(name, value)]);
        assert_eq!(
            (&parsed.treatment, &parsed.settings),
            (&Treatment::Serve, &Settings::default()),
            "{name}"
        );
        assert_eq!(parsed.problems.len(), 1, "{name}: {:?}", parsed.problems);
        assert_eq!(parsed.problems[0].severity, Severity::Warning, "{name}");
        assert!(parsed.problems[0].field.ends_with(&format!("/{name}]")), "{}", parsed.problems[0]);
    }
}

#[test]
fn limits_that_are_not_positive_limit_nothing() {
    let parsed = read(&[("limit-rps", "-1"), ("limit-connections", "-1"), ("limit-rpm", "0")]);
    assert_eq!((parsed.treatment, &parsed.problems[..]), (Treatment::Serve, &[][..]));
    assert_eq!(parsed.settings.policies.limits, None);
    for (name, value) in
        [("auth-keepalive", "-1"), ("auth-keepalive-requests", "0"), ("auth-keepalive-timeout", "-5")]
    {
        let parsed = read(&[("auth-url", "http://auth.example/"), (name, value)]);
        assert_eq!((parsed.treatment, parsed.problems), (Treatment::Serve, vec![]), "{name}");
    }
}

#[test]
fn unreadable_settings_of_authorisation_leave_it_in_force() {
    for (name, value) in [
        ("auth-keepalive", "yes"),
        ("auth-keepalive-timeout", "60s"),
        ("auth-signin-redirect-param", "a b"),
        ("auth-signin", "https://a b"),
        ("auth-always-set-cookie", "no"),
        ("auth-cache-duration", "200 soon"),
        ("auth-response-headers", "X-User, Host, Connection"),
    ] {
        let parsed = read(&[("auth-url", "http://auth.example/"), (name, value)]);
        assert_eq!(parsed.treatment, Treatment::Serve, "{name}");
        assert!(parsed.settings.routes.external_auth.unwrap().url.is_some(), "{name}");
        assert_eq!(parsed.problems.len(), 1, "{name}: {:?}", parsed.problems);
        assert_eq!(parsed.problems[0].severity, Severity::Warning, "{name}");
    }
    let headers = |value| read(&[("auth-url", "http://auth.example/"), ("auth-response-headers", value)]);
    assert_eq!(status(&headers("X-User; X-Mail")), Some(503), "the client's own field would pass");
}

#[test]
fn an_annotation_without_its_main_one_means_nothing() {
    for (name, value) in [
        ("auth-secret", "other/users"),
        ("auth-secret-type", "file"),
        ("auth-realm", "a"),
        ("auth-method", "BREW"),
        ("auth-response-headers", "a;b"),
        ("auth-snippet", "deny all;"),
        ("auth-tls-match-cn", "CN=x"),
        ("proxy-ssl-verify", "on"),
        ("proxy-ssl-verify", "true"),
        ("proxy-ssl-verify-depth", "deep"),
        ("proxy-ssl-name", "a b"),
        ("proxy-ssl-protocols", "TLSv1.1"),
        ("proxy-ssl-ciphers", "RC4-MD5"),
        ("proxy-ssl-server-name", "yes"),
    ] {
        let parsed = read(&[(name, value)]);
        assert_eq!(parsed.treatment, Treatment::Serve, "{name} of {value}");
        assert!(
            parsed.problems.iter().all(|problem| problem.severity == Severity::Warning),
            "{name}: {:?}",
            parsed.problems
        );
        assert!(parsed.settings.needs.is_empty(), "{name} of {value}");
    }
}

#[test]
fn endpoint_tls_annotations_have_no_effect_without_their_secret() {
    let given = [
        ("proxy-ssl-name", "inner.example"),
        ("proxy-ssl-server-name", "on"),
        ("proxy-ssl-protocols", "TLSv1.3"),
        ("proxy-ssl-ciphers", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("proxy-ssl-verify-depth", "2"),
    ];
    let parsed = read(&given);
    assert_eq!((parsed.treatment, parsed.settings.policies.upstream_tls), (Treatment::Serve, None));
    let mut fields: Vec<_> = parsed.problems.iter().map(|problem| (problem.code, &*problem.field)).collect();
    let expected = given.map(|(name, _)| format!("metadata.annotations[nginx.ingress.kubernetes.io/{name}]"));
    fields.sort_by_key(|(_, field)| expected.iter().position(|known| known == field));
    assert_eq!(fields, expected.each_ref().map(|field| (Code::AnnotationWithoutEffect, &**field)));
    let defaults = read(&[("proxy-ssl-server-name", "off"), ("proxy-ssl-protocols", "TLSv1.2 TLSv1.3")]);
    assert_eq!((defaults.settings.policies.upstream_tls, defaults.problems), (None, vec![]));
    let parsed = read(&[&given[..], &[("proxy-ssl-secret", "default/ca")]].concat());
    let policy = parsed.settings.policies.upstream_tls.unwrap();
    assert_eq!((policy.name.as_deref(), policy.sends_name), (Some("inner.example"), true));
    assert_eq!(parsed.problems, []);
}

#[test]
fn depth_zero_to_endpoints_is_the_default() {
    let depth = |text| {
        let verified = [("proxy-ssl-secret", "default/ca"), ("proxy-ssl-verify", "on")];
        let parsed = read(&[&verified[..], &[("proxy-ssl-verify-depth", text)]].concat());
        parsed.settings.policies.upstream_tls.and_then(|policy| policy.verify_depth)
    };
    assert_eq!([depth("0"), depth("1"), depth("2")], [Some(1), Some(1), Some(2)]);
}

#[test]
fn unreadable_entries_of_a_list_are_skipped() {
    let parsed = read(&[("custom-http-errors", "404,abc, 503,200,308")]);
    assert_eq!(parsed.treatment, Treatment::Serve);
    assert_eq!(parsed.settings.policies.error_pages.statuses.as_deref(), Some(&[404, 503][..]));
    let message = &parsed.problems[0].message;
    assert!(message.contains("[\"abc\", \"200\", \"308\"] skipped"), "{message}");
    let networks = read(&[("whitelist-source-range", "10.0.0.0/8 192.0.2.0/24")]);
    assert_eq!(
        networks.settings.policies.sources.allow.map(|allow| allow.len()),
        Some(2),
        "blanks separate too"
    );
}

#[test]
fn settings_that_ingress_nginx_does_not_enforce_only_warn() {
    for annotations in [
        &[("ssl-passthrough", "true")][..],
        &[("enable-modsecurity", "true"), ("modsecurity-snippet", "SecRuleEngine DetectionOnly")],
    ] {
        let parsed = read(annotations);
        assert_eq!((&parsed.treatment, &parsed.closes_hosts), (&Treatment::Serve, &None), "{annotations:?}");
        assert!(!parsed.problems.is_empty(), "{annotations:?}");
        assert!(
            parsed.problems.iter().all(|problem| problem.severity == Severity::Warning),
            "{annotations:?}"
        );
    }
    let passthrough = Options { enable_ssl_passthrough: true, ..Options::default() };
    let parsed = parse(
        &ingress(&[("ssl-passthrough", "true")]),
        &passthrough,
        &AnnotationLimits::default(),
        &NO_DECLARATIONS,
    );
    assert_eq!((status(&parsed), parsed.problems.len()), (None, 0));
    assert!(parsed.settings.routes.passthrough);
    let firewall = read(&[("enable-modsecurity", "true"), ("modsecurity-snippet", "SecRuleEngine On")]);
    assert_eq!(status(&firewall), Some(503));
}

#[test]
fn known_annotations_that_are_not_implemented_fail_closed() {
    let parsed = read(&[("modsecurity-snippet", "SecRuleEngine On")]);
    assert_eq!(status(&parsed), Some(503));
    assert_eq!(parsed.problems[0].severity, Severity::Error);
    assert!(parsed.problems[0].field.ends_with("/modsecurity-snippet]"), "{}", parsed.problems[0]);
    for (name, value) in [("limit-rps", "0"), ("enable-cors", "false"), ("use-regex", "False")] {
        let parsed = read(&[(name, value)]);
        assert_eq!(
            (parsed.treatment, parsed.problems.len()),
            (Treatment::Serve, 0),
            "{name} asks for nothing"
        );
    }
    let harmless = read(&[("http2-push-preload", "true")]);
    assert_eq!(harmless.treatment, Treatment::Serve);
    assert!(harmless.problems.iter().all(|problem| problem.severity == Severity::Warning));
    assert_eq!(harmless.problems.len(), 1);
    assert_eq!(read(&[("canary", "true")]).treatment, Treatment::Canary { rejected: false });
    let parsed = read(&[("canary", "true"), ("ssl-redirect", "maybe"), ("canary-weight", "5")]);
    assert_eq!(parsed.treatment, Treatment::Canary { rejected: false }, "its settings of routes are ignored");
    assert_eq!(parsed.problems.len(), 1);
    assert_eq!(
        read(&[("canary", "yes"), ("canary-weight", "5")]).treatment,
        Treatment::Canary { rejected: true }
    );
    assert_eq!(read(&[("canary", "false")]).treatment, Treatment::Serve);
    assert_eq!(read(&[("canary-weight", "5")]).treatment, Treatment::Serve);
    let unclear = read(&[("canary", "maybe")]);
    assert_eq!((unclear.treatment, unclear.problems.len()), (Treatment::Canary { rejected: true }, 1));
}

#[test]
fn gates_reject_what_they_forbid() {
    // As docs/annotations.md states: annotations that are never applied answer 503.
    assert_eq!(status(&read(&[("configuration-snippet", "return 200;")])), Some(503));
    let annotation_limits = AnnotationLimits {
        risk: Risk::Low,
        blocked_words: vec!["evil".into()],
        ..AnnotationLimits::default()
    };
    let gated = |name, value| {
        status(&parse(&ingress(&[(name, value)]), &Options::default(), &annotation_limits, &NO_DECLARATIONS))
    };
    assert_eq!(gated("affinity-mode", "balanced"), Some(404));
    assert_eq!(gated("affinity", "cookie"), None);
    assert_eq!(gated("session-cookie-samesite", "evil"), Some(404));
}

#[test]
fn an_unknown_annotation_is_named_with_the_nearest_known_one() {
    let parsed = read(&[("ssl-redirct", "true")]);
    assert_eq!(parsed.treatment, Treatment::Serve);
    assert_eq!(parsed.problems[0].remedy, "did you mean nginx.ingress.kubernetes.io/ssl-redirect?");
    assert!(!read(&[("completely-else", "1")]).problems[0].remedy.contains("did you mean"));
}

#[test]
fn the_newer_name_wins_over_its_alias() {
    let parsed = read(&[("whitelist-source-range", "10.0.0.0/8"), ("allowlist-source-range", "::/0")]);
    assert_eq!(parsed.problems.len(), 1);
    assert_eq!(parsed.settings.policies.sources.allow.unwrap()[0].prefix, 0);
    assert!(parsed.problems.iter().any(|problem| problem.field.contains("whitelist")
        && problem.message.contains("allowlist-source-range is given too")));
}

#[test]
fn how_to_fix_a_protection_while_snippets_are_off_never_opens_the_route() {
    const CAUTION: &str = "remove the snippet only when the routes may be served without it";
    let parsed = read(&[("modsecurity-snippet", "SecRuleEngine On")]);
    assert!(parsed.problems[0].remedy.ends_with(CAUTION), "{}", parsed.problems[0]);
    // Rules that may enforce nothing are ignored.
    let parsed = read(&[("modsecurity-snippet", "SecRule ARGS evil deny")]);
    let problem = &parsed.problems[0];
    assert!(problem.remedy.ends_with(CAUTION) && problem.message.contains("is not true"), "{problem}");
    let strict = AnnotationLimits { risk: Risk::Low, ..AnnotationLimits::default() };
    let snippet = ingress(&[("modsecurity-snippet", "SecRuleEngine On")]);
    let parsed = parse(&snippet, &Options::default(), &strict, &NO_DECLARATIONS);
    assert!(parsed.problems[0].remedy.ends_with(CAUTION), "{}", parsed.problems[0]);
}

#[test]
fn every_rejecting_problem_states_the_rejection() {
    let annotation_limits = AnnotationLimits {
        risk: Risk::Low,
        blocked_words: vec!["evil".into()],
        ..AnnotationLimits::default()
    };
    for (name, value) in
        [("affinity-mode", "balanced"), ("session-cookie-samesite", "evil"), ("limit-rps", "banana")]
    {
        let parsed =
            parse(&ingress(&[(name, value)]), &Options::default(), &annotation_limits, &NO_DECLARATIONS);
        assert_eq!(status(&parsed), Some(404), "{name}");
        let message = &parsed.problems[0].message;
        assert!(
            message.ends_with("the Ingress is rejected, and all its routes answer 404"),
            "{name}: {message}"
        );
    }
}

#[test]
fn a_refused_value_of_a_megabyte_is_cut_wherever_it_is_shown() {
    let parsed = read(&[("limit-rps", &format!("a\n{}", "b".repeat(1 << 20)))]);
    let Treatment::Close(deny) = parsed.treatment else { panic!("{:?}", parsed.treatment) };
    assert!(deny.reason.len() < 2000 && !deny.reason.contains('\n'), "{}", deny.reason);
    assert!(parsed.problems[0].message.len() < 2000, "{}", parsed.problems[0]);
    assert!(parsed.problems[0].message.ends_with("all its routes answer 404"), "{}", parsed.problems[0]);
}

#[test]
fn an_empty_annotation_counts_as_absent_with_a_report_for_protections() {
    let parsed = read(&[("use-regex", ""), ("canary", " "), ("force-ssl-redirect", "")]);
    assert_eq!((parsed.treatment, parsed.problems), (Treatment::Serve, vec![]));
    for name in ["auth-url", "auth-type", "auth-tls-match-cn"] {
        let parsed = read(&[(name, "")]);
        assert_eq!((parsed.treatment, parsed.settings), (Treatment::Serve, Settings::default()), "{name}");
        assert!(parsed.problems[0].message.contains("protects nothing"), "{}", parsed.problems[0]);
    }
    assert_eq!(status(&read(&[("auth-type", "basic"), ("auth-secret", "")])), Some(503));
}

#[test]
fn an_empty_address_list_closes_the_route_but_not_its_older_name() {
    let (list, older) = ("allowlist-source-range", "whitelist-source-range");
    let closing: [&[(&str, &str)]; 7] = [
        &[(list, "")],
        &[(list, " ")],
        &[("denylist-source-range", "")],
        &[(list, ""), (older, "")],
        &[(list, " "), (older, "10.0.0.0/8")],
        &[(list, ""), (older, " ")],
        &[(older, " ")],
    ];
    for annotations in closing {
        let parsed = read(annotations);
        assert_eq!((status(&parsed), parsed.problems.len()), (Some(503), 1), "{annotations:?}");
    }
    let parsed = read(&[(older, "")]);
    assert_eq!((status(&parsed), parsed.settings), (None, Settings::default()));
    assert!(parsed.problems[0].message.contains("protects nothing"), "{}", parsed.problems[0]);
    let parsed = read(&[(list, ""), (older, "10.0.0.0/8")]);
    assert_eq!((status(&parsed), parsed.problems.len()), (None, 0));
    assert_eq!(parsed.settings.policies.sources.allow.map(|allow| allow.len()), Some(1));
}

#[test]
fn client_certificates_are_read_as_ingress_nginx_reads_them() {
    let client = |annotations: &[(&str, &str)]| {
        let all = [&[("auth-tls-secret", "default/ca")], annotations].concat();
        let parsed = read(&all);
        (parsed.settings.routes.client_certificates.clone().unwrap(), status(&parsed), parsed.problems.len())
    };
    let (plain, closed, problems) = client(&[]);
    assert_eq!((plain.mode, plain.verification.depth), (ClientCertificateMode::Required, 1));
    assert_eq!((closed, problems), (None, 0));
    assert_eq!(plain.verification.authorities.name.to_string(), "default/ca");
    for (name, value) in [
        ("auth-tls-verify-client", "Off"),
        ("auth-tls-verify-client", "sometimes"),
        ("auth-tls-verify-depth", "deep"),
        ("auth-tls-error-page", "@denied"),
        ("auth-tls-pass-certificate-to-upstream", "yes"),
    ] {
        let (policy, closed, problems) = client(&[(name, value)]);
        assert_eq!((policy, closed, problems), (plain.clone(), None, 1), "{name}: {value}");
    }
    let page = client(&[("auth-tls-error-page", "/denied")]);
    assert_eq!(page.0.error_page, Some(CertificateErrorPage::Path("/denied".into())));
    assert_eq!((page.1, page.2), (None, 0));
    assert_eq!(client(&[("auth-tls-verify-depth", "0")]).0.verification.depth, 1);
    assert_eq!(client(&[("auth-tls-verify-client", "off")]).0.mode, ClientCertificateMode::Off);
    for value in ["client", "CN=("] {
        let parsed = read(&[("auth-tls-secret", "ca"), ("auth-tls-match-cn", value)]);
        assert_eq!(status(&parsed), Some(503), "{value}");
        assert!(parsed.closes_hosts.is_some(), "{value}: others of the host would lose the check");
    }
    let foreign = read(&[("auth-tls-secret", "other/ca")]);
    assert!(status(&foreign) == Some(503) && foreign.closes_hosts.is_some());
}

#[test]
fn an_unreadable_part_of_the_cache_stores_nothing() {
    let on = ("sluice.dev/cache", "true");
    let cache = |more: &[(&str, &str)]| read(&[&[on], more].concat()).settings.policies.cache;
    assert_eq!(cache(&[]).as_deref(), Some(&sluice_config::Cache::default()));
    let all = cache(&[
        ("sluice.dev/cache-ttl", "1m"),
        ("sluice.dev/cache-key", "path, query:page,header:X-Team,cookie:theme"),
        ("sluice.dev/cache-methods", "GET"),
        ("sluice.dev/cache-statuses", "200, 404"),
        ("sluice.dev/cache-stale-while-revalidate", "5s"),
        ("sluice.dev/cache-stale-if-error", "1h"),
    ]);
    let seconds = std::time::Duration::from_secs;
    assert_eq!(
        all.as_deref(),
        Some(&sluice_config::Cache {
            ttl: Some(seconds(60)),
            key: [
                CacheKeyPart::Path,
                CacheKeyPart::Parameter("page".into()),
                CacheKeyPart::Field("x-team".into()),
                CacheKeyPart::Cookie("theme".into()),
            ]
            .into(),
            head: false,
            statuses: [200, 404].into(),
            stale_while_revalidate: seconds(5),
            stale_if_error: seconds(3600),
        })
    );
    for (name, value) in [
        ("sluice.dev/cache-ttl", "soon"),
        ("sluice.dev/cache-key", "path,user"),
        ("sluice.dev/cache-key", "query:"),
        ("sluice.dev/cache-key", "header:a b"),
        ("sluice.dev/cache-key", ","),
        ("sluice.dev/cache-methods", "HEAD"),
        ("sluice.dev/cache-methods", "GET,POST"),
        ("sluice.dev/cache-statuses", "206"),
        ("sluice.dev/cache-statuses", "20x"),
        ("sluice.dev/cache-stale-if-error", "-1s"),
    ] {
        let parsed = read(&[on, (name, value)]);
        assert_eq!(parsed.settings.policies.cache, None, "{name}: {value}");
        assert_eq!((parsed.problems.len(), status(&parsed)), (1, None), "{name}: {value}");
        assert!(parsed.problems[0].message.contains("nothing is stored"), "{}", parsed.problems[0].message);
    }
    let alone = read(&[("sluice.dev/cache-ttl", "1m")]);
    assert_eq!((alone.settings.policies.cache, alone.problems.len()), (None, 1));
    assert!(
        alone.problems[0].message.ends_with("no effect without sluice.dev/cache"),
        "{}",
        alone.problems[0]
    );
    let fastcgi = read(&[on, ("backend-protocol", "FCGI")]);
    assert!(fastcgi.settings.policies.cache.is_none() && fastcgi.problems[0].message.contains("FCGI"));
}
