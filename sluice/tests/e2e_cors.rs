//! Cross-origin resource sharing: preflight requests, and responses to pages of other origins.

use crate::harness::client::Response;
use crate::harness::h2;
use crate::harness::manifest::{opaque_secret, service_with};
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, Reply, TestCertificate, await_until, get,
};

const HOST: &str = "api.example";
const PAGE: &str = "https://shop.example";

fn api(annotations: &[(&str, &str)]) -> Ingress {
    Ingress::new("api").path(HOST, "/", "api").annotation("enable-cors", "true").annotations(annotations)
}

fn start(ingress: &Ingress) -> (Backend, Folder, Gateway) {
    let backend = Backend::echo("api");
    let folder = Folder::with(service_with("api", &[&backend]));
    folder.write("api.yaml", ingress.text());
    let gateway = Gateway::start(&folder);
    (backend, folder, gateway)
}

fn ask(gateway: &Gateway, method: &str, target: &str, origin: &str) -> Response {
    Connection::plain(gateway.http).request(method, HOST, target, &[("Origin", origin)], "")
}

fn allowed(response: &Response) -> Option<&str> {
    response.header("access-control-allow-origin")
}

#[test]
fn by_default_any_origin_may_read_and_preflights_get_defaults() {
    let (backend, _folder, gateway) = start(&api(&[]));
    let response = ask(&gateway, "OPTIONS", "/x", PAGE);
    assert_eq!(response.status, 204);
    for (name, value) in [
        ("access-control-allow-origin", "*"),
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-methods", "GET, PUT, POST, DELETE, PATCH, OPTIONS"),
        (
            "access-control-allow-headers",
            "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization",
        ),
        ("access-control-max-age", "1728000"),
    ] {
        assert_eq!(response.header(name), Some(value));
    }
    for absent in ["access-control-expose-headers", "vary", "content-length", "content-type"] {
        assert_eq!(response.header(absent), None, "{absent}");
    }
    assert_eq!(backend.requests(), 0);
    let response = get(gateway.http, HOST, "/x");
    assert_eq!((response.status, allowed(&response)), (200, Some("*")));
}

#[test]
fn listed_origins_get_their_own_back_and_others_nothing() {
    let (backend, _folder, gateway) = start(&api(&[
        ("cors-allow-origin", "https://shop.example, https://*.site.example:8443, null,"),
        ("cors-allow-methods", "GET, PUT"),
        ("cors-allow-headers", "X-Token"),
        ("cors-expose-headers", "X-Count, X-Page"),
        ("cors-allow-credentials", "false"),
        ("cors-max-age", "600"),
    ]));
    for origin in [PAGE, "HTTPS://SHOP.example", "https://a.site.example:8443", "null"] {
        for (method, status) in [("OPTIONS", 204), ("GET", 200), ("PUT", 200)] {
            let response = ask(&gateway, method, "/", origin);
            assert_eq!((response.status, allowed(&response)), (status, Some(origin)), "{method}");
            assert_eq!(response.header("access-control-allow-credentials"), None);
            assert_eq!(response.header("access-control-allow-methods"), Some("GET, PUT"));
            assert_eq!(response.header("access-control-allow-headers"), Some("X-Token"));
            assert_eq!(response.header("access-control-expose-headers"), Some("X-Count, X-Page"));
            assert_eq!(response.header("access-control-max-age"), Some("600"));
            assert_eq!(response.header("vary"), Some("Origin"));
        }
    }
    let before = backend.requests();
    let others = [
        "http://shop.example",
        "https://shop.example:444",
        "https://shop.example.evil",
        "https://evilshop.example",
        "https://a.b.site.example:8443",
        "https://site.example:8443",
    ];
    for origin in others {
        for method in ["OPTIONS", "GET"] {
            let response = ask(&gateway, method, "/", origin);
            assert_eq!((response.status, allowed(&response)), (200, None), "{method} {origin}");
            assert_eq!(response.header("access-control-allow-methods"), None);
            assert_eq!(
                response.header("vary"),
                Some("Origin"),
                "a cache must not give it to an accepted one"
            );
        }
    }
    assert_eq!(backend.requests() - before, 2 * others.len(), "they are proxied all the same");
}

#[test]
fn a_star_for_methods_or_fields_leaves_the_defaults_and_is_reported() {
    let stars = [("cors-allow-methods", "*"), ("cors-allow-headers", "*"), ("cors-expose-headers", "*")];
    let (_backend, _folder, gateway) = start(&api(&stars));
    let response = ask(&gateway, "OPTIONS", "/", PAGE);
    let methods = Some("GET, PUT, POST, DELETE, PATCH, OPTIONS");
    assert_eq!(response.header("access-control-allow-methods"), methods);
    assert!(response.header("access-control-allow-headers").unwrap().ends_with("Range,Authorization"));
    assert_eq!(response.header("access-control-expose-headers"), Some("*"));
    let problems = gateway.problems();
    assert_eq!(problems.matches("which browsers match as a name").count(), 2, "{problems}");
    assert!(!problems.contains("cors-expose-headers"), "{problems}");
}

#[test]
fn our_fields_replace_those_of_the_endpoint() {
    let backend = Backend::with("api", |_| {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let fields =
            vec![field("Access-Control-Allow-Origin", "https://own.example"), field("Vary", "Accept")];
        Reply::Answer(200, fields, "ok".to_owned())
    });
    let folder = Folder::with(service_with("api", &[&backend]) + &api(&[("cors-allow-origin", PAGE)]).text());
    let gateway = Gateway::start(&folder);
    let response = ask(&gateway, "GET", "/", PAGE);
    assert_eq!(response.all("access-control-allow-origin"), [PAGE]);
    assert_eq!(response.all("vary"), ["Accept", "Origin"]);
    let response = ask(&gateway, "GET", "/", "https://other.example");
    assert_eq!(response.all("access-control-allow-origin"), ["https://own.example"], "it is left alone");
}

#[test]
fn a_preflight_needs_no_password_and_answers_of_our_own_can_be_read() {
    let guarded = api(&[("cors-allow-origin", PAGE), ("auth-type", "basic"), ("auth-secret", "users")]);
    let (backend, folder, gateway) = start(&guarded);
    let response = ask(&gateway, "OPTIONS", "/", PAGE);
    assert_eq!(response.status, 503, "closed while its Secret is missing, before all else");
    folder.write("users.yaml", opaque_secret("users", &[("auth", "ann:{PLAIN}x")]));
    await_until("the preflight", || ask(&gateway, "OPTIONS", "/", PAGE).status == 204);
    let response = ask(&gateway, "GET", "/", PAGE);
    assert_eq!((response.status, allowed(&response)), (401, Some(PAGE)));
    assert_eq!(ask(&gateway, "OPTIONS", "/", "https://evil.example").status, 401);
    assert_eq!(backend.requests(), 0);
    folder.write("api.yaml", api(&[("cors-allow-origin", PAGE), ("proxy-body-size", "1")]).text());
    let too_large =
        || Connection::plain(gateway.http).request("POST", HOST, "/", &[("Origin", PAGE)], "four");
    await_until("the limit", || too_large().status == 413);
    assert_eq!(allowed(&too_large()), Some(PAGE));
}

#[test]
fn changes_apply_at_once_and_a_bad_origin_opens_nothing() {
    let (_backend, folder, gateway) = start(&api(&[("cors-allow-origin", PAGE)]));
    assert_eq!(allowed(&ask(&gateway, "GET", "/", PAGE)), Some(PAGE));
    let other = "https://other.example";
    folder.write("api.yaml", api(&[("cors-allow-origin", &format!("shop.example, {other}"))]).text());
    await_until("the other origin", || allowed(&ask(&gateway, "GET", "/", other)) == Some(other));
    assert_eq!(allowed(&ask(&gateway, "GET", "/", PAGE)), None);
    let problems = gateway.problems();
    for part in [
        "Ingress default/api",
        "cors-allow-origin",
        "\"shop.example\"",
        "is not an origin",
        "correct the value",
    ] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
    folder.write("api.yaml", api(&[("cors-allow-origin", "shop.example")]).text());
    await_until("no origin allowed", || allowed(&ask(&gateway, "GET", "/", other)).is_none());
    assert_eq!(ask(&gateway, "OPTIONS", "/", "shop.example").status, 200, "it is the endpoint's to answer");
    folder.write("api.yaml", api(&[]).annotation("enable-cors", "false").text());
    await_until("no problem", || gateway.problems().is_empty());
    assert_eq!(allowed(&ask(&gateway, "GET", "/", PAGE)), None);
}

#[test]
fn http2_clients_receive_the_same_fields() {
    let backend = Backend::echo("api");
    let ingress = api(&[("cors-allow-origin", PAGE)]).tls(&[HOST], "tls");
    let certificate = TestCertificate::new(&[HOST]).secret("tls");
    let folder = Folder::with(ingress.text() + &service_with("api", &[&backend]) + &certificate);
    let gateway = Gateway::start(&folder);
    h2::run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        for (method, status) in [("OPTIONS", 204), ("GET", 200)] {
            let request = http::Request::builder().method(method).uri("https://api.example/");
            let request = request.header("origin", PAGE).body(()).unwrap();
            let response = connection.send(request, "").await.unwrap();
            assert_eq!(response.status(), status);
            assert_eq!(response.headers()["access-control-allow-origin"], PAGE);
            assert_eq!(response.headers()["vary"], "Origin");
        }
    });
}
