//! An Ingress that is rejected, or that requests an unsupported protection, keeps its hosts and
//! paths closed: no other rule serves them.

use crate::harness::gateway::run;
use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, TestCertificate, await_until, config_map, get, get_tls,
    site,
};

const HOST: &str = "shop.example";
const CONFIG: &str = "ingress-nginx/controller";

/// Creates a shop at `/` with its backend.
fn shop() -> (Backend, Folder) {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    (backend, folder)
}

fn admin() -> Ingress {
    Ingress::new("admin").path(HOST, "/admin", "shop")
}

#[test]
fn a_rejected_ingress_does_not_open_its_paths_to_a_broader_rule() {
    let (_backend, folder) = shop();
    folder.write("admin.yaml", admin().text());
    let gateway = Gateway::with(&folder, &["--enable-metrics"]);
    assert_eq!(get(gateway.http, HOST, "/admin").backend(), "shop");
    // A web application firewall is not supported: 503. With an additional invalid annotation: 404.
    let guarded = admin().annotation("modsecurity-snippet", "SecRuleEngine On");
    folder.write("admin.yaml", guarded.text());
    await_until("that to close its path", || get(gateway.http, HOST, "/admin/x").status == 503);
    folder.write("admin.yaml", guarded.annotation("limit-rps", "many").text());
    await_until("the slip to reject the Ingress", || get(gateway.http, HOST, "/admin/x").status == 404);
    for path in ["/admin", "/admin/", "//admin/%2e/x", "/a/../admin"] {
        assert_eq!(get(gateway.http, HOST, path).status, 404, "{path}");
    }
    assert_eq!(get(gateway.http, HOST, "/").backend(), "shop");
    let problems = gateway.problems();
    for part in ["default/admin", "many", "the Ingress is rejected, and all its routes answer 404"] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
    let metrics = gateway.metrics();
    assert!(
        metrics.lines().any(|line| line.contains("ingress=\"admin\"")
            && line.contains("path=\"/admin\"")
            && line.contains("status=\"404\"")),
        "{metrics}"
    );
    folder.write("admin.yaml", admin().text());
    await_until("the Ingress to be served again", || get(gateway.http, HOST, "/admin").status == 200);
    await_until("its problems to vanish", || !gateway.problems().contains("default/admin"));
}

#[test]
fn a_snippet_closes_its_paths_with_503() {
    let (_backend, folder) = shop();
    folder.write("admin.yaml", admin().annotation("configuration-snippet", "deny all;").text());
    let gateway = Gateway::start(&folder);
    assert_eq!(get(gateway.http, HOST, "/admin").status, 503);
    assert_eq!(get(gateway.http, HOST, "/").backend(), "shop");
}

#[test]
fn a_rejected_host_falls_neither_to_a_wildcard_nor_to_the_catch_all() {
    let backend = Backend::echo("wild");
    let folder = Folder::with(
        service_with("wild", &[&backend])
            + &Ingress::new("wild").path("*.example", "/", "wild").text()
            + &Ingress::new("all").default_backend("wild").text()
            + &Ingress::new("a").path("a.example", "/x", "wild").annotation("limit-rps", "many").text()
            + &Ingress::new("b").path("b.other", "/x", "wild").annotation("limit-rps", "many").text()
            + &Ingress::new("alias")
                .path("c.other", "/", "wild")
                .annotation("server-alias", "c.example")
                .annotation("modsecurity-snippet", "SecRuleEngine On")
                .text(),
    );
    let gateway = Gateway::start(&folder);
    for host in ["free.example", "free.other"] {
        assert_eq!(get(gateway.http, host, "/x").backend(), "wild", "{host}");
    }
    for (host, path, status) in [
        ("a.example", "/x", 404),
        ("a.example", "/elsewhere", 404),
        ("b.other", "/x", 404),
        ("b.other", "/", 404),
        ("c.other", "/", 503),
        ("c.example", "/", 503),
    ] {
        assert_eq!(get(gateway.http, host, path).status, status, "{host}{path}");
    }
}

#[test]
fn a_protected_expression_is_closed_as_an_expression() {
    let (_backend, folder) = shop();
    let guarded = Ingress::new("admin")
        .typed_path(HOST, "/admin(/|$)(.*)", "ImplementationSpecific", "shop")
        .annotation("rewrite-target", "/$2")
        .annotation("modsecurity-snippet", "SecRuleEngine On");
    folder.write("admin.yaml", guarded.text());
    let gateway = Gateway::start(&folder);
    for path in ["/admin", "/admin/x", "/ADMIN/x"] {
        assert_eq!(get(gateway.http, HOST, path).status, 503, "{path}");
    }
    assert_eq!(get(gateway.http, HOST, "/administrator").backend(), "shop");
}

#[test]
fn client_certificates_close_the_whole_host() {
    let (_backend, folder) = shop();
    let gateway = Gateway::start(&folder);
    assert_eq!(get(gateway.http, HOST, "/").backend(), "shop");
    folder.write("admin.yaml", admin().annotation("auth-tls-secret", "other/ca").text());
    await_until("the host to close", || get(gateway.http, HOST, "/").status == 503);
    assert_eq!(get(gateway.http, HOST, "/admin").status, 503);
    // One that is missing closes it as ingress-nginx does.
    folder.write("admin.yaml", admin().annotation("auth-tls-secret", "default/ca").text());
    await_until("the host to stay closed", || get(gateway.http, HOST, "/").status == 403);
    assert_eq!(get(gateway.http, HOST, "/admin").status, 403);
    folder.remove("admin.yaml");
    await_until("the host to open", || get(gateway.http, HOST, "/").status == 200);
}

#[test]
fn the_oldest_wins_also_when_it_is_rejected() {
    let (_backend, folder) = shop();
    folder.write("old.yaml", admin().created("2020-01-01T00:00:00Z").annotation("limit-rps", "many").text());
    folder.write("new.yaml", Ingress::new("new").path(HOST, "/admin", "shop").text());
    // A younger Ingress that is rejected does not affect the shop.
    folder.write(
        "young.yaml",
        Ingress::new("young")
            .created("2025-01-01T00:00:00Z")
            .path(HOST, "/", "shop")
            .annotation("limit-rps", "many")
            .text(),
    );
    let gateway = Gateway::start(&folder);
    assert_eq!(get(gateway.http, HOST, "/admin").status, 404);
    assert_eq!(get(gateway.http, HOST, "/").backend(), "shop");
    let problems = gateway.problems();
    assert!(problems.contains("is already defined in ingress default/admin"), "{problems}");
    assert!(problems.contains("and is closed"), "{problems}");
}

#[test]
fn an_ingress_of_another_class_claims_nothing_however_bad_it_is() {
    let (_backend, folder) = shop();
    folder.write("other.yaml", admin().class(Some("other")).annotation("limit-rps", "many").text());
    let gateway = Gateway::start(&folder);
    assert_eq!(get(gateway.http, HOST, "/admin").backend(), "shop");
}

#[test]
fn a_closed_host_is_closed_over_https_too_with_its_own_certificate() {
    let backend = Backend::echo("shop");
    let certificate = TestCertificate::new(&[HOST]);
    let ingress = Ingress::new("shop").path(HOST, "/", "shop").tls(&[HOST], "tls");
    let folder = Folder::with(service_with("shop", &[&backend]) + &certificate.secret("tls"));
    folder.write("shop.yaml", ingress.annotation("limit-rps", "many").text());
    let gateway = Gateway::start(&folder);
    assert_eq!(Connection::tls(gateway.https, HOST).certificate(), certificate.der);
    assert_eq!(get_tls(gateway.https, HOST, "/").status, 404);
    assert_eq!(get(gateway.http, HOST, "/").status, 404);
}

#[test]
fn check_and_routes_show_closed_routes_with_the_reason() {
    let (_backend, folder) = shop();
    folder.write("admin.yaml", admin().annotation("limit-rps", "many").text());
    let output = run(&["check", "--manifests", folder.path().to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in
        ["Ingress default/admin", "all its routes answer 404", "correct the value", "1 of them closed"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let gateway = Gateway::start(&folder);
    let routes = gateway.ask("/routes").text();
    assert!(routes.contains("limit-rps") && routes.contains("404"), "{routes}");
}

#[test]
fn an_unreadable_key_that_protects_all_hosts_closes_the_default_backend() {
    let (_backend, folder) = shop();
    let rest = Backend::echo("rest");
    folder.write("rest.yaml", service_with("rest", &[&rest]));
    let keys = |keys: &[(&str, &str)]| folder.write("config.yaml", config_map(CONFIG, keys));
    keys(&[]);
    let flags = ["--configmap", CONFIG, "--default-backend-service", "default/rest"];
    let gateway = Gateway::with(&folder, &flags);
    let status = |host: &str| get(gateway.http, host, "/").status;
    let firewall = ("enable-modsecurity", "true");
    let unavailable = "SecRuleEngine On\nInclude /etc/other.conf";
    for (pairs, unknown_host) in [
        (&[("block-cidrs", "x")][..], 503),
        (&[("denylist-source-range", "x")], 200),
        (&[("block-user-agents", "~(")], 503),
        (&[("global-auth-url", "auth.example")], 200),
        (&[("server-snippet", "deny all; foo bar;")], 503),
        (&[("global-auth-url", "auth.example"), ("block-referers", "~(")], 503),
        (&[("location-snippet", "deny all; foo bar;")], 503),
        (&[], 200),
        (&[("http-snippet", "deny all;")], 503),
        (&[], 200),
        (&[firewall, ("modsecurity-snippet", unavailable)], 503),
    ] {
        keys(pairs);
        let of_shop = if pairs.is_empty() { 200 } else { 503 };
        await_until(&format!("{pairs:?}"), || {
            (status(HOST), status("unknown.example")) == (of_shop, unknown_host)
        });
        assert_eq!(get(gateway.http, "unknown.example", "/healthz").status, 200);
    }
}
