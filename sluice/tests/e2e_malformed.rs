//! Malformed requests. Each is answered by the gateway, logged and counted, and never reaches a
//! backend.

use crate::harness::{Backend, Connection, Folder, Gateway, answer_to, await_until, config_map, pause, site};

const HOST: &str = "shop.example";
const CONFIG: &str = "ingress-nginx/controller";

fn start(backend: &Backend) -> (Folder, Gateway) {
    let folder = Folder::with(site("shop", HOST, &[backend]));
    folder.write("config.yaml", config_map(CONFIG, &[]));
    let gateway = Gateway::with(&folder, &["--enable-metrics", "--configmap", CONFIG]);
    (folder, gateway)
}

#[track_caller]
fn refused(answer: &str, statuses: &[u16], bytes: &str) {
    let shown: String = bytes.chars().take(120).collect();
    let status = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest[..3].parse().ok()).unwrap_or(0);
    assert!(statuses.contains(&status), "{shown:?} was answered with {answer:?}");
    assert!(!answer.to_lowercase().contains("pingora"), "{answer}");
    assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "what follows must not be served: {answer}");
}

#[test]
fn garbage_is_400() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    for bytes in [
        "garbage\r\n\r\n",
        "\r\n\r\ngarbage\r\n\r\n",
        "GET\r\n\r\n",
        "GET /\r\n\r\n",
        "GET / HTTP/1.1 x\r\nHost: shop.example\r\n\r\n",
        "GET /\u{1} HTTP/1.1\r\nHost: shop.example\r\n\r\n",
        "G@T / HTTP/1.1\r\nHost: shop.example\r\n\r\n",
        "GET nowhere HTTP/1.1\r\nHost: shop.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: shop.example\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: shop.example\r\nBad Name: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: shop.example\r\nName : x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: shop.example\r\nA: b\u{0}c\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: shop.example\r\nA: b\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: shop.example\r\n: x\r\n\r\n",
    ] {
        refused(&answer_to(gateway.http, bytes), &[400], bytes);
    }
    assert_eq!(backend.requests(), 0);
    assert_eq!(Connection::plain(gateway.http).get(HOST, "/").status, 200, "and the gateway goes on");
}

#[test]
fn a_host_that_is_missing_doubled_or_bad_is_400() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    for fields in [
        "",
        "Host: shop.example\r\nHost: shop.example\r\n",
        "Host: shop.example\r\nHost: other.example\r\n",
        "Host: shop example\r\n",
        "Host: user@shop.example\r\n",
        "Host: shop.example:99999\r\n",
        "Host: shop.example:port\r\n",
        "Host: shop.example/path\r\n",
    ] {
        let bytes = format!("GET / HTTP/1.1\r\n{fields}\r\n");
        refused(&answer_to(gateway.http, &bytes), &[400], &bytes);
    }
    assert_eq!(backend.requests(), 0);
}

#[test]
fn ambiguous_lengths_are_400_and_nothing_is_smuggled() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: shop.example\r\n\r\n";
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: 5x\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 99999999999999999999999\r\n",
        "Content-Length:\r\n",
    ] {
        let bytes = format!("POST / HTTP/1.1\r\nHost: {HOST}\r\n{fields}\r\n0\r\n\r\n{smuggled}");
        refused(&answer_to(gateway.http, &bytes), &[400], &bytes);
    }
    for fields in [
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: \u{b}chunked\r\n",
    ] {
        let bytes = format!("POST / HTTP/1.1\r\nHost: {HOST}\r\n{fields}\r\n0\r\n\r\n{smuggled}");
        refused(&answer_to(gateway.http, &bytes), &[400, 501], &bytes);
    }
    let bytes =
        format!("POST / HTTP/1.0\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}");
    refused(&answer_to(gateway.http, &bytes), &[400], &bytes);
    assert_eq!(backend.requests(), 0);
}

#[test]
fn other_versions_and_unsupported_methods_are_refused() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    for version in ["HTTP/2.0", "HTTP/3.1", "HTTP/0.9", "HTTP/1.x", "http/1.1"] {
        let bytes = format!("GET / {version}\r\nHost: {HOST}\r\n\r\n");
        refused(&answer_to(gateway.http, &bytes), &[400, 505], &bytes);
    }
    let bytes = format!("CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n\r\n");
    refused(&answer_to(gateway.http, &bytes), &[400, 405], &bytes);
    assert_eq!(backend.requests(), 0);
}

#[test]
fn a_long_request_line_is_414_and_a_long_head_400() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    let bytes = format!("GET /{} HTTP/1.1\r\nHost: {HOST}\r\n\r\n", "x".repeat(9000));
    let text = answer_to(gateway.http, &bytes);
    refused(&text, &[414], &bytes);
    assert!(text.contains("414 Request-URI Too Large"), "{text}");
    let fields = "X-Long: ".to_owned() + &"y".repeat(7000) + "\r\n";
    let bytes = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n{}\r\n", fields.repeat(6));
    refused(&answer_to(gateway.http, &bytes), &[400], &bytes);
    let bytes = format!("GET /{} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n", "x".repeat(7000));
    assert!(answer_to(gateway.http, bytes).starts_with("HTTP/1.1 200"), "long, but not too long");
}

#[test]
fn a_head_that_takes_too_long_is_408_however_slowly_it_drips() {
    let backend = Backend::echo("shop");
    let (folder, _) = start(&backend);
    folder.write("config.yaml", config_map(CONFIG, &[("client-header-timeout", "1")]));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    let mut connection = Connection::plain(gateway.http);
    connection.send("GET / HTTP/1.1\r\nHost: shop.example\r\nX-Drip: ");
    let started = std::time::Instant::now();
    // Sends single bytes until the gateway responds; the time limit is for the head, not for each
    // byte.
    while connection.try_send("x").is_ok() && started.elapsed() < crate::harness::PATIENCE {
        pause();
        if gateway.access_log().iter().any(|line| line.contains(" 408 ")) {
            break;
        }
    }
    gateway.await_access(" 408 ");
    let text = String::from_utf8_lossy(&connection.rest()).into_owned();
    // The last byte may have crossed the response and reset the connection; any received text must
    // be the response.
    assert!(text.is_empty() || text.contains("408 Request Time-out"), "{text}");
    let mut silent = Connection::plain(gateway.http);
    silent.send("GET / HTTP/1.1\r\n");
    let bytes = "a head that stops";
    refused(&String::from_utf8_lossy(&silent.rest()), &[408], bytes);
}

#[test]
fn each_has_a_log_line_and_is_counted() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    answer_to(gateway.http, "garbage-for-the-log\r\n\r\n");
    let line = gateway.await_access("garbage-for-the-log");
    assert!(line.starts_with("127.0.0.1 - - [") && line.contains("\" 400 "), "{line}");
    answer_to(gateway.http, "GET /nohost HTTP/1.1\r\n\r\n");
    assert!(gateway.await_access("GET /nohost HTTP/1.1").contains("\" 400 "));
    await_until("a count of refused requests", || {
        let metrics = gateway.metrics();
        let counts = metrics.lines().filter(|line| line.starts_with("sluice_") && line.contains("\"400\""));
        counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() >= 2.0
    });
    let log = gateway.program_log().join("\n");
    assert!(!log.contains("ERROR"), "an aborted head is no error of the program: {log}");
}

#[test]
fn control_characters_never_reach_the_log_as_they_are() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    answer_to(gateway.http, "GET /\u{1b}[31m\"quoted HTTP/1.1\r\n\r\n");
    let line = gateway.await_access("quoted");
    assert!(line.contains("\\x1B[31m\\x22quoted"), "{line:?}");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    let mut connection = Connection::plain(gateway.http);
    connection.send(format!(
        "GET /one HTTP/1.1\r\nHost: {HOST}\r\n\r\n\
         POST /two HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 5\r\n\r\nhello\
         POST /three HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
         GET /unknown HTTP/1.1\r\nHost: unknown.example\r\n\r\n\
         GET /four HTTP/1.1\r\nHost: {HOST}\r\n\r\n"
    ));
    let answers: Vec<_> = (0..5).map(|_| connection.response()).collect();
    let targets: Vec<_> = answers.iter().map(|answer| answer.json()["target"].clone()).collect();
    assert_eq!(
        targets,
        ["/one".into(), "/two".into(), "/three".into(), serde_json::Value::Null, "/four".into()]
    );
    assert_eq!(answers[1].json()["body"], "hello");
    assert_eq!(answers[2].json()["body"], "abc");
    assert_eq!(answers[3].status, 404);
}

#[test]
fn a_request_pipelined_behind_a_malformed_one_is_not_served() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    let text = answer_to(
        gateway.http,
        format!(
            "GET /one HTTP/1.1\r\nHost: {HOST}\r\n\r\nbad\r\n\r\nGET /two HTTP/1.1\r\nHost: {HOST}\r\n\r\n"
        ),
    );
    assert_eq!(text.matches("HTTP/1.1 200").count(), 1, "{text}");
    assert_eq!(text.matches("HTTP/1.1 400").count(), 1, "{text}");
    assert_eq!(backend.requests(), 1);
}

#[test]
fn an_absolute_target_decides_over_the_host_field() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    let mut connection = Connection::plain(gateway.http);
    connection.send("GET http://shop.example/x?y HTTP/1.1\r\nHost: other.example\r\n\r\n");
    let response = connection.response();
    assert_eq!(response.backend(), "shop");
    assert_eq!(response.json()["target"], "/x?y");
    assert_eq!(response.received("host"), [HOST]);
}

#[test]
fn http_1_0_is_served_and_closed() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    let text = answer_to(gateway.http, format!("GET / HTTP/1.0\r\nHost: {HOST}\r\n\r\n"));
    assert!(
        text.starts_with("HTTP/1.") && text.contains(" 200 ") && text.contains("\"backend\":\"shop\""),
        "{text}"
    );
    assert!(answer_to(gateway.http, "GET / HTTP/1.0\r\n\r\n").contains(" 404 "), "without a Host");
}

#[test]
fn a_client_that_goes_away_in_the_middle_of_a_head_is_no_error() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    for bytes in ["", "G", "GET / HTTP/1.1\r\nHost"] {
        let mut connection = Connection::plain(gateway.http);
        connection.send(bytes);
        connection.finish_sending();
        connection.rest();
    }
    assert_eq!(Connection::plain(gateway.http).get(HOST, "/").status, 200);
    assert!(!gateway.program_log().join("\n").contains("ERROR"));
}

#[test]
fn a_refused_head_request_gets_no_body() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    let good = format!("Host: {HOST}\r\n\r\n");
    let long = "x".repeat(9000);
    for (address, rest, status) in [
        (gateway.http, "/ HTTP/1.1\r\n\r\n".to_owned(), "400"),
        (gateway.http, format!("/ HTTP/1.1\r\nno colon\r\n{good}"), "400"),
        (gateway.http, format!("/{long} HTTP/1.1\r\n{good}"), "414"),
        (gateway.http, format!("/ HTTP/1.1\r\nX: {long}\r\n{good}"), "400"),
        (gateway.https, format!("/ HTTP/1.1\r\n{good}"), "400"),
    ] {
        let [head, get] = ["HEAD", "GET"].map(|method| {
            let mut connection = Connection::plain(address);
            connection.send(format!("{method} {rest}"));
            String::from_utf8_lossy(&connection.rest()).into_owned()
        });
        let (get_head, page) = get.split_once("\r\n\r\n").unwrap();
        let (head, body) = head.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert_eq!((body, page.is_empty()), ("", false), "{head}");
        let length =
            |head: &str| head.lines().find(|line| line.starts_with("Content-Length")).map(str::to_owned);
        assert_eq!(length(head), length(get_head), "{head}");
    }
    let line = gateway.await_access("HEAD / HTTP/1.1");
    assert!(line.contains("\" 400 0 "), "{line}");
}
