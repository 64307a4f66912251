use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::{Method, StatusCode};
use sluice_config::{Balance, Change, Delta, Endpoint, EndpointSet, Pool, UpstreamProtocol};
use sluice_testing::wait::until;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::body::tee::tee;
use crate::connection::drain::{Drain, LocalDrain};
use crate::io::budget::{self, Budget};
use crate::message::edit::RequestTarget;
use crate::pipeline::tests::fixture::{Plane, pool_key};
use crate::pipeline::{CallTarget, Subrequest};
use crate::tls::CertificateStore;
use crate::worker::engine_choice::EngineChoice;

/// A pool of these addresses.
fn pool(plane: &mut Plane, addresses: &[SocketAddr]) -> Arc<crate::registry::Pool> {
    pool_of(plane, addresses, UpstreamProtocol::Http)
}

fn pool_of(
    plane: &mut Plane,
    addresses: &[SocketAddr],
    protocol: UpstreamProtocol,
) -> Arc<crate::registry::Pool> {
    let pool = Pool {
        key: pool_key("auth"),
        protocol,
        balance: Balance::RoundRobin,
        slow_start: None,
        health_check: None,
    };
    plane.apply(Delta { pools: vec![Change::Put(pool.key.clone(), Arc::new(pool))], ..Delta::default() });
    let key = pool_key("auth").endpoints;
    let endpoint = |address: &SocketAddr| Endpoint { address: *address, zone: None };
    let set = EndpointSet { key: key.clone(), endpoints: addresses.iter().map(endpoint).collect() };
    plane.apply(Delta { endpoint_sets: vec![Change::Put(key, Arc::new(set))], ..Delta::default() });
    plane.state.registry.pool(&pool_key("auth")).unwrap()
}

fn subrequest(plane: &Plane, pool: &Arc<crate::registry::Pool>) -> Subrequest {
    Subrequest {
        to: CallTarget::Pool(pool.clone()),
        method: Method::GET,
        target: RequestTarget::new("/check?a=b".to_owned()).unwrap(),
        fields: vec![(HOST, HeaderValue::from_static("auth.example"))],
        server_name: None,
        keep_alive: None,
        most_body: 64,
        needs_body: true,
        is_copy: false,
        is_single: false,
        route: None,
        settings: plane.state.settings(),
    }
}

/// Serves one scripted conversation for each connection, each a list of responses to requests
/// without a body.
fn serve(scripts: Vec<Vec<&'static str>>) -> (SocketAddr, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let mut seen = Vec::new();
        for script in scripts {
            let (mut stream, _) = listener.accept().unwrap();
            for response in script {
                seen.push(head_of(&mut stream));
                stream.write_all(response.as_bytes()).unwrap();
            }
        }
        seen
    });
    (address, thread)
}

fn head_of(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn worker(plane: &Plane) -> Worker {
    Worker {
        state: plane.state.clone(),
        certificates: CertificateStore::new().unwrap(),
        drain: LocalDrain::new(Drain::new()),
        engine: EngineChoice::Direct,
        idle: 4,
        count: 1,
    }
}

async fn ask(plane: &Plane, subrequest: Subrequest) -> Result<SubrequestResponse, CallFailure> {
    send(&worker(plane), &mut OwnCall::new(subrequest), None).await
}

#[tokio::test]
async fn a_call_that_a_request_needs_waits_for_memory_and_others_do_not() {
    let mut plane = Plane::new();
    let (address, endpoint) = serve(vec![vec!["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes"]]);
    let pool = pool(&mut plane, &[address]);
    let budget = Budget::new(64 * 1024);
    budget::serve(budget.clone());
    let mut all = Reservation::default();
    all.hold(64 * 1024);
    let waiting = ask(&plane, Subrequest { needs_body: false, ..subrequest(&plane, &pool) });
    let giving_back = async {
        until("the call to wait", || budget.waits() > 0).await;
        drop(all);
    };
    let (response, ()) = tokio::join!(waiting, giving_back);
    assert_eq!(response.unwrap().status, StatusCode::OK);
    endpoint.join().unwrap();
    let mut all = Reservation::default();
    all.hold(64 * 1024);
    let page = subrequest(&plane, &pool);
    let copy = Subrequest { is_copy: true, needs_body: false, ..subrequest(&plane, &pool) };
    for optional in [page, copy] {
        let failed = ask(&plane, optional).await;
        assert_eq!(failed, Err(CallFailure::Attempt(FailureKind::Memory)));
    }
}

#[tokio::test]
async fn a_call_returns_head_and_body_and_keeps_its_connection() {
    let mut plane = Plane::new();
    let (address, endpoint) = serve(vec![vec![
        "HTTP/1.1 103 Early Hints\r\nA: 1\r\n\r\nHTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\nX-User: ann\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "HTTP/1.1 401 No\r\nContent-Length: 0\r\nWWW-Authenticate: Basic\r\n\r\n",
    ]]);
    let pool = pool(&mut plane, &[address]);
    let first = ask(&plane, subrequest(&plane, &pool)).await.unwrap();
    assert_eq!((first.status, &first.body[..], first.whole), (StatusCode::ACCEPTED, &b"abc"[..], true));
    assert_eq!(first.fields["x-user"], "ann");
    let second = ask(&plane, subrequest(&plane, &pool)).await.unwrap();
    assert_eq!((second.status, second.body.len()), (StatusCode::UNAUTHORIZED, 0));
    assert_eq!(
        endpoint.join().unwrap(),
        ["GET /check?a=b HTTP/1.1\r\nhost: auth.example\r\n\r\n"; 2],
        "both over one connection"
    );
}

#[tokio::test]
async fn another_endpoint_is_tried_if_one_accepts_no_connection() {
    let mut plane = Plane::new();
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (address, endpoint) = serve(vec![vec!["HTTP/1.1 204 Fine\r\n\r\n"]]);
    let pool = pool(&mut plane, &[dead, address]);
    // Whichever endpoint is tried first.
    assert_eq!(ask(&plane, subrequest(&plane, &pool)).await.unwrap().status, StatusCode::NO_CONTENT);
    endpoint.join().unwrap();
}

#[tokio::test]
async fn a_malformed_response_is_a_failure() {
    for (response, kind) in [
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            FailureKind::InvalidHead,
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", FailureKind::InvalidHead),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", FailureKind::InvalidHead),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", FailureKind::Broken),
    ] {
        let mut plane = Plane::new();
        plane.tune(|settings| settings.next_upstream_tries = 1);
        let (address, endpoint) = serve(vec![vec![response]]);
        let pool = pool(&mut plane, &[address]);
        let failed = ask(&plane, subrequest(&plane, &pool)).await;
        assert_eq!(failed, Err(CallFailure::Attempt(kind)), "{response}");
        endpoint.join().unwrap();
    }
    let mut plane = Plane::new();
    let pool = pool(&mut plane, &[]);
    assert_eq!(ask(&plane, subrequest(&plane, &pool)).await, Err(CallFailure::NoEndpoint));
}

#[tokio::test]
async fn a_body_is_read_up_to_the_limit() {
    let mut plane = Plane::new();
    let body: &'static str =
        Box::leak(format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(100)).into_boxed_str());
    let (address, endpoint) = serve(vec![vec![body]]);
    let pool = pool(&mut plane, &[address]);
    let response = ask(&plane, subrequest(&plane, &pool)).await.unwrap();
    assert!(!response.whole && response.body.len() == 64, "{response:?}");
    endpoint.join().unwrap();
}

#[tokio::test]
async fn the_rest_of_a_body_that_is_not_needed_failed_the_call() {
    for response in [
        "HTTP/1.1 401 No\r\nContent-Length: 5\r\n\r\nab",
        "HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ] {
        for stalls in [false, true] {
            let mut plane = Plane::new();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let pool = pool(&mut plane, &[listener.local_addr().unwrap()]);
            let endpoint = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                head_of(&mut stream);
                stream.write_all(response.as_bytes()).unwrap();
                stalls.then_some(stream)
            });
            let call = Subrequest { needs_body: false, is_single: true, ..subrequest(&plane, &pool) };
            assert_eq!(ask(&plane, call).await.unwrap().status, StatusCode::UNAUTHORIZED, "{response}");
            endpoint.join().unwrap();
        }
    }
}

#[tokio::test]
async fn a_body_behind_the_head_that_is_enough_keeps_the_connection() {
    let mut plane = Plane::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pool = pool(&mut plane, &[listener.local_addr().unwrap()]);
    let endpoint = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..2 {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n").await.unwrap();
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            stream.write_all(b"yes").await.unwrap();
        }
    });
    for _ in 0..2 {
        let call = Subrequest { needs_body: false, is_single: true, ..subrequest(&plane, &pool) };
        assert_eq!(ask(&plane, call).await.unwrap().status, StatusCode::OK);
    }
    endpoint.await.unwrap();
}

#[tokio::test]
async fn a_silent_endpoint_fails_after_the_read_timeout() {
    let mut plane = Plane::new();
    plane.tune(|settings| {
        settings.next_upstream_tries = 1;
        settings.proxy_read_timeout = Duration::from_millis(50);
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let pool = pool(&mut plane, &[listener.local_addr().unwrap()]);
    let failed = ask(&plane, subrequest(&plane, &pool)).await;
    assert_eq!(failed, Err(CallFailure::Attempt(FailureKind::ReadTimeout)));
}

async fn answer_http2(request: http::Request<h2::RecvStream>, mut reply: h2::server::SendResponse<Bytes>) {
    let (head, mut body) = request.into_parts();
    let mut got = format!("{} {} ", head.method, head.uri).into_bytes();
    while let Some(piece) = body.data().await {
        got.extend_from_slice(&piece.unwrap());
    }
    let mut hints = http::Response::new(());
    *hints.status_mut() = StatusCode::EARLY_HINTS;
    reply.send_informational(hints).unwrap();
    let head = http::Response::builder().status(202).header("x-user", "ann").body(()).unwrap();
    let mut stream = reply.send_response(head, false).unwrap();
    stream.send_data(got.into(), true).unwrap();
}

/// An endpoint of HTTP/2 that refuses the first request, hints at the second and answers with what
/// it got.
async fn serve_http2() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let refused = Arc::new(AtomicBool::new(false));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let refused = refused.clone();
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((request, mut reply))) = connection.accept().await {
                    match refused.swap(true, Relaxed) {
                        false => reply.send_reset(h2::Reason::REFUSED_STREAM),
                        true => drop(tokio::spawn(answer_http2(request, reply))),
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_body_that_ends_beyond_the_limit_is_not_whole() {
    let mut plane = Plane::new();
    let (address, endpoint) = serve(vec![vec!["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"]]);
    let pool = pool(&mut plane, &[address]);
    let response = ask(&plane, Subrequest { most_body: 4, ..subrequest(&plane, &pool) }).await.unwrap();
    assert_eq!((&response.body[..], response.whole), (&b"hell"[..], false));
    endpoint.join().unwrap();
}

#[tokio::test]
async fn an_http2_pool_is_called_like_any_other() {
    let mut plane = Plane::new();
    let address = serve_http2().await;
    let pool = pool_of(&mut plane, &[address], UpstreamProtocol::Grpc);
    let (mut body, feed) = tee(Framing::Length(5));
    body.copy(b"hello");
    body.end();
    let asked = Subrequest { method: Method::POST, ..subrequest(&plane, &pool) };
    let response = send(&worker(&plane), &mut OwnCall::new(asked), Some(Box::new(feed))).await.unwrap();
    assert_eq!((response.status, response.whole), (StatusCode::ACCEPTED, true));
    assert_eq!(response.fields["x-user"], "ann");
    assert_eq!(&response.body[..], b"POST http://auth.example/check?a=b hello");
    let short = Subrequest { most_body: 4, ..subrequest(&plane, &pool) };
    let response = ask(&plane, short).await.unwrap();
    assert_eq!((&response.body[..], response.whole), (&b"GET "[..], false));
}
