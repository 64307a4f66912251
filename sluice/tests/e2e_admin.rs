//! Introspection of the running gateway: JSON from the admin listener, tables from the subcommands.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use crate::harness::gateway::run;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, TestCertificate, await_until, get, manifest, ports,
};

const HOST: &str = "shop.example";

fn start(backend: &Backend) -> (Folder, Gateway) {
    let objects = Ingress::new("shop")
        .path(HOST, "/cart", "shop")
        .path(HOST, "/lost", "missing")
        .annotation("ssl-redirect", "false")
        .tls(&[HOST], "shop-tls")
        .text()
        + &manifest::service_with("shop", &[backend])
        + &TestCertificate::new(&[HOST]).secret("shop-tls");
    let folder = Folder::with(objects);
    let gateway = Gateway::start(&folder);
    (folder, gateway)
}

const VIEWS: [(&str, &[&str]); 4] = [
    ("routes", &[HOST, "/cart", "shop"]),
    ("backends", &["shop", "127.0.0.1:"]),
    ("certs", &["shop-tls", HOST]),
    ("problems", &["missing"]),
];

#[test]
fn every_view_is_a_json_array() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    for (view, parts) in VIEWS {
        let response = gateway.ask(&format!("/{view}"));
        assert_eq!(response.status, 200, "{view}");
        assert!(response.header("content-type").unwrap().starts_with("application/json"), "{view}");
        assert!(response.json().as_array().is_some_and(|all| !all.is_empty()), "{view}: {}", response.text());
        for part in parts {
            assert!(response.text().contains(part), "{view}: {part}: {}", response.text());
        }
    }
}

#[test]
fn every_view_is_a_subcommand_in_two_forms() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    let admin = gateway.admin.to_string();
    for (view, parts) in VIEWS {
        let table = run(&[view, "--admin-address", &admin]);
        let text = String::from_utf8(table.stdout).unwrap();
        assert!(table.status.success() && text.lines().count() >= 2, "{view}: {text}");
        for part in parts {
            assert!(text.contains(part), "{view}: {part}: {text}");
        }
        let json = run(&[view, "-o", "json", "--admin-address", &admin]);
        let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert!(value.is_array(), "{view}");
    }
}

#[test]
fn a_request_is_explained_for_every_rule() {
    let backend = Backend::echo("shop");
    let objects = Ingress::new("plain").path(HOST, "/", "shop").path(HOST, "/cart", "shop").text()
        + &Ingress::new("secure").path("secure.example", "/", "shop").tls(&["secure.example"], "tls").text()
        + &Ingress::new("closed")
            .path("closed.example", "/", "shop")
            .annotation("auth-type", "basic")
            .annotation("auth-secret", "nobody")
            .text()
        + &manifest::service_with("shop", &[&backend]);
    let folder = Folder::with(objects);
    let gateway = Gateway::start(&folder);
    let admin = gateway.admin.to_string();
    let explain = |words: &[&str]| {
        let output = run(&[&["routes", "--admin-address", &admin], words].concat());
        let (text, error) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
        (output.status.code(), text.unwrap() + &error.unwrap())
    };
    let (status, text) = explain(&["--host", HOST, "--path", "/cart/1?x=y"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.starts_with("taken by Ingress default/plain: Prefix /cart\n  goes to default-shop-"),
        "{text}"
    );
    assert!(text.contains(&format!("{} healthy", backend.address)), "{text}");
    let rules: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("rules of")).collect();
    assert!(rules[2].starts_with("takes it ") && rules[2].contains(" /cart "), "{text}");
    assert!(rules[3].starts_with("a rule before it takes it "), "{text}");
    let (_, text) = explain(&["--host", HOST, "--path", "/other"]);
    assert!(text.starts_with("taken by Ingress default/plain: Prefix /\n"), "{text}");
    assert!(text.contains("\nfor other paths "), "{text}");

    let (_, text) = explain(&["--host", "secure.example"]);
    assert!(text.contains("\n  redirected to https; "), "{text}");
    let (_, text) = explain(&["--host", "secure.example", "--https"]);
    assert!(text.contains("\n  goes to default-shop-"), "{text}");
    let (_, text) = explain(&["--host", "closed.example"]);
    assert!(text.contains("\n  closed with 503: ") && text.contains("nobody"), "{text}");
    let (_, text) = explain(&["--host", "unknown.example"]);
    assert!(text.starts_with("no rule takes it, and no rule has its host"), "{text}");

    let (status, text) = explain(&["--host", HOST, "--path", "/%zz"]);
    assert!(status == Some(1) && text.contains("such a request gets 400"), "{status:?} {text}");
    let (status, text) = explain(&["--host", HOST, "--header", "none"]);
    assert!(status == Some(1) && text.contains("write name: value"), "{status:?} {text}");
    let (_, json) = explain(&["--host", HOST, "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["taken"]["rule"]["path"], "/");
}

#[test]
fn each_check_shows_its_result_for_a_request() {
    let backend = Backend::echo("shop");
    let secret = manifest::opaque_secret("users", &[("auth", "ann:{PLAIN}x")]);
    let guarded = Ingress::new("guarded")
        .path(HOST, "/app(/|$)(.*)", "shop")
        .annotation("use-regex", "true")
        .annotation("rewrite-target", "/$2")
        .annotation("enable-cors", "true")
        .annotation("limit-rps", "5")
        .annotation("limit-allowlist", "10.9.0.0/16")
        .annotation("allowlist-source-range", "10.0.0.0/8")
        .annotation("auth-type", "basic")
        .annotation("auth-secret", "users");
    let canary = Ingress::new("canary")
        .path(HOST, "/app(/|$)(.*)", "canary")
        .annotation("canary", "true")
        .annotation("canary-by-header", "x-beta")
        .annotation("canary-weight", "10");
    let services =
        manifest::service_with("shop", &[&backend]) + &manifest::service_with("canary", &[&backend]);
    let folder = Folder::with(canary.text() + &services + &secret);
    folder.write("guarded.yaml", guarded.text());
    let gateway = Gateway::start(&folder);
    let admin = gateway.admin.to_string();
    let explain = |words: &[&str]| {
        let fixed = ["routes", "--admin-address", &admin, "--host", HOST, "--path", "/app/cart?x=1"];
        let output = run(&[&fixed, words].concat());
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    // Returns the line of a check: its outcome and reason.
    let check = |text: &str, name: &str| -> String {
        let checks = text.lines().skip_while(|line| !line.starts_with("checks, "));
        let line = checks.into_iter().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name}: {text}")).trim().to_owned()
    };
    let text = explain(&[]);
    for (name, said) in [
        ("block lists", "-            -"),
        ("rewrite", "passes       the endpoint gets /cart?x=1"),
        ("limits", "depends      5 requests a second from one address"),
        ("address lists", "depends      on the client's address: pass --client"),
        (
            "password",
            "stops here   401 without a name and password (basic, password file of Secret default/users)",
        ),
        ("loop", "not reached  -"),
    ] {
        assert_eq!(check(&text, name), said, "{text}");
    }
    assert!(check(&text, "backend").ends_with("takes 10 of 100 requests"), "{text}");
    let allowed = explain(&["--client", "10.9.1.2", "--header", "Authorization: Basic x"]);
    assert!(check(&allowed, "limits").contains("limit-allowlist"), "{allowed}");
    assert!(check(&allowed, "address lists").starts_with("passes"), "{allowed}");
    assert!(check(&allowed, "password").starts_with("depends"), "{allowed}");
    let denied = explain(&["--client", "192.0.2.1", "--header", "x-beta: always"]);
    assert!(check(&denied, "address lists").starts_with("stops here   403"), "{denied}");
    assert!(check(&denied, "password").starts_with("not reached"), "{denied}");
    assert!(check(&denied, "backend").contains("takes it, by its header"), "{denied}");
    let question =
        explain(&["--method", "OPTIONS", "--header", "Origin: https://page.example", "--client", "10.0.0.1"]);
    assert!(check(&question, "origin").starts_with("stops here   204"), "{question}");
    assert!(explain(&["--client", "nobody"]).contains("is not the address"));

    // With `satisfy: any`, an address that is not listed can still use the password.
    folder.write("guarded.yaml", guarded.annotation("satisfy", "any").text());
    await_until("the other rule", || {
        check(&explain(&["--client", "10.0.0.1"]), "satisfy").starts_with("passes")
    });
    let listed = explain(&["--client", "10.0.0.1"]);
    assert!(check(&listed, "password").contains("let in already"), "{listed}");
    let other = explain(&["--client", "192.0.2.1"]);
    assert!(check(&other, "address lists").starts_with("refuses"), "{other}");
    assert!(check(&other, "satisfy").starts_with("stops here"), "{other}");
}

#[test]
fn explanations_agree_with_responses_of_fallbacks_schemes_and_canaries() {
    let backends = ["web", "beta", "errors"].map(Backend::echo);
    let [web, beta, errors] = &backends;
    let canary = Ingress::new("beta")
        .path("canary.example", "/", "beta")
        .annotation("canary", "true")
        .annotation("canary-by-header", "x-beta");
    let objects = Ingress::new("lost")
        .path("lost.example", "/", "idle")
        .annotation("default-backend", "errors")
        .text()
        + &Ingress::new("secure").path("secure.example", "/", "web").tls(&["secure.example"], "tls").text()
        + &Ingress::new("main").path("canary.example", "/", "web").text()
        + &canary.text()
        + &TestCertificate::new(&["secure.example"]).secret("tls")
        + &manifest::config_map("ingress-nginx/controller", &[("use-forwarded-headers", "true")])
        + &manifest::service_with("web", &[web])
        + &manifest::service_with("beta", &[beta])
        + &manifest::service_with("errors", &[errors])
        + &manifest::service_with("idle", &[]);
    let gateway = Gateway::with(&Folder::with(objects), &["--configmap", "ingress-nginx/controller"]);
    let admin = gateway.admin.to_string();
    for (host, name, value, backend) in [
        ("lost.example", "X-None", "x", "errors"),
        ("secure.example", "X-Forwarded-Proto", "https", "web"),
        ("canary.example", "X-Beta", "always", "beta"),
        ("canary.example", "X-Beta", "never", "web"),
    ] {
        let mut connection = Connection::plain(gateway.http);
        assert_eq!(connection.request("GET", host, "/", &[(name, value)], "").backend(), backend, "{host}");
        let field = format!("{name}: {value}");
        let output = run(&["routes", "--admin-address", &admin, "--host", host, "--header", &field]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&format!("an endpoint of default-{backend}-")), "{text}");
        assert!(!text.contains("stops here"), "{text}");
    }
}

#[test]
fn a_stopped_gateway_is_reported() {
    let output = run(&["routes", "--admin-address", "127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.lines().count() == 1 && text.contains("127.0.0.1:1"), "{text}");
}

#[test]
fn nothing_can_be_changed_and_no_key_is_shown() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    for method in ["POST", "PUT", "DELETE"] {
        let status = Connection::plain(gateway.admin).request(method, "localhost", "/routes", &[], "").status;
        assert_eq!(status, 405, "{method}");
    }
    assert_eq!(gateway.ask("/nothing").status, 404);
    assert!(!gateway.ask("/certs").text().contains("PRIVATE KEY"));
}

#[test]
fn a_foreign_page_reads_nothing_through_its_own_host_name() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    let ask = |host: &str, fields: &[(&str, &str)]| {
        let answer = Connection::plain(gateway.admin).request("GET", host, "/routes", fields, "");
        (answer.status, answer.text())
    };
    let port = gateway.admin.port();
    for own in ["localhost", "127.0.0.1", "127.0.0.7:1", "[::1]:8080", &format!("localhost:{port}")] {
        assert_eq!(ask(own, &[]).0, 200, "{own}");
    }
    for other in
        ["evil.example", &format!("evil.example:{port}"), "127.0.0.1.evil.example", "10.0.0.1", "admin"]
    {
        let (status, text) = ask(other, &[]);
        assert_eq!(status, 421, "{other}: {text}");
        assert!(text.contains("--admin-address") && !text.contains(HOST), "{other}: {text}");
    }
    let (status, text) = ask("localhost", &[("Origin", "https://evil.example")]);
    assert!(status == 403 && !text.contains(HOST), "{text}");
    let absolute =
        Connection::plain(gateway.admin).request("GET", "localhost", "http://evil.example/routes", &[], "");
    assert_eq!(absolute.status, 421);
    for probe in ["10.0.0.1:10254", "pod.example"] {
        let status = |path| Connection::plain(gateway.healthz).request("GET", probe, path, &[], "").status;
        assert_eq!(
            (status("/healthz"), status("/metrics")),
            (200, 200),
            "probes and scrapes use any name: {probe}"
        );
    }
}

#[test]
fn subcommands_reach_any_address_of_loopback() {
    let folder = Folder::with(manifest::service("shop"));
    for address in ["127.0.0.1", "127.0.0.9", "[::1]"] {
        let [http, https, health, admin] = [(); 4].map(|()| ports::reserve());
        let admin = format!("{address}:{admin}");
        let flags = [
            format!("--http-port={http}"),
            format!("--https-port={https}"),
            format!("--healthz-port={health}"),
            format!("--admin-address={admin}"),
        ];
        let gateway = Gateway::unready(&folder, &flags, (Ipv4Addr::LOCALHOST, health).into());
        await_until("readiness", || gateway.health() == Some(200));
        for (view, _) in VIEWS {
            let output = run(&[view, "--admin-address", &admin]);
            assert!(
                output.status.success(),
                "{view} at {admin}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}

#[test]
fn slow_clients_of_the_health_port_delay_no_probe() {
    let gateway = Gateway::start(&Folder::with(""));
    // Incomplete heads, clients that do not read the page, and idle connections.
    let slow: Vec<Connection> = (0..900)
        .filter_map(|number| {
            let mut connection = Connection::try_plain(gateway.healthz).ok()?;
            let sent = match number % 3 {
                0 => "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
                1 => "GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ",
                _ => "",
            };
            // The gateway may have evicted the connection.
            let _ = connection.try_send(sent);
            Some(connection)
        })
        .collect();
    for _ in 0..5 {
        let asked = Instant::now();
        assert_eq!(gateway.health(), Some(200));
        // Less than the time limit for heads, and more than any machine needs.
        assert!(
            asked.elapsed() < Duration::from_secs(4),
            "the kubelet would restart it: {:?}",
            asked.elapsed()
        );
        // A slot becomes free as soon as earlier clients have received the page.
        await_until("metrics", || {
            let page = gateway.probe("/metrics");
            page.is_some_and(|page| page.text().contains("process_resident_memory_bytes"))
        });
    }
    drop(slow);
}

#[test]
fn the_health_of_endpoints_is_shown() {
    let mut backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    assert_eq!(get(gateway.http, HOST, "/cart").status, 200);
    let healthy = gateway.ask("/backends").text();
    backend.stop();
    await_until("the endpoint to be shown as out", || {
        assert_eq!(get(gateway.http, HOST, "/cart").status, 502);
        gateway.ask("/backends").text() != healthy
    });
}

#[test]
fn liveness_readiness_and_metrics_have_their_own_port() {
    let gateway = Gateway::start(&Folder::with(""));
    for path in ["/healthz", "/livez", "/metrics"] {
        assert_eq!(gateway.probe(path).map(|response| response.status), Some(200), "{path}");
    }
    assert_eq!(
        gateway.probe("/routes").map(|response| response.status),
        Some(404),
        "not for the world to see"
    );
}
