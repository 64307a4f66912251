//! Misbehaviour of an endpoint, or of a client towards it, that must not affect others.

use std::net::SocketAddr;
use std::time::Duration;

use http::Method;
use sluice_config::{GlobalSettings, HeaderBuffers};
use sluice_testing::wait::until;
use tokio::io::AsyncWriteExt;

use super::backend::{Backend, request};
use super::client::{Client, PATIENCE};
use super::gateway::{Gateway, through_proxy};
use super::http2::{ask, plain};

const URL: &str = "http://a.example/x";

/// Returns an address without a listener.
async fn refusing() -> SocketAddr {
    tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// An endpoint whose accept queue is full. New connections hang until this value is dropped.
struct Deaf {
    address: SocketAddr,
    _listener: std::net::TcpListener,
    _queue: Vec<std::net::TcpStream>,
}

impl Deaf {
    fn new() -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.listen(0).unwrap();
        let listener = std::net::TcpListener::from(socket);
        let address = listener.local_addr().unwrap();
        let short = Duration::from_millis(100);
        let connect = || std::net::TcpStream::connect_timeout(&address, short).ok();
        let queue = std::iter::from_fn(connect).take(64).collect();
        Self { address, _listener: listener, _queue: queue }
    }
}

/// Starts a backend that fails requests for `/x` in a way selected by their number, and serves all
/// others.
async fn fickle() -> Backend {
    Backend::scripted(|number, stream| async move {
        let mut client = Client::over(stream);
        while let Some((head, _)) = request(&mut client).await {
            if !head.starts_with("get /x") {
                client.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
                continue;
            }
            match number % 4 {
                0 => return,
                1 => return client.stream.set_zero_linger().unwrap(),
                2 => return client.send("HTTP/1.1 200 O").await,
                _ => return client.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello").await,
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_url_whose_answers_break_off_had_its_endpoint_ejected_for_all_routes() {
    let backend = fickle().await;
    let gateway = Gateway::to(&[backend.address]).await;
    for _ in 0..12 {
        let mut client = gateway.client().await;
        client.send("GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
        client.head().await;
        assert_eq!(gateway.plane.state.registry.health().ejected, 0);
    }
    assert!(backend.connections() >= 12);
    assert_eq!(gateway.client().await.get("/ok").await.status, 200);
}

#[tokio::test]
async fn an_endpoint_that_refuses_connections_is_ejected() {
    let gateway = Gateway::to(&[refusing().await]).await;
    assert_eq!(gateway.client().await.get("/x").await.status, 502);
    assert_eq!(gateway.plane.state.registry.health().ejected, 1);
}

/// The protocol is a setting of one Ingress, whereas the endpoints belong to the Service.
#[tokio::test]
async fn a_failed_tls_handshake_does_not_eject_an_endpoint_for_plain_routes() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        client.read().await;
        client.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
    })
    .await;
    let protocol = sluice_config::UpstreamProtocol::HttpsUnverified;
    let gateway = Gateway::with(&[backend.address], protocol, |_| ()).await;
    assert_eq!(gateway.client().await.get("/x").await.status, 502);
    assert_eq!(gateway.plane.state.registry.health().ejected, 0);
}

#[tokio::test]
async fn attempts_without_end_were_never_answered() {
    for tries in [u32::MAX, 0] {
        let gateway =
            Gateway::tuned(&[refusing().await], |settings| settings.next_upstream_tries = tries).await;
        let mut client = gateway.client().await;
        assert_eq!(client.get("/x").await.status, 502, "{tries}");
        let (mut client, _) = plain(&gateway).await;
        assert_eq!(ask(&mut client, Method::GET, URL, "").await.unwrap().0, 502, "{tries}");
        let lines = gateway.lines(2).await;
        let attempts = lines[0].matches("127.0.0.1:").count();
        assert!(attempts <= 16, "{attempts}: {lines:?}");
    }
}

#[tokio::test]
async fn no_size_of_a_pool_and_no_time_ends_a_worker() {
    let backend = Backend::new().await;
    type Tune = fn(&mut GlobalSettings);
    let tunes: [Tune; 2] = [
        |settings| settings.upstream_keepalive_connections = usize::MAX,
        |settings| {
            *settings = GlobalSettings {
                client_header_timeout: Duration::MAX,
                client_body_timeout: Duration::MAX,
                keep_alive: Duration::MAX,
                proxy_connect_timeout: Duration::MAX,
                proxy_read_timeout: Duration::MAX,
                proxy_send_timeout: Duration::MAX,
                next_upstream_timeout: Some(Duration::MAX),
                upstream_keepalive_timeout: Duration::MAX,
                upstream_keepalive_time: Duration::MAX,
                worker_shutdown_timeout: Duration::MAX,
                keep_alive_requests: u32::MAX,
                max_connections: usize::MAX,
                large_client_header_buffers: HeaderBuffers { count: usize::MAX, size: usize::MAX },
                http2_max_concurrent_streams: u32::MAX,
                next_upstream_tries: u32::MAX,
                upstream_keepalive_connections: usize::MAX,
                upstream_keepalive_requests: u32::MAX,
                ..GlobalSettings::default()
            };
        },
    ];
    for tune in tunes {
        let gateway = Gateway::tuned(&[backend.address], tune).await;
        for _ in 0..2 {
            assert_eq!(gateway.client().await.get("/x").await.status, 200);
            let mut old = gateway.client().await;
            old.send("GET /x HTTP/1.0\r\nHost: a.example\r\n\r\n").await;
            assert_eq!(old.response().await.status, 200);
            let (mut client, _) = plain(&gateway).await;
            assert_eq!(ask(&mut client, Method::POST, URL, "hello").await.unwrap().0, 200);
        }
    }
}

#[tokio::test]
async fn an_endless_series_of_100_continue_kept_a_core_busy() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        request(&mut client).await;
        // Until the gateway closes the connection.
        while client.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.is_ok() {}
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    for version in ["1.0", "1.1"] {
        let mut client = gateway.client().await;
        client.send(format!("GET /x HTTP/{version}\r\nHost: a.example\r\n\r\n")).await;
        let mut head = client.head().await;
        while head.status == 100 {
            head = client.head().await;
        }
        assert_eq!(head.status, 502, "{version}");
    }
    let (mut client, _) = plain(&gateway).await;
    assert_eq!(ask(&mut client, Method::GET, URL, "").await.unwrap().0, 502);
}

#[tokio::test]
async fn an_unreadable_first_chunk_closed_the_connection_silently() {
    if through_proxy() {
        // `HttpProxy` has already forwarded the head.
        return;
    }
    for nonsense in ["zz\r\n", "5\r\nhello!\r\n", "5\r\nhello\r\n0\r\nno colon\r\n\r\n"] {
        let backend = Backend::scripted(move |_, stream| async move {
            let mut client = Client::over(stream);
            request(&mut client).await;
            client.send(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{nonsense}")).await;
        })
        .await;
        let gateway = Gateway::to(&[backend.address]).await;
        let response = gateway.client().await.get("/x").await;
        assert_eq!(response.status, 502, "{nonsense:?} {response:?}");
        let mut old = gateway.client().await;
        old.send("GET /x HTTP/1.0\r\nHost: a.example\r\n\r\n").await;
        let status = old.response().await.status;
        // The other engine serves the request unless this one was selected.
        assert!(matches!(status, 502 | 200), "{nonsense:?} {status}");
        let (mut client, _) = plain(&gateway).await;
        assert_eq!(ask(&mut client, Method::GET, URL, "").await.unwrap().0, 502, "{nonsense:?}");
        // Lines of different connections are in arbitrary order.
        let lines = gateway.lines(3).await;
        let newer = lines.iter().filter(|line| !line.contains(" HTTP/1.0\" "));
        assert!(
            newer.clone().count() == 2 && newer.clone().all(|line| line.contains("\" 502 ")),
            "{lines:?}"
        );
        assert_eq!(gateway.plane.state.registry.health().ejected, 0);
    }
}

/// Sets a timeout far longer than the test.
fn patient(settings: &mut GlobalSettings) {
    settings.proxy_connect_timeout = 4 * PATIENCE;
}

#[tokio::test]
async fn departed_clients_were_kept_while_their_endpoint_hung() {
    let deaf = Deaf::new();
    let gateway = Gateway::tuned(&[deaf.address], patient).await;
    // More than the gateway reads ahead, and less than that plus the kernel's buffers.
    let large = "x".repeat(80 * 1024);
    for body in ["", "Content-Length: 10\r\n\r\nhello", &format!("Content-Length: 1000000\r\n\r\n{large}")] {
        let mut client = gateway.client().await;
        let end = if body.is_empty() { "\r\n" } else { "" };
        let head = format!("POST /x HTTP/1.1\r\nHost: a.example\r\n{body}{end}");
        client.send(head).await;
        until("a request under way", || gateway.drain.requests() > 0).await;
        drop(client);
        until("the client's connection let go of", || {
            gateway.drain.requests() == 0 && gateway.drain.connections() == 0
        })
        .await;
    }
    let lines = gateway.lines(3).await;
    assert!(lines.iter().all(|line| line.contains("\" 499 ")), "{lines:?}");
    assert_eq!(
        gateway.plane.state.registry.health().ejected,
        0,
        "clients that disconnect are no failure of the endpoint"
    );
}

#[tokio::test]
async fn cancelled_streams_were_kept_while_their_endpoint_hung() {
    let deaf = Deaf::new();
    let gateway = Gateway::tuned(&[deaf.address], patient).await;
    let (mut client, _connection) = plain(&gateway).await;
    let (response, mut send) =
        client.send_request(http::Request::post(URL).body(()).unwrap(), false).unwrap();
    until("a request under way", || gateway.drain.requests() > 0).await;
    send.send_reset(h2::Reason::CANCEL);
    drop(response);
    until("the stream let go of", || gateway.drain.requests() == 0).await;
}
