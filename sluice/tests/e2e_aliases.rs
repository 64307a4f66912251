//! Aliases of a host, the redirect between the names with and without www., and ACME challenges on
//! these names.

use serde_json::json;

use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, TestCertificate, await_until, config_map, get, get_tls,
};

const HOST: &str = "shop.example";

fn shop(annotations: &[(&str, &str)]) -> Ingress {
    Ingress::new("shop").path(HOST, "/", "shop").annotations(annotations)
}

fn start(ingress: &Ingress) -> (Backend, Folder, Gateway) {
    let backend = Backend::echo("shop");
    let folder = Folder::with(service_with("shop", &[&backend]));
    folder.write("shop.yaml", ingress.text());
    let gateway = Gateway::start(&folder);
    (backend, folder, gateway)
}

#[test]
fn an_alias_has_all_paths_of_its_host() {
    let (_shop, folder, gateway) = start(&shop(&[("server-alias", "store.example, *.market.example")]));
    let admin = Backend::echo("admin");
    let own = Ingress::new("admin").path(HOST, "/admin", "admin");
    folder.write("admin.yaml", own.text() + &service_with("admin", &[&admin]));
    await_until("the other path", || get(gateway.http, "store.example", "/admin").backend() == "admin");
    for host in [HOST, "store.example", "STORE.example:80", "a.market.example", "a.b.market.example"] {
        assert_eq!(get(gateway.http, host, "/x").backend(), "shop", "{host}");
        assert_eq!(get(gateway.http, host, "/admin/x").backend(), "admin", "{host}");
    }
    assert_eq!(get(gateway.http, "market.example", "/").status, 404);
    folder.remove("admin.yaml");
    await_until("the path to go", || get(gateway.http, "store.example", "/admin").backend() == "shop");
    folder.write("shop.yaml", shop(&[("server-alias", "other.example")]).text());
    await_until("the other name", || get(gateway.http, "other.example", "/").backend() == "shop");
    assert_eq!(get(gateway.http, "store.example", "/").status, 404);
}

/// The annotation was refused as a whole.
#[test]
fn an_expression_as_alias_takes_the_names_that_no_host_has() {
    let value = r"~^[a-z]+(?:\.[a-z]++)\.stores\.example$, shop.market.*, ~(";
    let (_shop, folder, gateway) =
        start(&shop(&[("server-alias", value)]).path("*.stores.example", "/wild", "shop"));
    let is_served = |host: &str, path: &str| get(gateway.http, host, path).status == 200;
    for (host, expected) in [
        (HOST, true),
        ("a.stores.example", false),
        ("a.b.stores.example", true),
        ("a.b.c.stores.example", false),
        ("shop.market.example", true),
        ("SHOP.market.co.example:80", true),
        ("a.shop.market.example", false),
        ("shop.market.", false),
        ("other.example", false),
    ] {
        assert_eq!(is_served(host, "/x"), expected, "{host}");
    }
    assert!(is_served("a.stores.example", "/wild"), "a wildcard comes first");
    let problems = gateway.problems();
    assert!(problems.contains("\"~(\"") && problems.contains("cannot be read"), "{problems}");
    folder.write("shop.yaml", shop(&[("server-alias", r"~^.+\.stores\.example$")]).text());
    await_until("the other expression", || is_served("a.stores.example", "/x"));
    assert!(is_served("a.b.stores.example", "/x") && !is_served("shop.market.example", "/"));
    assert_eq!(gateway.problems(), "");
    assert_eq!(
        Connection::tls(gateway.https, "a.stores.example").certificate(),
        Connection::tls(gateway.https, "unknown.example").certificate(),
        "the default one"
    );
}

/// It was the alias. nginx has the first name of the server.
#[test]
fn server_name_of_an_alias_is_the_host_of_the_rules() {
    let annotations =
        [("server-alias", "store.example, *.market.example"), ("upstream-vhost", "$server_name")];
    let (_shop, _folder, gateway) = start(&shop(&annotations));
    for host in [HOST, "store.example", "a.market.example"] {
        assert_eq!(get(gateway.http, host, "/").received("host"), [HOST], "{host}");
    }
}

#[test]
fn an_alias_gives_way_to_a_host_and_the_older_of_two_wins() {
    let (_shop, folder, gateway) = start(&shop(&[("server-alias", "store.example")]));
    let store = Backend::echo("store");
    folder.write("services.yaml", service_with("store", &[&store]));
    let younger =
        Ingress::new("younger").created("2025-01-01T00:00:00Z").path("younger.example", "/", "store");
    folder.write("younger.yaml", younger.annotation("server-alias", "store.example").text());
    await_until("the problem of the younger", || {
        gateway.problems().contains("host store.example belongs to Ingress default/shop")
    });
    assert_eq!(get(gateway.http, "store.example", "/").backend(), "shop");
    folder.write("store.yaml", Ingress::new("store").path("store.example", "/only", "store").text());
    await_until("the host", || get(gateway.http, "store.example", "/only").backend() == "store");
    assert_eq!(get(gateway.http, "store.example", "/").status, 404);
    let problems = gateway.problems();
    assert!(problems.contains("host store.example belongs to Ingress default/store"), "{problems}");
    for file in ["store.yaml", "younger.yaml"] {
        folder.remove(file);
    }
    await_until("the alias again", || get(gateway.http, "store.example", "/").backend() == "shop");
    await_until("no problem", || gateway.problems().is_empty());
}

#[test]
fn protections_apply_to_aliases_and_invalid_aliases_close() {
    let guarded = [("server-alias", "store.example"), ("auth-type", "basic"), ("auth-secret", "missing")];
    let (backend, folder, gateway) = start(&shop(&guarded));
    assert_eq!(get(gateway.http, "store.example", "/").status, 503);
    folder.write("shop.yaml", shop(&[("server-alias", "a b")]).text());
    await_until("the problem", || gateway.problems().contains("\"a b\""));
    await_until("404", || get(gateway.http, HOST, "/").status == 404);
    assert_eq!(backend.requests(), 0);
}

#[test]
fn the_host_with_www_redirects_to_the_one_without_and_the_other_way_round() {
    let tls = |ingress: Ingress| ingress.tls(&[HOST, "www.shop.example"], "tls");
    let (_backend, folder, gateway) = start(&tls(shop(&[("from-to-www-redirect", "true")])));
    folder.write("tls.yaml", TestCertificate::new(&[HOST, "www.shop.example"]).secret("tls"));
    let www = "www.shop.example";
    let (http, https) = (gateway.http.port(), gateway.https.port());
    for (target, rest) in [("/x?y=1", "/x?y=1"), ("/x/", "/x"), ("/", "")] {
        let response = get(gateway.http, www, target);
        assert_eq!(response.status, 308);
        assert_eq!(response.header("location"), Some(&*format!("http://{HOST}:{http}{rest}")));
    }
    await_until("the certificate for both", || gateway.problems().is_empty());
    let response = get_tls(gateway.https, www, "/x");
    assert_eq!(response.header("location"), Some(&*format!("https://{HOST}:{https}/x")));
    assert_eq!(
        Connection::tls(gateway.https, www).certificate(),
        Connection::tls(gateway.https, HOST).certificate(),
        "one certificate for both names"
    );
    assert_eq!(get_tls(gateway.https, HOST, "/x").backend(), "shop");
    // The opposite direction.
    let bare = Ingress::new("shop").path(www, "/", "shop").annotation("from-to-www-redirect", "true");
    folder.write("shop.yaml", bare.text());
    await_until("the other direction", || {
        let location = format!("http://{www}:{http}/x");
        get(gateway.http, HOST, "/x").header("location") == Some(&*location)
    });
    // A host of its own takes precedence.
    folder.write("own.yaml", Ingress::new("own").path(HOST, "/", "shop").text());
    await_until("the host", || get(gateway.http, HOST, "/x").backend() == "shop");
    folder.remove("own.yaml");
    folder.write("shop.yaml", Ingress::new("shop").path(www, "/", "shop").text());
    await_until("no redirect", || get(gateway.http, HOST, "/x").status == 404);
}

#[test]
fn the_redirect_to_www_has_the_port_that_a_trusted_proxy_reports() {
    let backend = Backend::echo("shop");
    let ingress = shop(&[("from-to-www-redirect", "true")]);
    let folder = Folder::with(service_with("shop", &[&backend]) + &ingress.text());
    let gateway = Gateway::with(&folder, &["--configmap", "ingress-nginx/controller"]);
    let location = |port: &str| {
        let fields = [("X-Forwarded-Proto", "https"), ("X-Forwarded-Port", port)];
        let www = "www.shop.example";
        let response = Connection::plain(gateway.http).request("GET", www, "/x", &fields, "");
        response.header("location").unwrap().to_owned()
    };
    let own = gateway.http.port();
    assert_eq!(location("443"), format!("http://{HOST}:{own}/x"), "the client is not trusted");
    let keys = [("use-forwarded-headers", "true")];
    folder.write("config.yaml", config_map("ingress-nginx/controller", &keys));
    await_until("the port", || location("443") == format!("https://{HOST}:443/x"));
    assert_eq!(location("443@evil.example"), format!("https://{HOST}:{own}/x"), "no port");
}

/// The Ingress that cert-manager creates. Its Service of type NodePort and its Pod are represented
/// by the endpoint.
fn solver(host: &str, token: &str) -> Ingress {
    let port = json!({"service": {"name": "cm-acme-http-solver", "port": {"number": 80}}});
    Ingress::new("cm-acme-http-solver")
        .created("2026-01-01T00:00:00Z")
        .annotation("whitelist-source-range", "0.0.0.0/0,::/0")
        .backend_path(host, &format!("/.well-known/acme-challenge/{token}"), "ImplementationSpecific", &port)
}

#[test]
fn a_solver_of_acme_challenges_works_beside_every_kind_of_redirect() {
    const TOKEN: &str = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0";
    let path = format!("/.well-known/acme-challenge/{TOKEN}");
    let acme = Backend::echo("acme");
    for redirect in [
        ("force-ssl-redirect", "true"),
        ("permanent-redirect", "https://new.example"),
        ("from-to-www-redirect", "true"),
        ("use-regex", "true"),
    ] {
        let (_backend, folder, gateway) = start(&shop(&[redirect]).tls(&[HOST, "www.shop.example"], "tls"));
        // The Secret is created after the challenge: until then, a fallback certificate is served
        // and http redirects.
        assert_eq!(get(gateway.http, HOST, "/x").status / 100, 3, "{redirect:?}");
        folder.write("acme.yaml", service_with("cm-acme-http-solver", &[&acme]));
        for host in [HOST, "www.shop.example"] {
            folder.write("solver.yaml", solver(host, TOKEN).text());
            await_until("the challenge to be met", || get(gateway.http, host, &path).backend() == "acme");
        }
        if redirect.0 == "from-to-www-redirect" {
            let response = get(gateway.http, "www.shop.example", "/x");
            assert_eq!(response.status, 308, "clients are still redirected");
        }
        assert_eq!(get(gateway.http, HOST, "/x").status / 100, 3, "{redirect:?}");
        folder.remove("solver.yaml");
        folder.write("tls.yaml", TestCertificate::new(&[HOST, "www.shop.example"]).secret("tls"));
        await_until("the certificate", || !gateway.problems().contains("default/tls"));
        await_until("the solver to go", || get(gateway.http, HOST, &path).backend() != "acme");
    }
}
