//! Unparsable requests: the error page, the log line, the metric, and the end of the connection.

use std::time::Duration;

use super::backend::Backend;
use super::gateway::Gateway;

#[tokio::test]
async fn malformed_requests_get_our_own_page_and_a_log_line() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(9000));
    let cases = [
        ("GET / HTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400 Bad Request"),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "400 Bad Request",
        ),
        ("nonsense\r\n\r\n", "400 Bad Request"),
        ("\x16\x03\x01\x02\0\x01\0\x01\u{fc}\x03\x03", "400 Bad Request"),
        ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", "405 Not Allowed"),
        (&long, "414 Request-URI Too Large"),
    ];
    for (text, title) in cases {
        let mut client = gateway.client().await;
        client.send(text).await;
        let response = client.response().await;
        assert_eq!(response.status.to_string(), title[..3], "{text}");
        assert!(response.body.contains(title), "{response:?}");
        assert!(!response.keeps_alive() && response.head.contains("\r\nDate: "), "{response:?}");
        assert_eq!(response.field("server"), Some("sluice"));
        client.ends().await;
    }
    let lines = gateway.lines(cases.len()).await;
    assert_eq!(lines.len(), cases.len());
    // Two workers write the lines.
    for text in ["\"GET / HTTP/1.1\" 400", "\"CONNECT a:443 HTTP/1.1\" 405"] {
        assert!(lines.iter().any(|line| line.contains(text)), "{lines:?}");
    }
    let metrics = gateway.plane.metrics();
    assert!(metrics.contains("sluice_requests_refused_total{status=\"400\"} 5"), "{metrics}");
    assert_eq!(backend.connections(), 0);
}

#[tokio::test]
async fn requests_before_a_malformed_one_are_served() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client.send("GET /good HTTP/1.1\r\nHost: a.example\r\n\r\nGET /bad HTTP/1.1\r\nHost : a\r\n\r\n").await;
    assert!(client.response().await.body.starts_with("get /good"));
    assert_eq!(client.response().await.status, 400);
    client.ends().await;
    assert_eq!(backend.requests(), 1);
}

#[tokio::test]
async fn a_client_that_still_sends_can_read_its_answer() {
    let gateway = Gateway::to(&[]).await;
    let mut client = gateway.client().await;
    client.send("GET / HTTP/9.9\r\nHost: a\r\n\r\n").await;
    client.send("x".repeat(300_000)).await;
    assert_eq!(client.response().await.status, 400);
    client.ends().await;
}

#[tokio::test]
async fn a_slow_head_is_408_and_silence_is_silence() {
    let gateway =
        Gateway::tuned(&[], |settings| settings.client_header_timeout = Duration::from_millis(80)).await;
    let mut silent = gateway.client().await;
    let mut slow = gateway.client().await;
    slow.send("GET / HTTP/1.1\r\n").await;
    let drip = async {
        // Each byte is in time; the head as a whole is late.
        loop {
            use tokio::io::AsyncWriteExt;
            if slow.stream.write_all(b"X").await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            if let Ok(n) = slow.stream.try_read_buf(&mut slow.buf)
                && n > 0
            {
                break;
            }
        }
    };
    tokio::time::timeout(super::client::PATIENCE, drip).await.unwrap();
    let response = slow.response().await;
    assert_eq!(response.status, 408);
    assert!(response.body.contains("408 Request Time-out"), "{response:?}");
    slow.ends().await;
    silent.ends().await;
    let lines = gateway.lines(1).await;
    assert!(lines.len() == 1 && lines[0].contains("\"GET / HTTP/1.1\" 408"), "{lines:?}");
}
