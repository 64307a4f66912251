//! `proxy-request-buffering`: whether the request body is buffered before it goes to an endpoint.

use std::time::{Duration, Instant};

use http::Request;

use crate::harness::h2::{self, run};
use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, Reply, TestCertificate, await_until, config_map,
};

const HOST: &str = "upload.example";
const CONFIG: &str = "ingress-nginx/controller";

fn objects(annotations: &[(&str, &str)], backends: &[&Backend]) -> String {
    let ingress = Ingress::plain_and_tls("upload", HOST).annotation("proxy-body-size", "0");
    let ingress = ingress.annotations(annotations);
    ingress.text() + &service_with("upload", backends) + &TestCertificate::new(&[HOST]).secret("tls")
}

fn start(annotations: &[(&str, &str)], backends: &[&Backend]) -> (Folder, Gateway) {
    let folder = Folder::with(objects(annotations, backends));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    (folder, gateway)
}

/// Returns a client that has sent a part of its body.
fn halfway(gateway: &Gateway) -> Connection {
    let mut client = Connection::plain(gateway.http);
    client.send(format!("POST /slow HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 10\r\n\r\nhello"));
    client
}

/// Returns whether a body is streamed to the endpoint; its length is unknown to the endpoint then.
fn streams(gateway: &Gateway) -> bool {
    let mut client = Connection::plain(gateway.http);
    client
        .send(format!("POST / HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"));
    client.send("0\r\n\r\n");
    let response = client.response();
    assert_eq!(response.json()["body"], "hello");
    let length = response.received("content-length");
    assert_eq!(response.received("transfer-encoding").is_empty(), !length.is_empty());
    assert!(length.is_empty() || length == ["5"]);
    length.is_empty()
}

#[test]
fn an_endpoint_receives_the_whole_body_with_its_length() {
    let backend = Backend::echo("upload");
    let (folder, gateway) = start(&[], &[&backend]);
    drop(halfway(&gateway));
    assert!(gateway.await_access("POST /slow HTTP/1.1").contains("\" 499 "));
    assert_eq!(backend.connections(), 0, "the body has never been whole");
    assert!(!streams(&gateway));
    folder.write("config.yaml", config_map(CONFIG, &[("proxy-request-buffering", "off")]));
    await_until("the ConfigMap to switch it off", || streams(&gateway));
    folder.write("objects.yaml", objects(&[("proxy-request-buffering", "on")], &[&backend]));
    await_until("the annotation to switch it on", || !streams(&gateway));
    folder.write("objects.yaml", objects(&[("proxy-request-buffering", "off")], &[&backend]));
    await_until("the annotation to switch it off", || streams(&gateway));
}

#[test]
fn a_waiting_client_receives_100_continue() {
    let backend = Backend::echo("upload");
    let (_folder, gateway) = start(&[], &[&backend]);
    let mut client = Connection::plain(gateway.http);
    for _ in 0..2 {
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: {HOST}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        ));
        let go_on = client.response();
        assert_eq!(go_on.status, 100);
        assert_eq!(go_on.status_line(), "HTTP/1.1 100 Continue");
        client.send("hello");
        let response = client.response();
        assert_eq!((response.status, &response.json()["body"]), (200, &"hello".into()));
        assert!(response.received("expect").is_empty(), "the endpoint has nothing to wait for");
    }
}

#[test]
fn large_bodies_wait_on_disk_and_arrive_whole() {
    let backend = Backend::echo("upload");
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::with(objects(&[], &[&backend]));
    let path = temporary.path().to_str().unwrap().to_owned();
    let gateway = Gateway::with(&folder, &["--body-temp-path", &path]);
    let body: String = (0..3_000_000_u32).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
    let mut client = Connection::plain(gateway.http);
    assert_eq!(client.request("POST", HOST, "/", &[], &body).json()["body"], body);
    let head = format!("POST / HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len()));
    let response = client.response();
    assert_eq!(response.json()["body"], body);
    assert_eq!(response.received("content-length"), [body.len().to_string()]);
    run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        let request = Request::post(format!("https://{HOST}/")).body(()).unwrap();
        let response = connection.send(request, &body[..200_000]).await.unwrap();
        let seen: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(seen["body"], body[..200_000]);
    });
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "the files have no names");
}

#[test]
fn without_disk_space_it_is_507_before_any_endpoint() {
    let backend = Backend::echo("upload");
    let body = "x".repeat(300_000);
    let temporary = tempfile::tempdir().unwrap();
    let gone = temporary.path().join("gone").to_str().unwrap().to_owned();
    let folder = Folder::with(objects(&[], &[&backend]));
    let gateway = Gateway::with(&folder, &["--body-temp-path", &gone]);
    assert_eq!(Connection::plain(gateway.http).request("POST", HOST, "/", &[], &body).status, 507);
    await_until("the reason in the log", || {
        gateway.program_log().iter().any(|line| line.contains("--body-temp-path"))
    });
    let (folder, gateway) = start(&[], &[&backend]);
    folder.write("config.yaml", config_map(CONFIG, &[("body-temp-max-size", "100k")]));
    await_until("the bound", || {
        Connection::plain(gateway.http).request("POST", HOST, "/", &[], &body).status == 507
    });
    let small = "x".repeat(60_000);
    assert_eq!(Connection::plain(gateway.http).request("POST", HOST, "/", &[], &small).status, 200);
    folder.write("config.yaml", config_map(CONFIG, &[("body-temp-max-size", "100m")]));
    await_until("room again", || {
        Connection::plain(gateway.http).request("POST", HOST, "/", &[], &body).status == 200
    });
    assert!(!backend.seen().iter().any(|request| request.body.is_empty()));
}

#[test]
fn another_endpoint_gets_the_whole_body_again() {
    let closes = Backend::with("closes", |_| Reply::Close);
    let good = Backend::echo("good");
    let annotations = [("proxy-next-upstream", "error timeout non_idempotent")];
    let (_folder, gateway) = start(&annotations, &[&closes, &good]);
    // More than is kept of a streamed body.
    let body = "0123456789abcdef".repeat(20_000);
    for _ in 0..4 {
        let response = Connection::plain(gateway.http).request("POST", HOST, "/", &[], &body);
        assert_eq!((response.status, response.backend().as_str()), (200, "good"));
        assert_eq!(response.json()["body"], body);
    }
    assert!(closes.requests() >= 1);
}

#[test]
fn another_endpoint_gets_a_body_again_that_came_with_its_head() {
    let closes = Backend::with("closes", |_| Reply::Close);
    let good = Backend::echo("good");
    let annotations = [("proxy-next-upstream", "error timeout non_idempotent")];
    let (_folder, gateway) = start(&annotations, &[&closes, &good]);
    let mut client = Connection::plain(gateway.http);
    for length in [5, 5_000, 30_000, 60_000, 65_536, 65_537] {
        let body = "0123456789abcdef".repeat(5000)[..length].to_owned();
        for _ in 0..2 {
            let response = client.request("POST", HOST, "/", &[], &body);
            assert_eq!((response.status, response.backend().as_str()), (200, "good"));
            assert_eq!(response.json()["body"], body);
        }
        let next = client.request("GET", HOST, "/next", &[], "");
        assert_eq!((next.status, next.json()["target"].as_str()), (200, Some("/next")));
        run(async {
            let connection = h2::Connection::tls(gateway.https, HOST).await;
            for _ in 0..2 {
                let request = Request::post(format!("https://{HOST}/"))
                    .header("content-length", length)
                    .body(())
                    .unwrap();
                let response = connection.send(request, &body).await.unwrap();
                let seen: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
                assert_eq!(seen["body"], body);
            }
        });
    }
    assert!(closes.requests() >= 1);
}

#[test]
fn a_body_that_stops_coming_is_408() {
    let backend = Backend::echo("upload");
    let folder = Folder::with(objects(&[], &[&backend]));
    folder.write("config.yaml", config_map(CONFIG, &[("client-body-timeout", "1")]));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    assert_eq!(halfway(&gateway).response().status, 408);
    assert_eq!(backend.connections(), 0);
}

#[test]
fn an_upload_that_pauses_outlives_the_read_timeout() {
    let backend = Backend::echo("upload");
    let streamed = [("proxy-request-buffering", "off"), ("proxy-read-timeout", "1")];
    let (_folder, gateway) = start(&streamed, &[&backend]);
    let mut client = halfway(&gateway);
    await_until("the endpoint to get the first half", || backend.connections() == 1);
    let began = Instant::now();
    await_until("more than the read timeout", || began.elapsed() > Duration::from_millis(1500));
    client.send("world");
    let response = client.response();
    assert_eq!((response.status, &response.json()["body"]), (200, &"helloworld".into()));
}

#[test]
fn trailers_arrive() {
    let backend = Backend::echo("upload");
    let (_folder, gateway) = start(&[], &[&backend]);
    let mut client = Connection::plain(gateway.http);
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
         5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"
    ));
    let response = client.response();
    assert_eq!(response.json()["body"], "hello");
    assert_eq!(client.request("POST", HOST, "/", &[], "next").json()["body"], "next");
}

#[test]
fn grpc_is_never_held_back() {
    let backend = Backend::echo("upload");
    let (_folder, gateway) = start(&[], &[&backend]);
    let mut client = Connection::plain(gateway.http);
    client.send(format!(
        "POST /x HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/grpc+proto\r\n\
         Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    ));
    await_until("the endpoint to be asked", || backend.connections() == 1);
    client.send("0\r\n\r\n");
    assert_eq!(client.response().received("transfer-encoding"), ["chunked"]);
}

#[test]
fn so_much_of_a_body_waits_in_memory() {
    let backend = Backend::echo("upload");
    let body = "x".repeat(300_000);
    let (folder, gateway) = start(&[], &[&backend]);
    let status = || Connection::plain(gateway.http).request("POST", HOST, "/", &[], &body).status;
    let keys = |buffer: &str| {
        let keys = [("body-temp-max-size", "4k"), ("client-body-buffer-size", buffer)];
        folder.write("config.yaml", config_map(CONFIG, &keys));
    };
    keys("8k");
    await_until("no room on disk", || status() == 507);
    keys("1m");
    await_until("room in memory", || status() == 200);
    folder.write("objects.yaml", objects(&[("client-body-buffer-size", "16k")], &[&backend]));
    await_until("less of it for the Ingress", || status() == 507);
    folder.write("objects.yaml", objects(&[("client-body-buffer-size", "512k")], &[&backend]));
    keys("8k");
    await_until("more of it for the Ingress", || status() == 200);
}
