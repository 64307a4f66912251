//! `proxy-buffering`: whether an endpoint is occupied by a client that accepts its response slowly.

use std::time::{Duration, Instant};

use crate::harness::h2::{self, run};
use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, Reply, TestCertificate, await_until, config_map, get,
};

const HOST: &str = "media.example";
const CONFIG: &str = "ingress-nginx/controller";
const ON: (&str, &str) = ("proxy-buffering", "on");

/// Bytes of a large response: more than all sockets between endpoint and client hold.
const LARGE: usize = 40_000_000;

/// A body in which every position has another value than its neighbours.
fn body(length: usize) -> Vec<u8> {
    let mut body = b"abcdefghijklmnopqrstuvw".repeat(length / 23 + 1);
    body.truncate(length);
    body
}

/// Starts a backend with a large response for each framing, and a small one.
fn media() -> Backend {
    Backend::with("media", |request| {
        let head = |fields: &str| {
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n{fields}\r\n").into_bytes()
        };
        let length = format!("Content-Length: {LARGE}\r\n");
        match request.start.split(' ').nth(1).unwrap() {
            "/length" => Reply::Bytes([head(&length), body(LARGE)].concat()),
            "/never" => Reply::Bytes([head(&(length + "X-Accel-Buffering: no\r\n")), body(LARGE)].concat()),
            "/broken" => Reply::Raw([head(&length), body(LARGE - 1)].concat()),
            "/close" => Reply::Raw([head(""), body(LARGE)].concat()),
            "/chunked" => {
                let size = format!("{LARGE:x}\r\n").into_bytes();
                let end = b"\r\n0\r\n\r\n".to_vec();
                Reply::Bytes([head("Transfer-Encoding: chunked\r\n"), size, body(LARGE), end].concat())
            }
            _ => Reply::Echo,
        }
    })
}

fn ingress(annotations: &[(&str, &str)]) -> String {
    Ingress::plain_and_tls("media", HOST).annotations(annotations).text()
}

fn start(annotations: &[(&str, &str)], config: &[(&str, &str)], backend: &Backend) -> (Folder, Gateway) {
    let folder =
        Folder::with(service_with("media", &[backend]) + &TestCertificate::new(&[HOST]).secret("tls"));
    folder.write("ingress.yaml", ingress(annotations));
    folder.write("config.yaml", config_map(CONFIG, config));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    (folder, gateway)
}

/// Returns a client that has sent a request and reads nothing.
fn slow(gateway: &Gateway, host: &str, target: &str) -> Connection {
    let mut client = Connection::plain(gateway.http);
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client
}

/// Waits until the endpoint has sent so many responses.
fn await_completed(backend: &Backend, responses: usize) {
    await_until("the endpoint to be free", || backend.completed() == responses);
}

/// A rule whose responses are always buffered, for comparison.
struct Buffered(Backend);

impl Buffered {
    const HOST: &str = "buffered.example";

    fn add_to(folder: &Folder, gateway: &Gateway) -> Self {
        let backend = media();
        let ingress = Ingress::new("buffered").path(Self::HOST, "/", "buffered").annotation(ON.0, ON.1);
        folder.write("buffered.yaml", ingress.text() + &service_with("buffered", &[&backend]));
        await_until("the rule for comparison", || get(gateway.http, Self::HOST, "/").status == 200);
        Self(backend)
    }

    /// Whether a client that reads nothing occupies the endpoint: a later request of this rule
    /// does not.
    fn outruns(&self, gateway: &Gateway, backend: &Backend, target: &str) -> bool {
        let (before, requests) = (backend.completed(), backend.requests());
        let client = slow(gateway, HOST, target);
        await_until("the request to arrive", || backend.requests() > requests);
        let completed = self.0.completed();
        let other = slow(gateway, Self::HOST, "/length");
        await_completed(&self.0, completed + 1);
        let occupied = backend.completed() == before;
        drop((client, other));
        occupied
    }
}

#[test]
fn a_slow_client_does_not_occupy_the_endpoint() {
    let backend = media();
    let (_folder, gateway) = start(&[ON], &[], &backend);
    for (number, target) in ["/length", "/chunked", "/close"].iter().enumerate() {
        let mut client = slow(&gateway, HOST, target);
        await_completed(&backend, number + 1);
        let response = client.response();
        assert_eq!(response.status, 200);
        assert!(response.body() == body(LARGE), "{target}: {} bytes", response.body().len());
        let line = gateway.await_access(&format!("GET {target} HTTP/1.1"));
        assert!(line.contains(&format!("\" 200 {LARGE} ")), "{line}");
    }
}

#[test]
fn an_endpoint_is_free_while_its_response_is_delivered() {
    let backend = media();
    let (_folder, gateway) = start(&[ON], &[], &backend);
    let mut client = slow(&gateway, HOST, "/length");
    let in_flight = || gateway.ask("/backends").json()[0]["endpoints"][0]["inFlight"].as_u64().unwrap();
    await_until("the request to begin", || backend.requests() == 1);
    await_until("the endpoint's place to be free", || in_flight() == 0);
    assert_eq!(client.response().body().len(), LARGE);
}

#[test]
fn annotation_and_configmap_decide() {
    let backend = media();
    // One connection gets a tenth of it.
    let memory = ("body-memory-budget", "2g");
    let (folder, gateway) = start(&[], &[memory], &backend);
    let buffered = Buffered::add_to(&folder, &gateway);
    let change = |file: &str, text: String| {
        let generation = gateway.generation();
        folder.write(file, text);
        await_until("the change to take effect", || gateway.generation() > generation);
    };
    let occupied = || buffered.outruns(&gateway, &backend, "/length");
    let free = || {
        let completed = backend.completed();
        let client = slow(&gateway, HOST, "/length");
        await_completed(&backend, completed + 1);
        drop(client);
    };
    assert!(occupied(), "off by default");
    change("config.yaml", config_map(CONFIG, &[memory, ON]));
    free();
    change("ingress.yaml", ingress(&[("proxy-buffering", "off")]));
    assert!(occupied(), "off by the annotation");
    change("ingress.yaml", ingress(&[ON]));
    free();
    change("ingress.yaml", ingress(&[ON, ("proxy-max-temp-file-size", "1m")]));
    assert!(occupied(), "more than the bound");
    let no_file = ("proxy-max-temp-file-size", "0");
    change("ingress.yaml", ingress(&[ON, no_file, ("proxy-buffers-number", "20000")]));
    free();
}

#[test]
fn an_endpoint_may_decline() {
    let backend = media();
    let (folder, gateway) = start(&[ON], &[], &backend);
    let buffered = Buffered::add_to(&folder, &gateway);
    assert!(buffered.outruns(&gateway, &backend, "/never"));
    let client = slow(&gateway, HOST, "/length");
    await_completed(&backend, 1);
    drop(client);
}

#[test]
fn a_response_that_breaks_off_arrives_as_far_as_it_came() {
    let backend = media();
    let (_folder, gateway) = start(&[ON], &[], &backend);
    let mut client = slow(&gateway, HOST, "/broken");
    await_completed(&backend, 1);
    let received = client.rest();
    assert!(received.ends_with(&body(LARGE - 1)), "{} bytes", received.len());
}

#[test]
fn a_client_that_leaves_ends_its_request() {
    let backend = media();
    let (_folder, gateway) = start(&[ON], &[], &backend);
    let client = slow(&gateway, HOST, "/length");
    await_completed(&backend, 1);
    drop(client);
    let line = gateway.await_access("GET /length HTTP/1.1");
    assert!(line.contains("\" 200 "), "{line}");
}

#[test]
fn a_limited_rate_does_not_occupy_the_endpoint() {
    let backend = media();
    let (_folder, gateway) = start(&[ON, ("limit-rate", "1")], &[], &backend);
    let mut client = slow(&gateway, HOST, "/length");
    await_completed(&backend, 1);
    assert_eq!(client.bytes(12), b"HTTP/1.1 200");
    run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        let url = format!("https://{HOST}/length");
        tokio::select! {
            response = connection.get(&url) => panic!("not limited: {:?}", response.map(|it| it.status())),
            () = async {
                while backend.completed() == 1 {
                    tokio::task::yield_now().await;
                }
            } => {}
        }
    });
}

#[test]
fn a_compressed_response_is_buffered_before_it_is_compressed() {
    let backend = media();
    let config = [("use-gzip", "true"), ("gzip-types", "*"), ("gzip-min-length", "0")];
    let (_folder, gateway) = start(&[ON, ("limit-rate", "1")], &config, &backend);
    let mut client = Connection::plain(gateway.http);
    client.send(format!("GET /length HTTP/1.1\r\nHost: {HOST}\r\nAccept-Encoding: gzip\r\n\r\n"));
    await_completed(&backend, 1);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push(char::from(client.bytes(1)[0]));
    }
    assert!(head.to_lowercase().contains("content-encoding: gzip"), "{head}");
}

/// Up to two buffers were sent at once, whatever the rate.
#[test]
fn a_buffered_response_is_sent_at_the_limited_rate() {
    let backend = Backend::with("media", |request| {
        let length = request.start.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        Reply::Answer(200, Vec::new(), String::from_utf8(body(length)).unwrap())
    });
    let (folder, gateway) = start(&[ON, ("limit-rate", "4")], &[], &backend);
    let received = |length: usize| {
        let began = Instant::now();
        let response = get(gateway.http, HOST, &format!("/{length}"));
        assert!(response.body() == body(length), "{} bytes", response.body().len());
        began.elapsed()
    };
    // The bytes of the first second are sent at once: 4 KiB take no time, and 2 KiB half a second.
    assert!(received(6 << 10) >= Duration::from_millis(450), "less than one buffer");
    let generation = gateway.generation();
    folder.write("ingress.yaml", ingress(&[ON, ("limit-rate", "400"), ("proxy-buffer-size", "256k")]));
    await_until("the change to take effect", || gateway.generation() > generation);
    assert!(received(600 << 10) >= Duration::from_millis(450), "a large buffer");
}
