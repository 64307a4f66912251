//! Requests without a matching rule.

use crate::harness::gateway::run;
use crate::harness::manifest::service_with;
use crate::harness::{Backend, Folder, Gateway, Ingress, await_until, config_map, get, site};

const CONFIG: &str = "ingress-nginx/controller";
const UNKNOWN: &str = "unknown.example";

#[test]
fn without_a_default_backend_there_is_a_404_and_a_health_answer() {
    let gateway = Gateway::start(&Folder::with(""));
    let response = get(gateway.http, "unknown.example", "/x");
    assert_eq!(response.status, 404);
    assert!(response.text().contains("404 Not Found"), "{}", response.text());
    assert_eq!(get(gateway.http, "unknown.example", "/healthz").status, 200);
}

#[test]
fn the_program_has_a_default_backend_that_may_come_later() {
    let fallback = Backend::echo("fallback");
    let shop = Backend::echo("shop");
    let ingress = Ingress::new("shop").path("shop.example", "/cart", "shop").text();
    let folder = Folder::with(ingress + &service_with("shop", &[&shop]));
    let gateway = Gateway::with(&folder, &["--default-backend-service", "default/fallback"]);
    assert_eq!(get(gateway.http, "unknown.example", "/x").status, 404);
    folder.write("fallback.yaml", service_with("fallback", &[&fallback]));
    await_until("the default backend", || get(gateway.http, "unknown.example", "/x").backend() == "fallback");
    assert_eq!(get(gateway.http, "shop.example", "/cart").backend(), "shop");
    assert_eq!(get(gateway.http, "shop.example", "/other").backend(), "fallback", "a host without /");
    folder.remove("fallback.yaml");
    await_until("the built-in answer again", || get(gateway.http, "unknown.example", "/x").status == 404);
}

#[test]
fn an_ingress_with_a_default_backend_alone_catches_all() {
    let [catch, shop] = ["catch", "shop"].map(Backend::echo);
    let objects = Ingress::new("catch").default_backend("catch").text()
        + &service_with("catch", &[&catch])
        + &site("shop", "shop.example", &[&shop]);
    let folder = Folder::with(objects);
    let gateway = Gateway::start(&folder);
    assert_eq!(get(gateway.http, "unknown.example", "/any").backend(), "catch");
    assert_eq!(get(gateway.http, "shop.example", "/any").backend(), "shop");
}

#[test]
fn a_default_backend_with_rules_serves_the_hosts_of_its_ingress() {
    let [rest, shop] = ["rest", "shop"].map(Backend::echo);
    let objects = Ingress::new("shop").path("shop.example", "/cart", "shop").default_backend("rest").text()
        + &service_with("shop", &[&shop])
        + &service_with("rest", &[&rest]);
    let gateway = Gateway::start(&Folder::with(objects));
    assert_eq!(get(gateway.http, "shop.example", "/cart").backend(), "shop");
    assert_eq!(get(gateway.http, "shop.example", "/other").backend(), "rest");
}

#[test]
fn catch_alls_can_be_disabled_with_all_of_their_ingress() {
    let [rest, shop] = ["rest", "shop"].map(Backend::echo);
    let objects = Ingress::new("shop").path("shop.example", "/cart", "shop").default_backend("rest").text()
        + &service_with("shop", &[&shop])
        + &service_with("rest", &[&rest]);
    let gateway = Gateway::with(&Folder::with(objects), &["--disable-catch-all"]);
    assert_eq!(get(gateway.http, "shop.example", "/cart").status, 404);
    assert_eq!(get(gateway.http, "shop.example", "/other").status, 404);
}

/// Starts a gateway with a shop and a default backend.
fn with_default_backend(flags: &[&str]) -> (Gateway, Folder, [Backend; 2]) {
    let [fallback, shop] = ["fallback", "shop"].map(Backend::echo);
    let folder =
        Folder::with(site("shop", "shop.example", &[&shop]) + &service_with("fallback", &[&fallback]));
    set_keys(&folder, &[]);
    let own = ["--configmap", CONFIG, "--default-backend-service", "default/fallback"];
    let gateway = Gateway::with(&folder, &[&own, flags].concat());
    (gateway, folder, [fallback, shop])
}

/// Replaces the keys of the ConfigMap.
fn set_keys(folder: &Folder, keys: &[(&str, &str)]) {
    folder.write("config.yaml", config_map(CONFIG, keys));
}

#[test]
fn snippets_of_all_servers_apply_to_hosts_that_no_ingress_names() {
    let (gateway, folder, _backends) =
        with_default_backend(&["--enable-metrics", "--metrics-per-undefined-host"]);
    for (key, snippet, path, status) in [
        ("location-snippet", "deny 127.0.0.1;", "/", 403),
        ("server-snippet", "location = /metrics { deny all; }", "/metrics", 403),
        ("server-snippet", "if ($http_host = unknown.example) { return 402; }", "/", 402),
        ("location-snippet", "deny 192.0.2.0/24;", "/", 200),
        ("location-snippet", "allow 127.0.0.0/8; deny all; access_log off;", "/", 200),
        ("location-snippet", "return 418 tea;", "/", 418),
        ("server-snippet", "rewrite ^/old/(.*)$ /new/$1 last;", "/old/a", 200),
    ] {
        // Lists of annotations and authentication are for rules of Ingresses.
        let of_rules = [("denylist-source-range", "127.0.0.0/8"), ("global-auth-url", "http://127.0.0.1:9/")];
        let marked = format!("more_set_headers \"X-Mark: {status} {path}\"; {snippet}");
        set_keys(&folder, &[&of_rules[..], &[(key, &*marked)]].concat());
        let mark = format!("{status} {path}");
        await_until(&marked, || get(gateway.http, UNKNOWN, path).header("x-mark") == Some(&mark));
        let response = get(gateway.http, UNKNOWN, path);
        assert_eq!(response.status, status, "{snippet}");
        if path == "/old/a" {
            assert_eq!(response.backend(), "fallback");
            assert!(response.text().contains("/new/a"), "{}", response.text());
        }
        assert_eq!(get(gateway.http, UNKNOWN, "/healthz").status, 200, "{snippet}");
    }
    assert!(!gateway.metrics().contains("host=\"_\""), "requests count for their own host");
    let explained =
        run(&["routes", "--host", UNKNOWN, "--path", "/", "--admin-address", &gateway.admin.to_string()]);
    let text = String::from_utf8(explained.stdout).unwrap();
    assert!(text.contains("settings of ConfigMap ingress-nginx/controller apply to it"), "{text}");
    set_keys(&folder, &[]);
    await_until("no snippet", || get(gateway.http, UNKNOWN, "/").header("x-mark").is_none());
    assert_eq!(get(gateway.http, UNKNOWN, "/").backend(), "fallback");
}

/// 404 came before the check. In ingress-nginx, the built-in default backend is a server, too.
#[test]
fn checks_precede_the_404_of_a_gateway_without_a_default_backend() {
    let shop = Backend::echo("shop");
    let own = Ingress::new("shop").path("shop.example", "/cart", "shop");
    let own = own.annotation("denylist-source-range", "127.0.0.0/8").text();
    let folder = Folder::with(own + &service_with("shop", &[&shop]));
    set_keys(&folder, &[]);
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    assert_eq!(get(gateway.http, "shop.example", "/other").status, 403, "of a host");
    assert_eq!(get(gateway.http, UNKNOWN, "/").status, 404);
    for (key, snippet) in [("server-snippet", "deny all;"), ("location-snippet", "deny all;")] {
        set_keys(&folder, &[(key, snippet)]);
        await_until(snippet, || get(gateway.http, UNKNOWN, "/").status == 403);
        set_keys(&folder, &[(key, "allow all;")]);
        await_until("no refusal", || get(gateway.http, UNKNOWN, "/").status == 404);
    }
}

#[test]
fn a_firewall_of_all_servers_is_that_of_unknown_hosts_too() {
    for flags in [&["--waf-agent", "127.0.0.1:9"][..], &[]] {
        let (gateway, folder, _backends) = with_default_backend(flags);
        assert_eq!(get(gateway.http, UNKNOWN, "/").status, 200);
        let enforcing = [("enable-modsecurity", "true"), ("modsecurity-snippet", "SecRuleEngine On")];
        set_keys(&folder, &enforcing);
        await_until("a firewall without its agent", || get(gateway.http, UNKNOWN, "/").status == 503);
        set_keys(&folder, &enforcing[..1]);
        await_until("a firewall that only detects", || get(gateway.http, UNKNOWN, "/").status == 200);
    }
}

const SNIPPETS: [(&str, &str); 2] =
    [("allow-snippet-annotations", "true"), ("annotations-risk-level", "Critical")];

/// Writes an Ingress with the path `/foo` for every host.
fn write_any(folder: &Folder, annotations: &[(&str, &str)]) {
    let ingress = Ingress::new("any").path("", "/foo", "shop");
    let ingress = annotations.iter().fold(ingress, |ingress, (name, value)| ingress.annotation(name, value));
    folder.write("any.yaml", ingress.text());
}

#[test]
fn a_rule_without_host_does_not_protect_requests_that_it_does_not_match() {
    let (gateway, folder, _backends) =
        with_default_backend(&["--enable-metrics", "--metrics-per-undefined-host"]);
    for (annotations, keys, status) in [
        (&[("whitelist-source-range", "192.0.2.0/24")][..], &[][..], 403),
        (&[("auth-url", "http://127.0.0.1:9/")], &[], 500),
        (&[("denylist-source-range", "127.0.0.0/8")], &[], 403),
        (&[("auth-type", "basic"), ("auth-secret", "absent")], &[], 503),
        (&[("permanent-redirect", "https://other.example")], &[], 301),
        (&[], &[("whitelist-source-range", "192.0.2.0/24")], 403),
        (&[], &[("global-auth-url", "http://127.0.0.1:9/")], 500),
        (&[], &[("denylist-source-range", "x")], 503),
        (&[("limit-rps", "many")], &[], 404),
    ] {
        write_any(&folder, annotations);
        set_keys(&folder, keys);
        let case = format!("{annotations:?} {keys:?}");
        await_until(&case, || get(gateway.http, UNKNOWN, "/foo").status == status);
        let response = get(gateway.http, UNKNOWN, "/");
        assert_eq!((response.status, &*response.backend()), (200, "fallback"), "{case}");
    }
    let is_unnamed = |line: &str| {
        ["host=\"unknown.example\"", "ingress=\"\"", "path=\"\""].iter().all(|label| line.contains(label))
    };
    await_until("metrics", || gateway.metrics().lines().any(is_unnamed));
    let metrics = gateway.metrics();
    assert!(!metrics.lines().any(|line| line.contains("ingress=\"any\"") && line.contains("path=\"/\"")));
}

#[test]
fn what_holds_for_a_whole_server_applies_beside_a_rule_without_host() {
    let (gateway, folder, _backends) = with_default_backend(&[]);
    let restricted = [("server-snippet", "deny all;")];
    let enforcing = [("enable-modsecurity", "true"), ("modsecurity-snippet", "SecRuleEngine On")];
    for (annotations, keys, target, status, backend) in [
        (&[("server-snippet", "if ($arg_no) { return 402; }")][..], &[][..], "/?no=1", 402, ""),
        (&restricted, &[], "/", 403, ""),
        (&[("server-snippet", "rewrite ^/old/(.*)$ /foo/$1 last;")], &[], "/old/x", 200, "shop"),
        (&[("server-snippet", "rewrite ^/foo/gone /gone last;")], &[], "/foo/gone", 200, "fallback"),
        (&[], &[("server-snippet", "rewrite ^/old/(.*)$ /foo/$1 last;")], "/old/x", 200, "shop"),
        (&[], &[("location-snippet", "deny all;")], "/", 403, ""),
        (&[], &enforcing, "/", 503, ""),
        (&[], &[("block-cidrs", "127.0.0.0/8")], "/", 403, ""),
        (&[], &[("block-cidrs", "x")], "/", 503, ""),
        // While snippets are switched off.
        (&restricted, &[("allow-snippet-annotations", "false")], "/", 503, ""),
    ] {
        write_any(&folder, &[]);
        set_keys(&folder, &[]);
        let usual = if target.starts_with("/foo") { "shop" } else { "fallback" };
        await_until("no restriction", || get(gateway.http, UNKNOWN, target).backend() == usual);
        set_keys(&folder, &[&SNIPPETS, keys].concat());
        write_any(&folder, annotations);
        let case = format!("{annotations:?} {keys:?}");
        await_until(&case, || {
            let response = get(gateway.http, UNKNOWN, target);
            (response.status, &*response.backend()) == (status, backend)
        });
    }
    write_any(&folder, &[("server-snippet", "deny 192.0.2.1;")]);
    set_keys(&folder, &SNIPPETS);
    let admin = gateway.admin.to_string();
    await_until("the explanation", || {
        let explained = run(&["routes", "--host", UNKNOWN, "--path", "/", "--admin-address", &admin]);
        let text = String::from_utf8(explained.stdout).unwrap();
        text.contains("no rule takes it") && text.contains("settings of Ingress default/any apply to it")
    });
}
