//! `sluice.dev/cache`: stored responses.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use crate::harness::client::Response;
use crate::harness::h2::{self, run};
use crate::harness::manifest::{service, service_with};
use crate::harness::wire::Message;
use crate::harness::{
    Backend, Connection, Folder, Gate, Gateway, Ingress, PATIENCE, Reply, TestCertificate, await_until,
    config_map,
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

type Fields = &'static [(&'static str, &'static str)];

/// In the spirit of cache-tests.fyi: the fields of a response, those of two requests, and whether
/// the second one gets the response to the first one.
type Case = (&'static str, Fields, Fields, bool);

#[test]
fn what_is_stored_follows_rfc_9111() {
    const NONE: Fields = &[];
    let later = "Expires: Fri, 31 Dec 2100 23:59:59 GMT";
    let cases: &[Case] = &[
        ("Cache-Control: max-age=600", NONE, NONE, true),
        ("Cache-Control: max-age=600 | Age: 599", NONE, NONE, true),
        ("Cache-Control: max-age=600 | Age: 601", NONE, NONE, false),
        ("Cache-Control: s-maxage=600", NONE, NONE, true),
        ("Cache-Control: s-maxage=600, max-age=0", NONE, NONE, true),
        ("Cache-Control: s-maxage=0, max-age=600", NONE, NONE, false),
        ("Cache-Control: public, max-age=600", NONE, NONE, true),
        ("Cache-Control: max-age=600 | Cache-Control: no-store", NONE, NONE, false),
        ("Cache-Control: must-revalidate, max-age=600", NONE, NONE, true),
        ("Cache-Control: unknown=\"a, no-store\", max-age=600", NONE, NONE, true),
        ("Cache-Control: max-age=0", NONE, NONE, false),
        ("Cache-Control: no-cache", NONE, NONE, false),
        ("Cache-Control: no-cache, max-age=600", NONE, NONE, false),
        ("Cache-Control: no-store, max-age=600", NONE, NONE, false),
        ("Cache-Control: private, max-age=600", NONE, NONE, false),
        ("Cache-Control: private=\"x-user\", max-age=600", NONE, NONE, false),
        ("Cache-Control: max-age=600 | Set-Cookie: a=b", NONE, NONE, false),
        ("Cache-Control: max-age=600 | Vary: *", NONE, NONE, false),
        ("Cache-Control: max-age=600 | Vary: X-A", NONE, NONE, true),
        ("Cache-Control: max-age=600 | Vary: X-A", &[("X-A", "1")], &[("X-A", "1")], true),
        ("Cache-Control: max-age=600 | Vary: X-A", &[("X-A", "1")], &[("X-A", "2")], false),
        ("Cache-Control: max-age=600 | Vary: X-A", &[("X-A", "1")], NONE, false),
        ("Cache-Control: max-age=600 | Vary: X-A, x-b", &[("X-B", "1")], &[("X-B", "2")], false),
        ("Cache-Control: max-age=600 | Vary: X-A | Vary: X-B", &[("X-B", "1")], NONE, false),
        ("Cache-Control: max-age=600 | Vary: X-A", &[("X-B", "1")], &[("X-B", "2")], true),
        (later, NONE, NONE, true),
        ("Expires: 0", NONE, NONE, false),
        ("Expires: Thu, 01 Jan 1970 00:00:00 GMT", NONE, NONE, false),
        ("X-Nothing: 1", NONE, NONE, false),
        ("ETag: \"a\"", NONE, NONE, false),
        ("Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT", NONE, NONE, false),
        (FRESH, &[("X-Status", "301")], NONE, true),
        (FRESH, &[("X-Status", "404")], NONE, false),
        (FRESH, &[("X-Status", "500")], NONE, false),
        (FRESH, &[("Authorization", "Basic YTpi")], NONE, false),
        (FRESH, NONE, &[("Authorization", "Basic YTpi")], false),
        ("Cache-Control: public, max-age=600", &[("Authorization", "Basic YTpi")], NONE, false),
        (FRESH, &[("Cache-Control", "no-store")], NONE, false),
        (FRESH, NONE, &[("Cache-Control", "no-store")], false),
        (FRESH, NONE, &[("Cache-Control", "no-cache")], true),
        (FRESH, NONE, &[("Pragma", "no-cache")], true),
        (FRESH, &[("Cookie", "a=b")], &[("Cookie", "c=d")], true),
    ];
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[], &[]);
    for (at, (respond, first, second, is_reused)) in cases.iter().enumerate() {
        let path = format!("/{at}");
        let number = get(&gateway, &path, respond, first).text();
        let again = get(&gateway, &path, respond, second).text();
        assert_eq!(again == number, *is_reused, "{respond} {first:?} {second:?}");
    }
}

#[test]
fn each_variant_is_stored() {
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[], &[]);
    let ask = |language: &str| {
        let respond = format!("{FRESH} | Vary: Accept-Language");
        get(&gateway, "/", &respond, &[("Accept-Language", language)])
    };
    for (language, cache, body) in [
        ("de", "MISS", "1"),
        ("fr", "MISS", "2"),
        ("en", "MISS", "3"),
        ("de", "HIT", "1"),
        ("en", "HIT", "3"),
        ("fr", "HIT", "2"),
    ] {
        assert_is(&ask(language), cache, body);
    }
}

/// The gateway sets `X-Real-IP`, so the client's own field says nothing.
#[test]
fn fields_that_the_gateway_sets_select_the_variant() {
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[], &[("use-forwarded-headers", "true")]);
    let ask = |client: &str| {
        let respond = format!("{FRESH} | Vary: X-Real-IP");
        get(&gateway, "/", &respond, &[("X-Forwarded-For", client), ("X-Real-IP", "same")])
    };
    assert_is(&ask("192.0.2.1"), "MISS", "1");
    assert_is(&ask("192.0.2.2"), "MISS", "2");
    assert_is(&ask("192.0.2.1"), "HIT", "1");
}

#[test]
fn a_stale_response_is_confirmed_or_replaced() {
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[], &[]);
    let respond = format!("{SHORT} | ETag: \"a\"");
    assert_is(&get(&gateway, "/etag", &respond, &[]), "MISS", "1");
    await_until("a confirmed response", || {
        let response = get(&gateway, "/etag", &respond, &[]);
        assert!(is(&response, "HIT", "1") || is(&response, "REVALIDATED", "1"), "{:?}", outcome(&response));
        is(&response, "REVALIDATED", "1") && response.status == 200
    });
    let seen = backend.seen();
    assert_eq!((seen.len(), seen[1].header("if-none-match")), (2, Some("\"a\"")));
    assert_is(&get(&gateway, "/etag", &respond, &[]), "HIT", "1");

    assert_is(&get(&gateway, "/plain", SHORT, &[]), "MISS", "3");
    await_until("a replaced response", || is(&get(&gateway, "/plain", SHORT, &[]), "EXPIRED", "4"));
    assert_is(&get(&gateway, "/plain", SHORT, &[]), "HIT", "4");
}

#[test]
fn a_response_that_must_be_confirmed_is_confirmed_each_time() {
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[("sluice.dev/cache-stale-if-error", "60s")], &[]);
    let respond = "Cache-Control: no-cache | ETag: \"a\"";
    assert_is(&get(&gateway, "/", respond, &[]), "MISS", "1");
    assert_is(&get(&gateway, "/", respond, &[]), "REVALIDATED", "1");
    assert_is(&get(&gateway, "/", respond, &[]), "REVALIDATED", "1");
    let failed = get(&gateway, "/", "X-None: 1", &[("X-Status", "500")]);
    assert_eq!((failed.status, failed.text()), (500, "4".to_owned()));
}

#[test]
fn concurrent_requests_make_one_request_to_the_endpoint() {
    const CLIENTS: usize = 8;
    let gate = Gate::default();
    let requests = Arc::new(AtomicUsize::new(0));
    let backend = Backend::with("shop", {
        let (gate, requests) = (gate.clone(), requests.clone());
        move |request| {
            let number = requests.fetch_add(1, SeqCst) + 1;
            gate.wait();
            respond(request, number)
        }
    });
    let (_folder, gateway) = start(&backend, &[], &[]);
    let address = gateway.http;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            thread::spawn(move || {
                Connection::plain(address).request("GET", HOST, "/", &[("X-Respond", FRESH)], "")
            })
        })
        .collect();
    await_until("all requests", || {
        let metrics = gateway.metrics();
        let requests = metrics.lines().find(|line| line.contains("nginx_process_requests_total{"));
        requests.is_some_and(|line| line.ends_with(&format!(" {CLIENTS}")))
    });
    gate.open();
    let responses: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    assert!(responses.iter().all(|response| response.text() == "1"), "all got the same response");
    assert_eq!(responses.iter().filter(|response| is(response, "MISS", "1")).count(), 1);
    assert_eq!(backend.requests(), 1);
}

/// Returns a frame of HTTP/2 (RFC 9113 §4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns a request without a body on a stream of its own, whose number is its path.
fn get_frame(stream: u32) -> Vec<u8> {
    let path = format!("/{stream}");
    // GET and http of the static table, then path and authority as literals (RFC 7541 §6).
    let mut fields = vec![0x82, 0x86];
    for (name, value) in [(0x04, &*path), (0x01, HOST)] {
        fields.extend([name, u8::try_from(value.len()).unwrap()]);
        fields.extend(value.as_bytes());
    }
    // END_STREAM and END_HEADERS.
    frame(1, 0x05, stream, &fields)
}

#[test]
fn requests_waited_for_a_fetch_that_was_reset_at_once() {
    const STREAMS: u32 = 8;
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[("sluice.dev/cache-ttl", "1m")], &[]);
    let mut stream = TcpStream::connect(gateway.http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The preface with empty SETTINGS, requests with RST_STREAM (CANCEL), and one that stays.
    let mut bytes = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat();
    for number in 0..STREAMS {
        let stream = 2 * number + 1;
        bytes.extend([get_frame(stream), frame(3, 0, stream, &8u32.to_be_bytes())].concat());
    }
    stream.write_all(&bytes).unwrap();
    gateway.await_access(" 499 ");
    let last = 2 * STREAMS + 1;
    stream.write_all(&get_frame(last)).unwrap();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).expect("the connection lasts");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).unwrap();
        if head[3] == 1 && head[5..] == last.to_be_bytes() {
            break;
        }
    }
    // The paths of the cancelled requests are fetched, and stored.
    for cache in ["MISS", "HIT"] {
        for number in 0..STREAMS {
            let response = get(&gateway, &format!("/{}", 2 * number + 1), "", &[]);
            assert_eq!(response.header("x-cache"), Some(cache));
        }
    }
}

#[test]
fn a_stale_response_is_sent_while_it_is_fetched_again() {
    let backend = origin("shop");
    let annotations = [
        ("sluice.dev/cache-stale-while-revalidate", "1h"),
        ("rewrite-target", "/new/$1"),
        ("use-regex", "true"),
    ];
    let certificate = TestCertificate::new(&[HOST]).secret("tls");
    let folder = Folder::with(service_with("shop", &[&backend]) + &certificate);
    let ingress = Ingress::new("shop")
        .typed_path(HOST, "/old/(.*)", "ImplementationSpecific", "shop")
        .annotations(&annotations)
        .annotation("sluice.dev/cache", "true")
        .annotation("sluice.dev/set-response-headers", "X-Cache: $upstream_cache_status");
    folder.write("shop.yaml", ingress.text());
    let gateway = Gateway::start(&folder);
    let asked = AtomicUsize::new(0);
    let ask = || {
        asked.fetch_add(1, SeqCst);
        get(&gateway, "/old/a?x=1", SHORT, &[("X-Own", "1")])
    };
    assert_is(&ask(), "MISS", "1");
    await_until("a stale response", || {
        let response = ask();
        assert_eq!(response.text(), "1");
        is(&response, "UPDATING", "1")
    });
    await_until("the new response", || {
        let response = ask();
        is(&response, "HIT", "2") || is(&response, "UPDATING", "2")
    });
    let [first, second] = [0, 1].map(|at| backend.seen()[at].clone());
    assert_eq!(second.start, "GET /new/a?x=1 HTTP/1.1");
    for name in ["Host", "X-Forwarded-For", "X-Forwarded-Proto", "X-Real-IP", "X-Own"] {
        assert_eq!((first.all(name), first.all(name).len()), (second.all(name), 1), "{name}");
    }
    await_until("all lines", || gateway.access_log().len() >= asked.load(SeqCst));
    assert_eq!(gateway.access_log().len(), asked.load(SeqCst), "no client has asked for the refresh");
    assert!(gateway.metric(r#"sluice_cache_requests_total{status="updating"}"#) >= 1);
}

#[test]
fn a_stale_response_is_sent_if_the_endpoint_fails() {
    let mut backend = origin("shop");
    let (folder, gateway) = start(&backend, &[("sluice.dev/cache-stale-if-error", "1h")], &[]);
    assert_is(&get(&gateway, "/", SHORT, &[]), "MISS", "1");
    assert_is(&get(&gateway, "/strict", "Cache-Control: max-age=1, must-revalidate", &[]), "MISS", "2");
    let failing = [("X-Status", "500")];
    await_until("a stale response after a status", || {
        let response = get(&gateway, "/", SHORT, &failing);
        assert_eq!((response.status, response.text()), (200, "1".to_owned()));
        is(&response, "STALE", "1")
    });
    await_until("the error", || get(&gateway, "/strict", SHORT, &failing).status == 500);
    assert_eq!(get(&gateway, "/other", SHORT, &failing).status, 500);

    backend.stop();
    assert_is(&get(&gateway, "/", SHORT, &[]), "STALE", "1");
    assert_eq!(get(&gateway, "/strict", SHORT, &[]).status, 502);
    let certificate = TestCertificate::new(&[HOST]).secret("tls");
    folder.write("objects.yaml", service("shop") + &certificate);
    await_until("no endpoints", || get(&gateway, "/strict", SHORT, &[]).status == 503);
    assert_is(&get(&gateway, "/", SHORT, &[]), "STALE", "1");
}

#[test]
fn responses_are_purged_at_the_admin_listener() {
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[], &[]);
    let purge = |host: &str, target: &str, fields: &[(&str, &str)]| {
        let fields = [&[("Connection", "close")], fields].concat();
        Connection::plain(gateway.admin).request("DELETE", host, target, &fields, "")
    };
    let fill =
        || ["/img/a?x=1", "/img/a?x=2", "/img/b", "/"].map(|path| get(&gateway, path, FRESH, &[]).text());
    let first = fill();
    assert_eq!(fill(), first);
    let removed = |target: &str| purge("localhost", target, &[]).json()["removed"].clone();
    assert_eq!(removed("/cache?path=/img/a"), 2);
    let second = fill();
    assert!(second[0] != first[0] && second[1] != first[1] && second[2..] == first[2..]);
    assert_eq!(removed("/cache?host=other.example&path=/img/*"), 0);
    assert_eq!(removed(&format!("/cache?host={HOST}&path=/img/*")), 3);
    assert_eq!(fill()[3], first[3]);
    assert_eq!(removed(&format!("/cache?host={HOST}")), 4);
    assert_ne!(fill()[3], first[3]);
    assert_eq!(removed("/cache?all=true"), 4);

    fill();
    assert_eq!(purge("localhost", "/cache", &[]).status, 400);
    assert_eq!(purge("rebound.example", "/cache?all=true", &[]).status, 421);
    assert_eq!(purge("localhost", "/cache?all=true", &[("Origin", "http://evil.example")]).status, 403);
    for method in ["POST", "PUT"] {
        let fields = [("Connection", "close")];
        let response =
            Connection::plain(gateway.admin).request(method, "localhost", "/cache?all=true", &fields, "");
        assert_eq!(response.status, 405, "a page may send {method} from anywhere");
    }
    for listener in [gateway.healthz, gateway.http] {
        let fields = [("Connection", "close")];
        let response = Connection::plain(listener).request("DELETE", HOST, "/cache?all=true", &fields, "");
        assert!(response.status == 405 || response.header("x-cache").is_some(), "{}", response.status);
    }
    assert_eq!(gateway.ask("/cache").json()["responses"], 4, "nothing was removed");
}

#[test]
fn a_successful_change_of_a_resource_makes_its_responses_invalid() {
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[], &[]);
    assert_is(&get(&gateway, "/a", FRESH, &[]), "MISS", "1");
    assert_is(&get(&gateway, "/b", FRESH, &[]), "MISS", "2");
    assert_is(&request(&gateway, "DELETE", "/a", &[("X-Status", "404")]), "BYPASS", "3");
    assert_is(&get(&gateway, "/a", FRESH, &[]), "HIT", "1");
    assert_is(&request(&gateway, "POST", "/a", &[("X-Respond", FRESH)]), "BYPASS", "4");
    assert_is(&get(&gateway, "/a", FRESH, &[]), "MISS", "5");
    assert_is(&get(&gateway, "/b", FRESH, &[]), "HIT", "2");
}

#[test]
fn a_change_took_effect_only_when_its_response_was_complete() {
    let requests = AtomicUsize::new(0);
    let backend = Backend::with("shop", move |request| match request.start.starts_with("POST") {
        true => Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234".to_vec()),
        false => respond(request, requests.fetch_add(1, SeqCst) + 1),
    });
    let (_folder, gateway) = start(&backend, &[], &[]);
    assert_is(&get(&gateway, "/a", FRESH, &[]), "MISS", "1");
    assert_is(&get(&gateway, "/a", FRESH, &[]), "HIT", "1");
    let mut change = Connection::plain(gateway.http);
    change.send(format!("POST /a HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 0\r\n\r\n"));
    assert!(change.bytes(12).starts_with(b"HTTP/1.1 200"), "the client knows that it succeeded");
    assert_is(&get(&gateway, "/a", FRESH, &[]), "MISS", "2");
}

#[test]
fn an_age_was_sent_with_a_date_that_it_does_not_belong_to() {
    const DATE: &str = "Mon, 01 Jan 2024 00:00:00 GMT";
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[], &[]);
    let dated = format!("{FRESH} | Date: {DATE}");
    let first = get(&gateway, "/", &dated, &[]);
    assert!(first.header("date").is_some_and(|date| date != DATE), "the time of relaying, as in nginx");
    let hit = get(&gateway, "/", &dated, &[]);
    assert_eq!((hit.header("age").is_some(), hit.header("date")), (true, Some(DATE)));
    Connection::tls(gateway.https, HOST).request("GET", HOST, "/", &[("X-Respond", &dated)], "");
    let over_http2 = run(async {
        h2::Connection::tls(gateway.https, HOST).await.get(&format!("https://{HOST}/")).await.unwrap()
    });
    assert_eq!(over_http2.headers().get_all("date").iter().collect::<Vec<_>>(), [DATE]);
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
fn access_is_checked_before_a_stored_response_is_sent() {
    let backend = origin("shop");
    let annotations = [("denylist-source-range", "192.0.2.7")];
    let (folder, gateway) = start(&backend, &annotations, &[("use-forwarded-headers", "true")]);
    let ask = |client: &str| get(&gateway, "/", FRESH, &[("X-Forwarded-For", client)]);
    assert_is(&ask("192.0.2.1"), "MISS", "1");
    assert_is(&ask("192.0.2.1"), "HIT", "1");
    assert_eq!(ask("192.0.2.7").status, 403);
    let limited = [("sluice.dev/cache-ttl", "1h"), ("limit-connections", "1"), ("limit-rpm", "1")];
    folder.write("shop.yaml", ingress(&limited).text());
    await_until("the limit", || ask("192.0.2.7").status == 503);
    assert!((0..20).any(|_| ask("192.0.2.9").status == 503), "hits are limited, too");
}

#[test]
fn users_of_an_authorisation_service_do_not_share_responses() {
    let backend = origin("shop");
    let service = Backend::with("auth", |request| match request.header("cookie") {
        Some(cookie) => Reply::field("X-User", cookie),
        None => Reply::status(401),
    });
    let url = format!("http://{}/", service.address);
    let annotations = [("auth-url", &*url), ("auth-response-headers", "X-User")];
    let (_folder, gateway) = start(&backend, &annotations, &[]);
    let ask = |cookie: &str| get(&gateway, "/", FRESH, &[("Cookie", cookie)]);
    assert_is(&ask("user=alice"), "MISS", "1");
    assert_is(&ask("user=bob"), "MISS", "2");
    assert_is(&ask("user=alice"), "HIT", "1");
    assert_eq!(get(&gateway, "/", FRESH, &[]).status, 401);
}

/// The keys that switch snippets on.
const SNIPPETS: [(&str, &str); 2] =
    [("allow-snippet-annotations", "true"), ("annotations-risk-level", "Critical")];

#[test]
fn users_known_by_auth_request_set_shared_a_response() {
    let backend = origin("shop");
    let service = Backend::with("auth", |request| match request.header("cookie") {
        Some(cookie) => Reply::field("X-User", cookie),
        None => Reply::status(401),
    });
    let url = format!("http://{}/", service.address);
    let snippet = "auth_request_set $user $upstream_http_x_user;\nproxy_set_header X-User $user;";
    let annotations = [("auth-url", &*url), ("configuration-snippet", snippet)];
    let (_folder, gateway) = start(&backend, &annotations, &SNIPPETS);
    let ask = |cookie: &str| get(&gateway, "/", FRESH, &[("Cookie", cookie)]);
    assert_is(&ask("user=alice"), "MISS", "1");
    assert_is(&ask("user=bob"), "MISS", "2");
    assert_is(&ask("user=alice"), "HIT", "1");
}

#[test]
fn a_request_that_gets_its_authorization_from_the_rule_was_stored() {
    let backend = origin("shop");
    let annotations = [("sluice.dev/set-request-headers", "Authorization: Bearer $cookie_s")];
    let (folder, gateway) = start(&backend, &annotations, &[]);
    let ask = |cookie: &str| get(&gateway, "/", FRESH, &[("Cookie", cookie)]);
    assert_is(&ask("s=alice"), "BYPASS", "1");
    assert_is(&ask("s=bob"), "BYPASS", "2");
    let explained = gateway.ask(&format!("/explain?host={HOST}&path=/")).text();
    assert!(explained.contains("makes an Authorization of the request"), "{explained}");

    let fixed = [("sluice.dev/set-request-headers", "Authorization: Bearer fixed")];
    folder.write("shop.yaml", ingress(&fixed).text());
    await_until("the fixed value, the same for all", || ask("s=bob").header("x-cache") == Some("HIT"));
}

#[test]
fn users_known_by_a_cookie_that_the_rule_forwards_shared_a_response() {
    let backend = origin("shop");
    let fields = "X-User: $cookie_s\nX-Request-Start: $msec\nX-Agent: $http_user_agent";
    let annotations =
        [("sluice.dev/set-request-headers", fields), ("upstream-vhost", "$http_x_tenant.example")];
    let (folder, gateway) = start(&backend, &annotations, &SNIPPETS);
    let ask = |fields: &[(&str, &str)]| get(&gateway, "/", FRESH, fields);
    let (alice, bob) = (("Cookie", "s=alice"), ("Cookie", "s=bob"));
    let (blue, red) = (("X-Tenant", "blue"), ("X-Tenant", "red"));
    assert_is(&ask(&[alice, blue]), "MISS", "1");
    assert_is(&ask(&[bob, blue]), "MISS", "2");
    assert_is(&ask(&[bob, red]), "MISS", "3");
    assert_is(&ask(&[alice, blue, ("User-Agent", "other")]), "HIT", "1");

    let snippet = r#"more_set_headers "X-Edition: 2";
        if ($http_x_role = admin) { more_set_input_headers "X-Role: admin"; }"#;
    folder.write("shop.yaml", ingress(&[("configuration-snippet", snippet)]).text());
    await_until("a response that is stored with the snippet", || {
        let response = ask(&[]);
        response.header("x-edition") == Some("2") && outcome(&response).0 == "HIT"
    });
    let (_, of_others) = outcome(&ask(&[]));
    let (cache, of_admins) = outcome(&ask(&[("X-Role", "admin")]));
    assert!(cache == "MISS" && of_admins != of_others, "{cache}");
    assert_is(&ask(&[]), "HIT", &of_others);
}

#[test]
fn conditions_and_ranges_are_answered_from_the_stored_response() {
    let backend = Backend::with("shop", |_| {
        let fields = [
            ("Cache-Control", "max-age=600"),
            ("ETag", "\"a\""),
            ("Last-Modified", "Thu, 01 Jan 2015 00:00:00 GMT"),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Reply::Answer(200, fields.into(), "0123456789".to_owned())
    });
    let (_folder, gateway) = start(&backend, &[], &[]);
    let ask = |path: &str, name: &str, value: &str| request(&gateway, "GET", path, &[(name, value)]);
    // The first request of each path has the condition or range, which no endpoint sees.
    let range = ask("/range", "Range", "bytes=2-4");
    assert_eq!((range.status, range.text()), (206, "234".to_owned()));
    assert_eq!(range.header("content-range"), Some("bytes 2-4/10"));
    let condition = ask("/condition", "If-None-Match", "\"a\"");
    assert_eq!((condition.status, condition.header("x-cache")), (304, Some("MISS")));
    await_until("both stored", || gateway.ask("/cache").json()["responses"] == 2);
    let seen = backend.seen();
    assert!(seen.iter().all(|seen| seen.header("range").is_none() && seen.header("if-none-match").is_none()));
    for (name, value, status, body) in [
        ("If-None-Match", "\"a\"", 304, ""),
        ("If-None-Match", "\"x\", W/\"a\"", 304, ""),
        ("If-None-Match", "\"b\"", 200, "0123456789"),
        ("If-Modified-Since", "Thu, 01 Jan 2015 00:00:00 GMT", 304, ""),
        ("If-Modified-Since", "Wed, 31 Dec 2014 00:00:00 GMT", 200, "0123456789"),
        ("Range", "bytes=0-1", 206, "01"),
        ("Range", "bytes=-3", 206, "789"),
        ("Range", "bytes=8-", 206, "89"),
        ("Range", "bytes=10-", 416, ""),
        ("Range", "bytes=-0", 416, ""),
        ("Range", "lines=1-2", 200, "0123456789"),
    ] {
        for path in ["/range", "/condition"] {
            let response = ask(path, name, value);
            assert_eq!((response.status, &*response.text()), (status, body), "{name}: {value}");
            assert_eq!(response.header("x-cache"), Some("HIT"), "{name}: {value}");
        }
    }
    let parts = ask("/range", "Range", "bytes=0-1,8-9");
    assert!(parts.status == 206 && parts.text().contains("bytes 8-9/10"), "{}", parts.text());
    let fields = [("Range", "bytes=0-1"), ("If-Range", "\"other\"")];
    assert_eq!(request(&gateway, "GET", "/range", &fields).status, 200);
    assert_eq!(backend.requests(), 2);
}

#[test]
fn a_response_in_chunks_is_stored_with_its_length() {
    let backend = Backend::with("shop", |_| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\n";
        Reply::Bytes(format!("{head}4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n").into_bytes())
    });
    let (_folder, gateway) = start(&backend, &[], &[]);
    let first = request(&gateway, "GET", "/", &[]);
    assert_is(&first, "MISS", "0123456789");
    assert_eq!(first.header("transfer-encoding"), Some("chunked"));
    let mut connection = Connection::plain(gateway.http);
    for (method, body) in [("GET", "0123456789"), ("HEAD", ""), ("GET", "0123456789")] {
        let hit = connection.request(method, HOST, "/", &[], "");
        assert_is(&hit, "HIT", body);
        assert_eq!((hit.header("content-length"), hit.header("transfer-encoding")), (Some("10"), None));
    }
    let range = request(&gateway, "GET", "/", &[("Range", "bytes=2-4")]);
    assert_eq!((range.status, &*range.text()), (206, "234"));
}

#[test]
fn a_response_in_an_unknown_transfer_coding_is_502_and_never_stored() {
    let cases = [
        "1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
        "1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ];
    let backend = Backend::with("shop", move |request| {
        let path = request.start.split(' ').nth(1).unwrap();
        let (version, rest) = cases[path[1..].parse::<usize>().unwrap()].split_once("\r\n").unwrap();
        Reply::Raw(format!("HTTP/{version}\r\n{FRESH}\r\n{rest}").into_bytes())
    });
    let (_folder, gateway) = start(&backend, &[], &[]);
    for (at, case) in cases.iter().enumerate() {
        for method in ["GET", "GET", "HEAD"] {
            let response = request(&gateway, method, &format!("/{at}"), &[]);
            assert_eq!(response.status, 502, "{method} {case}");
        }
    }
    assert_eq!(gateway.ask("/cache").json()["responses"], 0);
}

/// A body of many pieces, larger than what the kernel keeps for a client that reads nothing.
#[test]
fn a_large_response_in_memory_stays_whole_for_a_slow_client_if_purged() {
    const LARGE: usize = 20_000_000;
    let content: String = (0..LARGE).map(|at| char::from(b'a' + (at / 5 % 23) as u8)).collect();
    let backend = Backend::with("shop", {
        let content = content.clone();
        move |_| {
            let field = ("Cache-Control".to_owned(), "max-age=600".to_owned());
            Reply::Answer(200, vec![field], content.clone())
        }
    });
    let (_folder, gateway) = start(&backend, &[], &[("body-memory-budget", "1g"), ("cache-size", "200m")]);
    run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        for cache in ["MISS", "HIT", "HIT"] {
            let response = connection.get(&format!("https://{HOST}/")).await.unwrap();
            assert_eq!(response.headers()["x-cache"], cache);
            assert!(response.body()[..] == *content.as_bytes());
            await_until("the stored response", || gateway.ask("/cache").json()["responses"] == 1);
        }
    });
    let mut slow = Connection::tls(gateway.https, HOST);
    slow.send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n"));
    let begin = slow.bytes(100);
    let fields = [("Connection", "close")];
    let purged =
        Connection::plain(gateway.admin).request("DELETE", "localhost", "/cache?all=true", &fields, "");
    assert_eq!(purged.json()["removed"], 1);
    assert!(gateway.metric("sluice_body_memory_bytes") > LARGE as u64, "it is held until the client has it");
    let response = [begin, slow.rest()].concat();
    assert!(response.ends_with(content.as_bytes()));
    await_until("the memory", || gateway.metric("sluice_body_memory_bytes") < LARGE as u64);
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
fn the_store_stays_within_its_limit() {
    let backend = Backend::with("shop", |request| {
        let size = request.header("x-size").map_or(8_000, |size| size.parse().unwrap());
        let body = "x".repeat(size);
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n";
        match request.header("x-chunked") {
            Some(_) => Reply::Bytes(
                format!("{head}Transfer-Encoding: chunked\r\n\r\n{size:x}\r\n{body}\r\n0\r\n\r\n")
                    .into_bytes(),
            ),
            None => Reply::Bytes(format!("{head}Content-Length: {size}\r\n\r\n{body}").into_bytes()),
        }
    });
    let (folder, gateway) = start(&backend, &[], &[("cache-size", "128k")]);
    for number in 0..40 {
        assert_eq!(request(&gateway, "GET", &format!("/{number}"), &[]).text().len(), 8_000);
        assert!(gateway.metric("sluice_cache_bytes") <= 128 << 10);
    }
    assert_eq!(gateway.metric("sluice_cache_limit_bytes"), 128 << 10);
    assert!(gateway.metric("sluice_cache_evictions_total") >= 25);
    assert!(gateway.metric("sluice_body_memory_bytes") >= gateway.metric("sluice_cache_bytes"));
    assert_eq!(request(&gateway, "GET", "/39", &[]).header("x-cache"), Some("HIT"));
    assert_eq!(request(&gateway, "GET", "/0", &[]).header("x-cache"), Some("MISS"));
    for chunked in [&[][..], &[("X-Chunked", "1")]] {
        for _ in 0..2 {
            let fields = [&[("X-Size", "200000")], chunked].concat();
            let response = request(&gateway, "GET", "/large", &fields);
            assert_eq!((response.text().len(), response.header("x-cache")), (200_000, Some("MISS")));
        }
    }
    folder.write("config.yaml", config_map("system/settings", &[("cache-size", "0")]));
    await_until("no cache", || request(&gateway, "GET", "/39", &[]).header("x-cache") == Some("BYPASS"));
    assert_eq!(gateway.metric("sluice_cache_bytes"), 0);
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
