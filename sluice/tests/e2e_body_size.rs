//! `proxy-body-size`: the maximum size of a request body.

use http::Request;

use crate::harness::h2::{self, run};
use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, TestCertificate, await_until, config_map,
};

const HOST: &str = "upload.example";
const CONFIG: &str = "ingress-nginx/controller";

fn objects(size: Option<&str>, buffering: &str, backend: &Backend) -> String {
    let mut ingress = Ingress::plain_and_tls("upload", HOST).annotation("proxy-request-buffering", buffering);
    if let Some(size) = size {
        ingress = ingress.annotation("proxy-body-size", size);
    }
    ingress.text() + &service_with("upload", &[backend]) + &TestCertificate::new(&[HOST]).secret("tls")
}

fn start(size: Option<&str>, buffering: &str, backend: &Backend) -> (Folder, Gateway) {
    let folder = Folder::with(objects(size, buffering, backend));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    (folder, gateway)
}

fn post(gateway: &Gateway, length: usize) -> u16 {
    Connection::plain(gateway.http).request("POST", HOST, "/", &[], &"x".repeat(length)).status
}

#[test]
fn more_than_one_mebibyte_is_413_by_default() {
    let backend = Backend::echo("upload");
    let (folder, gateway) = start(None, "on", &backend);
    assert_eq!(post(&gateway, 1 << 20), 200);
    assert_eq!(post(&gateway, (1 << 20) + 1), 413);
    folder.write("config.yaml", config_map(CONFIG, &[("proxy-body-size", "2m")]));
    await_until("the ConfigMap's limit", || post(&gateway, (1 << 20) + 1) == 200);
    assert_eq!(post(&gateway, (2 << 20) + 1), 413);
    folder.write("objects.yaml", objects(Some("10"), "on", &backend));
    await_until("the annotation's limit", || post(&gateway, 11) == 413);
    assert_eq!(post(&gateway, 10), 200);
    folder.write("objects.yaml", objects(Some("0"), "on", &backend));
    await_until("no limit", || post(&gateway, (2 << 20) + 1) == 200);
    // An invalid value counts as missing, so the ConfigMap's limit applies again.
    folder.write("objects.yaml", objects(Some("much"), "on", &backend));
    await_until("the ConfigMap's limit again", || post(&gateway, (2 << 20) + 1) == 413);
    let problems = gateway.problems();
    assert!(problems.contains("proxy-body-size") && problems.contains("much"), "{problems}");
}

#[test]
fn an_excessive_length_is_413_before_the_body_and_any_endpoint() {
    let backend = Backend::echo("upload");
    let (_folder, gateway) = start(Some("10"), "on", &backend);
    for expect in ["", "Expect: 100-continue\r\n"] {
        let mut client = Connection::plain(gateway.http);
        client.send(format!("POST / HTTP/1.1\r\nHost: {HOST}\r\n{expect}Content-Length: 11\r\n\r\n"));
        let response = client.response();
        assert_eq!(response.status, 413);
        assert_eq!(response.header("connection"), Some("close"));
        assert!(response.text().contains("413 Request Entity Too Large"), "{}", response.text());
    }
    assert_eq!(backend.requests(), 0);
    assert!(gateway.await_access("POST / HTTP/1.1").contains("\" 413 "));
}

#[test]
fn a_declared_length_above_the_limit_is_413_before_redirects_and_access() {
    let backend = Backend::echo("upload");
    let limited = || Ingress::new("upload").path(HOST, "/", "upload").annotation("proxy-body-size", "10");
    let origin = "https://page.example";
    let (folder, gateway) = start(Some("10"), "on", &backend);
    let ask = |method: &str, host: &str, target: &str, length: usize| {
        let mut client = Connection::plain(gateway.http);
        let fields = format!("Host: {host}\r\nOrigin: {origin}\r\nContent-Length: {length}");
        client.send(format!("{method} {target} HTTP/1.1\r\n{fields}\r\n\r\n{}", "x".repeat(length)));
        client.response()
    };
    let cors = limited().annotation("enable-cors", "true").annotation("cors-allow-origin", origin);
    for (ingress, method, otherwise) in [
        (limited().annotation("permanent-redirect", "https://other.example/"), "POST", 301),
        (limited().tls(&[HOST], "tls"), "POST", 308),
        (limited().annotation("whitelist-source-range", "192.0.2.0/24"), "POST", 403),
        (limited().annotation("auth-url", "http://127.0.0.1:9/"), "POST", 500),
        (cors, "OPTIONS", 204),
    ] {
        let text = ingress.text() + &service_with("upload", &[&backend]);
        folder.write("objects.yaml", text + &TestCertificate::new(&[HOST]).secret("tls"));
        await_until("the change", || ask(method, HOST, "/", 10).status == otherwise);
        let response = ask(method, HOST, "/", 11);
        assert_eq!((response.status, response.header("connection")), (413, Some("close")), "{otherwise}");
        let is_shared = response.header("access-control-allow-origin") == Some(origin);
        assert_eq!(is_shared, method == "OPTIONS");
    }
    let www = limited().annotation("app-root", "/app").annotation("from-to-www-redirect", "true");
    folder.write("objects.yaml", www.text() + &service_with("upload", &[&backend]));
    await_until("the redirect of the server", || ask("POST", HOST, "/", 11).status == 302);
    assert_eq!(ask("POST", &format!("www.{HOST}"), "/", 11).status, 308);
    assert_eq!(ask("POST", HOST, "/x", 11).status, 413);
}

#[test]
fn a_body_in_chunks_is_413_when_it_becomes_too_large() {
    let backend = Backend::echo("upload");
    for buffering in ["on", "off"] {
        let (_folder, gateway) = start(Some("10"), buffering, &backend);
        let head = format!("POST / HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n");
        let mut client = Connection::plain(gateway.http);
        client.send(format!("{head}5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n"));
        let response = client.response();
        assert_eq!(response.status, 200, "{buffering}");
        assert_eq!(response.json()["body"], "helloworld");
        client.send(format!("{head}5\r\nhello\r\n6\r\nworld!\r\n"));
        let response = client.response();
        assert_eq!(response.status, 413, "{buffering}");
        assert_eq!(response.header("connection"), Some("close"));
        assert_eq!(backend.seen().iter().filter(|request| request.text() == "helloworld!").count(), 0);
    }
}

#[test]
fn it_holds_for_http2_with_and_without_a_length() {
    let backend = Backend::echo("upload");
    for buffering in ["on", "off"] {
        let (_folder, gateway) = start(Some("10"), buffering, &backend);
        run(async {
            let connection = h2::Connection::tls(gateway.https, HOST).await;
            for (body, expected) in [("helloworld", 200), ("helloworld!", 413)] {
                let url = format!("https://{HOST}/");
                let with_length = Request::post(&url).header("content-length", body.len()).body(()).unwrap();
                let without = Request::post(&url).body(()).unwrap();
                for request in [with_length, without] {
                    let response = connection.send(request, body).await.unwrap();
                    assert_eq!(response.status(), expected, "{buffering} {body}");
                }
            }
            // The connection remains usable.
            let response = connection.get(&format!("https://{HOST}/")).await.unwrap();
            assert_eq!(response.status(), 200);
        });
    }
}
