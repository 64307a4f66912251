//! Regular expressions as paths, `rewrite-target`, `x-forwarded-prefix` and `app-root`.

use crate::harness::h2;
use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, TestCertificate, await_until, config_map, get, get_tls,
};

const HOST: &str = "shop.example";

fn expression(name: &str, path: &str, service: &str) -> Ingress {
    Ingress::new(name).typed_path(HOST, path, "ImplementationSpecific", service)
}

fn rewriting() -> Ingress {
    expression("shop", "/app(/|$)(.*)", "web")
        .annotation("rewrite-target", "/$2")
        .annotation("x-forwarded-prefix", "/app")
}

fn target(response: &crate::harness::client::Response) -> String {
    response.json()["target"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_endpoint_gets_the_rewritten_path_escaped_as_nginx_does_it() {
    let backend = Backend::echo("web");
    let gateway = Gateway::start(&Folder::with(rewriting().text() + &service_with("web", &[&backend])));
    let mut connection = Connection::plain(gateway.http);
    for (sent, received) in [
        ("/app", "/"),
        ("/app/", "/"),
        ("/APP/Cart?next=/app/x", "/Cart?next=/app/x"),
        ("/app/a//b/./c/../d", "/a/b/d"),
        ("/app/x%20y%2Fz", "/x%20y/z"),
        ("/app/%3Fq%23f%25", "/%3Fq%23f%25"),
        ("/app/caf%C3%A9/%FF", "/caf%C3%A9/%FF"),
        ("/%61pp/x?y=%20z", "/x?y=%20z"),
    ] {
        let response = connection.get(HOST, sent);
        assert_eq!((response.status, target(&response).as_str()), (200, received), "{sent}");
        assert_eq!(response.received("x-forwarded-prefix"), ["/app"], "{sent}");
    }
    assert_eq!(connection.get(HOST, "/apple").status, 404, "the expression has an end of its own");
    let body = connection.request("POST", HOST, "/app/form", &[("X-Forwarded-Prefix", "/mine")], "hello");
    assert_eq!((target(&body).as_str(), body.json()["body"].as_str()), ("/form", Some("hello")));
    assert_eq!(body.received("x-forwarded-prefix"), ["/app"]);
    gateway.await_access("GET /app/x%20y%2Fz HTTP/1.1");
}

#[test]
fn rewrites_are_in_the_log_of_a_rule_that_asks_for_them() {
    let backend = Backend::echo("web");
    let quiet = expression("quiet", "/quiet/(.*)", "web").annotation("rewrite-target", "/$1");
    let loud = rewriting().annotation("enable-rewrite-log", "true");
    let objects = loud.text() + &quiet.text() + &service_with("web", &[&backend]);
    let gateway = Gateway::start(&Folder::with(objects));
    assert_eq!(get(gateway.http, HOST, "/quiet/x").status, 200);
    assert_eq!(get(gateway.http, HOST, "/app/a%20b?c=d").status, 200);
    let lines = || -> Vec<String> {
        gateway.program_log().into_iter().filter(|line| line.contains("a path was rewritten")).collect()
    };
    await_until("the line", || !lines().is_empty());
    let [line] = &lines()[..] else { panic!("{:?}", lines()) };
    let fields = r#"client=127.0.0.1 host="shop.example" from="/app/a b" to="/a%20b?c=d""#;
    assert!(line.ends_with(fields), "{line}");
}

#[test]
fn a_target_with_variables_is_served() {
    let backend = Backend::echo("web");
    let ingress =
        expression("shop", "/app/(.*)", "web").annotation("rewrite-target", "/$service_name/$host/$1/$arg_v");
    let gateway = Gateway::start(&Folder::with(ingress.text() + &service_with("web", &[&backend])));
    let response = get(gateway.http, HOST, "/app/x?v=2");
    assert_eq!((response.status, target(&response).as_str()), (200, "/web/shop.example/x/2?v=2"));
    assert_eq!(gateway.problems(), "");
}

#[test]
fn streams_of_http2_are_rewritten_too() {
    let backend = Backend::echo("web");
    let ingress = rewriting().tls(&[HOST], "tls").text();
    let secret = TestCertificate::new(&[HOST]).secret("tls");
    let gateway = Gateway::start(&Folder::with(ingress + &service_with("web", &[&backend]) + &secret));
    h2::run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        let response = connection.get("https://shop.example/app/x%20y?z=1").await.unwrap();
        let seen: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(seen["target"], "/x%20y?z=1");
        let host = seen["headers"].as_array().unwrap().iter();
        let hosts: Vec<_> =
            host.filter(|field| field[0].as_str().unwrap().eq_ignore_ascii_case("host")).collect();
        assert_eq!(hosts.len(), 1);
        assert_eq!(hosts[0][1], HOST);
    });
}

#[test]
fn every_attempt_is_rewritten_alike() {
    let dead = Backend::with("dead", |_| crate::harness::Reply::status(503));
    let backend = Backend::echo("web");
    let ingress = rewriting().annotation("proxy-next-upstream", "error http_503").text();
    let gateway = Gateway::start(&Folder::with(ingress + &service_with("web", &[&dead, &backend])));
    let mut connection = Connection::plain(gateway.http);
    for _ in 0..4 {
        assert_eq!(target(&connection.get(HOST, "/app/x?y")), "/x?y");
    }
    assert!(!dead.seen().is_empty());
    assert!(dead.seen().iter().all(|request| request.start == "GET /x?y HTTP/1.1"));
}

#[test]
fn one_ingress_makes_all_paths_expressions_while_it_exists() {
    let (web, other) = (Backend::echo("web"), Backend::echo("other"));
    let plain = Ingress::new("plain").path(HOST, "/Items", "other").path(HOST, "/items/1", "other");
    let folder =
        Folder::with(plain.text() + &service_with("web", &[&web]) + &service_with("other", &[&other]));
    let gateway = Gateway::start(&folder);
    assert_eq!(get(gateway.http, HOST, "/itemsfoo").status, 404);
    folder.write(
        "regex.yaml",
        expression("new", "/item[a-z]*/[0-9]{2}", "web").annotation("use-regex", "true").text(),
    );
    await_until("expressions", || get(gateway.http, HOST, "/itemsfoo").status == 200);
    for (path, backend) in [
        ("/itemsfoo", "other"),
        ("/ITEMS/1", "other"),
        ("/items/12", "web"),
        ("/item/12/and/more", "web"),
        ("/Items/x", "other"),
    ] {
        let response = get(gateway.http, HOST, path);
        assert_eq!((response.backend().as_str(), target(&response).as_str()), (backend, path));
    }
    assert_eq!(get(gateway.http, HOST, "/x/items").status, 404, "from the start of the path");
    folder.remove("regex.yaml");
    await_until("plain paths", || get(gateway.http, HOST, "/itemsfoo").status == 404);
    assert_eq!(get(gateway.http, HOST, "/Items/x").backend(), "other");
}

#[test]
fn a_target_changes_live_and_a_url_redirects() {
    let backend = Backend::echo("web");
    let folder = Folder::with(service_with("web", &[&backend]));
    let write = |to: &str| {
        folder.write(
            "ingress.yaml",
            expression("shop", "/app/(?<rest>.*)", "web").annotation("rewrite-target", to).text(),
        );
    };
    write("/one/$rest");
    let gateway = Gateway::start(&folder);
    assert_eq!(target(&get(gateway.http, HOST, "/app/x")), "/one/x");
    write("/two/$1");
    await_until("the new target", || target(&get(gateway.http, HOST, "/app/x")) == "/two/x");
    write("https://other.example/$1");
    await_until("the redirect", || get(gateway.http, HOST, "/app/x").status == 302);
    let response = get(gateway.http, HOST, "/app/a%20b?c=d");
    assert_eq!(response.header("location"), Some("https://other.example/a%20b?c=d"));
}

#[test]
fn a_path_that_cannot_be_rewritten_is_closed_with_the_reason() {
    let backend = Backend::echo("web");
    let ingress = expression("shop", "/good/(?<rest>.*)", "web")
        .typed_path(HOST, "/bad", "ImplementationSpecific", "web")
        .typed_path(HOST, "/unreadable/(?C1)(.*)", "ImplementationSpecific", "web")
        .annotation("rewrite-target", "/$rest");
    let root = Ingress::new("root").path(HOST, "/", "web");
    let folder = Folder::with(ingress.text() + &root.text() + &service_with("web", &[&backend]));
    let gateway = Gateway::start(&folder);
    for (path, status) in
        [("/good/x", 200), ("/bad", 503), ("/bad/x", 503), ("/unreadable/y", 503), ("/other", 200)]
    {
        assert_eq!(get(gateway.http, HOST, path).status, status, "{path}");
    }
    let problems = gateway.problems();
    assert!(problems.contains("names $rest, and the path \"/bad\" has no such group"), "{problems}");
    assert!(problems.contains("unrecognized flag"), "{problems}");
}

/// nginx inserts nothing for a group that the path does not have, and such Ingresses are common.
#[test]
fn a_path_without_the_group_of_the_target_is_rewritten_without_it() {
    let backend = Backend::echo("web");
    let ingress = expression("shop", "/app/(.*)", "web")
        .typed_path(HOST, "/all", "ImplementationSpecific", "web")
        .annotation("rewrite-target", "/new/$1");
    let folder = Folder::with(ingress.text() + &service_with("web", &[&backend]));
    let gateway = Gateway::start(&folder);
    assert_eq!(target(&get(gateway.http, HOST, "/app/x?a=b")), "/new/x?a=b");
    assert_eq!(target(&get(gateway.http, HOST, "/all/x?a=b")), "/new/?a=b");
    let problems = gateway.problems();
    assert!(problems.contains("names $1, and the path \"/all\" has no such group"), "{problems}");
}

/// Typical for single-page applications: all paths except the API.
#[test]
fn a_path_with_look_ahead_matches_and_keeps_its_group_numbers() {
    let backend = Backend::echo("web");
    let other = expression("other", "/api/.*", "web");
    let folder = Folder::with(other.text() + &service_with("web", &[&backend]));
    let write = |excluded: &str| {
        let ingress = expression("shop", &format!("/(?!({excluded})(/|$))(.*)"), "web");
        folder.write("ingress.yaml", ingress.annotation("rewrite-target", "/page/$3").text());
    };
    write("api|static");
    let gateway = Gateway::start(&folder);
    let seen = |path: &str| {
        let response = get(gateway.http, HOST, path);
        (response.status == 200).then(|| target(&response))
    };
    for (path, reached) in [
        ("/", Some("/page/")),
        ("/cart?x=1", Some("/page/cart?x=1")),
        ("/apiary", Some("/page/apiary")),
        ("/api/users", Some("/api/users")),
        ("/API/users", Some("/API/users")),
        ("/api", None),
        ("/static/app.js", None),
    ] {
        assert_eq!(seen(path).as_deref(), reached, "{path}");
    }
    assert_eq!(gateway.problems(), "");
    write("api|cart");
    await_until("the new expression", || seen("/cart").is_none());
    assert_eq!(seen("/static/app.js").as_deref(), Some("/page/static/app.js"));
}

/// nginx serves these paths by PCRE.
#[test]
fn a_path_that_needs_backtracking_is_served_and_rewritten_by_its_groups() {
    let backend = Backend::echo("web");
    let ingress = expression("shop", "/v(?<!x/v)(\\d++)/(?!admin)(?<rest>.*)", "web")
        .typed_path(HOST, "/same/(.)\\1", "ImplementationSpecific", "web")
        .typed_path(HOST, "/{id}/x", "ImplementationSpecific", "web")
        .annotation("rewrite-target", "/new/$1/$2");
    let folder = Folder::with(ingress.text() + &service_with("web", &[&backend]));
    let gateway = Gateway::start(&folder);
    let seen = |path: &str| {
        let response = get(gateway.http, HOST, path);
        (response.status == 200).then(|| target(&response))
    };
    for (path, reached) in [
        ("/v12/cart?a=b", Some("/new/12/cart?a=b")),
        ("/v12/admin", None),
        ("/same/aa", Some("/new/a/")),
        ("/same/ab", None),
        ("/%7Bid%7D/x", Some("/new//")),
    ] {
        assert_eq!(seen(path).as_deref(), reached, "{path}");
    }
}

/// As in nginx. Otherwise `%0a` leads past the rule for a path to a broader one.
#[test]
fn a_dollar_matches_before_a_line_feed_that_ends_the_path() {
    let backends = [Backend::echo("admin"), Backend::echo("web")];
    let [admin, web] = &backends;
    let ingress = expression("shop", "/admin$", "admin")
        .typed_path(HOST, "/(keys|users)$", "ImplementationSpecific", "admin")
        .typed_path(HOST, "/(?<!x)y$", "ImplementationSpecific", "admin")
        .typed_path(HOST, "/", "ImplementationSpecific", "web")
        .annotation("use-regex", "true");
    let folder =
        Folder::with(ingress.text() + &service_with("admin", &[admin]) + &service_with("web", &[web]));
    let gateway = Gateway::start(&folder);
    for path in ["/admin", "/admin%0a", "/keys%0A", "/users", "/y%0a"] {
        assert_eq!(get(gateway.http, HOST, path).backend(), "admin", "{path}");
    }
    for path in ["/admin%0a%0a", "/admin%0ax", "/keys%0d", "/y%0a/"] {
        assert_eq!(get(gateway.http, HOST, path).backend(), "web", "{path}");
    }
}

/// Each of these expressions was refused.
#[test]
fn syntax_of_pcre_is_served_in_canaries_and_block_lists() {
    let (backend, canary) = (Backend::echo("web"), Backend::echo("canary"));
    let main = Ingress::new("shop").path(HOST, "/", "web");
    let other = Ingress::new("canary")
        .path(HOST, "/", "canary")
        .annotation("canary", "true")
        .annotation("canary-by-header", "X-Version")
        .annotation("canary-by-header-pattern", r"(?<!not-)v(\d)\1");
    let keys = [("block-user-agents", "~*(?<!good)bot"), ("block-referers", r"~^http://(?>a+)b\.example")];
    let services = service_with("web", &[&backend]) + &service_with("canary", &[&canary]);
    let folder = Folder::with(main.text() + &other.text() + &services);
    folder.write("config.yaml", config_map("system/settings", &keys));
    let gateway = Gateway::with(&folder, &["--configmap", "system/settings"]);
    let answer = |name: &str, value: &str| {
        let response = Connection::plain(gateway.http).request("GET", HOST, "/", &[(name, value)], "");
        if response.status == 200 { response.backend() } else { response.status.to_string() }
    };
    for (name, value, expected) in [
        ("X-Version", "v22", "canary"),
        ("X-Version", "v23", "web"),
        ("X-Version", "not-v22", "web"),
        ("User-Agent", "a BOT", "403"),
        ("User-Agent", "a goodbot", "web"),
        ("Referer", "http://aab.example/", "403"),
        ("Referer", "http://aa.example/", "web"),
    ] {
        assert_eq!(answer(name, value), expected, "{name}: {value}");
    }
    assert_eq!(gateway.problems(), "");
}

/// The worst case for an engine that backtracks.
#[test]
fn a_request_that_reaches_the_step_limit_gets_500_and_is_reported() {
    let backend = Backend::echo("web");
    let ingress = expression("shop", "/linear/(a+)+$", "web")
        .typed_path(HOST, "/slow/(?:(a+)+)(?<!b)$", "ImplementationSpecific", "web")
        .annotation("rewrite-target", "/new/$1");
    let root = Ingress::new("root").path(HOST, "/", "web");
    let folder = Folder::with(ingress.text() + &root.text() + &service_with("web", &[&backend]));
    let gateway = Gateway::start(&folder);
    let worst = "a".repeat(1_000) + "!";
    assert_eq!(get(gateway.http, HOST, &format!("/linear/{worst}")).status, 200, "the path / takes it");
    assert_eq!(get(gateway.http, HOST, "/slow/aaa").status, 200);
    assert_eq!(backend.requests(), 2);
    assert_eq!(get(gateway.http, HOST, &format!("/slow/{worst}")).status, 500);
    assert_eq!(backend.requests(), 2, "not forwarded");
    await_until("the problem", || gateway.problems().contains("reached its step limit"));
    let metrics = gateway.metrics();
    assert!(metrics.contains("sluice_expression_limit_total 1"), "{metrics}");
}

#[test]
fn the_root_leads_to_the_application_before_everything_else() {
    let backend = Backend::echo("web");
    let app = |root: &str| {
        Ingress::new("app").path(HOST, "/app", "web").annotation("app-root", root).tls(&[HOST], "tls").text()
    };
    let main = Ingress::new("main").path(HOST, "/", "web").text();
    let secret = TestCertificate::new(&[HOST]).secret("tls");
    let folder = Folder::with(main + &service_with("web", &[&backend]) + &secret);
    folder.write("app.yaml", app("/app"));
    let gateway = Gateway::start(&folder);
    for (path, location) in [
        ("/", "http://shop.example:8080/app"),
        ("/?x=1", "http://shop.example:8080/app"),
        ("/.//", "http://shop.example:8080/app"),
        ("/x", "https://shop.example/x"),
    ] {
        let response = get(gateway.http, "shop.example:8080", path);
        assert_eq!(response.header("location"), Some(location), "{path}");
        assert_eq!(response.status, if location.starts_with("https") { 308 } else { 302 }, "{path}");
    }
    assert_eq!(get_tls(gateway.https, HOST, "/").header("location"), Some("https://shop.example/app"));
    assert_eq!(get_tls(gateway.https, HOST, "/app").backend(), "web");
    folder.write("app.yaml", app("/other"));
    await_until("the new root", || {
        get_tls(gateway.https, HOST, "/").header("location") == Some("https://shop.example/other")
    });
    folder.remove("app.yaml");
    await_until("no root", || get(gateway.http, HOST, "/").backend() == "web");
}
