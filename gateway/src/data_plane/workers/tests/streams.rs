//! Requests over HTTP/2: bodies, trailers, interim responses, cancellation and attempts.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use sluice_config::{GlobalSettings, UpstreamProtocol};
use tokio::io::AsyncReadExt;
use tokio::net::TcpSocket;
use tokio::sync::mpsc;

use super::backend::{Backend, request};
use super::client::{Client, PATIENCE};
use super::gateway::{Gateway, through_proxy};
use super::http2::{ask, get, plain};

const URL: &str = "http://a.example/x";

/// Starts a backend that responds to every request with `answer`.
async fn answering(answer: &'static [u8]) -> Backend {
    Backend::scripted(move |_, stream| async move {
        let mut client = Client::over(stream);
        while request(&mut client).await.is_some() {
            client.send(answer).await;
        }
    })
    .await
}

async fn body(response: http::Response<h2::RecvStream>) -> Result<(String, Option<HeaderMap>), h2::Error> {
    let mut stream = response.into_body();
    let mut text = Vec::new();
    while let Some(piece) = stream.data().await {
        let piece = piece?;
        stream.flow_control().release_capacity(piece.len())?;
        text.extend_from_slice(&piece);
    }
    Ok((String::from_utf8(text).unwrap(), stream.trailers().await?))
}

#[tokio::test]
async fn bodies_without_a_length_go_on_in_chunks() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let request = Request::post(URL).body(()).unwrap();
    let (response, mut send) = client.send_request(request, false).unwrap();
    for piece in ["he", "", "llo"] {
        send.send_data(piece.into(), false).unwrap();
    }
    send.send_data(Bytes::new(), true).unwrap();
    let (text, _) = body(response.await.unwrap()).await.unwrap();
    assert!(text.contains("transfer-encoding: chunked\r\n") && text.ends_with("\r\n\r\nhello"), "{text}");
    let request = Request::post(URL).header("content-length", 5).body(()).unwrap();
    let (response, mut send) = client.send_request(request, false).unwrap();
    send.send_data("hello".into(), true).unwrap();
    let (text, _) = body(response.await.unwrap()).await.unwrap();
    assert!(text.contains("content-length: 5\r\n") && text.ends_with("\r\n\r\nhello"), "{text}");
    assert!(!text.contains("transfer-encoding"), "{text}");
    let (_, _, text) = ask(&mut client, Method::POST, URL, "").await.unwrap();
    assert!(!text.contains("transfer-encoding"), "{text}");
    // Pingora returns a connection to the pool a little after it ends the stream.
    assert!(through_proxy() || backend.connections() == 1, "the endpoint's connection is used again");
}

#[tokio::test]
async fn large_bodies_pass_whole_in_both_directions() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let sent: String = (0..300_000).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
    for length in [Some(sent.len()), None] {
        let mut request = Request::post(URL);
        if let Some(length) = length {
            request = request.header("content-length", length);
        }
        let (response, mut send) = client.send_request(request.body(()).unwrap(), false).unwrap();
        let mut rest = Bytes::from(sent.clone());
        let sending = tokio::spawn(async move {
            while !rest.is_empty() {
                send.reserve_capacity(rest.len());
                let room = std::future::poll_fn(|cx| send.poll_capacity(cx)).await.unwrap().unwrap();
                let piece = rest.split_to(room.min(rest.len()));
                send.send_data(piece, rest.is_empty()).unwrap();
            }
        });
        let (text, _) = tokio::time::timeout(PATIENCE, async { body(response.await.unwrap()).await })
            .await
            .unwrap()
            .unwrap();
        sending.await.unwrap();
        assert!(text.ends_with(&sent), "{} bytes", text.len());
    }
    let lines = gateway.lines(2).await;
    assert!(lines[1].contains("\"POST /x HTTP/2.0\" 200 300"), "{lines:?}");
}

#[tokio::test]
async fn split_cookies_reach_endpoints_as_one_field() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let request = Request::get(URL).header("cookie", "a=1").header("x-b", "2").header("cookie", "c=3");
    let (response, _) = client.send_request(request.body(()).unwrap(), true).unwrap();
    let (text, _) = body(response.await.unwrap()).await.unwrap();
    assert!(text.contains("\r\ncookie: a=1; c=3\r\n"), "{text}");
}

#[tokio::test]
async fn trailers_pass() {
    if through_proxy() {
        return;
    }
    let seen = mpsc::unbounded_channel();
    let (tell, mut seen) = seen;
    let backend = Backend::scripted(move |_, stream| {
        let tell = tell.clone();
        async move {
            let mut client = Client::over(stream);
            tell.send(client.until("\r\n0\r\nx-sum: 1\r\n\r\n").await).unwrap();
            client
                .send("HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 2\r\nX-More: 3\r\n\r\n")
                .await;
            client.read().await;
        }
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let (response, mut send) = client.send_request(Request::post(URL).body(()).unwrap(), false).unwrap();
    send.send_data("hello".into(), false).unwrap();
    let trailers = [("x-sum", "1")]
        .map(|(name, value)| (http::HeaderName::from_static(name), http::HeaderValue::from_static(value)));
    send.send_trailers(HeaderMap::from_iter(trailers)).unwrap();
    let (text, trailers) = body(response.await.unwrap()).await.unwrap();
    let trailers = trailers.unwrap();
    assert_eq!((text.as_str(), trailers.len()), ("ok", 2));
    assert!(trailers["x-sum"] == "2" && trailers["x-more"] == "3");
    assert!(seen.recv().await.unwrap().contains("5\r\nhello\r\n0\r\n"));
    // Regression: a trailer that describes the client to the endpoint ended the request. It is
    // removed now.
    let (response, mut send) = client.send_request(Request::post(URL).body(()).unwrap(), false).unwrap();
    send.send_data("hello".into(), false).unwrap();
    let mut trailers = HeaderMap::new();
    for (name, value) in [("x-real-ip", "10.0.0.1"), ("x_real_ip", "10.0.0.1"), ("x-sum", "1")] {
        trailers.insert(name, http::HeaderValue::from_static(value));
    }
    send.send_trailers(trailers).unwrap();
    assert_eq!(body(response.await.unwrap()).await.unwrap().0, "ok");
    assert!(seen.recv().await.unwrap().ends_with("5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n"));
}

#[tokio::test]
async fn a_malformed_trailer_was_reported_as_a_client_abort() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let (response, mut send) = client.send_request(Request::post(URL).body(()).unwrap(), false).unwrap();
    send.send_data("hello".into(), false).unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", http::HeaderValue::from_static(" 1"));
    send.send_trailers(trailers).unwrap();
    assert_eq!(response.await.unwrap().status(), 400);
    let lines = gateway.lines(1).await;
    assert!(lines[0].contains("\"POST /x HTTP/2.0\" 400 "), "{lines:?}");
}

#[tokio::test]
async fn a_trailer_named_like_a_request_field_killed_a_complete_answer() {
    let many = "X-Many: 1\r\n".repeat(100);
    let answer = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nCookie: a\r\nX-Sum: 2\r\n{many}Host: b\r\n\r\n"
    );
    let backend = answering(Box::leak(answer.into_boxed_str()).as_bytes()).await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let (response, _) = client.send_request(Request::get(URL).body(()).unwrap(), true).unwrap();
    let (text, trailers) = body(response.await.unwrap()).await.unwrap();
    assert_eq!(text, "ok");
    if !through_proxy() {
        let trailers = trailers.unwrap();
        assert_eq!(trailers["x-sum"], "2");
        assert_eq!(trailers.len(), 101, "more than 64 killed it, too");
    }
}

#[tokio::test]
async fn a_full_head_lost_its_host_on_a_retry() {
    let (tell, mut seen) = mpsc::unbounded_channel();
    let backend = Backend::scripted(move |number, stream| {
        let tell = tell.clone();
        async move {
            let mut client = Client::over(stream);
            let Some((head, _)) = request(&mut client).await else { return };
            tell.send(head).unwrap();
            if number % 2 == 1 {
                client.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").await;
            }
        }
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    for fields in [254, 3] {
        let mut request = Request::get(URL).header("x-forwarded-for", "192.0.2.1").header("cookie", "a=1");
        for _ in 0..fields {
            request = request.header("x", "1");
        }
        let (response, _) = client.send_request(request.body(()).unwrap(), true).unwrap();
        assert_eq!(body(response.await.unwrap()).await.unwrap().0, "ok");
        let mut heads = Vec::new();
        for _ in 0..2 {
            let head = seen.recv().await.unwrap();
            let mut lines: Vec<String> = head.lines().map(str::to_owned).collect();
            // Only the engine's own connection field for the endpoint may differ.
            lines.retain(|line| !line.starts_with("connection: "));
            lines[1..].sort();
            heads.push(lines);
        }
        assert_eq!(heads[0], heads[1], "the second attempt sent something else");
        for line in ["host: a.example", "x-original-forwarded-for: 192.0.2.1", "x-forwarded-for: 127.0.0.1"] {
            let name = line.split_inclusive(' ').next().unwrap();
            let found: Vec<_> = heads[1].iter().filter(|found| found.starts_with(name)).collect();
            assert_eq!(found, [line]);
        }
    }
}

#[tokio::test]
async fn interim_responses_pass() {
    let backend = answering(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    )
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let (mut response, _) = client.send_request(Request::get(URL).body(()).unwrap(), true).unwrap();
    let hint = std::future::poll_fn(|cx| response.poll_informational(cx)).await.unwrap().unwrap();
    assert_eq!(
        (hint.status().as_u16(), &hint.headers()["link"]),
        (103, &http::HeaderValue::from_static("</a>"))
    );
    assert!(!hint.headers().contains_key("connection"));
    assert_eq!(body(response.await.unwrap()).await.unwrap().0, "ok");
    // A client that waits for `100 Continue` before it sends the body.
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let request = Request::post(URL).header("expect", "100-continue").body(()).unwrap();
    let (mut response, mut send) = client.send_request(request, false).unwrap();
    let word = std::future::poll_fn(|cx| response.poll_informational(cx)).await.unwrap().unwrap();
    assert_eq!(word.status().as_u16(), 100);
    send.send_data("hello".into(), true).unwrap();
    assert!(body(response.await.unwrap()).await.unwrap().0.ends_with("hello"));
}

#[tokio::test]
async fn a_length_in_an_interim_response_does_not_reset_the_stream() {
    let backend = answering(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 0\r\n\r\n\
          HTTP/1.1 103 Early Hints\r\nLink: </b>\r\nContent-Length: 5\r\n\r\n\
          HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    )
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let (mut response, _) = client.send_request(Request::get(URL).body(()).unwrap(), true).unwrap();
    for link in ["</a>", "</b>"] {
        let hint = std::future::poll_fn(|cx| response.poll_informational(cx)).await.unwrap().unwrap();
        assert_eq!((hint.status().as_u16(), &hint.headers()["link"]), (103, &link.parse().unwrap()));
        assert!(!hint.headers().contains_key("content-length"), "{hint:?}");
    }
    assert_eq!(body(response.await.unwrap()).await.unwrap().0, "ok");
}

#[tokio::test]
async fn responses_end_where_they_end() {
    for (answer, status, length, expected) in [
        (&b"HTTP/1.1 200 OK\r\n\r\nuntil the end"[..], 200, None, "until the end"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, None, ""),
        (b"HTTP/1.1 304 Not Modified\r\nETag: a\r\n\r\n", 304, None, ""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x-a\r\nX-A: 1\r\n\r\n", 200, Some("0"), ""),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;a\r\nh\r\n4\r\nello\r\n0\r\n\r\n",
            200,
            None,
            "hello",
        ),
    ] {
        let backend = Backend::scripted(move |_, stream| async move {
            let mut client = Client::over(stream);
            request(&mut client).await;
            client.send(answer).await;
        })
        .await;
        let gateway = Gateway::to(&[backend.address]).await;
        let (mut client, _) = plain(&gateway).await;
        let (seen, fields, text) = get(&mut client, URL).await;
        assert_eq!((seen, text.as_str()), (status, expected));
        assert_eq!(fields.get("content-length").map(|value| value.to_str().unwrap()), length);
        for name in ["connection", "transfer-encoding", "x-a"] {
            assert!(!fields.contains_key(name), "{fields:?}");
        }
        assert!(fields.contains_key("date") && fields["server"] == "sluice", "{fields:?}");
    }
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let (status, fields, text) = ask(&mut client, Method::HEAD, URL, "").await.unwrap();
    assert_eq!((status, text.as_str()), (200, ""));
    assert_ne!(fields["content-length"], "0");
}

#[tokio::test]
async fn a_response_that_breaks_off_is_a_reset() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ] {
        let backend = Backend::scripted(move |_, stream| async move {
            let mut client = Client::over(stream);
            request(&mut client).await;
            client.send(answer).await;
        })
        .await;
        let gateway = Gateway::to(&[backend.address]).await;
        let (mut client, _) = plain(&gateway).await;
        assert!(ask(&mut client, Method::GET, URL, "").await.is_err(), "{}", answer.escape_ascii());
        let (status, _, _) = get(&mut client, "http://unknown.example/").await;
        assert_eq!(status, 404, "the connection goes on");
    }
}

#[tokio::test]
async fn a_request_that_is_taken_back_ends_at_the_endpoint() {
    let (tell, mut seen) = mpsc::unbounded_channel();
    let backend = Backend::scripted(move |_, mut stream| {
        let tell = tell.clone();
        async move {
            let mut bytes = [0; 1024];
            tell.send(stream.read(&mut bytes).await.unwrap()).unwrap();
            tell.send(stream.read(&mut bytes).await.unwrap_or(0)).unwrap();
        }
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let (response, mut send) = client.send_request(Request::get(URL).body(()).unwrap(), true).unwrap();
    assert!(seen.recv().await.unwrap() > 0);
    send.send_reset(h2::Reason::CANCEL);
    drop(response);
    assert_eq!(seen.recv().await, Some(0), "the connection to the endpoint is closed");
    let lines = gateway.lines(1).await;
    assert!(lines[0].contains("\"GET /x HTTP/2.0\" 499"), "{lines:?}");
    // The line is written shortly before the request leaves the count.
    while gateway.drain.requests() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_early_response_ends_the_upload() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        client.until("\r\n\r\n").await;
        client.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno").await;
        client.read().await;
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let request = Request::post(URL).header("content-length", 10_000_000).body(()).unwrap();
    let (response, mut send) = client.send_request(request, false).unwrap();
    send.send_data(vec![b'x'; 3_000_000].into(), false).unwrap();
    let response = response.await.unwrap();
    assert_eq!(response.status().as_u16(), 413);
    assert_eq!(body(response).await.unwrap().0, "no");
    let reason = std::future::poll_fn(|cx| send.poll_reset(cx)).await.unwrap();
    assert_eq!(reason, h2::Reason::NO_ERROR);
}

#[tokio::test]
async fn tries_follow_the_same_rule() {
    // The port is bound, so that no other process gets it, but has no listener.
    let taken = TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = taken.local_addr().unwrap();
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[nobody, backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    for _ in 0..4 {
        let (status, _, text) = ask(&mut client, Method::POST, URL, "hello").await.unwrap();
        assert!(status == 200 && text.ends_with("hello"), "{text}");
    }
    let gateway = Gateway::to(&[nobody]).await;
    let (mut client, _) = plain(&gateway).await;
    let (status, _, text) = ask(&mut client, Method::POST, URL, "hello").await.unwrap();
    assert!(status == 502 && text.contains("502 Bad Gateway"), "{text}");
    // Accepts the request and closes the connection without a response.
    let backend = Backend::scripted(|_, stream| async move {
        request(&mut Client::over(stream)).await;
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    assert_eq!(ask(&mut client, Method::POST, URL, "hello").await.unwrap().0, 502);
    assert_eq!(backend.connections(), 1, "a POST that may have been processed is not sent again");
    assert_eq!(get(&mut client, URL).await.0, 502);
    assert!(backend.connections() > 2, "a GET is tried again");
}

#[tokio::test]
async fn a_stale_pooled_connection_never_shows() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        if request(&mut client).await.is_some() {
            client.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
            // Closes the connection only when the next request has arrived: the worst moment.
            client.read().await;
        }
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    for count in 1..6 {
        let (status, _, text) = ask(&mut client, Method::PUT, URL, "hello").await.unwrap();
        assert_eq!((status, text.as_str()), (200, "ok"), "{count}");
    }
}

#[tokio::test]
async fn a_call_whose_client_only_listens_outlives_the_body_timeout() {
    // Pingora's engine has timeouts of its own.
    if through_proxy() {
        return;
    }
    const MESSAGES: usize = 30;
    const PAUSE: Duration = Duration::from_millis(100);
    let http2 = Backend::http2(|mut body| async move {
        for number in 1..=MESSAGES {
            tokio::time::sleep(PAUSE).await;
            body.send_data(Bytes::from_static(b"tick"), number == MESSAGES).unwrap();
        }
    })
    .await;
    let http1 = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        client.until("\r\n\r\n").await;
        client.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        for _ in 0..MESSAGES {
            tokio::time::sleep(PAUSE).await;
            client.send("4\r\ntick\r\n").await;
        }
        client.send("0\r\n\r\n").await;
        client.read().await;
    })
    .await;
    for (backend, protocol) in [(http2, UpstreamProtocol::Grpc), (http1, UpstreamProtocol::Http)] {
        let tune =
            |settings: &mut GlobalSettings| settings.client_body_timeout = MESSAGES as u32 * PAUSE * 2 / 3;
        let gateway = Gateway::with(&[backend.address], protocol, tune).await;
        let (mut client, _) = plain(&gateway).await;
        let request = Request::post(URL).body(()).unwrap();
        let (response, mut listening) = client.send_request(request, false).unwrap();
        listening.send_data(Bytes::from_static(b"hello"), false).unwrap();
        let (text, _) = body(response.await.unwrap()).await.unwrap();
        assert_eq!(text, "tick".repeat(MESSAGES), "{protocol:?}");
    }
}
