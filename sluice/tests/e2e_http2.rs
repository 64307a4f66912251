//! HTTP/2 of clients.

use crate::harness::h2::{Connection, run};
use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Folder, Gate, Gateway, Ingress, Reply, TestCertificate, await_until, config_map, site, until,
};

const HOST: &str = "shop.example";
const URL: &str = "https://shop.example/";

fn folder(backend: &Backend) -> Folder {
    let ingress = Ingress::new("shop").path(HOST, "/", "shop").tls(&[HOST], "tls").text();
    Folder::with(ingress + &service_with("shop", &[backend]) + &TestCertificate::new(&[HOST]).secret("tls"))
}

fn json(body: &[u8]) -> serde_json::Value {
    serde_json::from_slice(body).unwrap()
}

#[test]
fn requests_and_bodies_pass() {
    let backend = Backend::echo("shop");
    let gateway = Gateway::start(&folder(&backend));
    run(async {
        let connection = Connection::tls(gateway.https, HOST).await;
        let response = connection.get(URL).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["server"], "sluice");
        assert_eq!(response.headers()["strict-transport-security"], "max-age=31536000; includeSubDomains");
        assert!(response.headers().get("connection").is_none());
        assert_eq!(json(response.body())["backend"], "shop");
        let request = http::Request::post("https://shop.example/form?x=y").body(()).unwrap();
        let response = connection.send(request, "hello").await.unwrap();
        let seen = json(response.body());
        assert_eq!(
            (&seen["method"], &seen["target"], &seen["body"]),
            (&"POST".into(), &"/form?x=y".into(), &"hello".into())
        );
    });
    let seen = &backend.seen()[0];
    assert_eq!(seen.header("host"), Some(HOST));
    assert_eq!(seen.header("x-forwarded-proto"), Some("https"));
    assert!(gateway.await_access("/form").contains("\"POST /form?x=y HTTP/2.0\" 200 "));
}

#[test]
fn our_own_answers_pass() {
    let backend = Backend::echo("shop");
    let gateway = Gateway::start(&folder(&backend));
    run(async {
        let connection = Connection::tls(gateway.https, "unknown.example").await;
        let response = connection.get("https://unknown.example/").await.unwrap();
        assert_eq!(response.status(), 404);
        assert!(String::from_utf8_lossy(response.body()).contains("404 Not Found"));
    });
}

#[test]
fn streams_run_at_the_same_time() {
    const STREAMS: usize = 20;
    let gate = Gate::default();
    let backend = Backend::with("shop", {
        let gate = gate.clone();
        move |_| {
            gate.wait();
            Reply::Echo
        }
    });
    let gateway = Gateway::start(&folder(&backend));
    run(async {
        let connection = Connection::tls(gateway.https, HOST).await;
        let opener = std::thread::spawn({
            let gate = gate.clone();
            let requests = backend.counter();
            move || {
                await_until("all requests to be at the backend", || requests() == STREAMS);
                gate.open();
            }
        });
        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            streams.push(connection.get(URL));
        }
        for response in futures::future::join_all(streams).await {
            assert_eq!(response.unwrap().status(), 200);
        }
        opener.join().unwrap();
    });
}

#[test]
fn shutdown_is_announced_and_running_streams_finish() {
    let gate = Gate::default();
    let backend = Backend::gated("shop", &gate);
    let mut gateway = Gateway::start(&folder(&backend));
    run(async {
        let mut connection = Connection::tls(gateway.https, HOST).await;
        assert_eq!(connection.get(URL).await.unwrap().status(), 200);
        let slow = connection.get("https://shop.example/slow");
        let ending = async {
            until("the slow request", || backend.requests() >= 2).await;
            gateway.terminate();
            until("the gateway to report that it shuts down", || gateway.health() != Some(200)).await;
            gate.open();
        };
        let (response, ()) = tokio::join!(slow, ending);
        assert_eq!(response.unwrap().status(), 200);
        let outcome = (&mut connection.driver).await.unwrap();
        assert!(outcome.is_ok(), "the connection ended with {outcome:?} in place of GOAWAY");
    });
    assert_eq!(gateway.await_exit().code(), Some(0));
}

#[test]
fn it_can_be_switched_off() {
    let backend = Backend::echo("shop");
    let folder = folder(&backend);
    folder.write("config.yaml", config_map("ingress-nginx/controller", &[("use-http2", "false")]));
    let gateway = Gateway::with(&folder, &["--configmap", "ingress-nginx/controller"]);
    let chosen = run(crate::harness::h2::negotiated(gateway.https, HOST, &[b"h2", b"http/1.1"]));
    assert_eq!(chosen.as_deref(), Some(&b"http/1.1"[..]));
}

/// Starts a gateway for `shop` with one key in its ConfigMap.
fn configured(backend: &Backend, key: &str, value: &str) -> (Folder, Gateway) {
    let folder = folder(backend);
    folder.write("config.yaml", config_map("ingress-nginx/controller", &[(key, value)]));
    let gateway = Gateway::with(&folder, &["--configmap", "ingress-nginx/controller"]);
    (folder, gateway)
}

#[test]
fn a_connection_gets_its_first_request_served_with_keep_alive_0() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = configured(&backend, "keep-alive", "0");
    run(async {
        for _ in 0..10 {
            let mut connection = Connection::tls(gateway.https, HOST).await;
            let request = http::Request::post(URL).body(()).unwrap();
            let response = connection.send(request, "hello").await.expect("a response");
            assert_eq!(json(response.body())["body"], "hello");
            let outcome = (&mut connection.driver).await.unwrap();
            assert!(outcome.is_ok(), "the connection ended with {outcome:?} in place of GOAWAY");
        }
    });
}

#[test]
fn keep_alive_requests_end_a_connection_and_no_request() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = configured(&backend, "keep-alive-requests", "3");
    run(async {
        let mut connection = Connection::tls(gateway.https, HOST).await;
        // More concurrent requests than the connection's maximum.
        let all = futures::future::join_all((0..6).map(|_| connection.get(URL))).await;
        assert!(all.iter().all(|response| response.as_ref().is_ok_and(|one| one.status() == 200)), "{all:?}");
        let outcome = (&mut connection.driver).await.unwrap();
        assert!(outcome.is_ok(), "the connection ended with {outcome:?} in place of GOAWAY");
    });
}

#[test]
fn prior_knowledge_is_refused_where_it_is_switched_off() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = configured(&backend, "use-http2", "false");
    let mut client = crate::harness::Connection::plain(gateway.http);
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    assert_eq!(client.response().status, 400);
}

#[test]
fn an_own_response_to_a_running_upload_is_no_reset() {
    let backend = Backend::echo("shop");
    let gateway = Gateway::start(&folder(&backend));
    run(async {
        let connection = Connection::tls(gateway.https, HOST).await;
        for _ in 0..20 {
            let request = http::Request::post("https://unknown.example/").body(()).unwrap();
            let body = "x".repeat(50_000);
            let response = connection.send(request, &body).await.expect("a response and no reset");
            assert_eq!(response.status(), 404);
        }
    });
}

#[test]
fn prior_knowledge_is_understood_on_the_plain_port() {
    let backend = Backend::echo("shop");
    let gateway = Gateway::start(&Folder::with(site("shop", HOST, &[&backend])));
    run(async {
        let connection = Connection::plain(gateway.http).await;
        let response = connection.get("http://shop.example/").await.unwrap();
        assert_eq!(json(response.body())["backend"], "shop");
    });
}

/// `h2` reset such streams, and the reset left no log line. curl and Grafana send these targets.
#[test]
fn a_quote_in_a_query_was_reset() {
    let backend = Backend::echo("shop");
    let gateway = Gateway::start(&Folder::with(site("shop", HOST, &[&backend])));
    let mut client = crate::harness::Connection::plain(gateway.http);
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    let mut stream = 1;
    let mut get = |path: &[u8]| {
        // GET, http, the path, and `:authority`, as literals of HPACK.
        let block = [&[0x82, 0x86][..], path, b"\x01\x0cshop.example"].concat();
        client.send([&[0, 0, block.len() as u8, 1, 5, 0, 0, 0, stream][..], &block].concat());
        stream += 2;
    };
    let targets = ["/a?query=up{job=\"a\"}", "/b?x=\"1\"<2>", "/<c>`?d", "/e?x=\"\u{1f600}\""];
    for (number, target) in targets.iter().enumerate() {
        // Once with an entry in the dynamic table, then a reference to that entry.
        get(&[&[0x44, target.len() as u8][..], target.as_bytes()].concat());
        get(&[0x80 | 62]);
        await_until("two requests", || backend.requests() == 2 * (number + 1));
        for seen in &backend.seen()[2 * number..] {
            // Pingora's engine writes some characters percent-encoded.
            let codes = [
                ("%22", "\""),
                ("%3C", "<"),
                ("%3E", ">"),
                ("%60", "`"),
                ("%7B", "{"),
                ("%7D", "}"),
                ("%F0%9F%98%80", "\u{1f600}"),
            ];
            let start = codes.iter().fold(seen.start.clone(), |text, (code, raw)| text.replace(code, raw));
            assert_eq!(start, format!("GET {target} HTTP/1.1"));
        }
    }
    assert!(gateway.await_access("/a?").contains(" HTTP/2.0\" 200 "));
    // One that cannot be escaped is refused, in place of a reset without a log line.
    get(b"\x04\x02/<");
    assert!(gateway.await_access("\" 400 ").contains("\"GET ?? HTTP/2.0\" 400 "));
}
