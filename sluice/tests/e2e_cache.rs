//! `sluice.dev/cache`: stored responses.

mod fetch;
mod removal;
mod stale;
mod storable;
mod users;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::harness::client::Response;
use crate::harness::h2::{self, run};
use crate::harness::manifest::service_with;
use crate::harness::wire::Message;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, Reply, TestCertificate, await_until, config_map,
};

pub(crate) const HOST: &str = "shop.example";
const FRESH: &str = "Cache-Control: max-age=600";
/// Fresh for a second, and never stale for a client of its own accord.
const SHORT: &str = "Cache-Control: max-age=1";

/// Responds as the fields of the request say, with the number of the request as the body:
/// `X-Respond` has fields, separated by ` | `, and `X-Status` the status.
fn respond(request: &Message, number: usize) -> Reply {
    let fields = request.header("x-respond").unwrap_or_default().split(" | ");
    let fields = fields.filter_map(|field| field.split_once(": "));
    let fields: Vec<_> = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let etag = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("etag")).map(|(_, etag)| &**etag);
    if etag.is_some() && request.header("if-none-match") == etag {
        return Reply::Answer(304, fields, String::new());
    }
    let status = request.header("x-status").and_then(|status| status.parse().ok()).unwrap_or(200);
    Reply::Answer(status, fields, number.to_string())
}

fn origin(name: &str) -> Backend {
    let requests = AtomicUsize::new(0);
    Backend::with(name, move |request| respond(request, requests.fetch_add(1, SeqCst) + 1))
}

fn ingress(annotations: &[(&str, &str)]) -> Ingress {
    Ingress::plain_and_tls("shop", HOST)
        .annotation("sluice.dev/cache", "true")
        .annotation("sluice.dev/set-response-headers", "X-Cache: $upstream_cache_status")
        .annotations(annotations)
}

/// Returns the manifests of a gateway with these annotations and keys of the ConfigMap.
pub(crate) fn manifests(backend: &Backend, annotations: &[(&str, &str)], keys: &[(&str, &str)]) -> Folder {
    let certificate = TestCertificate::new(&[HOST]).secret("tls");
    let folder = Folder::with(service_with("shop", &[backend]) + &certificate);
    folder.write("shop.yaml", ingress(annotations).text());
    folder.write("config.yaml", config_map("system/settings", keys));
    folder
}

/// Starts a gateway with these annotations and keys of the ConfigMap.
fn start(backend: &Backend, annotations: &[(&str, &str)], keys: &[(&str, &str)]) -> (Folder, Gateway) {
    let folder = manifests(backend, annotations, keys);
    let gateway = Gateway::with(&folder, &["--configmap", "system/settings"]);
    (folder, gateway)
}

fn request(gateway: &Gateway, method: &str, path: &str, fields: &[(&str, &str)]) -> Response {
    Connection::plain(gateway.http).request(method, HOST, path, fields, "")
}

/// Sends a GET whose response has these fields.
fn get(gateway: &Gateway, path: &str, respond: &str, fields: &[(&str, &str)]) -> Response {
    request(gateway, "GET", path, &[&[("X-Respond", respond)], fields].concat())
}

/// The outcome of the cache, and the body, which is the number of the request to the endpoint.
fn outcome(response: &Response) -> (String, String) {
    (response.header("x-cache").unwrap_or("-").to_owned(), response.text())
}

fn is(response: &Response, cache: &str, body: &str) -> bool {
    outcome(response) == (cache.to_owned(), body.to_owned())
}

#[track_caller]
fn assert_is(response: &Response, cache: &str, body: &str) {
    assert_eq!(outcome(response), (cache.to_owned(), body.to_owned()), "{}", response.status_line());
}

#[test]
fn a_stored_response_answers_without_an_endpoint() {
    let backend = origin("shop");
    let format = r#"{"cache":"$upstream_cache_status","to":"$upstream_addr"}"#;
    let (_folder, gateway) = start(&backend, &[], &[("log-format-upstream", format)]);
    let first = get(&gateway, "/a?x=1", FRESH, &[]);
    assert_is(&first, "MISS", "1");
    assert_eq!(first.header("age"), None);
    let hit = get(&gateway, "/a?x=1", FRESH, &[]);
    assert_is(&hit, "HIT", "1");
    assert!(hit.header("age").is_some() && hit.header("cache-control") == Some("max-age=600"));
    let head = request(&gateway, "HEAD", "/a?x=1", &[]);
    assert_is(&head, "HIT", "");
    assert_eq!(head.header("content-length"), Some("1"));
    assert_is(&get(&gateway, "/a?x=2", FRESH, &[]), "MISS", "2");
    assert_is(&get(&gateway, "/A?x=1", FRESH, &[]), "MISS", "3");
    // Several requests on one connection.
    let mut connection = Connection::plain(gateway.http);
    for _ in 0..3 {
        assert_is(&connection.get(HOST, "/a?x=1"), "HIT", "1");
    }
    assert_eq!(backend.requests(), 3);
    gateway.await_access(r#"{"cache":"HIT","to":"-"}"#);
    gateway.await_access(&format!(r#"{{"cache":"MISS","to":"{}"}}"#, backend.address));
    // A client has its response before the request is counted.
    let count =
        |status: &str| gateway.metric(&format!(r#"sluice_cache_requests_total{{status="{status}"}}"#));
    await_until("all counted", || (count("hit"), count("miss")) == (5, 3));
    assert_eq!(gateway.ask("/cache").json()["responses"], 3);
    assert_eq!(gateway.metric("sluice_cache_responses"), 3);
}

#[test]
fn clients_of_http_2_share_responses_with_others_of_https() {
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[], &[]);
    assert_is(&get(&gateway, "/", FRESH, &[]), "MISS", "1");
    let mut plain = Connection::tls(gateway.https, HOST);
    assert_is(&plain.request("GET", HOST, "/", &[("X-Respond", FRESH)], ""), "MISS", "2");
    run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        for method in ["GET", "HEAD", "GET"] {
            let request = http::Request::builder().method(method).uri(format!("https://{HOST}/"));
            let response = connection.send(request.body(()).unwrap(), "").await.unwrap();
            assert_eq!(response.headers()["x-cache"], "HIT");
            assert_eq!(response.headers()["content-length"], "1");
            assert_eq!(&response.body()[..], if method == "GET" { &b"2"[..] } else { b"" });
        }
        let condition = http::Request::get(format!("https://{HOST}/e")).header("if-none-match", "\"e\"");
        let condition = condition.header("x-respond", format!("{FRESH} | ETag: \"e\"")).body(()).unwrap();
        let response = connection.send(condition, "").await.unwrap();
        assert_eq!((response.status().as_u16(), response.body().len()), (304, 0));
        let response = connection.get(&format!("https://{HOST}/e")).await.unwrap();
        assert_eq!(
            (&response.headers()["x-cache"], &response.body()[..]),
            (&"HIT".parse().unwrap(), &b"3"[..])
        );
    });
}

#[test]
fn a_head_request_fetches_the_whole_response() {
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[], &[]);
    let head = request(&gateway, "HEAD", "/", &[("X-Respond", FRESH)]);
    assert_is(&head, "MISS", "");
    assert_eq!(head.header("content-length"), Some("1"));
    await_until("the stored response", || gateway.ask("/cache").json()["responses"] == 1);
    assert!(backend.seen()[0].start.starts_with("GET "));
    assert_is(&get(&gateway, "/", FRESH, &[]), "HIT", "1");
}

#[test]
fn no_rule_and_no_backend_gets_the_responses_of_another_one() {
    let (backend, other) = (origin("shop"), Backend::with("other", |_| Reply::field("X-Of", "other")));
    let certificate = TestCertificate::new(&[HOST]).secret("tls");
    let services = service_with("shop", &[&backend]) + &service_with("other", &[&other]);
    let folder = Folder::with(services + &certificate);
    let to = |service: &str| {
        let own = Ingress::new("shop").path(HOST, "/", service).path("b.example", "/", "shop");
        own.annotation("sluice.dev/cache", "true")
            .annotation("sluice.dev/set-response-headers", "X-Cache: $upstream_cache_status")
            .text()
    };
    folder.write("shop.yaml", to("shop"));
    let gateway = Gateway::start(&folder);
    let ask =
        |host: &str| Connection::plain(gateway.http).request("GET", host, "/", &[("X-Respond", FRESH)], "");
    assert_is(&ask(HOST), "MISS", "1");
    assert_is(&ask("b.example"), "MISS", "2");
    assert_is(&ask(HOST), "HIT", "1");
    folder.write("shop.yaml", to("other"));
    await_until("the other backend", || ask(HOST).header("x-of") == Some("other"));
    assert_is(&ask("b.example"), "HIT", "2");
    folder.write("shop.yaml", to("shop"));
    await_until("the first backend", || ask(HOST).header("x-of").is_none());
}

#[test]
fn policies_on_responses_apply_to_stored_ones() {
    let text = "a text that compresses well, ".repeat(100);
    let backend = Backend::with("shop", {
        let text = text.clone();
        move |_| {
            let fields =
                [("Cache-Control", "max-age=600"), ("Content-Type", "text/plain"), ("X-Powered-By", "x")];
            let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
            Reply::Answer(200, fields.into(), text.clone())
        }
    });
    let annotations = [("enable-cors", "true"), ("cors-allow-origin", "https://a.example,https://b.example")];
    let (_folder, gateway) =
        start(&backend, &annotations, &[("use-gzip", "true"), ("hide-headers", "X-Powered-By")]);
    for (origin, encoding) in
        [("https://a.example", ""), ("https://b.example", "gzip"), ("https://c.example", "")]
    {
        for _ in 0..2 {
            let fields = [("Origin", origin), ("Accept-Encoding", encoding)];
            let response = request(&gateway, "GET", "/", &fields);
            let allowed = (origin != "https://c.example").then_some(origin);
            assert_eq!(response.header("access-control-allow-origin"), allowed);
            assert_eq!(response.header("server"), Some("sluice"));
            assert_eq!(response.header("x-powered-by"), None, "hidden by the ConfigMap");
            match encoding {
                "gzip" => assert_eq!(response.header("content-encoding"), Some("gzip")),
                _ => assert_eq!(response.text(), text),
            }
        }
    }
    assert_eq!(backend.requests(), 1);
}

#[test]
fn annotations_choose_what_is_stored_and_by_what() {
    let backend = origin("shop");
    let annotations = [
        ("sluice.dev/cache-ttl", "10m"),
        ("sluice.dev/cache-key", "path, query:page, header:X-Team, cookie:theme"),
        ("sluice.dev/cache-methods", "GET"),
        ("sluice.dev/cache-statuses", "200,404"),
    ];
    let (folder, gateway) = start(&backend, &annotations, &[]);
    let ask = |path: &str, fields: &[(&str, &str)]| get(&gateway, path, "X-None: 1", fields);
    assert_is(&ask("/?page=1&x=1", &[]), "MISS", "1");
    assert_is(&ask("/?x=2&page=1", &[]), "HIT", "1");
    assert_is(&ask("/?page=2", &[]), "MISS", "2");
    assert_is(&ask("/?page=1", &[("X-Team", "a")]), "MISS", "3");
    assert_is(&ask("/?page=1", &[("Cookie", "theme=dark; session=1")]), "MISS", "4");
    assert_is(&ask("/?page=1", &[("Cookie", "session=2; theme=dark")]), "HIT", "4");
    assert_is(&request(&gateway, "HEAD", "/?page=1", &[]), "BYPASS", "");
    assert_is(&ask("/missing", &[("X-Status", "404")]), "MISS", "6");
    let missing = ask("/missing", &[]);
    assert_eq!((missing.status, missing.header("x-cache")), (404, Some("HIT")));
    assert_is(&ask("/moved", &[("X-Status", "301")]), "MISS", "7");
    assert_is(&ask("/moved", &[("X-Status", "301")]), "MISS", "8");
    assert!(gateway.problems().is_empty());

    // With another key, clients could get each other's responses.
    folder.write("shop.yaml", ingress(&[("sluice.dev/cache-key", "path,cokie:session")]).text());
    await_until("the problem", || gateway.problems().contains("cokie:session"));
    assert!(gateway.problems().contains("nothing is stored"), "{}", gateway.problems());
    await_until("nothing to be stored", || outcome(&ask("/", &[])).0 == "-");
}

#[test]
fn an_explanation_tells_what_the_cache_does_with_a_request() {
    let backend = Backend::echo("shop");
    let annotations = [("sluice.dev/cache-ttl", "5m"), ("sluice.dev/cache-key", "host,path,cookie:theme")];
    let (folder, gateway) = start(&backend, &annotations, &[]);
    let says = |query: &str| -> (String, String) {
        let explained = gateway.ask(&format!("/explain?host={HOST}&path=/page{query}")).json();
        let checks = explained["taken"]["checks"].as_array().unwrap().clone();
        let cache = checks.into_iter().find(|check| check["check"] == "cache").unwrap();
        let text = |name: &str| cache[name].as_str().unwrap().to_owned();
        (text("outcome"), text("says"))
    };
    let (outcome, words) = says("");
    assert_eq!(outcome, "depends");
    assert_eq!(
        words,
        "a stored response with the same host, path, cookie theme answers; responses with 200, 301, 302 are stored as \
         long as they say, or 300 s"
    );
    for (query, word) in [
        ("&method=POST", "removes what is stored"),
        ("&method=OPTIONS", "this method"),
        ("&header=authorization:x", "Authorization"),
    ] {
        let (outcome, words) = says(query);
        assert!(outcome == "passes" && words.starts_with("bypassed: ") && words.contains(word), "{words}");
    }
    folder.write("config.yaml", config_map("system/settings", &[("cache-size", "0")]));
    await_until("the cache off", || says("").1.contains("cache-size"));
}

/// The engine of cached rules kept one.
#[test]
fn no_connection_is_kept_with_zero_keepalive_connections() {
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[], &[("upstream-keepalive-connections", "0")]);
    let mut client = Connection::plain(gateway.http);
    for number in 1..=4 {
        let never_stored = [("X-Respond", "Cache-Control: no-store")];
        assert_eq!(client.request("GET", HOST, "/", &never_stored, "").status, 200);
        assert_eq!(backend.connections(), number);
    }
}
