//! Sticky sessions by cookie.

use std::collections::HashSet;

use regex::Regex;

use crate::harness::client::Response;
use crate::harness::manifest::{endpoints, service};
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, TestCertificate, await_until, get};

const HOST: &str = "sticky.example";

fn sticky(annotations: &[(&str, &str)]) -> Ingress {
    Ingress::new("sticky").path(HOST, "/", "sticky").annotation("affinity", "cookie").annotations(annotations)
}

fn start(ingress: &Ingress, backends: &[Backend]) -> (Folder, Gateway) {
    let folder = Folder::with(ingress.text() + &service("sticky"));
    folder.write("endpoints.yaml", endpoints("sticky", &backends.iter().collect::<Vec<_>>()));
    let gateway = Gateway::start(&folder);
    (folder, gateway)
}

fn with_cookie(gateway: &Gateway, cookie: &str) -> Response {
    Connection::plain(gateway.http).request("GET", HOST, "/", &[("Cookie", cookie)], "")
}

fn backends() -> [Backend; 5] {
    ["a", "b", "c", "d", "e"].map(Backend::echo)
}

#[test]
fn a_session_stays_with_its_endpoint_and_gets_its_cookie_once() {
    let form = Regex::new(r"^INGRESSCOOKIE=[^|]+\|[0-9a-f]{32}$").unwrap();
    for mode in ["balanced", "persistent"] {
        let backends = backends();
        let (_folder, gateway) = start(&sticky(&[("affinity-mode", mode)]), &backends);
        let first = get(gateway.http, HOST, "/");
        let cookie = first.cookie().unwrap_or_else(|| panic!("{mode}: no cookie"));
        assert!(form.is_match(&cookie), "{cookie}");
        assert!(first.header("set-cookie").unwrap().contains("HttpOnly"));
        for _ in 0..10 {
            let next = with_cookie(&gateway, &format!("other=1; {cookie}"));
            assert_eq!(next.backend(), first.backend(), "{mode}");
            assert_eq!(next.cookie(), None, "{mode}");
        }
    }
}

#[test]
fn new_sessions_are_spread() {
    let backends = backends();
    let (_folder, gateway) = start(&sticky(&[]), &backends);
    let reached: HashSet<String> = (0..60).map(|_| get(gateway.http, HOST, "/").backend()).collect();
    assert!(reached.len() >= 3, "{reached:?}");
}

#[test]
fn balanced_maps_any_key_to_one_endpoint_without_a_new_cookie() {
    let backends = backends();
    let (_folder, gateway) = start(&sticky(&[]), &backends);
    for key in ["foreign", "1700000000.123.456"] {
        let cookie = format!("INGRESSCOOKIE={key}|0123456789abcdef0123456789abcdef");
        let first = with_cookie(&gateway, &cookie);
        assert_eq!((first.status, first.cookie()), (200, None), "{key}");
        assert_eq!(with_cookie(&gateway, &cookie).backend(), first.backend(), "{key}");
    }
}

#[test]
fn persistent_picks_another_endpoint_when_its_own_is_gone() {
    let backends = backends();
    let (folder, gateway) = start(&sticky(&[("affinity-mode", "persistent")]), &backends);
    let first = get(gateway.http, HOST, "/");
    let cookie = first.cookie().unwrap();
    let left: Vec<&Backend> = backends
        .iter()
        .zip(["a", "b", "c", "d", "e"])
        .filter(|(_, name)| *name != first.backend())
        .map(|(b, _)| b)
        .collect();
    folder.write("endpoints.yaml", endpoints("sticky", &left));
    await_until("the session to move", || with_cookie(&gateway, &cookie).backend() != first.backend());
    let moved = with_cookie(&gateway, &cookie);
    let new_cookie = moved.cookie().expect("a new cookie");
    assert_ne!(new_cookie, cookie);
    let next = with_cookie(&gateway, &new_cookie);
    assert_eq!((next.backend(), next.cookie()), (moved.backend(), None));
}

#[test]
fn persistent_keeps_its_endpoint_when_others_come_and_go() {
    let backends = backends();
    let (folder, gateway) = start(&sticky(&[("affinity-mode", "persistent")]), &backends[..3]);
    let first = get(gateway.http, HOST, "/");
    let cookie = first.cookie().unwrap();
    folder.write("endpoints.yaml", endpoints("sticky", &backends.iter().collect::<Vec<_>>()));
    await_until("the new endpoints", || {
        ["d", "e"].contains(&get(gateway.http, HOST, "/").backend().as_str())
    });
    let next = with_cookie(&gateway, &cookie);
    assert_eq!((next.backend(), next.cookie()), (first.backend(), None));
}

#[test]
fn attributes_are_those_of_the_annotations() {
    let ingress = sticky(&[
        ("session-cookie-name", "route"),
        ("session-cookie-path", "/app"),
        ("session-cookie-domain", "example.com"),
        ("session-cookie-samesite", "Strict"),
        ("session-cookie-expires", "172800"),
        ("session-cookie-max-age", "86400"),
        ("session-cookie-secure", "true"),
    ]);
    let backends = backends();
    let (_folder, gateway) = start(&ingress, &backends);
    let response = get(gateway.http, HOST, "/");
    let field = response.header("set-cookie").unwrap();
    assert!(field.starts_with("route="), "{field}");
    let attributes: Vec<&str> = field.split(';').skip(1).map(str::trim).collect();
    for attribute in
        ["Path=/app", "Domain=example.com", "SameSite=Strict", "Max-Age=86400", "Secure", "HttpOnly"]
    {
        assert!(attributes.iter().any(|one| one.eq_ignore_ascii_case(attribute)), "{attribute}: {field}");
    }
    assert!(attributes.iter().any(|one| one.starts_with("Expires=") && one.ends_with("GMT")), "{field}");
}

#[test]
fn without_annotations_path_follows_the_rule_and_secure_the_scheme() {
    let certificate = TestCertificate::new(&[HOST]);
    let ingress = Ingress::new("sticky")
        .path(HOST, "/app", "sticky")
        .annotation("affinity", "cookie")
        .annotation("ssl-redirect", "false")
        .tls(&[HOST], "tls");
    let backends = backends();
    let folder = Folder::with(ingress.text() + &service("sticky") + &certificate.secret("tls"));
    folder.write("endpoints.yaml", endpoints("sticky", &backends.iter().collect::<Vec<_>>()));
    let gateway = Gateway::start(&folder);
    let plain = get(gateway.http, HOST, "/app/x");
    let field = plain.header("set-cookie").unwrap();
    assert!(field.contains("Path=/app") && !field.contains("Secure"), "{field}");
    let secure = crate::harness::get_tls(gateway.https, HOST, "/app/x");
    assert!(secure.header("set-cookie").unwrap().contains("Secure"));
}

#[test]
fn a_bad_cookie_setting_is_ignored_and_the_ingress_stays_served() {
    let ingress = sticky(&[
        ("session-cookie-expires", "1h"),
        ("session-cookie-name", "a=b"),
        ("session-cookie-path", "/; Domain=evil"),
        ("session-cookie-samesite", "loose"),
    ]);
    let backends = backends();
    let (_folder, gateway) = start(&ingress, &backends);
    let response = get(gateway.http, HOST, "/");
    let field = response.header("set-cookie").unwrap();
    assert!(field.starts_with("INGRESSCOOKIE=") && field.contains("Path=/;"), "{field}");
    assert!(!field.contains("Expires") && !field.contains("evil") && !field.contains("SameSite"), "{field}");
    let problems = gateway.problems();
    for part in ["session-cookie-expires", "\"1h\"", "session-cookie-name", "session-cookie-path"] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
}

#[test]
fn a_cookie_over_https_is_always_secure() {
    let certificate = TestCertificate::new(&[HOST]);
    let ingress =
        sticky(&[("session-cookie-secure", "false"), ("ssl-redirect", "false")]).tls(&[HOST], "tls");
    let backends = backends();
    let (folder, gateway) = start(&ingress, &backends);
    folder.write("tls.yaml", certificate.secret("tls"));
    let secure = crate::harness::get_tls(gateway.https, HOST, "/");
    assert!(secure.header("set-cookie").unwrap().contains("; Secure"), "{:?}", secure.headers());
    let plain = get(gateway.http, HOST, "/");
    assert!(!plain.header("set-cookie").unwrap().contains("; Secure"), "{:?}", plain.headers());
}

#[test]
fn a_path_that_no_cookie_can_have_does_not_close_its_host() {
    let ingress = sticky(&[]).typed_path(HOST, "/a;b", "ImplementationSpecific", "sticky");
    let backends = backends();
    let (_folder, gateway) = start(&ingress, &backends);
    for path in ["/", "/a;b"] {
        let response = get(gateway.http, HOST, path);
        assert_eq!(response.status, 200, "{path}");
        assert!(response.header("set-cookie").unwrap().contains("Path=/;"), "{:?}", response.headers());
    }
}

#[test]
fn a_dead_pinned_endpoint_keeps_its_session_unless_configured() {
    for (change, status) in [("false", 502), ("true", 200)] {
        let mut backends = backends();
        let annotations = [
            ("affinity-mode", "persistent"),
            ("session-cookie-change-on-failure", change),
            ("proxy-next-upstream-tries", "5"),
        ];
        let (_folder, gateway) = start(&sticky(&annotations), &backends);
        let first = get(gateway.http, HOST, "/");
        let cookie = first.cookie().unwrap();
        let dead = ["a", "b", "c", "d", "e"].iter().position(|name| *name == first.backend()).unwrap();
        backends[dead].stop();
        let next = with_cookie(&gateway, &cookie);
        assert_eq!(next.status, status, "change-on-failure {change}");
        assert_eq!(next.cookie().is_some(), change == "true", "change-on-failure {change}");
    }
}

#[test]
fn same_site_none_is_left_out_for_browsers_that_misread_it() {
    let annotations =
        [("session-cookie-samesite", "None"), ("session-cookie-conditional-samesite-none", "true")];
    let backends = backends();
    let (folder, gateway) = start(&sticky(&annotations), &backends);
    let cookie = |agent: &str| {
        let response =
            Connection::plain(gateway.http).request("GET", HOST, "/", &[("User-Agent", agent)], "");
        response.header("set-cookie").unwrap().to_owned()
    };
    let old = "Mozilla/5.0 (iPhone; CPU iPhone OS 12_4 like Mac OS X) Version/12.1.2 Safari/604.1";
    assert!(cookie("Mozilla/5.0 Chrome/131.0 Safari/537.36").contains("; SameSite=None"));
    assert!(!cookie(old).contains("SameSite"), "{}", cookie(old));
    folder.write("objects.yaml", sticky(&annotations[..1]).text() + &service("sticky"));
    await_until("the condition to go", || cookie(old).contains("; SameSite=None"));
}
