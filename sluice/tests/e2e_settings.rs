//! Global settings from the ConfigMap, changed at run time.

use std::time::{Duration, Instant};

use crate::harness::{Backend, Connection, Folder, Gate, Gateway, await_until, config_map, get, site};

const HOST: &str = "shop.example";
const NAME: &str = "ingress-nginx/controller";

fn start(backend: &Backend) -> (Folder, Gateway) {
    let folder = Folder::with(site("shop", HOST, &[backend]));
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    (folder, gateway)
}

/// Returns whether the connection is kept after one request.
fn keeps_alive(gateway: &Gateway) -> bool {
    let mut connection = Connection::plain(gateway.http);
    let response = connection.get(HOST, "/");
    !response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
}

#[test]
fn a_config_map_that_is_not_there_yet_means_defaults_and_a_problem() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend);
    assert!(keeps_alive(&gateway));
    assert!(gateway.problems().contains(NAME), "{}", gateway.problems());
    folder.write("config.yaml", config_map(NAME, &[("keep-alive", "0")]));
    await_until("the setting", || !keeps_alive(&gateway));
    await_until("the problem to go", || !gateway.problems().contains(NAME));
    folder.remove("config.yaml");
    await_until("the problem", || gateway.problems().contains(NAME));
    assert!(!keeps_alive(&gateway), "its last settings stay");
    folder.write("config.yaml", config_map(NAME, &[]));
    await_until("the default", || keeps_alive(&gateway));
}

#[test]
fn an_unreadable_value_means_the_default_and_is_named() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend);
    folder.write("config.yaml", config_map(NAME, &[("keep-alive", "0")]));
    await_until("the setting", || !keeps_alive(&gateway));
    folder.write(
        "config.yaml",
        config_map(NAME, &[("keep-alive", "a-while"), ("generate-request-id", "false")]),
    );
    await_until("the problem", || {
        let problems = gateway.problems();
        [NAME, "keep-alive", "a-while"].iter().all(|part| problems.contains(part))
    });
    await_until("the good part", || get(gateway.http, HOST, "/").received("x-request-id").is_empty());
    assert!(keeps_alive(&gateway));
    folder.write("config.yaml", config_map(NAME, &[("keep-alive", "30")]));
    await_until("the repair", || keeps_alive(&gateway) && !gateway.problems().contains("a-while"));
}

#[test]
fn a_bad_value_from_the_start_is_the_default() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    folder.write("config.yaml", config_map(NAME, &[("keep-alive", "a-while")]));
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    assert!(keeps_alive(&gateway));
    assert!(gateway.problems().contains("a-while"));
}

#[test]
fn an_unreadable_protection_has_one_effect_live_and_after_a_restart() {
    let backend = Backend::echo("shop");
    for (key, good, bad, status, effect) in [
        ("block-user-agents", "BadBot", "~(?C1)bot", 503, "all routes answer 503"),
        ("whitelist-source-range", "127.0.0.0/8", "127.0.0.0/8, lb.example", 200, "skipped"),
        ("whitelist-source-range", "127.0.0.0/8", "lb.example", 503, "all routes answer 503"),
    ] {
        let (folder, gateway) = start(&backend);
        folder.write("config.yaml", config_map(NAME, &[(key, good)]));
        await_until("the good value", || !gateway.problems().contains(NAME));
        assert_eq!(get(gateway.http, HOST, "/").status, 200, "{key} of {good}");
        folder.write("config.yaml", config_map(NAME, &[(key, bad)]));
        await_until("the problem", || gateway.problems().contains(effect));
        await_until("its effect", || get(gateway.http, HOST, "/").status == status);
        let restarted = Gateway::with(&folder, &["--configmap", NAME]);
        assert_eq!(get(restarted.http, HOST, "/").status, status, "{key} of {bad}");
        assert!(restarted.problems().contains(effect), "{}", restarted.problems());
    }
}

#[test]
fn blanks_between_networks_separate_them() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    folder.write("config.yaml", config_map(NAME, &[("whitelist-source-range", "10.0.0.0/8 127.0.0.0/8")]));
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    assert_eq!(get(gateway.http, HOST, "/").status, 200, "{}", gateway.problems());
}

#[test]
fn an_untranslated_configmap_snippet_that_restricts_access_closes_all() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend);
    for (key, value) in [
        ("location-snippet", "allow 10.0.0.0/8; deny all; gzip on;"),
        ("server-snippet", "location /actuator { deny all; gzip on; }"),
    ] {
        folder.write("config.yaml", config_map(NAME, &[(key, value)]));
        await_until("the routes to close", || get(gateway.http, HOST, "/actuator").status == 503);
        folder.write("config.yaml", config_map(NAME, &[(key, "proxy_buffering off;")]));
        await_until("the routes to open", || get(gateway.http, HOST, "/actuator").status == 200);
    }
}

#[test]
fn known_keys_that_are_not_built_yet_and_unknown_keys_are_named() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend);
    folder.write("config.yaml", config_map(NAME, &[("main-snippet", "x;"), ("no-such-key", "x")]));
    await_until("both", || {
        let problems = gateway.problems();
        problems.contains("main-snippet") && problems.contains("no-such-key")
    });
    assert_eq!(get(gateway.http, HOST, "/").status, 200);
}

#[test]
fn a_connection_ends_after_so_many_requests() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    folder.write("config.yaml", config_map(NAME, &[("keep-alive-requests", "3")]));
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    let mut connection = Connection::plain(gateway.http);
    for number in 1..=3 {
        let close = connection
            .get(HOST, "/")
            .header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"));
        assert_eq!(close, number == 3, "request {number}");
    }
    assert!(connection.is_closed());
}

#[test]
fn an_idle_connection_ends_after_a_while() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    folder.write("config.yaml", config_map(NAME, &[("keep-alive", "1"), ("client-header-timeout", "1")]));
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    let began = Instant::now();
    let (mut silent, mut kept) = (Connection::plain(gateway.http), Connection::plain(gateway.http));
    assert_eq!(kept.get(HOST, "/").status, 200);
    assert!(silent.is_closed() && kept.is_closed());
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
}

#[test]
fn a_request_may_take_longer_than_a_connection_may_be_idle() {
    let gate = Gate::default();
    let backend = Backend::gated("slow", &gate);
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    folder.write("config.yaml", config_map(NAME, &[("keep-alive", "1"), ("client-header-timeout", "1")]));
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    let mut slow = Connection::plain(gateway.http);
    slow.send(format!("GET /slow HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    // Two others are closed meanwhile, one after the other.
    for _ in 0..2 {
        let mut kept = Connection::plain(gateway.http);
        assert_eq!(kept.get(HOST, "/").status, 200);
        assert!(kept.is_closed());
    }
    gate.open();
    assert_eq!(slow.response().status, 200);
}

#[test]
fn a_shorter_time_limit_applies_to_connections_that_wait_already() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend);
    let mut kept = Connection::plain(gateway.http);
    assert_eq!(kept.get(HOST, "/").status, 200);
    folder.write("config.yaml", config_map(NAME, &[("keep-alive", "1")]));
    assert!(kept.is_closed());
}

#[test]
fn timeouts_apply_live_and_annotations_come_first() {
    let gate = Gate::default();
    let backend = Backend::gated("slow", &gate);
    let (folder, gateway) = start(&backend);
    folder.write(
        "config.yaml",
        config_map(NAME, &[("proxy-read-timeout", "1"), ("generate-request-id", "false")]),
    );
    await_until("the setting", || get(gateway.http, HOST, "/").received("x-request-id").is_empty());
    assert_eq!(get(gateway.http, HOST, "/slow").status, 504);
    gate.open();
}

#[test]
fn an_out_of_range_number_means_the_default_and_names_the_range() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend);
    let largest = [
        "upstream-keepalive-connections",
        "proxy-next-upstream-tries",
        "proxy-read-timeout",
        "proxy-connect-timeout",
        "keep-alive",
        "keep-alive-requests",
        "http2-max-concurrent-streams",
        "client-header-timeout",
        "worker-shutdown-timeout",
    ];
    let all = |value: &'static str| largest.map(|key| (key, value));
    folder.write("config.yaml", config_map(NAME, &all("9223372036854775807")));
    await_until("the problems", || {
        let problems = gateway.problems();
        largest.iter().all(|key| problems.contains(&format!("data[{key}]")))
            && problems.matches(" from ").count() >= largest.len()
    });
    assert_eq!(get(gateway.http, HOST, "/").status, 200);
    // The maximum values are usable: every time can be added to a point in time without overflow.
    let mut good = all("2147483647");
    good[0].1 = "1048576";
    good[1].1 = "1000";
    good[6].1 = "65535";
    folder.write("config.yaml", config_map(NAME, &good));
    await_until("the problems to vanish", || gateway.problems().is_empty());
    let mut connection = Connection::plain(gateway.http);
    for _ in 0..3 {
        assert_eq!(connection.get(HOST, "/").status, 200);
    }
}
