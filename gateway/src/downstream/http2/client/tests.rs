use std::sync::Arc;

use h2::client;
use http::Request;
use tokio::task::JoinHandle;

use super::*;
use crate::downstream::http2::Streams;

/// Bytes that the client accepts before it reads any.
const WINDOW: u32 = 100;

/// Both ends of one stream.
struct Pair {
    downstream: Client,
    response: client::ResponseFuture,
    _sender: client::SendRequest<Bytes>,
    _tasks: [JoinHandle<()>; 2],
}

impl Pair {
    async fn new() -> Self {
        let (ours, theirs) = tokio::io::duplex(1024 * 1024);
        let builder = h2::server::Builder::new();
        let mut options = client::Builder::new();
        options.initial_window_size(WINDOW);
        let (connection, made) = tokio::join!(builder.handshake::<_, Bytes>(ours), options.handshake(theirs));
        let (mut connection, (mut sender, client)) = (connection.unwrap(), made.unwrap());
        let client = tokio::spawn(async move { client.await.unwrap() });
        let request = Request::get("http://a.example/").body(()).unwrap();
        let (response, _) = sender.send_request(request, true).unwrap();
        let (request, reply) = connection.accept().await.unwrap().unwrap();
        let open = Arc::<Streams>::default().open();
        let downstream = Client::new(request.into_body(), reply, Framing::NONE, FieldNames::ANY, open);
        let server = tokio::spawn(async move { while connection.accept().await.is_some() {} });
        Self { downstream, response, _sender: sender, _tasks: [client, server] }
    }
}

fn answer(length: usize) -> Answer {
    Answer { body: vec![b'x'; length].into(), ..Answer::empty(StatusCode::OK) }
}

#[tokio::test]
async fn bytes_beyond_the_windows_wait_with_a_deadline() {
    let Pair { mut downstream, response, _sender, _tasks } = Pair::new().await;
    let mut cx = Context::from_waker(Waker::noop());
    downstream.answer(&mut cx, &answer(1000), false).unwrap();
    let mut deadlines = Deadlines::default();
    assert!(downstream.poll_flush(&mut cx, &mut deadlines).is_pending());
    assert_eq!((downstream.sent().1, downstream.reply.waiting()), (100, 900));
    assert!(deadlines.stall.runs());
    let mut body = response.await.unwrap().into_body();
    let reading = async {
        let mut read = 0;
        while let Some(piece) = body.data().await {
            let length = piece.unwrap().len();
            read += length;
            body.flow_control().release_capacity(length).unwrap();
        }
        read
    };
    let flushing = std::future::poll_fn(|cx| downstream.poll_flush(cx, &mut deadlines));
    let (read, flushed) = tokio::join!(reading, flushing);
    assert_eq!((read, flushed), (1000, Ok(())));
    assert!(!deadlines.stall.runs() && downstream.sent().1 == 1000);
}

#[tokio::test]
async fn a_reset_by_the_client_differs_from_our_own() {
    let Pair { mut downstream, response, _sender, _tasks } = Pair::new().await;
    assert!(!downstream.reset());
    assert!(response.await.unwrap_err().is_reset());
    let Pair { mut downstream, response, _sender, _tasks } = Pair::new().await;
    drop(response);
    std::future::poll_fn(|cx| downstream.poll_client_closed(cx, false)).await;
    assert!(downstream.reset());
}

#[tokio::test]
async fn a_body_that_has_arrived_is_given_whole_and_again() {
    let (ours, theirs) = tokio::io::duplex(1024 * 1024);
    let builder = h2::server::Builder::new();
    let (connection, made) = tokio::join!(builder.handshake::<_, Bytes>(ours), client::handshake(theirs));
    let (mut connection, (mut sender, client)) = (connection.unwrap(), made.unwrap());
    tokio::spawn(async move { client.await.unwrap() });
    let request = Request::post("http://a.example/").header("content-length", 30_000).body(()).unwrap();
    let (_response, mut upload) = sender.send_request(request, false).unwrap();
    upload.send_data(Bytes::from_static(&[b'x'; 20_000]), false).unwrap();
    let (request, reply) = connection.accept().await.unwrap().unwrap();
    tokio::spawn(async move { while connection.accept().await.is_some() {} });
    let (body, open) = (request.into_body(), Arc::<Streams>::default().open());
    let mut downstream = Client::new(body, reply, Framing::Length(30_000), FieldNames::PLAIN, open);
    let mut cx = Context::from_waker(Waker::noop());
    while downstream.body.flow_control().used_capacity() < 20_000 {
        tokio::task::yield_now().await;
    }
    assert!(!downstream.gather(&mut cx), "a part of it");
    upload.send_data(Bytes::from_static(&[b'y'; 10_000]), true).unwrap();
    while !downstream.gather(&mut cx) {
        tokio::task::yield_now().await;
    }
    assert_eq!(downstream.body.flow_control().used_capacity(), 0, "the client may send as much again");
    for fresh in [30_000, 0] {
        assert!(downstream.rewind() && downstream.has_whole_body() && !downstream.is_spent());
        let given = downstream.poll_body(&mut cx, |_, bytes, data| {
            assert_eq!((bytes.len(), bytes[19_999], bytes[20_000], data), (30_000, b'x', b'y', fresh));
        });
        assert_eq!(given, Poll::Ready(Ok(())));
        assert!(downstream.is_spent());
    }
}
