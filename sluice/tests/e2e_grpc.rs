//! gRPC: `backend-protocol: GRPC` and `GRPCS`, with gRPC and HTTP clients.

use crate::harness::grpc::{BURST, GrpcBackend, GrpcClient, message};
use crate::harness::h2::run;
use crate::harness::{Connection, Folder, Gateway, Ingress, TestCertificate, get, until};

const HOST: &str = "grpc.example";

fn folder(backend: &GrpcBackend, protocol: &str) -> Folder {
    let ingress = Ingress::new("grpc")
        .path(HOST, "/", "grpc")
        .annotation("backend-protocol", protocol)
        .annotation("ssl-redirect", "false")
        // As in nginx, a stream of messages counts as a body, which is limited to 1 MiB by default.
        .annotation("proxy-body-size", "0")
        .tls(&[HOST], "tls");
    Folder::with(ingress.text() + &backend.service("grpc") + &TestCertificate::new(&[HOST]).secret("tls"))
}

/// Starts a gateway with one backend without TLS.
fn served() -> (GrpcBackend, Gateway) {
    let backend = GrpcBackend::plain();
    let gateway = Gateway::start(&folder(&backend, "GRPC"));
    (backend, gateway)
}

/// Starts the same with exactly these annotations.
fn served_with(annotations: &[(&str, &str)]) -> (GrpcBackend, Gateway) {
    let backend = GrpcBackend::plain();
    let ingress = Ingress::new("grpc")
        .path(HOST, "/", "grpc")
        .annotation("backend-protocol", "GRPC")
        .annotations(annotations);
    let gateway = Gateway::start(&Folder::with(ingress.text() + &backend.service("grpc")));
    (backend, gateway)
}

/// Runs calls of a client without TLS.
fn calling(gateway: &Gateway, calls: impl AsyncFnOnce(GrpcClient)) {
    run(async { calls(GrpcClient::plain(gateway.http, HOST).await).await });
}

#[test]
fn the_four_kinds_of_calls_pass_with_their_trailers() {
    let (plain, tls) =
        (GrpcBackend::plain(), GrpcBackend::tls(&TestCertificate::new(&["pod"]).server_config()));
    for (backend, protocol) in [(plain, "GRPC"), (tls, "GRPCS")] {
        let gateway = Gateway::start(&folder(&backend, protocol));
        run(async {
            for client in
                [GrpcClient::plain(gateway.http, HOST).await, GrpcClient::tls(gateway.https, HOST).await]
            {
                let reply = client.unary("/echo/Unary", b"hello").await.unwrap();
                assert_eq!((reply.http, &reply.body[..]), (200, &message(b"hello")[..]));
                assert_eq!(reply.head["content-type"], "application/grpc");
                let trailers = reply.trailers.as_ref().unwrap();
                assert_eq!((reply.status(), &trailers["x-served-by"]), (Some("0"), &"echo".parse().unwrap()));

                let mut call = client.call("/echo/Collect").await;
                for _ in 0..100 {
                    call.send(message(&[b'x'; 10_000])).await.unwrap();
                }
                call.finish().unwrap();
                let reply = call.reply().await.unwrap();
                assert_eq!((reply.status(), &reply.body[..]), (Some("0"), &message(b"1000500")[..]));

                let reply = client.unary("/echo/Expand", b"").await.unwrap();
                let expected: Vec<u8> =
                    (0..100).flat_map(|number: u32| message(number.to_string().as_bytes())).collect();
                assert_eq!((reply.status(), &reply.body), (Some("0"), &expected));

                let mut call = client.call("/echo/Chat").await;
                call.send(message(b"0")).await.unwrap();
                let (_, mut body, mut stream) = call.head().await.unwrap();
                for number in 1..10 {
                    // The reply to one message arrives before the next message is sent.
                    let piece = body.data().await.unwrap().unwrap();
                    body.flow_control().release_capacity(piece.len()).unwrap();
                    assert_eq!(piece, message((number - 1).to_string().as_bytes()));
                    stream.send_data(message(number.to_string().as_bytes()), number == 9).unwrap();
                }
                assert_eq!(body.data().await.unwrap().unwrap(), message(b"9"));
                assert!(body.data().await.is_none());
                assert_eq!(body.trailers().await.unwrap().unwrap()["grpc-status"], "0");
            }
        });
        let seen = backend.seen();
        assert!(seen.iter().all(|head| head.headers["te"] == "trailers"), "{seen:?}");
        assert!(seen.iter().all(|head| head.uri.authority().unwrap() == HOST), "{seen:?}");
        assert!(seen.iter().all(|head| head.headers.get("connection").is_none()), "{seen:?}");
        assert!(backend.connections() <= 4, "calls share connections: {}", backend.connections());
        assert!(gateway.await_access("/echo/Chat").contains("\"POST /echo/Chat HTTP/2.0\" 200 "));
    }
}

#[test]
fn much_passes_both_ways_at_once() {
    const PIECES: usize = 200;
    let (_backend, gateway) = served();
    calling(&gateway, async |client| {
        let mut call = client.call("/echo/Chat").await;
        let piece = message(&[b'x'; 64 * 1024]);
        call.send(piece.clone()).await.unwrap();
        let (_, mut body, mut stream) = call.head().await.unwrap();
        let sending = async {
            for _ in 1..PIECES {
                let mut rest = piece.clone();
                while !rest.is_empty() {
                    stream.reserve_capacity(rest.len());
                    let room = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await.unwrap().unwrap();
                    stream.send_data(rest.split_to(room.min(rest.len())), false).unwrap();
                }
            }
            stream.send_data(Default::default(), true).unwrap();
        };
        let receiving = async {
            let mut length = 0;
            while let Some(piece) = body.data().await {
                let piece = piece.unwrap().len();
                length += piece;
                body.flow_control().release_capacity(piece).unwrap();
            }
            length
        };
        let ((), length) = futures::join!(sending, receiving);
        assert_eq!(length, PIECES * piece.len());
        assert_eq!(body.trailers().await.unwrap().unwrap()["grpc-status"], "0");
    });
}

#[test]
fn a_status_in_the_head_alone_passes_and_ends_the_upload() {
    let (_backend, gateway) = served();
    run(async {
        let client = GrpcClient::tls(gateway.https, HOST).await;
        let mut call = client.call("/echo/Fail").await;
        call.send(message(b"one of many")).await.unwrap();
        let (head, mut body, _stream) = call.head().await.unwrap();
        assert_eq!(
            (head.headers()["grpc-status"].as_bytes(), head.headers()["grpc-message"].as_bytes()),
            (&b"5"[..], &b"nobody"[..])
        );
        assert!(body.data().await.is_none() && body.trailers().await.unwrap().is_none());
        // The request is not complete, but the call is logged nevertheless.
        gateway.await_access("/echo/Fail");
    });
}

#[test]
fn cancellation_passes_both_ways() {
    let (backend, gateway) = served();
    calling(&gateway, async |client| {
        let mut call = client.call("/echo/Hang").await;
        call.send(message(b"wait")).await.unwrap();
        until("the call at the backend", || backend.seen().len() == 1).await;
        call.cancel();
        until("the cancellation at the backend", || !backend.resets().is_empty()).await;
        assert_eq!(backend.resets(), [h2_cancel()]);
        // A reset after the start of a response is passed on as a reset; before that, it becomes a
        // gRPC response.
        let mut call = client.call("/echo/Break").await;
        call.send(message(b"hello")).await.unwrap();
        let (_, mut body, mut stream) = call.head().await.unwrap();
        assert_eq!(body.data().await.unwrap().unwrap(), message(b"hello"));
        stream.send_data(message(b"again"), false).unwrap();
        assert!(body.data().await.unwrap().unwrap_err().is_reset());
        let reply = client.unary("/echo/Reset", b"hello").await.unwrap();
        assert_eq!((reply.http, reply.status()), (200, Some("14")));
    });
    assert!(gateway.await_access("/echo/Reset").contains(" 502 "));
}

/// CANCEL.
fn h2_cancel() -> crate::harness::grpc::Reason {
    crate::harness::grpc::Reason::CANCEL
}

#[test]
fn deadlines_pass_and_so_does_the_read_timeout() {
    let (backend, gateway) = served_with(&[("proxy-read-timeout", "1"), ("proxy-next-upstream-tries", "1")]);
    calling(&gateway, async |client| {
        let mut call = client.call_with("/echo/Hang", &[("grpc-timeout", "5S")]).await;
        call.send(message(b"wait")).await.unwrap();
        call.finish().unwrap();
        let reply = call.reply().await.unwrap();
        assert_eq!((reply.http, reply.status()), (200, Some("14")), "{reply:?}");
        assert_eq!(backend.seen()[0].headers["grpc-timeout"], "5S");
        until("the cancellation at the backend", || !backend.resets().is_empty()).await;
    });
    assert!(gateway.await_access("/echo/Hang").contains(" 504 "));
}

#[test]
fn a_long_upload_outlives_the_read_timeout() {
    let (_backend, gateway) = served_with(&[("proxy-read-timeout", "1")]);
    calling(&gateway, async |client| {
        let mut call = client.call("/echo/Collect").await;
        let began = std::time::Instant::now();
        let mut sent = 0;
        while began.elapsed() < std::time::Duration::from_millis(1500) {
            call.send(message(b"more")).await.unwrap();
            sent += message(b"more").len();
            crate::harness::grpc::breathe().await;
        }
        call.finish().unwrap();
        let reply = call.reply().await.unwrap();
        assert_eq!((reply.status(), &reply.body[..]), (Some("0"), &message(sent.to_string().as_bytes())[..]));
    });
}

#[test]
fn requests_that_an_endpoint_has_not_processed_are_sent_again() {
    let (_backend, gateway) = served();
    calling(&gateway, async |client| {
        // The call is not idempotent, but repeating a refused stream is safe.
        let reply = client.unary("/echo/Refuse", b"hello").await.unwrap();
        assert_eq!((reply.status(), &reply.body[..]), (Some("0"), &message(b"hello")[..]));
        // An endpoint that closes its connections gracefully causes no failures.
        for _ in 0..20 {
            let reply = client.unary("/echo/Leave", b"hello").await.unwrap();
            assert_eq!((reply.status(), &reply.body[..]), (Some("0"), &message(b"hello")[..]));
        }
    });
}

#[test]
fn own_errors_have_a_grpc_status() {
    let (_backend, gateway) = served();
    run(async {
        let client = GrpcClient::plain(gateway.http, "unknown.example").await;
        let reply = client.unary("/echo/Unary", b"hello").await.unwrap();
        assert_eq!((reply.http, reply.status(), reply.body.len()), (200, Some("12"), 0), "{reply:?}");
        assert_eq!(reply.head["content-type"], "application/grpc");
        assert_eq!(reply.head["server"], "sluice");
    });
    assert_eq!(get(gateway.http, "unknown.example", "/").status, 404, "others get HTTP");
}

#[test]
fn an_http1_client_receives_the_response_of_an_http2_endpoint() {
    let (_backend, gateway) = served();
    let mut client = Connection::plain(gateway.http);
    client.send(format!(
        "POST /echo/Chat HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    ));
    assert_eq!(client.bytes(25), b"HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello");
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (200, "hello"));
    client.send(format!("GET /echo/Fail HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    let response = client.response();
    assert_eq!((response.status, response.header("grpc-status")), (200, Some("5")));
    assert_eq!(client.get(HOST, "/echo/Chat").status, 200, "the connection goes on");
}

#[test]
fn calls_have_the_authority_that_upstream_vhost_names() {
    let (backend, gateway) = served_with(&[("upstream-vhost", "$http_x_tenant:$http_x_port")]);
    let mut client = Connection::plain(gateway.http);
    for (port, status) in [("8080", 200), ("x", 400), ("8080", 200)] {
        let fields = [("X-Tenant", "a.internal"), ("X-Port", port)];
        assert_eq!(client.request("POST", HOST, "/echo/Chat", &fields, "hello").status, status, "{port}");
    }
    let seen = backend.seen();
    assert_eq!(seen.len(), 2);
    let authority = seen[0].uri.authority().map(|authority| authority.as_str());
    assert_eq!((authority, seen[0].headers.get("host")), (Some("a.internal:8080"), None));
    calling(&gateway, async |client| {
        let reply = client.unary("/echo/Unary", b"hello").await.unwrap();
        assert_eq!(reply.status(), Some("13"), "400 without the fields");
    });
}

#[test]
fn the_protocol_changes_without_a_restart() {
    let backend = GrpcBackend::plain();
    let folder = folder(&backend, "FCGI");
    let gateway = Gateway::start(&folder);
    calling(&gateway, async |client| {
        let reply = client.unary("/echo/Unary", b"hello").await.unwrap();
        assert_eq!((reply.http, reply.status()), (200, Some("14")), "the endpoint speaks another protocol");
    });
    let ingress = Ingress::new("grpc").path(HOST, "/", "grpc").annotation("backend-protocol", "grpc");
    folder.write("objects.yaml", ingress.text() + &backend.service("grpc"));
    calling(&gateway, async |client| {
        loop {
            let reply = client.unary("/echo/Unary", b"hello").await.unwrap();
            if reply.status() == Some("0") {
                return;
            }
            crate::harness::grpc::breathe().await;
        }
    });
}

/// Returns whether Pingora's engine is under test. Through Pingora, responses wait for requests
/// beyond a window, trailers of requests and interim responses are dropped, resets lose their error
/// codes, and the stream limit of endpoints is not observed.
fn through_proxy() -> bool {
    std::env::var("SLUICE_DRIVER").is_ok_and(|driver| driver == "proxy")
}

#[test]
fn neither_direction_waits_for_the_other() {
    if through_proxy() {
        return;
    }
    let (_backend, gateway) = served();
    calling(&gateway, async |client| {
        let (mut up, mut down) = (client.call("/echo/Burst").await, 0);
        let sending = async {
            // The endpoint only reads the request after it has sent its response.
            let (_, mut body, mut stream) = {
                up.send(message(&[b'x'; 30_000])).await.unwrap();
                up.head().await.unwrap()
            };
            let upload = async {
                let mut rest = message(&vec![b'x'; BURST]);
                while !rest.is_empty() {
                    stream.reserve_capacity(rest.len());
                    let room = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await.unwrap().unwrap();
                    stream.send_data(rest.split_to(room.min(rest.len())), false).unwrap();
                }
                stream.send_data(Default::default(), true).unwrap();
            };
            let download = async {
                let mut last = Vec::new();
                while let Some(piece) = body.data().await {
                    let piece = piece.unwrap();
                    down += piece.len();
                    body.flow_control().release_capacity(piece.len()).unwrap();
                    last = piece.to_vec();
                }
                last
            };
            let ((), last) = futures::join!(upload, download);
            let sum = message((30_005 + BURST + 5).to_string().as_bytes());
            assert!(last.ends_with(&sum), "{:?}", last.escape_ascii().to_string());
            assert_eq!(body.trailers().await.unwrap().unwrap()["grpc-status"], "0");
            sum.len()
        };
        let sum = sending.await;
        assert_eq!(down, BURST + sum);
    });
}

#[test]
fn trailers_of_requests_and_interim_responses_pass() {
    if through_proxy() {
        return;
    }
    let (_backend, gateway) = served();
    calling(&gateway, async |client| {
        let mut call = client.call("/echo/Trailers").await;
        call.send(message(b"one")).await.unwrap();
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x-sum", "3".parse().unwrap());
        trailers.insert("x-forwarded-for", "1.2.3.4".parse().unwrap());
        call.finish_with(trailers).unwrap();
        let reply = call.reply().await.unwrap();
        let trailers = reply.trailers.unwrap();
        assert_eq!(
            (&trailers["x-sum"], &trailers["grpc-status"]),
            (&"3".parse().unwrap(), &"0".parse().unwrap())
        );
        assert!(!trailers.contains_key("x-forwarded-for"), "what an endpoint would believe");
        let mut call = client.call("/echo/Hints").await;
        call.send(message(b"one")).await.unwrap();
        call.finish().unwrap();
        let hints = call.interim().await.unwrap().unwrap();
        assert_eq!((hints.status().as_u16(), &hints.headers()["link"]), (103, &"</a>".parse().unwrap()));
        assert!(call.interim().await.unwrap().is_none());
        assert_eq!(call.reply().await.unwrap().body, message(b"one"));
    });
    // The same over HTTP/1.1.
    let mut client = Connection::plain(gateway.http);
    client.send(format!(
        "POST /echo/Trailers HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 4\r\n\r\n"
    ));
    let end = "\r\n0\r\ngrpc-status: 0\r\nx-served-by: echo\r\nx-sum: 4\r\n\r\n";
    let mut got = Vec::new();
    while !got.ends_with(end.as_bytes()) {
        got.extend(client.bytes(1));
    }
    client.send(format!(
        "POST /echo/Hints HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    ));
    assert!(client.bytes(24).starts_with(b"HTTP/1.1 103 Early Hints"));
    assert_eq!(client.bytes(15), b"\r\nlink: </a>\r\n\r".as_slice());
    assert_eq!(client.bytes(1), b"\n");
    assert_eq!(client.response().text(), "abc");
}

#[test]
fn resets_of_an_endpoint_keep_their_meaning() {
    if through_proxy() {
        return;
    }
    let (_backend, gateway) = served();
    calling(&gateway, async |client| {
        // Before a response: CANCEL, ENHANCE_YOUR_CALM, INADEQUATE_SECURITY, and codes that only
        // state a failure.
        for (code, status) in [(8, "1"), (11, "8"), (12, "7"), (2, "14"), (1, "14")] {
            let reply = client.unary(&format!("/echo/Code/{code}"), b"hello").await.unwrap();
            assert_eq!((reply.http, reply.status()), (200, Some(status)), "{code}");
        }
        // After the start of a response. A client would repeat a stream that it considers refused.
        for (code, expected) in [(8, 8), (11, 11), (2, 2), (7, 2)] {
            let mut call = client.call(&format!("/echo/Late/{code}")).await;
            call.send(message(b"a")).await.unwrap();
            let (_, mut body, mut stream) = call.head().await.unwrap();
            assert_eq!(body.data().await.unwrap().unwrap(), message(b"first"));
            let _ = stream.send_data(message(b"b"), false);
            let error = body.data().await.unwrap().unwrap_err();
            assert_eq!(error.reason().map(u32::from), Some(expected), "{code}");
        }
        // A complete response followed by NO_ERROR is not a failure.
        let mut call = client.call("/echo/Early").await;
        call.send(message(b"one of many")).await.unwrap();
        let reply = call.reply().await.unwrap();
        assert_eq!((reply.status(), &reply.body[..]), (Some("0"), &message(b"early")[..]));
    });
    assert!(gateway.await_access("/echo/Code/8").contains(" 502 "));
}

#[test]
fn an_endpoint_gets_as_many_calls_on_a_connection_as_it_allows() {
    if through_proxy() {
        return;
    }
    let backend = GrpcBackend::narrow(3);
    let gateway = Gateway::start(&folder(&backend, "GRPC"));
    calling(&gateway, async |client| {
        let mut calls = Vec::new();
        for _ in 0..12 {
            let mut call = client.call("/echo/Hang").await;
            call.send(message(b"wait")).await.unwrap();
            calls.push(call);
        }
        until("all calls at the backend", || backend.calls() == 12).await;
        assert!((4..=8).contains(&backend.connections()), "{}", backend.connections());
        calls.into_iter().for_each(|call| call.cancel());
        until("all calls taken back", || backend.resets().len() == 12).await;
        let before = backend.connections();
        assert_eq!(client.unary("/echo/Unary", b"hello").await.unwrap().status(), Some("0"));
        assert_eq!(backend.connections(), before, "what is idle is used again");
    });
}

#[test]
fn calls_share_the_connection_that_is_being_made() {
    if through_proxy() {
        return;
    }
    let (backend, gateway) = served();
    calling(&gateway, async |client| {
        let mut calls = Vec::new();
        for _ in 0..50 {
            let mut call = client.call("/echo/Hang").await;
            call.send(message(b"wait")).await.unwrap();
            calls.push(call);
        }
        until("all calls at the backend", || backend.calls() == 50).await;
        assert_eq!(backend.connections(), 1);
    });
}

#[test]
fn an_endpoint_without_http2_is_a_bad_gateway() {
    let config = TestCertificate::new(&["pod"]).server_config();
    let other = GrpcBackend::tls_with(&config, &[b"http/1.1"]);
    let silent = GrpcBackend::tls_with(&config, &[]);
    let http1 = crate::harness::Backend::echo("one");
    let plain =
        Ingress::new("plain").path("plain.example", "/", "one").annotation("backend-protocol", "GRPC");
    let silence =
        Ingress::new("silent").path("silent.example", "/", "silent").annotation("backend-protocol", "GRPCS");
    let folder = folder(&other, "GRPCS");
    folder.write(
        "more.yaml",
        plain.text()
            + &crate::harness::manifest::service_with("one", &[&http1])
            + &silence.text()
            + &silent.service("silent"),
    );
    let gateway = Gateway::start(&folder);
    run(async {
        for host in [HOST, "plain.example"] {
            let client = GrpcClient::plain(gateway.http, host).await;
            let reply = client.unary("/echo/Unary", b"hello").await.unwrap();
            assert_eq!((reply.http, reply.status()), (200, Some("14")), "{host}");
        }
        // As in nginx, the protocol of the rule applies if an endpoint does not negotiate.
        if !through_proxy() {
            let client = GrpcClient::plain(gateway.http, "silent.example").await;
            assert_eq!(client.unary("/echo/Unary", b"hello").await.unwrap().status(), Some("0"));
        }
    });
    assert_eq!(get(gateway.http, "plain.example", "/").status, 502);
}

#[test]
fn stages_of_bodies_hold_for_streams() {
    let (_backend, gateway) = served_with(&[("proxy-body-size", "1k"), ("limit-rate", "1000")]);
    calling(&gateway, async |client| {
        let reply = client.unary("/echo/Unary", b"little").await.unwrap();
        assert_eq!((reply.status(), &reply.body[..]), (Some("0"), &message(b"little")[..]));
        let reply = client.unary("/echo/Collect", &[b'x'; 2000]).await.unwrap();
        assert_eq!((reply.http, reply.status()), (200, Some("2")), "413");
    });
    assert!(gateway.await_access("/echo/Collect").contains(" 413 "));
    // An HTTP/1.1 client receives 413 as soon as it declares the length.
    let mut client = Connection::plain(gateway.http);
    client.send(format!("POST /echo/Collect HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 2000\r\n\r\n"));
    assert_eq!(client.response().status, 413);
}
