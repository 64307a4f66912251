//! `mirror-target` and related annotations: copies of requests, which never affect the requests.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::harness::h2::{self, run};
use crate::harness::manifest::service_with;
use crate::harness::wire::Message;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, Reply, TestCertificate, await_some, await_until, get,
};

const HOST: &str = "shop.example";

fn target(mirror: SocketAddr) -> String {
    format!("http://{mirror}$request_uri")
}

fn ingress(mirror: SocketAddr) -> Ingress {
    plain().annotation("mirror-target", &target(mirror))
}

fn plain() -> Ingress {
    Ingress::plain_and_tls("shop", HOST).annotation("proxy-body-size", "0")
}

fn start(ingress: &Ingress, shop: &Backend) -> (Folder, Gateway) {
    let folder = Folder::with(service_with("shop", &[shop]) + &TestCertificate::new(&[HOST]).secret("tls"));
    folder.write("ingress.yaml", ingress.text());
    let gateway = Gateway::start(&folder);
    (folder, gateway)
}

/// Waits for the only copy since `before` and returns it.
fn copy(mirror: &Backend, before: usize) -> Message {
    let copy = await_some("a copy", || mirror.seen().get(before).cloned());
    assert_eq!(mirror.requests(), before + 1, "one copy of one request");
    copy
}

/// Returns the number of copies with this outcome.
fn counted(gateway: &Gateway, outcome: &str) -> u64 {
    let metrics = gateway.metrics();
    let name = format!("sluice_mirrored_requests_total{{outcome=\"{outcome}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&*name)).unwrap().parse().unwrap()
}

/// Starts a listener that accepts connections and never sends anything.
fn silent() -> (SocketAddr, Arc<Mutex<Vec<TcpStream>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let held = taken.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            held.lock().unwrap().push(stream);
        }
    });
    (address, taken)
}

#[test]
fn a_copy_is_the_request_as_the_endpoint_gets_it() {
    let (shop, mirror) = (Backend::echo("shop"), Backend::with("mirror", |_| Reply::field("X-Copy", "yes")));
    let (_folder, gateway) = start(&ingress(mirror.address), &shop);
    let mut connection = Connection::plain(gateway.http);
    let fields = [("X-Forwarded-For", "192.0.2.1"), ("If-None-Match", "\"a\""), ("Connection", "X-Secret")];
    let fields = [&fields[..], &[("X-Secret", "1"), ("X-Plain", "two")]].concat();
    let response = connection.request("POST", HOST, "/cart/a%20b?x=1&y=%26", &fields, "hello");
    assert_eq!((response.status, &response.json()["body"]), (200, &"hello".into()));
    assert_eq!(response.backend(), "shop");
    assert!(response.header("x-copy").is_none());
    let copied = copy(&mirror, 0);
    assert_eq!(copied.start, "POST /cart/a%20b?x=1&y=%26 HTTP/1.1");
    assert_eq!(copied.text(), "hello");
    assert_eq!(copied.all("host"), ["127.0.0.1"]);
    for name in ["X-Forwarded-For", "X-Request-ID", "X-Real-IP", "X-Plain", "If-None-Match", "X-Secret"] {
        assert_eq!(copied.all(name), response.received(name), "{name}");
    }
    assert_eq!(copied.all("X-Forwarded-For"), ["127.0.0.1"]);
    for (at, method) in ["GET", "HEAD", "DELETE"].into_iter().enumerate() {
        connection.send(format!("{method} /{at} HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: x\r\n\r\n"));
        let side = if method == "HEAD" {
            sluice_testing::wire::Side::Head
        } else {
            sluice_testing::wire::Side::Response
        };
        assert_eq!(connection.try_response(side).unwrap().unwrap().status, 200);
        let copied = copy(&mirror, at + 1);
        assert_eq!(copied.start, format!("{method} /{at} HTTP/1.1"));
        assert!(copied.header("upgrade").is_none() && copied.header("content-length").is_none());
    }
    await_until("all counted", || counted(&gateway, "answered") == 4);
    assert_eq!(counted(&gateway, "failed") + counted(&gateway, "dropped"), 0);
}

#[test]
fn a_mirror_target_without_variables_gets_the_query() {
    let (shop, mirror) = (Backend::echo("shop"), Backend::with("mirror", |_| Reply::status(200)));
    let of =
        |target: &str| plain().annotation("mirror-target", &format!("http://{}{target}", mirror.address));
    let (folder, gateway) = start(&of("/pre"), &shop);
    get(gateway.http, HOST, "/abc?q=1");
    assert_eq!(copy(&mirror, 0).start, "GET /pre?q=1 HTTP/1.1");
    get(gateway.http, HOST, "/abc");
    assert_eq!(copy(&mirror, 1).start, "GET /pre HTTP/1.1");
    folder.write("ingress.yaml", of("/pre$uri").text());
    let mut copies = 2;
    await_until("the path, without the query", || {
        get(gateway.http, HOST, "/abc?q=1");
        copies += 1;
        copy(&mirror, copies - 1).start == "GET /pre/abc HTTP/1.1"
    });
}

#[test]
fn bodies_arrive_whole_however_they_come() {
    let (shop, mirror) = (Backend::echo("shop"), Backend::with("mirror", |_| Reply::status(200)));
    let (folder, gateway) = start(&ingress(mirror.address), &shop);
    let body: String = (0..600_000_u32).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
    let mut copies = 0;
    for buffering in ["on", "off"] {
        let other = ingress(mirror.address).annotation("proxy-request-buffering", buffering);
        folder.write("ingress.yaml", other.annotation("mirror-host", buffering).text());
        await_until("the change", || {
            get(gateway.http, HOST, "/");
            copies += 1;
            copy(&mirror, copies - 1).header("host") == Some(buffering)
        });
        let mut client = Connection::plain(gateway.http);
        // In memory, and on disk if bodies are buffered.
        for length in [1, 60_000, body.len()] {
            let sent = &body[..length];
            assert_eq!(client.request("POST", HOST, "/", &[], sent).json()["body"], sent);
            let copied = copy(&mirror, copies);
            assert_eq!((copied.text().len(), &*copied.text() == sent), (length, true), "{buffering}");
            assert_eq!(copied.header("content-length"), Some(&*length.to_string()));
            client.send(format!("POST / HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n"));
            client.send(format!("1\r\n{}\r\n", &sent[..1]));
            if length > 1 {
                client.send(format!("{:x}\r\n{}\r\n", length - 1, &sent[1..]));
            }
            client.send("0\r\n\r\n");
            assert_eq!(client.response().json()["body"], sent);
            assert_eq!(copy(&mirror, copies + 1).text(), sent, "{buffering}");
            copies += 2;
        }
    }
}

#[test]
fn streams_of_http_2_are_copied_too() {
    let (shop, mirror) = (Backend::echo("shop"), Backend::with("mirror", |_| Reply::status(200)));
    let (_folder, gateway) = start(&ingress(mirror.address), &shop);
    run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        let body = "0123456789".repeat(20_000);
        for (at, body) in ["", "hello", &body].into_iter().enumerate() {
            let request = http::Request::post(format!("https://{HOST}/{at}?x")).body(()).unwrap();
            let response = connection.send(request, body).await.unwrap();
            let seen: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
            assert_eq!(seen["body"], body);
            let copied = copy(&mirror, at);
            assert_eq!(copied.start, format!("POST /{at}?x HTTP/1.1"));
            assert_eq!(copied.text(), body);
        }
    });
}

#[test]
fn a_failing_mirror_affects_no_request() {
    let shop = Backend::echo("shop");
    let broken = Backend::with("broken", |_| Reply::status(500));
    let closing = Backend::with("closing", |_| Reply::Close);
    let (hanging, _held) = silent();
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (folder, gateway) = start(&plain(), &shop);
    for mirror in [broken.address, closing.address, hanging, refusing] {
        // No request waits for the mirror, although the timeout would allow it.
        let ingress = ingress(mirror).annotation("proxy-read-timeout", "3600");
        folder.write("ingress.yaml", ingress.text());
        let before = ["answered", "failed"].map(|outcome| counted(&gateway, outcome));
        let mut client = Connection::plain(gateway.http);
        for _ in 0..20 {
            let response = client.request("POST", HOST, "/", &[], "hello");
            assert_eq!((response.status, &response.json()["body"]), (200, &"hello".into()));
            assert_eq!(client.get(HOST, "/").status, 200);
        }
        if mirror == hanging {
            continue;
        }
        let changed = || ["answered", "failed"].map(|outcome| counted(&gateway, outcome)) != before;
        await_until("the copies counted", || {
            client.get(HOST, "/");
            changed()
        });
    }
    await_until("the copies that were refused counted", || {
        get(gateway.http, HOST, "/");
        counted(&gateway, "failed") > 0
    });
    assert!(counted(&gateway, "answered") > 0, "500 is an answer");
}

#[test]
fn copies_beyond_the_capacity_are_dropped_and_counted() {
    let (shop, (hanging, _held)) = (Backend::with("shop", |_| Reply::status(200)), silent());
    let patient = ingress(hanging).annotation("proxy-read-timeout", "3600");
    let (_folder, gateway) = start(&patient.annotation("proxy-send-timeout", "3600"), &shop);
    // One worker serves all requests of a connection.
    let mut client = Connection::plain(gateway.http);
    for _ in 0..300 {
        assert_eq!(client.get(HOST, "/").status, 200);
    }
    assert_eq!(counted(&gateway, "dropped"), 300 - 256);
    assert_eq!(counted(&gateway, "answered") + counted(&gateway, "failed"), 0);
}

#[test]
fn a_body_that_the_mirror_does_not_take_is_cut() {
    let (shop, (hanging, _held)) = (Backend::with("shop", |_| Reply::status(200)), silent());
    let patient = ingress(hanging).annotation("proxy-send-timeout", "3600");
    let (_folder, gateway) = start(&patient.annotation("proxy-request-buffering", "off"), &shop);
    // More than the buffers of a socket and the queue hold.
    let body = "x".repeat(16 * 1024 * 1024);
    assert_eq!(Connection::plain(gateway.http).request("POST", HOST, "/", &[], &body).status, 200);
    assert_eq!(shop.seen().pop().unwrap().body.len(), body.len());
    await_until("the copy given up", || counted(&gateway, "dropped") == 1);
}

#[test]
fn a_failing_endpoint_delays_no_copy() {
    let (mut shop, mirror) = (Backend::echo("shop"), Backend::with("mirror", |_| Reply::status(200)));
    let (_folder, gateway) = start(&ingress(mirror.address), &shop);
    shop.stop();
    let body = "0123456789".repeat(5_000);
    assert_eq!(Connection::plain(gateway.http).request("POST", HOST, "/", &[], &body).status, 502);
    assert_eq!(copy(&mirror, 0).text(), body);
}

#[test]
fn denied_requests_are_not_copied() {
    let (shop, mirror) = (Backend::echo("shop"), Backend::with("mirror", |_| Reply::status(200)));
    let auth = Backend::with("auth", |_| Reply::status(403));
    let guarded = ingress(mirror.address).annotation("auth-url", &format!("http://{}/", auth.address));
    let (folder, gateway) = start(&guarded, &shop);
    assert_eq!(get(gateway.http, HOST, "/").status, 403);
    folder.write("ingress.yaml", ingress(mirror.address).annotation("proxy-body-size", "10").text());
    let mut copies = 0;
    await_until("open", || {
        let status = get(gateway.http, HOST, "/").status;
        copies += usize::from(status == 200);
        status == 200
    });
    let large = Connection::plain(gateway.http).request("POST", HOST, "/", &[], "more than ten bytes");
    assert_eq!(large.status, 413);
    assert_eq!(get(gateway.http, HOST, "/last").status, 200);
    await_until("the copies", || mirror.requests() == copies + 1);
    // Copies may overtake one another.
    assert!(mirror.seen().iter().any(|copied| copied.start == "GET /last HTTP/1.1"));
    assert!(mirror.seen().iter().all(|copied| copied.start.starts_with("GET ")));
}

#[test]
fn annotations_control_the_copies_without_a_restart() {
    let (shop, mirror) = (Backend::echo("shop"), Backend::with("mirror", |_| Reply::status(200)));
    let other = Backend::with("other", |_| Reply::status(200));
    let (folder, gateway) = start(&plain(), &shop);
    let post = || {
        assert_eq!(Connection::plain(gateway.http).request("POST", HOST, "/a?b", &[], "hello").status, 200)
    };
    post();
    let last = |mirror: &Backend, what: &str, is: &dyn Fn(&Message) -> bool| {
        await_until(what, || {
            post();
            mirror.seen().last().is_some_and(is)
        });
    };
    folder.write("ingress.yaml", ingress(mirror.address).text());
    last(&mirror, "a mirror", &|copy| copy.text() == "hello");
    let bare = ingress(mirror.address).annotation("mirror-request-body", "off");
    folder.write("ingress.yaml", bare.text());
    last(&mirror, "no bodies", &|copy| copy.text().is_empty() && copy.header("content-length") == Some("0"));
    folder.write("ingress.yaml", bare.annotation("mirror-host", "copy.$host").text());
    last(&mirror, "another host", &|copy| copy.header("host") == Some("copy.shop.example"));
    let elsewhere = format!("http://{}/copies/$namespace?of=$uri", other.address);
    folder.write("ingress.yaml", plain().annotation("mirror-target", &elsewhere).text());
    last(&other, "another target", &|copy| copy.start == "POST /copies/default?of=/a HTTP/1.1");
    folder.write("ingress.yaml", plain().text());
    await_until("no mirror", || {
        let before = other.requests();
        for _ in 0..5 {
            post();
        }
        crate::harness::pause();
        other.requests() == before
    });
}

#[test]
fn services_of_the_cluster_and_names_are_mirrors() {
    let (shop, mirror) = (Backend::echo("shop"), Backend::with("mirror", |_| Reply::status(200)));
    let certificate = TestCertificate::new(&["localhost"]);
    let tls = Backend::tls("tls", certificate.server_config());
    let at = |url: &str| plain().annotation("mirror-target", url);
    let (folder, gateway) = start(&at("http://copy.default.svc$request_uri"), &shop);
    assert_eq!(get(gateway.http, HOST, "/").status, 200, "there is no such Service");
    folder.write("copy.yaml", service_with("copy", &[&mirror]));
    await_until("the Service picked up", || {
        assert_eq!(get(gateway.http, HOST, "/x").status, 200);
        mirror.requests() > 0
    });
    assert_eq!(mirror.seen()[0].header("host"), Some("copy.default.svc"));
    let name = format!("https://localhost:{}/$request_uri", tls.address.port());
    folder.write("ingress.yaml", at(&name).text());
    await_until("the name looked up", || {
        assert_eq!(get(gateway.http, HOST, "/x").status, 200);
        tls.requests() > 0
    });
    assert_eq!(tls.seen()[0].start, "GET //x HTTP/1.1", "as the URL has it");
}

#[test]
fn an_unusable_value_is_ignored_with_a_problem() {
    let shop = Backend::echo("shop");
    let (folder, gateway) = start(&plain(), &shop);
    for (name, value) in [
        ("mirror-target", "mirror.example"),
        ("mirror-target", "http://$arg_host/"),
        ("mirror-target", "http://mirror.example/$nothing"),
        ("mirror-request-body", "perhaps"),
        ("mirror-host", "a b"),
    ] {
        let ingress = ingress("127.0.0.1:9".parse().unwrap()).annotation(name, value);
        folder.write("ingress.yaml", ingress.text());
        await_until(value, || gateway.problems().contains(name) && gateway.problems().contains(value));
        assert_eq!(get(gateway.http, HOST, "/").status, 200);
    }
}

#[test]
fn shutdown_waits_for_requests_and_not_for_copies() {
    let (shop, (hanging, held)) = (Backend::echo("shop"), silent());
    let patient = ingress(hanging).annotation("proxy-read-timeout", "3600");
    let (_folder, mut gateway) = start(&patient, &shop);
    assert_eq!(get(gateway.http, HOST, "/").status, 200);
    await_until("the copy on its way", || held.lock().unwrap().len() == 1);
    gateway.terminate();
    assert!(gateway.await_exit().success());
}

#[test]
fn a_gateway_that_mirrors_to_itself_stops_at_the_hop_limit() {
    let shop = Backend::echo("shop");
    let (folder, gateway) = start(&plain(), &shop);
    let own = plain().annotation("mirror-target", &format!("http://{}$request_uri", gateway.http));
    folder.write("ingress.yaml", own.annotation("mirror-host", HOST).text());
    // Each copy is copied again, until the hop limit is reached.
    let mut sent = 0;
    await_until("the end of the loop", || {
        assert_eq!(get(gateway.http, HOST, "/").status, 200);
        sent += 1;
        gateway.access_log().iter().any(|line| line.contains(" 508 "))
    });
    assert!(shop.requests() <= 16 * sent, "{} requests after {sent}", shop.requests());
}
