//! Redirects from http to https, and HSTS.

use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, TestCertificate, await_until, config_map, get, get_tls,
};

const HOST: &str = "shop.example";
const CONFIG: [&str; 2] = ["--configmap", "ingress-nginx/controller"];

/// Creates a host with or without TLS.
fn folder(ingress: &Ingress, tls: bool, backend: &Backend) -> Folder {
    let mut objects = service_with("web", &[backend]);
    let mut ingress = ingress.clone();
    if tls {
        objects += &TestCertificate::new(&[HOST]).secret("tls");
        ingress = ingress.tls(&[HOST], "tls");
    }
    Folder::with(objects + &ingress.text())
}

fn ingress() -> Ingress {
    Ingress::new("shop").path(HOST, "/", "web")
}

#[test]
fn a_host_with_tls_redirects_and_cuts_the_final_slash() {
    let backend = Backend::echo("web");
    let gateway = Gateway::start(&folder(&ingress(), true, &backend));
    for (host, target, location) in [
        (HOST, "/cart?a=b", "https://shop.example/cart?a=b"),
        (HOST, "/cart/", "https://shop.example/cart"),
        (HOST, "/", "https://shop.example"),
        ("shop.example:8080", "/x", "https://shop.example/x"),
    ] {
        let response = get(gateway.http, host, target);
        assert_eq!(response.status, 308, "{target}");
        assert_eq!(response.header("location"), Some(location));
        assert!(response.text().contains("308 Permanent Redirect"));
        assert_eq!(response.header("strict-transport-security"), None);
    }
    assert_eq!(get_tls(gateway.https, HOST, "/cart").backend(), "web");
    assert_eq!(backend.requests(), 1);
}

#[test]
fn a_host_without_tls_does_not_redirect_unless_forced() {
    let backend = Backend::echo("web");
    let gateway = Gateway::start(&folder(&ingress(), false, &backend));
    assert_eq!(get(gateway.http, HOST, "/").status, 200);
    let forced = ingress().annotation("force-ssl-redirect", "true");
    let gateway = Gateway::start(&folder(&forced, false, &backend));
    assert_eq!(get(gateway.http, HOST, "/x").header("location"), Some("https://shop.example/x"));
}

#[test]
fn an_ingress_may_switch_the_redirect_off() {
    let backend = Backend::echo("web");
    let off = ingress().annotation("ssl-redirect", "false");
    let gateway = Gateway::start(&folder(&off, true, &backend));
    assert_eq!(get(gateway.http, HOST, "/").status, 200);
}

#[test]
fn challenges_are_never_redirected() {
    let backend = Backend::echo("web");
    let ingress = ingress().path(HOST, "/.well-known/acme-challenge/token", "web");
    let gateway = Gateway::start(&folder(&ingress, true, &backend));
    assert_eq!(get(gateway.http, HOST, "/.well-known/acme-challenge/token").status, 200);
    assert_eq!(get(gateway.http, HOST, "/.well-known/other").status, 308);
}

#[test]
fn a_path_of_a_rule_that_is_redirected_is_not_exempt_as_a_request() {
    let backend = Backend::echo("web");
    let gateway = Gateway::start(&folder(&ingress(), true, &backend));
    assert_eq!(get(gateway.http, HOST, "/.well-known/acme-challenge/token").status, 308);
}

#[test]
fn configured_locations_are_not_redirected() {
    let backend = Backend::echo("web");
    let challenge = "/.well-known/acme-challenge";
    let ingress = ingress().path(HOST, "/status/live", "web").path(HOST, challenge, "web");
    let folder = folder(&ingress, true, &backend);
    let gateway = Gateway::with(&folder, &CONFIG);
    let statuses = || {
        ["/.well-known/acme-challenge/x", "/status/live", "/status/other", "/x"]
            .map(|path| get(gateway.http, HOST, path).status)
    };
    assert_eq!(statuses(), [200, 308, 308, 308]);
    let places = [("no-tls-redirect-locations", "/status,/other")];
    folder.write("config.yaml", config_map("ingress-nginx/controller", &places));
    await_until("the places", || statuses() == [308, 200, 308, 308]);
    folder.write("config.yaml", config_map("ingress-nginx/controller", &[]));
    await_until("the usual place", || statuses() == [200, 308, 308, 308]);
}

#[test]
fn the_configmap_decides_over_code_and_default() {
    let backend = Backend::echo("web");
    let folder = folder(&ingress(), true, &backend);
    let gateway = Gateway::with(&folder, &CONFIG);
    let settings =
        |data: &[(&str, &str)]| folder.write("config.yaml", config_map("ingress-nginx/controller", data));
    let status = |status| await_until("the redirect", || get(gateway.http, HOST, "/x").status == status);
    status(308);
    settings(&[("http-redirect-code", "301")]);
    status(301);
    settings(&[("ssl-redirect", "false")]);
    status(200);
    settings(&[("ssl-redirect", "false"), ("force-ssl-redirect", "true")]);
    status(308);
}

#[test]
fn a_trusted_proxy_may_report_https() {
    let backend = Backend::echo("web");
    let folder = folder(&ingress(), true, &backend);
    let gateway = Gateway::with(&folder, &CONFIG);
    let status = || {
        let fields = [("X-Forwarded-Proto", "https")];
        Connection::plain(gateway.http).request("GET", HOST, "/", &fields, "").status
    };
    assert_eq!(status(), 308);
    folder.write("config.yaml", config_map("ingress-nginx/controller", &[("use-forwarded-headers", "true")]));
    await_until("the header to be trusted", || status() == 200);
}

#[test]
fn https_answers_carry_hsts_in_place_of_the_backends() {
    let backend =
        Backend::with("web", |_| crate::harness::Reply::field("Strict-Transport-Security", "max-age=1"));
    let folder = folder(&ingress().annotation("ssl-redirect", "false"), true, &backend);
    let gateway = Gateway::with(&folder, &CONFIG);
    let hsts = |response: &crate::harness::client::Response| {
        response.all("strict-transport-security").iter().map(|value| (*value).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(hsts(&get_tls(gateway.https, HOST, "/")), ["max-age=31536000; includeSubDomains"]);
    assert_eq!(
        hsts(&get_tls(gateway.https, "unknown.example", "/")),
        ["max-age=31536000; includeSubDomains"]
    );
    let data = [("hsts-max-age", "60"), ("hsts-include-subdomains", "false"), ("hsts-preload", "true")];
    folder.write("config.yaml", config_map("ingress-nginx/controller", &data));
    await_until("the new field", || hsts(&get_tls(gateway.https, HOST, "/")) == ["max-age=60; preload"]);
    folder.write("config.yaml", config_map("ingress-nginx/controller", &[("hsts", "false")]));
    await_until("the backend's own field", || hsts(&get_tls(gateway.https, HOST, "/")) == ["max-age=1"]);
}

#[test]
fn hosts_without_a_tls_entry_get_the_default_certificate() {
    let backend = Backend::echo("web");
    let ingress = ingress().path("other.example", "/", "web").path("*.wild.example", "/", "web");
    let gateway = Gateway::start(&folder(&ingress, true, &backend));
    for host in [HOST, "other.example", "a.wild.example"] {
        let response = get(gateway.http, host, "/x");
        assert_eq!(response.status, 308, "{host}");
        assert_eq!(response.header("location"), Some(&*format!("https://{host}/x")));
        assert_eq!(get_tls(gateway.https, host, "/x").backend(), "web");
    }
    let problems = gateway.problems();
    assert!(problems.contains("other.example") && problems.contains("default certificate"), "{problems}");
    assert!(!problems.contains("host shop.example"), "{problems}");
}

#[test]
fn a_host_below_a_wildcard_with_tls_redirects_without_its_own_section() {
    let backend = Backend::echo("web");
    let wildcard = Ingress::new("wild").path("*.example.com", "/", "web");
    let objects = service_with("web", &[&backend])
        + &TestCertificate::new(&["*.example.com"]).secret("wild")
        + &Ingress::new("shop").path("shop.example.com", "/", "web").text();
    let folder = Folder::with(objects + &wildcard.clone().tls(&["*.example.com"], "wild").text());
    let gateway = Gateway::start(&folder);
    let response = get(gateway.http, "shop.example.com", "/x");
    assert_eq!(response.status, 308);
    assert_eq!(response.header("location"), Some("https://shop.example.com/x"));
    assert_eq!(get_tls(gateway.https, "shop.example.com", "/x").backend(), "web");
}

#[test]
fn requests_of_unknown_hosts_and_uncovered_aliases_are_served_over_http() {
    let backend = Backend::echo("web");
    let any = Ingress::new("any").path("", "/", "web").tls(&[], "tls");
    let shop = ingress().annotation("server-alias", "store.example, www.shop.example").tls(&[HOST], "tls");
    let objects = service_with("web", &[&backend])
        + &TestCertificate::new(&[HOST, "www.shop.example"]).secret("tls")
        + &any.text()
        + &shop.text();
    let gateway = Gateway::start(&Folder::with(objects));
    for (host, status) in [
        (HOST, 308),
        ("www.shop.example", 308),
        ("store.example", 200),
        ("unknown.example", 200),
        ("127.0.0.1", 200),
    ] {
        assert_eq!(get(gateway.http, host, "/").status, status, "{host}");
    }
}
