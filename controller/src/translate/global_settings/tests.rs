//! What single keys do.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use sluice_config::{
    GlobalSettings, HeaderBuffers, LogEscape, LogFilter, LogFormat, LogOutput, NamespacedName, Network,
    Problem, SampledShare, Severity, StatusRange, TemplatePiece, TrustedPeers, Variable,
};

use super::*;
use crate::store::{ConfigMap, DataFields};
use crate::translate::setting::Risk;

fn map(data: &[(&str, &str)]) -> ConfigMap {
    let mut sorted: Vec<(Box<str>, Box<str>)> =
        data.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    sorted.sort();
    ConfigMap {
        identity: Default::default(),
        name: NamespacedName::new("ingress-nginx", "controller"),
        fields: DataFields::All,
        data: sorted.into(),
    }
}

fn read(data: &[(&str, &str)]) -> (ConfigMapSettings, Vec<Problem>) {
    super::read(Some(&map(data)))
}

#[test]
fn all_keys_are_there_once() {
    assert_eq!(TABLE.entries().count(), 192 + 27);
    assert_eq!(TABLE.entries().flat_map(Setting::names).collect::<HashSet<_>>().len(), 192 + 27);
}

#[test]
fn the_defaults_in_the_table_are_those_of_the_program() {
    let defaults: Vec<(&str, &str)> = TABLE
        .entries()
        .filter(|entry| !entry.default.is_empty())
        .map(|entry| (entry.name, entry.default))
        .collect();
    let (settings, problems) = read(&defaults);
    assert_eq!(problems, []);
    assert_eq!(settings, read(&[]).0);
    assert_eq!(settings.global, GlobalSettings::default());
}

#[test]
fn served_keys_are_typed() {
    let (settings, problems) = read(&[
        ("keep-alive", "0"),
        ("hsts-preload", "true"),
        ("worker-shutdown-timeout", "10s"),
        ("large-client-header-buffers", "2 16k"),
        ("enable-underscores-in-headers", "true"),
        ("ignore-invalid-headers", "false"),
        ("retry-non-idempotent", "true"),
        ("disable-access-log", "true"),
        ("http-redirect-code", "301"),
        ("no-tls-redirect-locations", "/a, /b"),
        ("bind-address", "127.0.0.1,[::1]"),
        ("disable-ipv6", "true"),
    ]);
    assert_eq!(problems, []);
    let global = settings.global;
    assert_eq!(global.keep_alive, Duration::ZERO);
    assert!(global.hsts.unwrap().preload);
    assert_eq!(global.worker_shutdown_timeout, Duration::from_secs(10));
    assert_eq!(global.large_client_header_buffers, HeaderBuffers { count: 2, size: 16 << 10 });
    assert!(global.underscores_in_headers && !global.ignore_invalid_headers);
    assert!(global.retry_non_idempotent && !global.next_upstream.non_idempotent);
    assert!(!global.access_log.enabled);
    assert_eq!(global.http_redirect_code, 301);
    assert_eq!(global.no_tls_redirect_locations.len(), 2);
    assert_eq!(settings.addresses, [IpAddr::from([127, 0, 0, 1])]);
    let alone = read(&[("bind-address", "[::1]"), ("disable-ipv6", "true")]).0;
    assert_eq!(alone.addresses.len(), 1, "a gateway without a listener serves no client");
    assert_eq!(read(&[("hsts", "false")]).0.global.hsts, None);
}

#[test]
fn an_unreadable_value_means_the_default_whatever_was_read_before() {
    let (settings, problems) = read(&[("proxy-read-timeout", "7s")]);
    assert_eq!(settings.global.proxy_read_timeout.as_secs(), 60);
    assert_eq!(
        problems[0].to_string(),
        "error: ConfigMap ingress-nginx/controller: data[proxy-read-timeout]: the value \"7s\" must be whole \
         seconds from 1 to 2147483647, without a unit; the default \"60\" is in force; correct the value [KeyInvalid]"
    );
}

#[test]
fn an_unreadable_risk_level_is_the_lowest() {
    let (settings, problems) = read(&[("annotations-risk-level", "Lowest")]);
    assert_eq!(settings.annotation_limits.risk, Risk::Low);
    assert!(problems[0].message.contains("Low is in force"), "{}", problems[0]);
    assert_eq!(read(&[("annotations-risk-level", "high")]).0.annotation_limits.risk, Risk::High);
}

#[test]
fn an_empty_key_is_read_as_ingress_nginx_reads_it() {
    let empty = |key: &str| read(&[(key, "")]);
    let (settings, problems) = empty("proxy-real-ip-cidr");
    assert_eq!(settings.global.forwarded.peers, TrustedPeers::These(Arc::default()));
    assert!(problems[0].message.contains("no peer is trusted"), "{}", problems[0]);
    for (key, of) in [
        ("no-auth-locations", (|global| global.no_auth_locations.len()) as fn(&GlobalSettings) -> usize),
        ("no-tls-redirect-locations", |global| global.no_tls_redirect_locations.len()),
        ("nginx-status-ipv4-whitelist", |global| global.status_readers[0].len()),
    ] {
        let (settings, problems) = empty(key);
        assert_eq!((of(&settings.global), problems.len()), (0, 0), "{key}");
        assert_ne!(of(&GlobalSettings::default()), 0, "{key}");
    }
    let (settings, problems) = empty("annotations-risk-level");
    assert_eq!(settings.annotation_limits.risk, Risk::Low);
    assert_eq!(
        problems[0].to_string(),
        "warning: ConfigMap ingress-nginx/controller: data[annotations-risk-level]: is empty, which means \
         \"Low\", as in ingress-nginx; give it a value, or remove the key [KeyInvalid]"
    );
    for (key, of) in [
        ("hsts", (|global| global.hsts.is_some()) as fn(&GlobalSettings) -> bool),
        ("ssl-redirect", |global| global.ssl_redirect),
        ("use-http2", |global| global.use_http2),
    ] {
        let (settings, problems) = empty(key);
        assert_eq!((of(&settings.global), problems.len()), (false, 1), "{key}");
        // Go reads no boolean in a blank.
        let (settings, problems) = read(&[(key, " ")]);
        assert_eq!((of(&settings.global), problems.len()), (true, 1), "{key}");
    }
    for (key, count) in [("keep-alive", 1), ("use-gzip", 0), ("block-cidrs", 0), ("reuse-port", 0)] {
        let (settings, problems) = empty(key);
        assert_eq!((settings, problems.len()), (read(&[]).0, count), "{key}");
    }
}

/// A YAML block of nothing, such as `|` with an empty template, is one line feed.
#[test]
fn a_blank_list_of_clients_in_the_configmap_closes_the_routes() {
    let keys = ["whitelist-source-range", "denylist-source-range", "block-cidrs", "block-user-agents"];
    for key in keys.into_iter().chain(["block-referers", "global-auth-url"]) {
        for blank in [" ", "\n", "\t\n "] {
            let (settings, problems) = read(&[(key, blank)]);
            assert!(settings.closed.is_some(), "{key} of {blank:?}");
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(problems[0].message.contains("all routes answer 503"), "{}", problems[0]);
        }
        assert_eq!(read(&[(key, "")]), read(&[]), "{key}");
    }
    assert_eq!(read(&[("skip-access-log-urls", "\n")]), read(&[]));
}

/// As the value of a YAML block, whose last line feed is part of it.
#[test]
fn a_location_before_a_line_feed_is_not_exempt() {
    for (key, of) in [
        ("no-auth-locations", (|global| &global.no_auth_locations) as fn(&GlobalSettings) -> &Vec<Arc<str>>),
        ("no-tls-redirect-locations", |global| &global.no_tls_redirect_locations),
    ] {
        for text in ["/pub\n", "/a,\n/pub", "\n/pub", "/a\r\n,/pub", "\n"] {
            let (settings, problems) = read(&[(key, text)]);
            assert_eq!((of(&settings.global).len(), problems.len()), (0, 1), "{key} of {text:?}");
            assert!(problems[0].message.contains("no rule is exempt"), "{}", problems[0]);
        }
        // ingress-nginx trims nothing but blanks.
        let (settings, problems) = read(&[(key, " /a , /pub\t,")]);
        assert_eq!((of(&settings.global).join("|"), problems.len()), ("/a|/pub\t".to_owned(), 0), "{key}");
    }
}

#[test]
fn a_key_of_another_case_is_read_where_ingress_nginx_reads_it() {
    let (settings, problems) = read(&[("Force-SSL-Redirect", "true"), ("BLOCK-CIDRS", "10.0.0.0/8")]);
    assert!(settings.global.force_ssl_redirect && problems.is_empty(), "{problems:?}");
    assert_eq!(settings.global.blocks.networks.len(), 1);
    let (settings, problems) = read(&[("Global-Auth-URL", "http://auth.example/")]);
    assert_eq!(settings, read(&[]).0);
    assert_eq!(problems[0].remedy, "did you mean global-auth-url?");
    // The exact name takes precedence.
    let (settings, problems) = read(&[("Keep-Alive", "1"), ("keep-alive", "2"), ("KEEP-ALIVE", "3")]);
    assert_eq!((settings.global.keep_alive.as_secs(), problems.len()), (2, 2));
    assert!(problems[0].message.contains("is ignored, because keep-alive is given too"), "{}", problems[0]);
    let (settings, problems) = read(&[("Keep-Alive", "1"), ("KEEP-ALIVE", "3")]);
    assert_eq!((settings.global.keep_alive.as_secs(), problems.len()), (3, 1), "the first in order");
}

#[test]
fn a_secret_value_that_cannot_be_read_is_not_repeated() {
    let (_, problems) = read(&[("ssl-session-ticket-key", "c2VjcmV0")]);
    let text = problems[0].to_string();
    assert!(text.contains("the value must be base64 of 48 or 80 bytes"), "{text}");
    assert!(!text.contains("c2VjcmV0"), "{text}");
}

#[test]
fn a_key_that_protects_everything_closes_everything() {
    for (key, value) in [
        ("whitelist-source-range", "10.0.0.0/33"),
        ("denylist-source-range", "banana"),
        ("denylist-source-range", "10.0.0.0/8, banana"),
        ("block-cidrs", ","),
        ("block-user-agents", "~("),
        ("block-referers", "~(?C1)y"),
        ("global-auth-url", "auth.example"),
    ] {
        let (settings, problems) = read(&[(key, value)]);
        assert!(settings.closed.is_some(), "{key}");
        assert_eq!(problems[0].severity, Severity::Error);
        assert!(
            problems[0].message.ends_with("all routes answer 503 until it is corrected"),
            "{}",
            problems[0]
        );
    }
    let (settings, problems) = read(&[("whitelist-source-range", "10.0.0.0/8")]);
    assert_eq!((settings.closed, problems.len()), (None, 0));
    assert_eq!(read(&[("use-gzip", "true")]).0.closed, None);
}

#[test]
fn unreadable_entries_of_an_allow_list_allow_no_client() {
    let (settings, problems) = read(&[("whitelist-source-range", "10.0.0.0/8, lb.example 192.0.2.1")]);
    assert_eq!((settings.closed, settings.global.sources.allow.map(|allow| allow.len())), (None, Some(2)));
    assert!(problems[0].message.contains("[\"lb.example\"] skipped"), "{}", problems[0]);
    let (settings, problems) = read(&[("custom-http-errors", "404, 299,x")]);
    assert_eq!((&*settings.global.custom_http_errors, problems.len()), (&[404][..], 1));
}

#[test]
fn one_bad_name_among_hidden_fields_shows_none_of_the_others() {
    let (settings, problems) = read(&[("hide-headers", "X-Powered-By, X(y), X-Internal")]);
    let hidden: Vec<_> = settings.global.hidden_headers.iter().map(|name| &**name).collect();
    assert_eq!(hidden, ["X-Powered-By", "X-Internal"]);
    assert!(problems[0].message.contains("[\"X(y)\"] skipped"), "{}", problems[0]);
}

#[test]
fn an_untranslated_snippet_that_restricts_access_closes_everything() {
    for (key, value) in [
        ("location-snippet", "allow 10.0.0.0/8; deny all; gzip on;"),
        ("server-snippet", "location /actuator { deny all; gzip on; }"),
        ("http-snippet", "limit_req zone=one;"),
        ("server-snippet", "if ($none ~ bot) { return 403; }"),
    ] {
        let (settings, problems) = read(&[(key, value)]);
        assert!(settings.closed.is_some(), "{key}");
        assert!(problems[0].message.contains("all routes answer 503"), "{}", problems[0]);
    }
    for (key, value) in [
        ("http-snippet", "upstream shop { server shop; }"),
        ("server-snippet", "charset utf-8;"),
        ("location-snippet", "more_set_headers -a \"X-A: deny all;\";"),
    ] {
        let (settings, problems) = read(&[(key, value)]);
        assert_eq!((settings.closed, problems.len()), (None, 1), "{key}");
    }
    for (key, value) in [
        ("http-snippet", "limit_req_zone $binary_remote_addr zone=one:10m rate=5r/s;"),
        ("http-snippet", "map $host $name { default a; }"),
        ("location-snippet", "allow 10.0.0.0/8; deny all;"),
        ("server-snippet", "location /actuator { deny all; }"),
        (
            "http-snippet",
            "server { listen 2443; location /actuator { deny all; } return 308 https://$host$request_uri; }",
        ),
    ] {
        let (settings, problems) = read(&[(key, value)]);
        assert_eq!((settings.closed, &*problems), (None, &[][..]), "{key}");
        assert_eq!(settings.snippets.translations().count(), 1, "{key}");
    }
}

#[test]
fn keys_of_a_firewall_close_nothing_by_themselves() {
    let enabled = ("enable-modsecurity", "true");
    for data in [
        &[enabled][..],
        &[enabled, ("enable-owasp-modsecurity-crs", "true")],
        &[enabled, ("modsecurity-snippet", "SecRuleEngine DetectionOnly")],
        &[("modsecurity-snippet", "SecRuleEngine On")],
        &[enabled, ("modsecurity-snippet", "SecRuleEngine On")],
    ] {
        let (settings, problems) = read(data);
        assert_eq!(settings.closed, None, "{data:?}");
        assert!(problems.iter().all(|problem| problem.severity == Severity::Warning), "{data:?}");
    }
}

#[test]
fn unreadable_peers_are_not_trusted() {
    let peers = |text: &str| {
        let (settings, problems) = read(&[("use-forwarded-headers", "true"), ("proxy-real-ip-cidr", text)]);
        (settings.global.forwarded.peers, problems)
    };
    let lan = Network { address: "10.0.0.0".parse().unwrap(), prefix: 8 };
    assert_eq!(peers("10.0.0.0/8").0, TrustedPeers::These([lan].into()));
    assert_eq!(peers("10.0.0.0/8, 0.0.0.0/0").0, TrustedPeers::Any);
    for bad in ["10.0.0.0/8, lb.example", "unix:", ","] {
        let (peers, problems) = peers(bad);
        assert_eq!(peers, TrustedPeers::These(Arc::default()), "{bad}");
        assert!(problems[0].message.contains("no peer is trusted"), "{}", problems[0]);
    }
}

#[test]
fn a_preset_is_the_format_unless_log_format_upstream_is_set() {
    let preset = ("log-format-preset", "json");
    let (settings, problems) = read(&[preset]);
    let json = settings.global.access_log.format;
    assert_eq!((json.escape, problems.len()), (LogEscape::Json, 0));
    assert!(json.pieces.contains(&TemplatePiece::Variable(Variable::OpentelemetryTraceId)), "{json:?}");
    let missing =
        |piece: &&TemplatePiece| matches!(piece, TemplatePiece::Variable(_)) && !json.pieces.contains(piece);
    let missing: Vec<TemplatePiece> = LogFormat::default().pieces.iter().filter(missing).cloned().collect();
    assert_eq!(missing, [TemplatePiece::Variable(Variable::TimeLocal)], "it has the time as in ISO 8601");
    // A format of the operator takes precedence, even one that cannot be read.
    for (format, count) in [("$status", 1), ("$no_such_thing", 2)] {
        let (settings, problems) = read(&[preset, ("log-format-upstream", format)]);
        assert_eq!(
            settings.global.access_log.format,
            read(&[("log-format-upstream", format)]).0.global.access_log.format
        );
        assert_eq!(problems.len(), count);
        assert_eq!(
            problems[count - 1].to_string(),
            "error: ConfigMap ingress-nginx/controller: data[log-format-preset]: has no effect beside \
             log-format-upstream, whose format is in force; remove log-format-upstream to use the preset, or \
             remove log-format-preset [KeyWithoutEffect]"
        );
    }
    // No client can forge a line.
    let (settings, problems) = read(&[preset, ("log-format-escape-none", "true")]);
    assert_eq!(settings.global.access_log.format, json);
    assert_eq!(&*problems[0].field, "data[log-format-escape-none]");
    let (settings, problems) = read(&[("log-format-preset", "xml")]);
    assert_eq!(settings.global, GlobalSettings::default());
    assert!(problems[0].message.contains("must be one of json"), "{}", problems[0]);
}

#[test]
fn filters_of_the_access_log_are_typed_and_ignored_if_unreadable() {
    let status = ("access-log-filter-status", "5xx,404");
    let (settings, problems) =
        read(&[status, ("access-log-filter-min-duration", "500ms"), ("access-log-sample", "1%")]);
    let statuses = [StatusRange { first: 500, last: 599 }, StatusRange { first: 404, last: 404 }];
    let filter = LogFilter {
        statuses: statuses.into(),
        min_duration: Some(Duration::from_millis(500)),
        sample: SampledShare::of(0.01),
    };
    assert_eq!((settings.global.access_log.filter, problems.len()), (Some(filter.clone()), 0));
    for (key, bad) in [
        ("access-log-filter-status", "error"),
        ("access-log-filter-min-duration", "0"),
        ("access-log-filter-min-duration", "fast"),
        ("access-log-sample", "0.01"),
        ("access-log-sample", "101%"),
    ] {
        let (settings, problems) = read(&[(key, bad)]);
        assert_eq!(settings.global, GlobalSettings::default(), "{key}");
        assert_eq!((problems.len(), &*problems[0].field), (1, &*format!("data[{key}]")));
        assert!(problems[0].message.ends_with("the key is ignored"), "{}", problems[0]);
    }
    let (settings, problems) = read(&[("access-log-filter-status", "5xx, 404, 4xxx")]);
    assert_eq!(settings.global.access_log.filter.unwrap().statuses, filter.statuses);
    assert!(problems[0].message.contains("[\"4xxx\"] skipped"), "{}", problems[0]);
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_known_one() {
    let (_, problems) = read(&[("keepalive", "75")]);
    assert_eq!(problems[0].severity, Severity::Warning);
    assert_eq!(problems[0].remedy, "did you mean keep-alive?");
}

#[test]
fn an_out_of_range_number_keeps_the_default_and_names_the_range() {
    for (key, value, range) in [
        ("upstream-keepalive-connections", "9223372036854775807", "to 1048576"),
        ("upstream-keepalive-connections", "1000000000", "to 1048576"),
        ("proxy-next-upstream-tries", "4294967295", "from 0 to 2147483647"),
        ("http2-max-concurrent-streams", "0", "from 1 to 65535"),
        ("keep-alive", "4294967295", "from 0 to 2147483647"),
        ("worker-shutdown-timeout", "4294967295d", "from 0 to 2147483647s"),
        ("large-client-header-buffers", "4294967295 8k", "at most 16m"),
        ("gzip-level", "10", "from 1 to 9"),
        ("limit-req-status-code", "200", "from 400 to 599"),
    ] {
        let (settings, problems) = read(&[(key, value)]);
        assert_eq!(settings.global, GlobalSettings::default(), "{key}");
        assert!(problems[0].message.contains(range), "{}", problems[0]);
    }
}

#[test]
fn the_buffer_of_a_head_is_bounded() {
    let size = |text| read(&[("client-header-buffer-size", text)]);
    assert_eq!(size("32k").0.global.client_header_buffer, 32 << 10);
    assert_eq!(size("32k").1, []);
    let (settings, problems) = size("17m");
    assert_eq!(settings.global.client_header_buffer, 1024);
    assert!(problems[0].message.contains("at most 16m"), "{}", problems[0]);
}

#[test]
fn values_that_switch_reuse_off_are_those_of_ingress_nginx() {
    for (key, value, expected) in [
        ("upstream-keepalive-connections", "-1", [0, 10_000, 1000]),
        ("upstream-keepalive-connections", "0", [0, 10_000, 1000]),
        ("upstream-keepalive-requests", "0", [320, 1, 1000]),
        ("keep-alive-requests", "0", [320, 10_000, 1]),
    ] {
        let (settings, problems) = read(&[(key, value)]);
        let GlobalSettings {
            upstream_keepalive_connections,
            upstream_keepalive_requests,
            keep_alive_requests,
            ..
        } = settings.global;
        let connections = u32::try_from(upstream_keepalive_connections).unwrap();
        assert_eq!([connections, upstream_keepalive_requests, keep_alive_requests], expected, "{key}");
        assert_eq!(problems, [], "{key}");
    }
}

#[test]
fn syslog_gets_no_lines_of_streams() {
    let syslog = [("enable-syslog", "true"), ("syslog-host", "syslog.example")];
    let output = |more: &[(&str, &str)]| {
        let global = read(&[&syslog, more].concat()).0.global;
        assert!(matches!(global.access_log.output, LogOutput::Syslog { .. }), "{more:?}");
        global.stream.log.output
    };
    assert_eq!(output(&[]), LogOutput::default());
    let file = |path: &str| LogOutput::File(path.into());
    assert_eq!(output(&[("access-log-path", "/logs/all")]), file("/logs/all"));
    assert_eq!(output(&[("stream-access-log-path", "/logs/streams")]), file("/logs/streams"));
}

#[test]
fn integers_of_keys_have_the_bases_of_go() {
    for (text, expected) in [
        ("10", 10),
        ("+10", 10),
        ("010", 8),
        ("0o10", 8),
        ("0O_10", 8),
        ("0x1F", 31),
        ("0X_1f", 31),
        ("0b101", 5),
        ("1_000", 1000),
        ("0_7", 7),
        ("0", 0),
        ("-0", 0),
    ] {
        let (settings, problems) = read(&[("keep-alive", text)]);
        assert_eq!((settings.global.keep_alive.as_secs(), problems), (expected, vec![]), "{text}");
    }
    for bad in ["0429", "0x", "0b2", "_1", "1_", "1__0", "0x1_", "0xg", "x10", "1e3", "--1", "0x-1"] {
        let (settings, problems) = read(&[("keep-alive", bad)]);
        assert_eq!((settings.global.keep_alive.as_secs(), problems.len()), (75, 1), "{bad}");
    }
    // ingress-nginx reads these by strconv.Atoi, or as texts.
    let settings = read(&[("proxy-stream-responses", "010"), ("hsts-max-age", "010")]).0.global;
    assert_eq!((settings.stream.responses, settings.hsts.unwrap().max_age), (10, 10));
}

#[test]
fn a_family_that_bind_address_closes_is_reported() {
    let problems = |data: &[(&str, &str)]| read(data).1;
    for (addresses, family, all) in [("127.0.0.1", "IPv6", "::"), ("[::1]", "IPv4", "0.0.0.0")] {
        let found = problems(&[("bind-address", addresses)]);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning), "{addresses}");
        assert!(found[0].message.contains(&format!("does not listen on {family}")), "{}", found[0]);
        assert!(found[0].remedy.contains(&format!("add {all} ")), "{}", found[0]);
    }
    assert_eq!(problems(&[("bind-address", "127.0.0.1, ::1")]), []);
    assert_eq!(problems(&[("bind-address", "127.0.0.1"), ("disable-ipv6", "true")]), []);
    assert_eq!(problems(&[]), []);
}

proptest! {
    /// No text of a key causes a panic or a duration too large to add to an instant.
    #[test]
    fn any_text_of_any_key_gives_settings_that_can_be_used(
        at in 0..TABLE.entries().count(),
        text in prop_oneof!["-?[0-9]{1,20}[a-z]?", "[0-9]{1,4} [0-9]{1,20}[bkmg]?", "\\PC{0,12}"],
    ) {
        let entry = TABLE.entries().nth(at).unwrap();
        let (settings, problems) = read(&[(entry.name, &text)]);
        let global = settings.global;
        let times = [
            global.client_header_timeout, global.client_body_timeout, global.keep_alive,
            global.proxy_connect_timeout, global.proxy_read_timeout, global.proxy_send_timeout,
            global.next_upstream_timeout.unwrap_or_default(), global.upstream_keepalive_timeout,
            global.upstream_keepalive_time, global.worker_shutdown_timeout,
        ];
        for time in times {
            prop_assert!(time <= Duration::from_secs(i32::MAX as u64), "{}: {}", entry.name, text);
        }
        prop_assert!(global.large_client_header_buffers.total() <= 16 << 20);
        prop_assert!(problems.len() <= 1);
    }
}

#[test]
fn the_global_cache_key_alone_keeps_what_the_service_allows() {
    let key = ("global-auth-cache-key", "$cookie_session");
    let valid = |duration: Option<&str>| {
        let duration = duration.map(|duration| ("global-auth-cache-duration", duration));
        let data: Vec<_> = std::iter::once(key).chain(duration).collect();
        let (settings, problems) = read(&data);
        (settings.global_auth.cache_valid.clone(), problems)
    };
    assert_eq!(valid(None), (None, Vec::new()));
    let any = vec![(Vec::new(), Duration::from_secs(1))];
    assert_eq!(valid(Some("any 1s")), (Some(any), Vec::new()));
    let (unreadable, problems) = valid(Some("soon"));
    assert_eq!(unreadable, Some(Vec::new()));
    assert!(problems[0].message.ends_with("no answer is kept"), "{}", problems[0]);
    let (empty, problems) = valid(Some(""));
    assert_eq!(empty, Some(vec![(vec![200, 202, 401], Duration::from_secs(300))]));
    assert!(problems[0].message.contains("200 202 401 5m"), "{}", problems[0]);
}
