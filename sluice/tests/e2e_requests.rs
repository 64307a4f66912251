//! Requests that a backend would interpret differently from the gateway, and requests that would
//! never end.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use crate::harness::h2::{self, run};
use crate::harness::manifest::{service, service_with, slice};
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, Reply, answer_to, config_map, ports, site,
};

const HOST: &str = "shop.example";
const URL: &str = "http://shop.example/";

fn start(backend: &Backend, settings: &[(&str, &str)]) -> Gateway {
    let folder = Folder::with(site("shop", HOST, &[backend]));
    folder.write("config.yaml", config_map("ingress-nginx/controller", settings));
    Gateway::with(&folder, &["--configmap", "ingress-nginx/controller"])
}

#[test]
fn names_with_underscores_and_dots_need_their_settings() {
    let backend = Backend::echo("shop");
    let underscores = ("enable-underscores-in-headers", "true");
    let all = ("ignore-invalid-headers", "false");
    for (settings, expected) in [
        (&[][..], [false, false]),
        (&[underscores], [true, false]),
        (&[all], [true, true]),
        (&[underscores, all], [true, true]),
    ] {
        let gateway = start(&backend, settings);
        let fields = [("X_Forwarded_For", "10.0.0.1"), ("x.forwarded.for", "10.0.0.1"), ("X-Fine", "1")];
        // An absolute target takes a different code path.
        for target in ["/", URL] {
            let response = Connection::plain(gateway.http).request("POST", HOST, target, &fields, "hello");
            assert_eq!(response.status, 200);
            assert_eq!(response.json()["body"], "hello");
        }
        run(async {
            let mut request = http::Request::get(URL);
            for (name, value) in fields {
                request = request.header(name, value);
            }
            let connection = h2::Connection::plain(gateway.http).await;
            let response = connection.send(request.body(()).unwrap(), "").await.unwrap();
            assert_eq!(response.status(), 200);
        });
        let seen = backend.seen();
        for request in &seen[seen.len() - 3..] {
            let passed = ["x_forwarded_for", "x.forwarded.for"].map(|name| request.header(name).is_some());
            assert_eq!(passed, expected, "{settings:?} {request:?}");
            assert_eq!((request.header("x-fine"), request.header("host")), (Some("1"), Some(HOST)));
        }
    }
}

#[test]
fn trace_reached_backends() {
    let backend = Backend::echo("shop");
    let gateway = start(&backend, &[]);
    for head in
        ["TRACE / HTTP/1.1", "trace / HTTP/1.1", "TRACE http://shop.example/ HTTP/1.1", "TRACE / HTTP/1.0"]
    {
        let text = answer_to(gateway.http, format!("{head}\r\nHost: {HOST}\r\nCookie: secret\r\n\r\n"));
        assert!(text.starts_with("HTTP/1.1 405 ") && text.contains("405 Not Allowed"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
    run(async {
        let connection = h2::Connection::plain(gateway.http).await;
        let request = http::Request::builder().method("TRACE").uri(URL).body(()).unwrap();
        assert_eq!(connection.send(request, "").await.unwrap().status(), 405);
        assert_eq!(connection.get(URL).await.unwrap().status(), 200, "the connection goes on");
    });
    assert!(gateway.await_access("\"TRACE / HTTP/2.0\"").contains("\" 405 "));
    assert_eq!(backend.requests(), 1);
}

#[test]
fn a_malformed_chunk_was_answered_with_nothing_and_logged_499() {
    let backend = Backend::echo("shop");
    let gateway = start(&backend, &[]);
    for (path, body) in [("/size", "5 \r\nhello\r\n"), ("/end", "5\r\nhelloX\r\n"), ("/bare", "5\nhello\n")] {
        let text = answer_to(
            gateway.http,
            format!(
                "POST {path} HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n{body}0\r\n\r\n"
            ),
        );
        assert!(text.starts_with("HTTP/1.1 400 ") && text.contains("400 Bad Request"), "{path}: {text:?}");
        assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{text}");
        let line = gateway.await_access(&format!("POST {path} "));
        assert!(line.contains("\" 400 "), "{line}");
    }
    assert_eq!(backend.requests(), 0);
}

#[test]
fn a_connection_field_with_thousands_of_options_cost_quadratic_time() {
    let many = (0..1000).map(|n| format!("x-{n}")).collect::<Vec<_>>().join(", ");
    let options = many.clone();
    let backend = Backend::with("shop", move |request| match request.start.contains("/many") {
        true => Reply::field("Connection", &options),
        false => Reply::Echo,
    });
    let gateway = start(&backend, &[]);
    let mut connection = Connection::plain(gateway.http);
    let few = (0..60).map(|n| format!("x-{n}")).collect::<Vec<_>>().join(", ");
    let response =
        connection.request("GET", HOST, "/", &[("Connection", &few), ("X-59", "1"), ("X-60", "1")], "");
    assert_eq!(
        (response.status, response.received("x-59"), response.received("x-60")),
        (200, vec![], vec!["1".into()])
    );
    assert_eq!(connection.get(HOST, "/many").status, 502, "of a backend");
    assert_eq!(connection.request("GET", HOST, "/", &[("Connection", &many)], "").status, 400);
    assert_eq!(backend.requests(), 2);
}

#[test]
fn one_long_field_line_was_served_and_a_large_head_of_http2_was_431() {
    let backend = Backend::echo("shop");
    let page = "<title>400 Request Header Or Cookie Too Large</title>";
    for (settings, size, count) in
        [(&[][..], 8 * 1024, 4), (&[("large-client-header-buffers", "3 1k")], 1024, 3)]
    {
        let gateway = start(&backend, settings);
        let http1 = |target: &str, fields: &[usize]| {
            let lines: String =
                fields.iter().map(|length| format!("X: {}\r\n", "x".repeat(length - 5))).collect();
            answer_to(
                gateway.http,
                format!("GET {target} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n{lines}\r\n"),
            )
        };
        let http2 = |target: &str, fields: &[usize]| {
            let mut request = http::Request::get(format!("{URL}{}", &target[1..]));
            for length in fields {
                request = request.header("x", "x".repeat(length - 5));
            }
            run(async {
                let connection = h2::Connection::plain(gateway.http).await;
                let response = connection.send(request.body(()).unwrap(), "").await.unwrap();
                let again = connection.get(URL).await.unwrap().status();
                assert_eq!(again, 200, "the connection goes on");
                format!("HTTP/1.1 {} {}", response.status(), String::from_utf8_lossy(response.body()))
            })
        };
        let long = format!("/{}", "x".repeat(size));
        let whole = vec![size - 100; count + 2];
        for ask in [&http1 as &dyn Fn(&str, &[usize]) -> String, &http2] {
            assert!(ask("/fits", &[size]).starts_with("HTTP/1.1 200"), "{size}");
            for fields in [&[size + 1][..], &whole] {
                let text = ask("/large", fields);
                assert!(text.starts_with("HTTP/1.1 400") && text.contains(page), "{size}: {text}");
            }
            let text = ask(&long, &[]);
            assert!(text.starts_with("HTTP/1.1 414") && text.contains("414 Request-URI Too Large"), "{text}");
        }
        for version in ["HTTP/1.1", "HTTP/2.0"] {
            assert!(gateway.await_access(&format!("GET /large {version}")).contains("\" 400 "));
        }
    }
    assert!(!backend.seen().iter().any(|request| request.start.contains("/large")));
}

#[test]
fn http_1_0_without_host_was_redirected_to_a_url_without_host() {
    let backend = Backend::echo("shop");
    let secure = Ingress::new("secure").annotation("force-ssl-redirect", "true").path("", "/secure", "shop");
    let slash = Ingress::new("slash").path("", "/slash/", "shop");
    let gateway =
        Gateway::start(&Folder::with(secure.text() + &slash.text() + &service_with("shop", &[&backend])));
    for path in ["/secure", "/slash"] {
        let text = answer_to(gateway.http, format!("GET {path} HTTP/1.0\r\n\r\n"));
        assert!(text.contains(" 400 ") && !text.to_lowercase().contains("location:"), "{path}: {text}");
        let response = Connection::plain(gateway.http).get(HOST, path);
        assert!(response.header("location").is_some_and(|to| to.contains(HOST)), "{path}");
    }
    assert!(
        answer_to(gateway.http, "GET /slash/ HTTP/1.0\r\n\r\n").contains("\"backend\":\"shop\""),
        "served without a redirect"
    );
}

/// Forwards connections to an address that is set later, like a load balancer in front of the
/// gateway.
struct Forwarder {
    address: SocketAddr,
    to: Arc<OnceLock<SocketAddr>>,
    connections: Arc<AtomicUsize>,
}

/// More connections than a loop may cause, and few enough to do no harm.
const MOST: usize = 100;

impl Forwarder {
    fn new() -> Self {
        let listener: TcpListener = ports::listen();
        let address = listener.local_addr().unwrap();
        let (to, connections) = (Arc::new(OnceLock::new()), Arc::new(AtomicUsize::new(0)));
        let (there, count) = (to.clone(), connections.clone());
        std::thread::spawn(move || {
            for near in listener.incoming().take(MOST) {
                count.fetch_add(1, SeqCst);
                let (Ok(near), Some(to)) = (near, there.get()) else { return };
                let Ok(far) = TcpStream::connect(*to) else { return };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    // Ends when either side ends.
                    std::thread::spawn(move || copy(from, to));
                }
            }
        });
        Self { address, to, connections }
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        let count = from.read(&mut bytes)?;
        if count == 0 {
            return to.shutdown(Shutdown::Write);
        }
        to.write_all(&bytes[..count])?;
    }
}

#[test]
fn a_request_that_led_back_to_the_gateway_took_all_connections() {
    let forwarder = Forwarder::new();
    let endpoint = slice("loop", "loop", &["127.0.0.1"], forwarder.address.port());
    let retries = "error timeout invalid_header http_500 http_502 http_503 http_504";
    let ingress = Ingress::new("loop").annotation("proxy-next-upstream", retries).path(HOST, "/", "loop");
    let gateway = Gateway::start(&Folder::with(ingress.text() + &service("loop") + &endpoint));
    forwarder.to.set(gateway.http).unwrap();
    let response = Connection::plain(gateway.http).get(HOST, "/");
    assert_eq!(response.status, 508, "{}", response.text());
    let first = forwarder.connections.load(SeqCst);
    assert!((1..=20).contains(&first), "{first} connections for one request");
    // A client that tries to prevent the end of the loop.
    let fields = [("Connection", "x-sluice-hops"), ("X-Sluice-Hops", "0"), ("X_Sluice_Hops", "0")];
    let response = Connection::plain(gateway.http).request("GET", HOST, "/", &fields, "");
    assert_eq!(response.status, 508, "{}", response.text());
    let both = forwarder.connections.load(SeqCst);
    assert!(both <= 40, "{both} connections for two requests");
    assert!(gateway.await_access("\"GET / HTTP/1.1\"").contains("\" 508 "));
}

/// Pingora's head accepts fewer characters, and a rule with a cache always uses its engine.
#[test]
fn a_quote_in_a_query_ended_a_request_to_pingoras_engine() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(service_with("shop", &[&backend]));
    let rules = [
        Ingress::new("plain").path(HOST, "/", "shop"),
        Ingress::new("cached").path(HOST, "/cached", "shop").raw_annotation("sluice.dev/cache", "true"),
        Ingress::new("rewritten").path(HOST, "/old", "shop").annotation("rewrite-target", "/new"),
    ];
    folder.write("rules.yaml", rules.iter().map(Ingress::text).collect::<String>());
    let gateway = Gateway::start(&folder);
    for (path, at_endpoint) in [("/a", "/a"), ("/cached", "/cached"), ("/old", "/new")] {
        let response = Connection::plain(gateway.http).get(HOST, &format!("{path}?x=\"1\"<2>"));
        assert_eq!(response.status, 200, "{path}");
        let start = backend.seen().pop().unwrap().start;
        let raw = format!("GET {at_endpoint}?x=\"1\"<2> HTTP/1.1");
        let encoded = format!("GET {at_endpoint}?x=%221%22%3C2%3E HTTP/1.1");
        assert!(start == raw || start == encoded, "{start}");
    }
}
