//! The web page of the admin listener, read as a browser reads it.

mod chromium;

use crate::harness::manifest::{config_map, opaque_secret, service_with};
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, TestCertificate, await_until, get_tls};

const HOST: &str = "shop.example";
const PAGES: [&str; 8] = ["", "hosts", "explain", "pools", "certificates", "problems", "settings", "changes"];
/// The value of every secret of the objects.
const SECRET: &str = "hunter2hunter2hunter2hunter2";

/// Serves a host that is open, one that is closed, one with a password, and settings with secrets.
fn start(backend: &Backend, flags: &[&str]) -> (Folder, Gateway) {
    let guarded = Ingress::new("accounts")
        .path("accounts.example", "/", "shop")
        .annotation("auth-type", "basic")
        .annotation("auth-secret", "users");
    let closed = Ingress::new("private")
        .path("private.example", "/", "shop")
        .annotation("auth-type", "basic")
        .annotation("auth-secret", "missing");
    let snippet = format!("more_set_headers \"X-Key: {SECRET}\";");
    let settings = [
        ("use-gzip", "true"),
        ("ssl-session-ticket-key", SECRET),
        ("proxy-set-headers", "default/headers"),
        ("server-snippet", &*snippet),
    ];
    let objects = [
        Ingress::new("shop").path(HOST, "/", "shop").path(HOST, "/cart", "shop").tls(&[HOST], "tls").text(),
        guarded.text(),
        closed.text(),
        service_with("shop", &[backend]),
        TestCertificate::new(&[HOST]).secret("tls"),
        opaque_secret("users", &[("auth", &format!("ann:{{PLAIN}}{SECRET}"))]),
        config_map("default/headers", &[("X-Api-Key", SECRET)]),
        config_map("default/settings", &settings),
    ];
    let folder = Folder::with(objects.concat());
    let flags = [&["--configmap=default/settings", "--enable-metrics"], flags].concat();
    let gateway = Gateway::with(&folder, &flags);
    (folder, gateway)
}

#[test]
fn every_page_is_html_that_may_load_nothing_but_its_style_sheet() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend, &[]);
    for page in PAGES {
        let answer = gateway.ask(&format!("/ui/{page}"));
        assert_eq!(answer.status, 200, "{page}: {}", answer.text());
        assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"), "{page}");
        let policy = answer.header("content-security-policy").unwrap();
        for part in ["default-src 'none'", "style-src 'self'", "form-action 'self'", "frame-ancestors 'none'"]
        {
            assert!(policy.contains(part), "{page}: {policy}");
        }
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{page}");
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{page}");
        let text = answer.text();
        assert!(text.starts_with("<!DOCTYPE html>") && text.trim_end().ends_with("</html>"), "{page}");
        assert!(!text.contains("<script") && !text.contains("style="), "{page}");
    }
    let style = gateway.ask("/ui/style.css");
    assert_eq!(style.header("content-type"), Some("text/css; charset=utf-8"));
    let redirect = gateway.ask("/ui");
    assert_eq!((redirect.status, redirect.header("location")), (308, Some("/ui/")));
    assert_eq!(gateway.ask("/ui/nothing").status, 404);
}

#[test]
fn pages_can_only_be_read_and_only_from_this_machine() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend, &[]);
    let ask = |method: &str, host: &str, path: &str| {
        Connection::plain(gateway.admin).request(method, host, path, &[("Connection", "close")], "")
    };
    for page in PAGES.iter().chain(&["style.css"]) {
        let path = format!("/ui/{page}");
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            let answer = ask(method, "localhost", &path);
            assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{method} {path}");
        }
        let head = ask("HEAD", "localhost", &path);
        assert!(head.status == 200 && head.text().is_empty(), "{path}");
        let foreign = ask("GET", "rebound.example", &path);
        assert!(foreign.status == 421 && !foreign.text().contains(HOST), "{path}: {}", foreign.text());
    }
    for port in [gateway.healthz, gateway.http] {
        let answer = Connection::plain(port).request("GET", "localhost", "/ui/", &[], "");
        assert_ne!(answer.status, 200, "not for the world to see");
    }
}

#[test]
fn no_page_and_no_document_shows_a_secret() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend, &["--maxmind-mirror=https://ann:hunter2hunter2@mirror.example"]);
    let explained = format!(
        "/ui/explain?url=https%3A//{HOST}/cart&headers=Authorization:+Basic+{SECRET}%0ACookie:+a%3D{SECRET}"
    );
    for path in PAGES.iter().map(|page| format!("/ui/{page}?set=1")).chain([explained]) {
        let text = gateway.ask(&path).text();
        // The form repeats what was entered.
        let shown = text.rsplit_once("</form>").map_or(&*text, |(_, shown)| shown);
        assert!(!shown.contains("hunter2"), "{path}: {shown}");
        assert!(!shown.contains("PRIVATE KEY"), "{path}");
    }
    let settings = gateway.ask("/ui/settings?set=1").text();
    for part in ["use-gzip", "ssl-session-ticket-key", "(hidden)", "ConfigMap", "--enable-metrics", "flag"] {
        assert!(settings.contains(part), "{part}: {settings}");
    }
}

#[test]
fn figures_and_reasons_are_those_of_the_gateway() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend, &[]);
    for _ in 0..3 {
        assert_eq!(get_tls(gateway.https, HOST, "/cart").status, 200);
    }
    await_until("the requests", || {
        gateway.ask("/ui/hosts?q=/cart").text().contains("<td class=\"number\">3</td>")
    });
    let closed = gateway.ask("/ui/hosts?closed=1").text();
    assert!(closed.contains("private.example") && closed.contains("closed with 503: "), "{closed}");
    assert!(!closed.contains("accounts.example"), "{closed}");
    let overview = gateway.ask("/ui/").text();
    for part in [
        "Ready: requests are served.",
        "3 since the start",
        "a folder of manifests",
        "ingress-nginx/sluice-0",
    ] {
        assert!(overview.contains(part), "{part}: {overview}");
    }
    let certificates = gateway.ask("/ui/certificates").text();
    assert!(certificates.contains("default/tls") && certificates.contains(HOST), "{certificates}");
    let pools = gateway.ask("/ui/pools").text();
    assert!(pools.contains(&backend.address.to_string()) && pools.contains("healthy"), "{pools}");
    let problems = gateway.ask("/ui/problems?q=missing").text();
    assert!(problems.contains("Ingress default/private"), "{problems}");
    folder.write("more.yaml", Ingress::new("more").path("more.example", "/", "shop").text());
    await_until("the change", || gateway.ask("/ui/changes").text().contains("hosts (1 set): more.example"));
}

#[test]
fn the_form_explains_a_request_like_the_subcommand() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend, &[]);
    let explain = |query: &str| gateway.ask(&format!("/ui/explain?{query}")).text();
    let text = explain(&format!("method=GET&url=https%3A%2F%2F{HOST}%2Fcart%3Fitem%3D1&client=192.0.2.7"));
    for part in [
        "Goes to default-shop-",
        "Ingress default/shop",
        "Prefix /cart",
        "GET /cart?item=1",
        "192.0.2.7",
        "x-forwarded-proto",
    ] {
        assert!(text.to_lowercase().contains(&part.to_lowercase()), "{part}: {text}");
    }
    assert!(text.to_lowercase().contains("x-api-key") && !text.contains(SECRET), "{text}");
    let redirected = explain(&format!("url=http%3A%2F%2F{HOST}%2F"));
    assert!(redirected.contains("Ends at the check &quot;https&quot;: 308"), "{redirected}");
    let refused = explain("url=accounts.example");
    assert!(refused.contains("401 without a name and password"), "{refused}");
    assert!(explain("url=unknown.example").contains("No rule has this host"));
    assert!(explain("url=https%3A%2F%2F%3Cscript%3E").contains("is not a URL"));
}
