//! gRPC: `backend-protocol: GRPC` and `GRPCS`, from clients of gRPC and of HTTP.

use crate::harness::grpc::{GrpcBackend, GrpcClient, message};
use crate::harness::h2::run;
use crate::harness::{Connection, Folder, Gateway, Ingress, TestCertificate, get, until};

const HOST: &str = "grpc.example";

fn folder(backend: &GrpcBackend, protocol: &str) -> Folder {
    let ingress = Ingress::new("grpc")
        .path(HOST, "/", "grpc")
        .annotation("backend-protocol", protocol)
        // A stream has no length: its limit would be that of an upload, as in ingress-nginx.
        .annotation("proxy-body-size", "0")
        .annotation("ssl-redirect", "false")
        // As with nginx, a stream of messages is a body, and limited to 1 MiB by default.
        .annotation("proxy-body-size", "0")
        .tls(&[HOST], "tls");
    Folder::with(ingress.text() + &backend.service("grpc") + &TestCertificate::new(&[HOST]).secret("tls"))
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
                    // The reply to one message comes before the next is sent.
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
    let backend = GrpcBackend::plain();
    let gateway = Gateway::start(&folder(&backend, "GRPC"));
    run(async {
        let client = GrpcClient::plain(gateway.http, HOST).await;
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
    let backend = GrpcBackend::plain();
    let gateway = Gateway::start(&folder(&backend, "GRPC"));
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
        // The request is not complete, and the call has its line in the log all the same.
        gateway.await_access("/echo/Fail");
    });
}

#[test]
fn cancellation_passes_both_ways() {
    let backend = GrpcBackend::plain();
    let gateway = Gateway::start(&folder(&backend, "GRPC"));
    run(async {
        let client = GrpcClient::plain(gateway.http, HOST).await;
        let mut call = client.call("/echo/Hang").await;
        call.send(message(b"wait")).await.unwrap();
        until("the call at the backend", || backend.seen().len() == 1).await;
        call.cancel();
        until("the cancellation at the backend", || !backend.resets().is_empty()).await;
        assert_eq!(backend.resets(), [h2_cancel()]);
        // A reset after a response has begun is one for the client, and one before it an answer of gRPC.
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
    let backend = GrpcBackend::plain();
    let ingress = Ingress::new("grpc")
        .path(HOST, "/", "grpc")
        .annotation("backend-protocol", "GRPC")
        .annotation("proxy-read-timeout", "1")
        .annotation("proxy-next-upstream-tries", "1");
    let gateway = Gateway::start(&Folder::with(ingress.text() + &backend.service("grpc")));
    run(async {
        let client = GrpcClient::plain(gateway.http, HOST).await;
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
    let backend = GrpcBackend::plain();
    let ingress = Ingress::new("grpc")
        .path(HOST, "/", "grpc")
        .annotation("backend-protocol", "GRPC")
        .annotation("proxy-read-timeout", "1");
    let gateway = Gateway::start(&Folder::with(ingress.text() + &backend.service("grpc")));
    run(async {
        let client = GrpcClient::plain(gateway.http, HOST).await;
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
fn what_an_endpoint_has_not_looked_at_is_sent_again() {
    let backend = GrpcBackend::plain();
    let gateway = Gateway::start(&folder(&backend, "GRPC"));
    run(async {
        let client = GrpcClient::plain(gateway.http, HOST).await;
        // Not idempotent, and safe all the same.
        let reply = client.unary("/echo/Refuse", b"hello").await.unwrap();
        assert_eq!((reply.status(), &reply.body[..]), (Some("0"), &message(b"hello")[..]));
        // An endpoint that ends its connections in order fails nobody.
        for _ in 0..20 {
            let reply = client.unary("/echo/Leave", b"hello").await.unwrap();
            assert_eq!((reply.status(), &reply.body[..]), (Some("0"), &message(b"hello")[..]));
        }
    });
}

#[test]
fn errors_of_ours_have_a_status_of_grpc() {
    let backend = GrpcBackend::plain();
    let gateway = Gateway::start(&folder(&backend, "GRPC"));
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
fn a_client_of_http1_gets_what_such_an_endpoint_says() {
    let backend = GrpcBackend::plain();
    let gateway = Gateway::start(&folder(&backend, "GRPC"));
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
fn the_protocol_changes_without_a_restart() {
    let backend = GrpcBackend::plain();
    let folder = folder(&backend, "FCGI");
    let gateway = Gateway::start(&folder);
    run(async {
        let client = GrpcClient::plain(gateway.http, HOST).await;
        let reply = client.unary("/echo/Unary", b"hello").await.unwrap();
        assert_eq!((reply.http, reply.status()), (200, Some("14")), "not served yet: closed with 503");
    });
    let ingress = Ingress::new("grpc").path(HOST, "/", "grpc").annotation("backend-protocol", "grpc");
    folder.write("objects.yaml", ingress.text() + &backend.service("grpc"));
    run(async {
        let client = GrpcClient::plain(gateway.http, HOST).await;
        loop {
            let reply = client.unary("/echo/Unary", b"hello").await.unwrap();
            if reply.status() == Some("0") {
                return;
            }
            crate::harness::grpc::breathe().await;
        }
    });
}
