//! HTTP/2 connections to endpoints on loopback.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Request, Response};
use sluice_config::UpstreamProtocol;
use sluice_testing::wait::until;
use tokio::net::TcpListener;

use super::*;
use crate::connection::drain::Drain;
use crate::io::budget::{self, Budget, Reservation};
use crate::io::failure::FailureKind;
use crate::upstream::attempt::{KeepAlive, Upstream};
use crate::upstream::connect::ConnectionGate;
use crate::upstream::obtain_http2;

/// Connections of an endpoint.
#[derive(Default)]
struct Count {
    taken: AtomicUsize,
    ended: AtomicUsize,
}

/// Starts an endpoint that allows `streams` concurrent streams and counts its connections. `answer`
/// handles each stream and returns whether the connection continues.
async fn endpoint(
    streams: u32,
    answer: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> bool + Send + Clone + 'static,
) -> (SocketAddr, Arc<Count>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, connections) = (listener.local_addr().unwrap(), Arc::<Count>::default());
    let counted = connections.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.taken.fetch_add(1, Relaxed);
            let (answer, counted) = (answer.clone(), counted.clone());
            tokio::spawn(async move {
                let mut options = h2::server::Builder::new();
                options.max_concurrent_streams(streams);
                let mut connection = options.handshake(stream).await.unwrap();
                while let Some(Ok((request, reply))) = connection.accept().await {
                    if !answer(request, reply) {
                        connection.graceful_shutdown();
                    }
                }
                counted.ended.fetch_add(1, Relaxed);
            });
        }
    });
    (address, connections)
}

/// Responds immediately.
fn ok(_: Request<RecvStream>, mut reply: SendResponse<Bytes>) -> bool {
    reply.send_response(Response::new(()), true).is_ok()
}

fn upstream(address: SocketAddr) -> Upstream {
    let connect_timeout = Some(Duration::from_secs(10));
    Upstream { repeatable: false, connect_timeout, ..Upstream::to(address, UpstreamProtocol::Grpc) }
}

/// Obtains a place on a connection, of which any number is admitted.
async fn obtain(upstream: &Upstream, size: usize, share: usize) -> Result<StreamPermit, FailureKind> {
    let drain = Drain::new();
    let mut gate = ConnectionGate { in_flight: None, clients: &drain, may_wait: true };
    obtain_http2::obtain(upstream, &mut gate, &mut None, size, share).await
}

async fn stream_permit(upstream: &Upstream) -> StreamPermit {
    obtain(upstream, 4, 4).await.unwrap()
}

/// Performs one request and returns its response.
async fn exchange(stream_permit: &StreamPermit) -> Result<Response<RecvStream>, h2::Error> {
    let request = Request::get("http://a.example/").body(()).unwrap();
    stream_permit.send(request, true)?.0.await
}

#[tokio::test]
async fn requests_share_connections_as_far_as_the_endpoint_allows() {
    let (address, connections) = endpoint(2, ok).await;
    let upstream = upstream(address);
    let places = futures::future::join_all((0..5).map(|_| stream_permit(&upstream))).await;
    for stream_permit in &places {
        assert!(exchange(stream_permit).await.is_ok());
    }
    let made = connections.taken.load(Relaxed);
    assert!((3..=5).contains(&made), "{made}");
    drop(places);
    let again = take(&upstream).expect("those are idle");
    assert!(again.reused && exchange(&again).await.is_ok());
    assert_eq!(connections.taken.load(Relaxed), made);
    let other = Upstream { protocol: UpstreamProtocol::GrpcsUnverified, ..upstream };
    assert!(take(&other).is_none(), "what is trusted in another way is not the same");
}

#[tokio::test]
async fn uploads_do_not_stall_while_others_take_places() {
    for streams in [1, 50] {
        let echo = |mut request: Request<RecvStream>, mut reply: SendResponse<Bytes>| {
            tokio::spawn(async move {
                while request.body_mut().data().await.is_some() {}
                reply.send_response(Response::new(()), true)
            });
            true
        };
        let (address, _) = endpoint(streams, echo).await;
        let upstream = &upstream(address);
        drop(stream_permit(upstream).await);
        for round in 0..20 {
            // All requests are polled first in the same turn, before the connection sends anything.
            let posts = (0..2 * streams).map(|_| async {
                let stream_permit = stream_permit(upstream).await;
                let request = Request::post("http://a.example/").body(()).unwrap();
                let (response, mut body) = stream_permit.send(request, false).unwrap();
                body.reserve_capacity(5);
                while body.capacity() == 0 {
                    poll_fn(|cx| body.poll_capacity(cx)).await.unwrap().unwrap();
                }
                body.send_data(Bytes::from_static(b"hello"), true).unwrap();
                response.await.unwrap()
            });
            let posts = futures::future::join_all(posts);
            let done = tokio::time::timeout(Duration::from_secs(30), posts).await;
            assert!(done.is_ok(), "round {round} with {streams} streams stalls");
        }
    }
}

#[tokio::test]
async fn a_connection_ends_after_its_requests_and_its_time() {
    let (address, connections) = endpoint(100, ok).await;
    let mut upstream = upstream(address);
    upstream.keep_alive.requests = 2;
    for _ in 0..4 {
        assert!(exchange(&stream_permit(&upstream).await).await.is_ok());
    }
    assert_eq!(connections.taken.load(Relaxed), 2);
    drop(stream_permit(&upstream).await);
    let aged = KeepAlive { age: Duration::ZERO, ..upstream.keep_alive };
    assert!(take(&Upstream { keep_alive: aged, ..upstream.clone() }).is_none());
    let _place = obtain(&upstream, 0, 0).await.unwrap();
    assert!(take(&upstream).is_none(), "with no room for idle ones, each request has its own");
}

#[tokio::test]
async fn connections_to_an_address_that_has_left_serve_no_more_requests() {
    let (address, connections) = endpoint(100, ok).await;
    let before = upstream(address);
    let used = stream_permit(&before).await;
    assert!(exchange(&used).await.is_ok());
    before.endpoint.leave();
    let after = upstream(address);
    assert!(take(&after).is_none(), "another Service has the address");
    let late = stream_permit(&before).await;
    assert!(exchange(&late).await.is_ok(), "a request that chose it before it left is served");
    assert_eq!(connections.taken.load(Relaxed), 2);
    drop((used, late));
    until("both connections have ended", || connections.ended.load(Relaxed) == 2).await;
    before.endpoint.join();
    let again = Upstream { membership: before.endpoint.membership(), ..before.clone() };
    assert!(take(&again).is_none(), "it is a member again, perhaps with another Pod");
}

#[tokio::test]
async fn another_attempt_never_goes_over_a_connection_from_before() {
    let (address, connections) = endpoint(100, ok).await;
    let first = upstream(address);
    drop(stream_permit(&first).await);
    let again = Upstream { fresh: true, began: Instant::now(), ..first };
    assert!(take(&again).is_none());
    // Many requests that fail together share the new connection.
    let places = futures::future::join_all((0..10).map(|_| stream_permit(&again))).await;
    for stream_permit in &places {
        assert!(exchange(stream_permit).await.is_ok());
    }
    assert_eq!((places.len(), connections.taken.load(Relaxed)), (10, 2));
}

#[tokio::test]
async fn streams_above_a_goaway_were_not_processed() {
    let last = |request, reply| {
        ok(request, reply);
        false
    };
    let (address, connections) = endpoint(100, last).await;
    let upstream = upstream(address);
    assert!(exchange(&stream_permit(&upstream).await).await.is_ok());
    let began = Instant::now();
    while let Some(stream_permit) = take(&upstream) {
        // The request was in transit when the endpoint sent GOAWAY.
        match exchange(&stream_permit).await {
            Ok(_) => {}
            Err(error) => {
                let progress = StreamProgress { heard: false, response_started: false, replayable: true };
                let failure = StreamError::of(&error).failure(&stream_permit, progress);
                assert!(failure.stale && !failure.sent, "{error:?} {failure:?}");
            }
        }
        assert!(began.elapsed() < Duration::from_secs(30));
    }
    assert!(exchange(&stream_permit(&upstream).await).await.is_ok());
    assert_eq!(connections.taken.load(Relaxed), 2);
}

#[tokio::test]
async fn resets_say_whether_the_request_was_looked_at() {
    for (reason, unseen) in [(h2::Reason::REFUSED_STREAM, true), (h2::Reason::CANCEL, false)] {
        let (address, _) = endpoint(100, move |_, mut reply| {
            reply.send_reset(reason);
            true
        })
        .await;
        let stream_permit = stream_permit(&upstream(address)).await;
        let stream_error = StreamError::of(&exchange(&stream_permit).await.unwrap_err());
        let failure = stream_error.failure(
            &stream_permit,
            StreamProgress { heard: false, response_started: false, replayable: true },
        );
        assert_eq!((failure.stale, failure.sent), (unseen, !unseen), "{reason}");
        assert_eq!(stream_error.reset, (!unseen).then_some(reason));
        assert_eq!(failure.kind, FailureKind::Broken);
    }
}

#[tokio::test]
async fn bytes_to_a_closed_connection_were_never_read() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = upstream(listener.local_addr().unwrap());
    let (stream_permit, accepted) = tokio::join!(stream_permit(&upstream), listener.accept());
    let stream = accepted.unwrap().0.into_std().unwrap();
    let request = Request::post("http://a.example/").body(()).unwrap();
    let (response, _body) = stream_permit.send(request, false).unwrap();
    // The endpoint closes the connection before the head was sent.
    drop(stream);
    let stream_error = StreamError::of(&response.await.unwrap_err());
    let failure = stream_error
        .failure(&stream_permit, StreamProgress { heard: false, response_started: false, replayable: true });
    assert_eq!((failure.kind, failure.stale), (FailureKind::Broken, false), "it was new");
}

#[tokio::test]
async fn an_endpoint_that_speaks_something_else_has_no_valid_response() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = upstream(listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await.unwrap();
        std::future::pending::<()>().await;
    });
    let stream_permit = stream_permit(&upstream).await;
    let stream_error = StreamError::of(&exchange(&stream_permit).await.unwrap_err());
    assert_eq!(stream_error.kind, FailureKind::InvalidHead);
}

#[tokio::test]
async fn waiting_for_a_shared_connection_ends_with_the_own_deadline() {
    // The endpoint accepts connections and sends nothing, so the first request has the only free
    // stream.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut upstream = upstream(listener.local_addr().unwrap());
    upstream.connect_timeout = Some(Duration::from_millis(50));
    let first = stream_permit(&upstream).await;
    let second = obtain(&upstream, 4, 4).await;
    assert_eq!(second.unwrap_err(), FailureKind::ConnectTimeout);
    drop(first);
    assert!(take(&upstream).is_some());
}

#[tokio::test]
async fn endpoints_sent_as_much_as_ever_while_memory_was_short() {
    budget::serve(Budget::new(1 << 20));
    let sent: Arc<Mutex<Vec<usize>>> = Arc::default();
    let counts = sent.clone();
    // Sends as many bytes as flow control allows.
    let (address, _) = endpoint(100, move |_, mut reply| {
        let mut body = reply.send_response(Response::new(()), false).unwrap();
        let counts = counts.clone();
        let number = {
            let mut counts = counts.lock().unwrap();
            counts.push(0);
            counts.len() - 1
        };
        tokio::spawn(async move {
            body.reserve_capacity(1 << 20);
            while let Some(Ok(room)) = poll_fn(|cx| body.poll_capacity(cx)).await {
                body.send_data(vec![0_u8; room].into(), false).unwrap();
                counts.lock().unwrap()[number] += room;
            }
        });
        true
    })
    .await;
    let stream_permit = stream_permit(&upstream(address)).await;
    let mut responses = vec![exchange(&stream_permit).await.unwrap()];
    let sent = &sent;
    let comes = |bytes| until("as much as may come", move || sent.lock().unwrap().last() == Some(&bytes));
    comes(128 * 1024).await;
    let mut share = Reservation::default();
    for (held, window) in [(900, 4 * 1024), (600, 16 * 1024), (0, 128 * 1024)] {
        share.hold(held * 1024);
        // The first request causes the SETTINGS update; the second one starts after the endpoint
        // applied it.
        for _ in 0..2 {
            responses.push(exchange(&stream_permit).await.unwrap());
        }
        comes(window).await;
    }
}

#[tokio::test]
async fn a_refusal_ends_the_wait_of_all_requests() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let upstream = upstream(address);
    let all = (0..10).map(|_| async { obtain(&upstream, 4, 4).await.unwrap_err() });
    assert_eq!(futures::future::join_all(all).await, [FailureKind::Connect; 10]);
}

#[tokio::test]
async fn an_endpoint_that_sends_empty_data_lost_every_hundredth_call() {
    let answer = |_, mut reply: SendResponse<Bytes>| {
        let mut body = reply.send_response(Response::new(()), false).unwrap();
        body.send_data(Bytes::new(), false).unwrap();
        body.send_data(Bytes::from_static(b"x"), true).is_ok()
    };
    let (address, connections) = endpoint(100, answer).await;
    let upstream = upstream(address);
    for call in 0..250 {
        let stream_permit = stream_permit(&upstream).await;
        let mut body = exchange(&stream_permit).await.unwrap().into_body();
        assert_eq!(body.data().await.unwrap().unwrap(), "x", "{call}");
    }
    assert_eq!(connections.taken.load(Relaxed), 1);
}
