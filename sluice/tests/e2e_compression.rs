//! Compression of responses: `use-gzip`, `enable-brotli`, `enable-zstd` and related settings.

use std::io::Read;

use http::Request;

use crate::harness::client::Response;
use crate::harness::h2::{self, run};
use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gate, Gateway, Ingress, Reply, TestCertificate, await_until, config_map,
};

const HOST: &str = "pages.example";
const CONFIG: &str = "ingress-nginx/controller";

fn page() -> String {
    "<p>A paragraph like the one before it.</p>\n".repeat(500)
}

/// Returns a backend whose response depends on the path.
fn backend() -> Backend {
    Backend::with("pages", |request| {
        let path = request.start.split(' ').nth(1).unwrap_or_default().to_owned();
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let html = field("Content-Type", "text/html; charset=utf-8");
        match path.as_str() {
            "/page" => Reply::Answer(
                200,
                vec![html, field("ETag", "\"v1\""), field("Accept-Ranges", "bytes")],
                page(),
            ),
            "/small" => Reply::Answer(200, vec![html], "small".into()),
            "/picture" => Reply::Answer(200, vec![field("Content-Type", "image/png")], page()),
            "/encoded" => Reply::Answer(200, vec![html, field("Content-Encoding", "x-own")], page()),
            "/as-it-is" => Reply::Answer(200, vec![html, field("Cache-Control", "no-transform")], page()),
            "/part" => Reply::Answer(206, vec![html, field("Content-Range", "bytes 0-9/100")], page()),
            "/nothing" => Reply::Bytes(b"HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n".to_vec()),
            "/chunks" => {
                let page = page();
                let (first, second) = page.split_at(7000);
                let text = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n\
                     {:x}\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n",
                    first.len(),
                    second.len(),
                );
                Reply::Bytes(text.into_bytes())
            }
            "/until-close" => Reply::Raw(
                format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{}", page()).into_bytes(),
            ),
            _ => Reply::Echo,
        }
    })
}

fn start(keys: &[(&str, &str)]) -> (Backend, Folder, Gateway) {
    start_with(backend(), keys)
}

fn start_with(backend: Backend, keys: &[(&str, &str)]) -> (Backend, Folder, Gateway) {
    let ingress = Ingress::plain_and_tls("pages", HOST);
    let folder = Folder::with(
        ingress.text() + &service_with("pages", &[&backend]) + &TestCertificate::new(&[HOST]).secret("tls"),
    );
    folder.write("config.yaml", config_map(CONFIG, keys));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    (backend, folder, gateway)
}

fn ask(gateway: &Gateway, path: &str, accepted: &str) -> Response {
    Connection::plain(gateway.http).request("GET", HOST, path, &[("Accept-Encoding", accepted)], "")
}

fn decoded(coding: &str, bytes: &[u8]) -> String {
    let mut text = String::new();
    match coding {
        "gzip" => flate2::read::GzDecoder::new(bytes).read_to_string(&mut text),
        "br" => brotli::Decompressor::new(bytes, 4096).read_to_string(&mut text),
        "zstd" => zstd::stream::read::Decoder::new(bytes).unwrap().read_to_string(&mut text),
        other => panic!("{other}"),
    }
    .unwrap();
    text
}

#[test]
fn each_coding_is_used_for_clients_that_accept_it() {
    let keys = [("use-gzip", "true"), ("enable-brotli", "true"), ("enable-zstd", "true")];
    let (_backend, _folder, gateway) = start(&keys);
    for coding in ["gzip", "br", "zstd"] {
        for path in ["/page", "/chunks", "/until-close"] {
            let response = ask(&gateway, path, coding);
            assert_eq!(response.status, 200);
            assert_eq!(response.header("content-encoding"), Some(coding), "{path}");
            assert_eq!(response.all("vary"), ["Accept-Encoding"]);
            assert_eq!(response.header("content-length"), None);
            assert!(response.body().len() < 1500, "{coding}: {}", response.body().len());
            assert_eq!(decoded(coding, response.body()), page(), "{coding} {path}");
        }
    }
    let response = ask(&gateway, "/page", "gzip");
    assert_eq!(response.header("etag"), Some("W/\"v1\""));
    assert_eq!(response.header("accept-ranges"), None);
    for (accepted, expected) in [
        ("gzip, deflate, br, zstd", Some("zstd")),
        ("gzip;q=1, br;q=0.5", Some("gzip")),
        ("br;q=0, *", Some("zstd")),
        ("identity, deflate", None),
        ("gzip;q=0", None),
    ] {
        let response = ask(&gateway, "/page", accepted);
        assert_eq!(response.header("content-encoding"), expected, "{accepted}");
        assert_eq!(response.all("vary"), ["Accept-Encoding"], "other clients get another form");
    }
    // The client's connection and the one to the endpoint remain open.
    let mut client = Connection::plain(gateway.http);
    for _ in 0..3 {
        let response = client.request("GET", HOST, "/page", &[("Accept-Encoding", "gzip")], "");
        assert_eq!(decoded("gzip", response.body()), page());
    }
}

#[test]
fn excluded_responses_are_not_compressed() {
    let (_backend, _folder, gateway) = start(&[("use-gzip", "true")]);
    for path in ["/small", "/picture", "/encoded", "/as-it-is", "/part", "/nothing"] {
        let response = ask(&gateway, path, "gzip");
        let expected = if path == "/encoded" { Some("x-own") } else { None };
        assert_eq!(response.header("content-encoding"), expected, "{path}");
        assert_eq!(response.header("vary"), None, "{path}");
        if path == "/nothing" {
            assert_eq!((response.status, response.header("etag")), (304, Some("\"v1\"")));
        }
    }
    let mut client = Connection::plain(gateway.http);
    client.send(format!("GET /page HTTP/1.0\r\nHost: {HOST}\r\nAccept-Encoding: gzip\r\n\r\n"));
    let response = client.response();
    assert_eq!((response.header("content-encoding"), response.text()), (None, page()));
}

#[test]
fn head_has_the_fields_of_get() {
    let backend = Backend::with("pages", |request| {
        let mut start = request.start.split(' ');
        let (method, path) = (start.next().unwrap(), start.next().unwrap());
        let page = page();
        let html = "Content-Type: text/html\r\nETag: \"v1\"\r\nAccept-Ranges: bytes\r\n";
        let (fields, body) = match path {
            "/page" => (format!("{html}Content-Length: {}\r\n", page.len()), page),
            "/small" => (format!("{html}Content-Length: 5\r\n"), "small".to_owned()),
            "/empty" => (format!("{html}Content-Length: 0\r\n"), String::new()),
            "/picture" => (format!("Content-Type: image/png\r\nContent-Length: {}\r\n", page.len()), page),
            _ => {
                let chunks = format!("{:x}\r\n{page}\r\n0\r\n\r\n", page.len());
                (format!("{html}Transfer-Encoding: chunked\r\n"), chunks)
            }
        };
        let body = if method == "HEAD" { String::new() } else { body };
        Reply::Bytes(format!("HTTP/1.1 200 OK\r\n{fields}\r\n{body}").into_bytes())
    });
    let (_backend, _folder, gateway) = start_with(backend, &[("use-gzip", "true")]);
    let paths = ["/page", "/small", "/empty", "/picture", "/chunks"];
    let cases = || paths.into_iter().flat_map(|path| [(path, "gzip"), (path, "identity")]);
    let is_compressed = |path, accepted| accepted == "gzip" && ["/page", "/chunks"].contains(&path);
    let mut client = Connection::plain(gateway.http);
    for (path, accepted) in cases() {
        let [get, head] = ["GET", "HEAD"].map(|method| {
            let response = client.request(method, HOST, path, &[("Accept-Encoding", accepted)], "");
            let mut fields = response.headers().to_vec();
            // The chunks are those of a body.
            fields.retain(|(name, _)| !["Date", "Transfer-Encoding"].contains(&&**name));
            (fields, response.header("content-encoding") == Some("gzip"))
        });
        assert_eq!(head, get, "{path} {accepted}");
        assert_eq!(head.1, is_compressed(path, accepted), "{path} {accepted}");
    }
    run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        for (path, accepted) in cases() {
            let mut fields = Vec::new();
            for method in ["GET", "HEAD"] {
                let request = Request::builder().method(method).uri(format!("https://{HOST}{path}"));
                let request = request.header("accept-encoding", accepted).body(()).unwrap();
                let mut response = connection.send(request, "").await.unwrap();
                response.headers_mut().remove("date");
                fields.push(response.headers().clone());
            }
            assert_eq!(fields[0], fields[1], "{path} {accepted}");
            let is_gzip = fields[1].get("content-encoding").is_some_and(|coding| coding == "gzip");
            assert_eq!(is_gzip, is_compressed(path, accepted), "{path} {accepted}");
        }
    });
}

#[test]
fn keys_take_effect_at_once_and_bad_ones_mean_the_default() {
    let (_backend, folder, gateway) = start(&[]);
    let coding = |path: &str| ask(&gateway, path, "gzip, br").header("content-encoding").map(str::to_owned);
    assert_eq!(coding("/page"), None, "the default is off");
    folder.write("config.yaml", config_map(CONFIG, &[("use-gzip", "true"), ("gzip-level", "9")]));
    await_until("gzip", || coding("/page").as_deref() == Some("gzip"));
    assert_eq!(coding("/picture"), None);
    let keys = [("use-gzip", "true"), ("gzip-types", "image/png text/x"), ("gzip-min-length", "1")];
    folder.write("config.yaml", config_map(CONFIG, &keys));
    await_until("more types", || coding("/picture").as_deref() == Some("gzip"));
    assert_eq!(coding("/small").as_deref(), Some("gzip"), "text/html always is");
    let keys = [("use-gzip", "true"), ("gzip-types", "everything"), ("gzip-disable", "(")];
    folder.write("config.yaml", config_map(CONFIG, &keys));
    await_until("the problems", || {
        let problems = gateway.problems();
        problems.contains("gzip-types") && problems.contains("gzip-disable")
    });
    await_until("the default types", || coding("/picture").is_none());
    assert_eq!(coding("/page").as_deref(), Some("gzip"));
    let keys = [
        ("enable-brotli", "true"),
        ("brotli-types", "*"),
        ("brotli-level", "11"),
        ("brotli-min-length", "0"),
    ];
    folder.write("config.yaml", config_map(CONFIG, &keys));
    await_until("brotli alone", || coding("/small").as_deref() == Some("br"));
    assert_eq!(coding("/picture").as_deref(), Some("br"));
    let keys = [("enable-zstd", "true"), ("zstd-types", "*"), ("zstd-level", "1"), ("zstd-min-length", "0")];
    folder.write("config.yaml", config_map(CONFIG, &keys));
    let zstd = |path: &str| ask(&gateway, path, "zstd").header("content-encoding").map(str::to_owned);
    await_until("zstd alone", || zstd("/small").as_deref() == Some("zstd"));
    assert_eq!(zstd("/picture").as_deref(), Some("zstd"));
    folder.write("config.yaml", config_map(CONFIG, &keys[..1]));
    await_until("fewer types", || zstd("/picture").is_none());
    assert_eq!((zstd("/small"), zstd("/page").as_deref()), (None, Some("zstd")), "too small now");
    let keys = [("use-gzip", "true"), ("gzip-disable", "msie6")];
    folder.write("config.yaml", config_map(CONFIG, &keys));
    await_until("gzip again", || coding("/page").as_deref() == Some("gzip"));
    let old = [("Accept-Encoding", "gzip"), ("User-Agent", "Mozilla/4.0 (compatible; MSIE 6.0; Windows)")];
    let response = Connection::plain(gateway.http).request("GET", HOST, "/page", &old, "");
    assert_eq!(response.header("content-encoding"), None);
}

#[test]
fn http2_gets_it_too() {
    let (_backend, _folder, gateway) = start(&[("use-gzip", "true")]);
    run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        for path in ["/page", "/chunks", "/until-close"] {
            let request = Request::get(format!("https://{HOST}{path}")).header("accept-encoding", "gzip");
            let response = connection.send(request.body(()).unwrap(), "").await.unwrap();
            assert_eq!(response.headers()["content-encoding"], "gzip", "{path}");
            assert!(response.headers().get("content-length").is_none());
            assert_eq!(decoded("gzip", response.body()), page(), "{path}");
        }
    });
}

#[test]
fn an_event_is_delivered_while_its_endpoint_pauses() {
    let gate = Gate::default();
    let listener = crate::harness::ports::listen();
    let address = listener.local_addr().unwrap();
    let events = std::thread::spawn({
        let gate = gate.clone();
        move || {
            use std::io::Write;
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).unwrap() > 0);
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: first\n\n")
                .unwrap();
            gate.wait();
            stream.write_all(b"data: second\n\n").unwrap();
        }
    });
    let backend = backend();
    let ingress = Ingress::new("events").path(HOST, "/", "events").text();
    let slice = crate::harness::manifest::slice("events", "events", &["127.0.0.1"], address.port());
    let folder = Folder::with(ingress + &crate::harness::manifest::service("events") + &slice);
    let keys = [("use-gzip", "true"), ("gzip-types", "text/event-stream")];
    folder.write("config.yaml", config_map(CONFIG, &keys));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    let mut client = Connection::plain(gateway.http);
    client.send(format!("GET /events HTTP/1.1\r\nHost: {HOST}\r\nAccept-Encoding: gzip\r\n\r\n"));
    let mut seen = Vec::new();
    let mut body = Vec::new();
    while !String::from_utf8_lossy(&unfinished(&body)).contains("data: first\n\n") {
        seen.extend(client.bytes(1));
        let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        body = chunks(&seen[end + 4..]);
    }
    gate.open();
    while !seen.ends_with(b"\r\n0\r\n\r\n") {
        seen.extend(client.bytes(1));
    }
    let end = seen.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    assert_eq!(unfinished(&chunks(&seen[end + 4..])), b"data: first\n\ndata: second\n\n");
    events.join().unwrap();
    drop(backend);
}

/// Decodes the available part of a gzip stream.
fn unfinished(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    // The missing rest causes an error after the available data.
    let _ = flate2::read::GzDecoder::new(bytes).read_to_end(&mut out);
    out
}

/// Returns the data of all complete chunks.
fn chunks(mut bytes: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    while let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        let Some(piece) = bytes.get(end + 2..end + 2 + size) else { break };
        data.extend_from_slice(piece);
        bytes = bytes.get(end + 4 + size..).unwrap_or_default();
    }
    data
}
