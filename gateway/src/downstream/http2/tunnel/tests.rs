use std::future::poll_fn;
use std::sync::Arc;

use h2::client;
use http::Request;
use tokio::io::AsyncWriteExt;
use tokio::task::{JoinHandle, yield_now};

use super::*;
use crate::downstream::http2::Streams;
use crate::downstream::http2::window::INITIAL;
use crate::io::budget::{self, Budget};

/// Both ends of one stream.
struct Pair {
    streams: Arc<Streams>,
    server: TunnelStream,
    upload: SendStream<Bytes>,
    download: RecvStream,
    _sender: client::SendRequest<Bytes>,
    _tasks: [JoinHandle<()>; 2],
}

impl Pair {
    async fn new() -> Self {
        let (ours, theirs) = tokio::io::duplex(1024 * 1024);
        let builder = h2::server::Builder::new();
        let (connection, made) = tokio::join!(builder.handshake::<_, Bytes>(ours), client::handshake(theirs));
        let (mut connection, (mut sender, client)) = (connection.unwrap(), made.unwrap());
        // Its end depends on the test.
        let client = tokio::spawn(async move { drop(client.await) });
        let request = Request::post("http://a.example/").body(()).unwrap();
        let (response, upload) = sender.send_request(request, false).unwrap();
        let (request, mut reply) = connection.accept().await.unwrap().unwrap();
        let connection = tokio::spawn(async move { while connection.accept().await.is_some() {} });
        let (streams, mut body) = (Arc::<Streams>::default(), request.into_body());
        let mut open = streams.open();
        open.begin_body(body.flow_control().clone());
        let stream = reply.send_response(http::Response::new(()), false).unwrap();
        let server = TunnelStream::new(open, body, stream);
        let download = response.await.unwrap().into_body();
        Self { streams, server, upload, download, _sender: sender, _tasks: [client, connection] }
    }
}

#[tokio::test]
async fn bytes_that_are_not_read_occupy_the_window_and_are_released_at_the_end() {
    let Pair { streams, mut server, mut upload, .. } = Pair::new().await;
    upload.send_data(vec![b'x'; INITIAL].into(), false).unwrap();
    while server.body.flow_control().used_capacity() < INITIAL {
        yield_now().await;
    }
    let mut buffer = [0; 1000];
    let mut read = ReadBuf::new(&mut buffer);
    poll_fn(|cx| Pin::new(&mut server).poll_read(cx, &mut read)).await.unwrap();
    assert_eq!(read.filled(), [b'x'; 1000]);
    assert_eq!((server.open.waiting(), streams.take_released()), (INITIAL - 1000, 1000));
    server.end(false);
    assert_eq!((streams.have_bodies(), streams.take_released()), (false, INITIAL - 1000));
}

#[tokio::test]
async fn a_reset_is_seen_while_nothing_is_read() {
    let Pair { mut server, mut upload, .. } = Pair::new().await;
    assert!(server.poll_cancelled(&mut Context::from_waker(Waker::noop())).is_pending());
    upload.send_reset(Reason::CANCEL);
    poll_fn(|cx| server.poll_cancelled(cx)).await;
}

#[tokio::test]
async fn a_tunnel_that_breaks_off_is_reset() {
    let Pair { server, mut download, .. } = Pair::new().await;
    server.end(false);
    assert_eq!(download.data().await.unwrap().unwrap_err().reason(), Some(Reason::CANCEL));
}

#[tokio::test]
async fn bytes_that_the_client_has_not_received_are_reserved() {
    const LENGTH: usize = 50_000;
    let budget = Budget::new(1 << 20);
    budget::serve(budget.clone());
    let Pair { mut server, mut download, .. } = Pair::new().await;
    server.write_all(&[b'x'; LENGTH]).await.unwrap();
    assert!(budget.taken() >= LENGTH, "{}", budget.taken());
    let mut received = 0;
    while received < LENGTH {
        received += download.data().await.unwrap().unwrap().len();
    }
    assert!(budget.taken() < LENGTH, "{}", budget.taken());
}
