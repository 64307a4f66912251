//! FastCGI endpoints, played by a responder that reads records on its own.

use std::sync::Arc;

use sluice_config::{FastCgi, Policies, UpstreamProtocol};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::backend::Backend;
use super::gateway::Gateway;
use super::http2::{ask, plain};
use crate::pipeline::tests::fixture::{exact, forward, rule};

const OK: &[u8] = b"Status: 200 OK\r\nContent-Type: text/plain\r\n\r\n";

/// A request as a responder receives it.
#[derive(Debug)]
struct Request {
    keeps: bool,
    params: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn param(&self, name: &str) -> Option<&str> {
        let mut found = self.params.iter().filter(|(known, _)| known == name);
        let value = found.next().map(|(_, value)| &**value);
        assert!(found.next().is_none(), "{name} is set twice: {:?}", self.params);
        value
    }

    /// Parameters and body as a text.
    fn text(&self) -> String {
        let params: String = self.params.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        format!("{params}\n{}", String::from_utf8_lossy(&self.body))
    }
}

/// Reads one request, or `None` at the end of the connection.
async fn request(stream: &mut TcpStream) -> Option<Request> {
    let (mut keeps, mut params, mut body) = (false, Vec::new(), Vec::new());
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header).await.ok()?;
        let [1, kind, 0, 1, high, low, padding, 0] = header else { panic!("{header:?}") };
        let mut content = vec![0; usize::from(u16::from_be_bytes([high, low])) + usize::from(padding)];
        stream.read_exact(&mut content).await.ok()?;
        match kind {
            1 => keeps = content[2] == 1,
            4 => params.extend(pairs(&content)),
            5 if content.is_empty() => return Some(Request { keeps, params, body }),
            5 => body.extend(content),
            other => panic!("record {other}"),
        }
    }
}

fn pairs(mut content: &[u8]) -> Vec<(String, String)> {
    let length = |content: &mut &[u8]| match content[0] {
        short @ ..128 => {
            *content = &content[1..];
            usize::from(short)
        }
        long => {
            let bytes = [long & 0x7f, content[1], content[2], content[3]];
            *content = &content[4..];
            u32::from_be_bytes(bytes) as usize
        }
    };
    let mut pairs = Vec::new();
    while !content.is_empty() {
        let (name, value) = (length(&mut content), length(&mut content));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        pairs.push((text(&content[..name]), text(&content[name..name + value])));
        content = &content[name + value..];
    }
    pairs
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[1, kind, 0, 1, high, low, 3, 0][..], content, &[0; 3]].concat()
}

/// The records of a whole response.
fn response(head: &[u8], body: &[u8]) -> Vec<u8> {
    let mut records = record(6, head);
    for part in body.chunks(60_000) {
        records.extend(record(6, part));
    }
    [records, record(6, b""), record(3, &[0; 8])].concat()
}

/// A responder that answers each request of a connection with these bytes.
async fn responder(answer: impl Fn(&Request) -> Vec<u8> + Clone + Send + Sync + 'static) -> Backend {
    Backend::scripted(move |_, mut stream| {
        let answer = answer.clone();
        async move {
            while let Some(request) = request(&mut stream).await {
                if stream.write_all(&answer(&request)).await.is_err() || !request.keeps {
                    return;
                }
            }
        }
    })
    .await
}

async fn echo() -> Backend {
    responder(|request| response(OK, request.text().as_bytes())).await
}

async fn gateway(backends: &[&Backend]) -> Gateway {
    let addresses: Vec<_> = backends.iter().map(|backend| backend.address).collect();
    Gateway::with(&addresses, UpstreamProtocol::FastCgi, |_| ()).await
}

/// A gateway that keeps connections to endpoints.
async fn keeping(backends: &[&Backend]) -> Gateway {
    let mut gateway = gateway(backends).await;
    let fastcgi = FastCgi { index: Some("index.php".into()), params: None, keeps_connections: true };
    let mut rule = rule("/", forward("web"));
    rule.policies = Arc::new(Policies { fastcgi: Some(Arc::new(fastcgi)), ..Policies::default() });
    gateway.plane.host(exact("a.example"), false, vec![rule]);
    gateway
}

#[tokio::test]
async fn a_program_gets_the_parameters_of_nginx_and_the_fields_of_the_client() {
    let backend = echo().await;
    let gateway = gateway(&[&backend]).await;
    let mut client = gateway.client().await;
    client.send("GET /a%20b//c/?x=%20&y HTTP/1.1\r\nHost: a.example\r\nX-Own: 1\r\nX-Own: 2\r\n\r\n").await;
    let response = client.response().await;
    assert_eq!((response.status, response.field("content-type")), (200, Some("text/plain")));
    for param in [
        "REQUEST_METHOD=GET",
        "REQUEST_URI=/a%20b//c/?x=%20&y",
        "QUERY_STRING=x=%20&y",
        "SCRIPT_NAME=/a b/c/",
        "DOCUMENT_URI=/a b/c/",
        "DOCUMENT_ROOT=/usr/local/nginx/html",
        "SERVER_PROTOCOL=HTTP/1.1",
        "REQUEST_SCHEME=http",
        "GATEWAY_INTERFACE=CGI/1.1",
        "SERVER_NAME=a.example",
        "REMOTE_ADDR=127.0.0.1",
        "REDIRECT_STATUS=200",
        "CONTENT_LENGTH=",
        "HTTP_HOST=a.example",
        "HTTP_X_OWN=1, 2",
        "HTTP_X_REAL_IP=127.0.0.1",
    ] {
        assert!(response.body.lines().any(|line| line == param), "{param}: {}", response.body);
    }
    assert!(!response.body.contains("\nHTTPS="), "{}", response.body);
}

#[tokio::test]
async fn a_client_forges_no_parameter() {
    let backend = responder(|request| {
        let forged = [
            request.param("HTTP_PROXY"),
            request.param("HTTP_SSL_CLIENT_VERIFY"),
            request.param("REMOTE_USER").filter(|user| !user.is_empty()),
        ];
        let address = request.param("HTTP_X_REAL_IP");
        response(OK, format!("{forged:?} {address:?}").as_bytes())
    })
    .await;
    let underscores = |settings: &mut sluice_config::GlobalSettings| settings.underscores_in_headers = true;
    let gateway = Gateway::with(&[backend.address], UpstreamProtocol::FastCgi, underscores).await;
    let mut client = gateway.client().await;
    client
        .send(
            "GET / HTTP/1.1\r\nHost: a.example\r\nProxy: http://203.0.113.9\r\nX_Real_IP: 203.0.113.9\r\n\
             ssl_client_verify: SUCCESS\r\nRemote-User: root\r\n\r\n",
        )
        .await;
    assert_eq!(client.response().await.body, "[None, None, None] Some(\"127.0.0.1\")");
}

#[tokio::test]
async fn bodies_arrive_whole_and_with_their_length() {
    let backend = responder(|request| {
        let length = request.param("CONTENT_LENGTH").unwrap_or_default();
        response(OK, format!("{length} {}", request.body.len()).as_bytes())
    })
    .await;
    let gateway = gateway(&[&backend]).await;
    let mut client = gateway.client().await;
    let large = "x".repeat(200_000);
    for body in ["", "hello", &large] {
        let length = body.len();
        client
            .send(format!("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {length}\r\n\r\n{body}"))
            .await;
        assert_eq!(client.response().await.body, format!("{length} {length}"));
    }
    // Programs find the end of a body by its length, so one in chunks is buffered first.
    client
        .send(format!(
            "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n\
             5\r\nhello\r\n{:x}\r\n{large}\r\n0\r\n\r\n",
            large.len()
        ))
        .await;
    assert_eq!(client.response().await.body, "200005 200005");
    let (mut client, _) = plain(&gateway).await;
    let (status, _, body) = ask(&mut client, http::Method::POST, "http://a.example/", "hello").await.unwrap();
    assert_eq!((status, &*body), (200, "5 5"));
}

#[tokio::test]
async fn a_response_has_the_status_and_redirect_of_the_program() {
    for (head, status, location) in [
        ("Status: 404 Not Found\r\n\r\n", 404, None),
        ("Location: /other\r\n\r\n", 302, Some("/other")),
        ("Status: 301 Moved\nLocation: /other\n\n", 301, Some("/other")),
        ("X: 1\r\n\r\n", 200, None),
        ("Status: 204\r\n\r\n", 204, None),
    ] {
        let backend = responder(move |_| response(head.as_bytes(), b"")).await;
        let gateway = gateway(&[&backend]).await;
        let mut client = gateway.client().await;
        for _ in 0..2 {
            let response = client.get("/").await;
            assert_eq!((response.status, response.field("location")), (status, location), "{head:?}");
        }
    }
}

#[tokio::test]
async fn a_large_response_passes_and_error_output_does_not() {
    let body: Vec<u8> = (0..3_000_000_u32).map(|at| b'a' + (at % 26) as u8).collect();
    let expected = String::from_utf8(body.clone()).unwrap();
    let backend = responder(move |_| {
        let half = body.len() / 2;
        let (first, last) = (response(OK, &body[..half]), response(b"", &body[half..]));
        // Without the end of the first half's response.
        let first = &first[..first.len() - 30];
        [&record(7, b"PHP Warning: x")[..], first, &record(7, &[b'e'; 5000]), &last[11..]].concat()
    })
    .await;
    let gateway = gateway(&[&backend]).await;
    let response = gateway.client().await.get("/").await;
    assert_eq!(response.status, 200);
    assert!(response.body == expected, "{} bytes", response.body.len());
}

#[tokio::test]
async fn a_head_that_arrives_in_pieces_is_read() {
    let backend = Backend::scripted(|_, mut stream| async move {
        request(&mut stream).await;
        for byte in response(OK, b"done") {
            stream.write_all(&[byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
    })
    .await;
    let gateway = gateway(&[&backend]).await;
    let response = gateway.client().await.get("/").await;
    assert_eq!((response.status, response.body.as_str()), (200, "done"));
}

#[tokio::test]
async fn an_endpoint_that_ends_before_its_head_is_502() {
    for partial in [&b""[..], b"Status: 200 OK\r\n"] {
        let backend =
            responder(move |_| if partial.is_empty() { Vec::new() } else { record(6, partial) }).await;
        let gateway = gateway(&[&backend]).await;
        assert_eq!(gateway.client().await.get("/").await.status, 502);
    }
}

#[tokio::test]
async fn a_response_that_breaks_off_breaks_off_for_the_client() {
    for head in [OK, b"Content-Length: 100\r\n\r\n"] {
        for ends in [false, true] {
            let backend = responder(move |_| {
                let rest = if ends && head != OK { record(3, &[0; 8]) } else { Vec::new() };
                [record(6, head), record(6, b"part"), rest].concat()
            })
            .await;
            let gateway = gateway(&[&backend]).await;
            let mut client = gateway.client().await;
            client.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
            assert_eq!(client.head().await.status, 200);
            let rest = client.rest().await;
            assert!(rest.contains("part") && !rest.contains("\r\n0\r\n"), "{rest:?}");
        }
    }
}

#[tokio::test]
async fn malformed_records_and_heads_are_502() {
    let mut other_request = response(OK, b"x");
    other_request[3] = 2;
    let mut other_version = response(OK, b"x");
    other_version[0] = 2;
    for bytes in [
        other_request,
        other_version,
        record(11, b"12345678"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(),
        response(b"Status: 101 Switching Protocols\r\n\r\n", b""),
        response(b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", b"x"),
        response(b"no head at all\r\n\r\n", b""),
    ] {
        let answer = bytes.clone();
        let backend = responder(move |_| answer.clone()).await;
        let gateway = gateway(&[&backend]).await;
        assert_eq!(gateway.client().await.get("/").await.status, 502, "{bytes:?}");
    }
}

#[tokio::test]
async fn connections_are_kept_only_where_the_rule_asks_for_it() {
    let backend = echo().await;
    let gateway = gateway(&[&backend]).await;
    let mut client = gateway.client().await;
    for count in 1..=3 {
        assert_eq!(client.get("/").await.status, 200);
        assert_eq!(backend.connections(), count);
    }
    let backend = responder(|request| response(OK, request.param("SCRIPT_NAME").unwrap().as_bytes())).await;
    let gateway = keeping(&[&backend]).await;
    let mut client = gateway.client().await;
    for _ in 0..3 {
        assert_eq!(client.get("/blog/").await.body, "/blog/index.php");
    }
    assert_eq!(backend.connections(), 1);
}

#[tokio::test]
async fn a_kept_connection_that_the_endpoint_closed_is_replaced() {
    let backend = Backend::scripted(|_, mut stream| async move {
        if request(&mut stream).await.is_some() {
            stream.write_all(&response(OK, b"x")).await.unwrap();
        }
    })
    .await;
    let gateway = keeping(&[&backend]).await;
    let mut client = gateway.client().await;
    for _ in 0..5 {
        let response = client.get("/").await;
        assert_eq!((response.status, response.body.as_str()), (200, "x"));
    }
}

#[tokio::test]
async fn bytes_behind_a_response_end_its_connection() {
    let backend = responder(|_| [response(OK, b"x"), response(OK, b"evil")].concat()).await;
    let gateway = keeping(&[&backend]).await;
    let mut client = gateway.client().await;
    for count in 1..=3 {
        assert_eq!(client.get("/").await.body, "x");
        assert_eq!(backend.connections(), count);
    }
}

#[tokio::test]
async fn another_endpoint_gets_the_request_that_the_first_refuses() {
    let refusing = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let backend = echo().await;
    let addresses = [refusing, backend.address];
    let gateway = Gateway::with(&addresses, UpstreamProtocol::FastCgi, |_| ()).await;
    for _ in 0..4 {
        let mut client = gateway.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello").await;
        let response = client.response().await;
        assert_eq!(response.status, 200);
        assert!(response.body.ends_with("\nhello"), "{}", response.body);
    }
}
