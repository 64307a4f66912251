//! Behaviour of the direct engine beyond the tests for both engines: strict parsing of responses,
//! trailers, and connection pooling.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use sluice_config::{GlobalSettings, UpstreamProtocol};
use sluice_testing::wait::until;

use super::backend::{Backend, request};
use super::client::{Client, PATIENCE};
use super::gateway::Gateway;
use crate::worker::engine_choice::EngineChoice;

async fn direct(backend: &Backend, tune: impl FnOnce(&mut GlobalSettings)) -> Gateway {
    Gateway::driven(EngineChoice::Direct, &[backend.address], UpstreamProtocol::Http, tune).await
}

#[tokio::test]
async fn ambiguous_responses_are_502() {
    for bytes in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: a\r\n b\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\nX: a\r\n\r\nab",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
    ] {
        let backend = Backend::saying(bytes).await;
        let gateway = direct(&backend, |_| ()).await;
        let mut client = gateway.client().await;
        let response = client.get("/x").await;
        assert_eq!(response.status, 502, "{bytes:?} {response:?}");
        assert!(response.keeps_alive(), "{response:?}");
    }
}

#[tokio::test]
async fn excess_response_bytes_are_dropped_with_the_connection() {
    let twice =
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let backend = Backend::saying(twice).await;
    let gateway = direct(&backend, |_| ()).await;
    let mut client = gateway.client().await;
    for count in 1..=3 {
        let response = client.get("/x").await;
        assert_eq!((response.status, response.body.as_str()), (200, "ok"));
        assert_eq!(backend.connections(), count, "never used again");
    }
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        client.until("\r\n\r\n").await;
        let body = client.until("\r\n\r\n").await;
        assert_eq!(body, "3;x=y\r\nabc\r\n0\r\nX-Sum: 6\r\n\r\n");
        client
            .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-End: 1\r\n\r\n")
            .await;
        client.read().await;
    })
    .await;
    let gateway = direct(&backend, |_| ()).await;
    let mut client = gateway.client().await;
    client
        .send(
            "POST /x HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n\
             3;x=y\r\nabc\r\n0\r\nX-Sum: 6\r\n\r\n",
        )
        .await;
    assert_eq!(client.head().await.status, 200);
    assert_eq!(client.until("\r\n\r\n").await, "2\r\nok\r\n0\r\nX-End: 1\r\n\r\n");
}

#[tokio::test]
async fn a_trailer_that_belongs_in_a_head_is_left_out_and_the_others_pass() {
    // In one piece, and in pieces of every size.
    let sent = "POST /x HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n\
                3\r\nabc\r\n0\r\nX-Forwarded-For: 10.0.0.1\r\nX-Sum:6\r\nX_Forwarded_For: 1\r\nHost: b\r\n\r\n";
    let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                  2\r\nok\r\n0\r\nAuthorization: a\r\nX_End: 1\r\nContent-Length: 7\r\n\r\n";
    let backend = Backend::scripted(move |number, stream| async move {
        let mut client = Client::over(stream);
        client.until("\r\n\r\n").await;
        assert_eq!(client.until("\r\n\r\n").await, "3\r\nabc\r\n0\r\nX-Sum: 6\r\n\r\n");
        for piece in answer.as_bytes().chunks(if number == 0 { 1000 } else { 7 * number }) {
            client.send(piece).await;
        }
        client.read().await;
    })
    .await;
    let gateway = direct(&backend, |settings| settings.upstream_keepalive_connections = 0).await;
    for cut in [1000, 1, 2, 11] {
        let mut client = gateway.client().await;
        for piece in sent.as_bytes().chunks(cut) {
            client.send(piece).await;
        }
        assert_eq!(client.head().await.status, 200);
        assert_eq!(client.until("\r\n\r\n").await, "2\r\nok\r\n0\r\nX_End: 1\r\n\r\n");
        assert_eq!(
            client.stream.try_read(&mut [0; 8]).map_err(|error| error.kind()),
            Err(std::io::ErrorKind::WouldBlock)
        );
    }
}

#[tokio::test]
async fn interim_responses_pass_and_continue_only_if_expected() {
    let backend = Backend::saying(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    )
    .await;
    let gateway = direct(&backend, |_| ()).await;
    let mut client = gateway.client().await;
    client.send("GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    let hint = client.head().await;
    assert_eq!((hint.status, hint.field("link")), (103, Some("</x>")));
    assert_eq!(client.response().await.status, 200);
}

#[tokio::test]
async fn the_framing_of_an_interim_response_does_not_reach_the_client() {
    let backend = Backend::saying(
        "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nTransfer-Encoding: chunked\r\n\r\n\
         HTTP/1.1 103 Early Hints\r\nLink: </y>\r\nContent-Length: 9\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    )
    .await;
    for engine in [EngineChoice::Direct, EngineChoice::Proxy] {
        let gateway = Gateway::driven(engine, &[backend.address], UpstreamProtocol::Http, |_| ()).await;
        let mut client = gateway.client().await;
        client.send("GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
        for link in ["</x>", "</y>"] {
            let hint = client.head().await;
            assert_eq!((hint.status, hint.field("link")), (103, Some(link)));
            let framing = (hint.field("transfer-encoding"), hint.field("content-length"));
            assert_eq!(framing, (None, None), "{engine:?}");
        }
        let response = client.response().await;
        assert_eq!((response.status, response.body.as_str()), (200, "ok"));
    }
}

#[tokio::test]
async fn http_1_0_is_served_without_chunks_and_without_interim_responses() {
    let backend = Backend::new().await;
    let gateway = direct(&backend, |_| ()).await;
    let mut client = gateway.client().await;
    client.send("GET /chunked HTTP/1.0\r\nHost: a.example\r\nConnection: keep-alive\r\n\r\n").await;
    let response = client.head().await;
    assert_eq!((response.status, response.field("transfer-encoding")), (200, None), "{response:?}");
    assert!(!response.keeps_alive(), "the end of the connection is the end of the body");
    assert_eq!(client.rest().await, "hello");
    let mut client = gateway.client().await;
    for _ in 0..2 {
        client.send("GET /x HTTP/1.0\r\nHost: a.example\r\nConnection: keep-alive\r\n\r\n").await;
        assert!(client.response().await.keeps_alive());
    }
    client.send("GET /x HTTP/1.0\r\nHost: a.example\r\n\r\n").await;
    assert!(!client.response().await.keeps_alive());
    client.ends().await;
}

#[tokio::test]
async fn upstream_connections_have_a_request_limit_and_announce_the_last() {
    let backend = Backend::new().await;
    let gateway = direct(&backend, |settings| settings.upstream_keepalive_requests = 3).await;
    let mut client = gateway.client().await;
    for count in 1..=6 {
        let response = client.get("/x").await;
        assert_eq!(response.body.contains("\r\nconnection: close\r\n"), count % 3 == 0, "{response:?}");
    }
    assert_eq!(backend.connections(), 2);
}

#[tokio::test]
async fn upstream_connections_have_an_age_and_an_idle_time() {
    type Tune = fn(&mut GlobalSettings);
    let tunes: [Tune; 2] = [
        |settings| settings.upstream_keepalive_time = Duration::from_millis(40),
        |settings| settings.upstream_keepalive_timeout = Duration::from_millis(40),
    ];
    for tune in tunes {
        let backend = Backend::new().await;
        let gateway = direct(&backend, tune).await;
        let mut client = gateway.client().await;
        let began = std::time::Instant::now();
        // The number of connections depends on the machine; that there is a second one does not.
        while backend.connections() < 2 {
            assert_eq!(client.get("/x").await.status, 200);
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(began.elapsed() < PATIENCE, "used without end");
        }
    }
}

#[tokio::test]
async fn no_more_than_so_many_upstream_connections_are_kept() {
    let backends = [Backend::new().await, Backend::new().await];
    let addresses = [backends[0].address, backends[1].address];
    for (size, connections) in [(2, 1), (1, 4), (0, 4)] {
        let before = [backends[0].connections(), backends[1].connections()];
        let gateway = Gateway::driven(EngineChoice::Direct, &addresses, UpstreamProtocol::Http, |settings| {
            settings.upstream_keepalive_connections = size;
        })
        .await;
        let mut client = gateway.client().await;
        for _ in 0..8 {
            assert_eq!(client.get("/x").await.status, 200);
        }
        // The requests alternate, so with a pool of one each request evicts the other's connection.
        let made = [0, 1].map(|index| backends[index].connections() - before[index]);
        assert_eq!(made, [connections; 2], "room for {size}");
    }
}

#[tokio::test]
async fn an_idle_connection_that_its_endpoint_closes_is_let_go_of() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        request(&mut client).await;
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        use tokio::io::AsyncWriteExt;
        client.stream.shutdown().await.unwrap();
        // Ends once the gateway has closed its side, too.
        client.ends().await;
        CLOSED.fetch_add(1, SeqCst);
    })
    .await;
    static CLOSED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let gateway = direct(&backend, |_| ()).await;
    let mut client = gateway.client().await;
    assert_eq!(client.get("/x").await.status, 200);
    until("the connection closed by the gateway too", || CLOSED.load(SeqCst) > 0).await;
}

#[tokio::test]
async fn the_case_and_order_of_fields_stay() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        let head = client.until("\r\n\r\n").await;
        let body = head.replace("\r\n", "|");
        let answer = format!(
            "HTTP/1.1 200 Fine\r\nX-oNe: 1\r\ncontent-length: {}\r\nETag: x\r\n\r\n{body}",
            body.len()
        );
        client.send(answer).await;
        client.read().await;
    })
    .await;
    let gateway = direct(&backend, |_| ()).await;
    let mut client = gateway.client().await;
    client.send("GET /x HTTP/1.1\r\nhOST: a.example\r\nX-TwO: 2\r\ncookie: c\r\n\r\n").await;
    let response = client.response().await;
    assert!(response.body.starts_with("GET /x HTTP/1.1|hOST: a.example|X-TwO: 2|cookie: c|"), "{response:?}");
    let expected = "HTTP/1.1 200 Fine\r\nX-oNe: 1\r\ncontent-length: ";
    assert!(response.head.starts_with(expected) && response.head.contains("\r\nETag: x\r\n"), "{response:?}");
}
