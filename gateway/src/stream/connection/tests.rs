use std::future::poll_fn;

use sluice_config::{ServiceRef, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::advance;

use super::*;
use crate::io::transport::tests::pair;
use crate::pipeline::tests::fixture::{Plane, pool_key};

fn size<A, F>(_: fn(A) -> F) -> usize {
    size_of::<F>()
}

/// An idle stream holds at most 2 KiB besides its sockets: the relay, for which 512 bytes are the
/// next smaller block of the allocator, the task of the connection (at most 280 bytes, tested
/// there) and tokio's timer and two registrations.
#[test]
fn an_idle_stream_is_small() {
    let (future, relay) = (size(StreamConnection::serve), size_of::<Relay>());
    assert!(future <= 96 && relay <= 512, "{future} and {relay} bytes");
}

/// A relay between a client and an endpoint.
struct Relayed {
    relay: Relay,
    client: TcpStream,
    endpoint: TcpStream,
}

impl Relayed {
    async fn new(sends_proxy: bool, ahead: &[u8], idle: Duration) -> Self {
        let mut plane = Plane::simple(&[1]);
        let stream = Stream {
            pool: pool_key("web"),
            service: ServiceRef { namespace: "shop".into(), name: "web".into(), port: "80".into() },
            accepts_proxy: false,
            sends_proxy,
        };
        let route = plane.stream(stream);
        let (ours, client) = pair().await;
        let (upstream, endpoint) = pair().await;
        let peer = ([192, 0, 2, 7], 4711).into();
        let begun = (1, Instant::now());
        let mut session =
            StreamSession::new(&plane.state, route.clone(), TransportProtocol::Tcp, begun, peer);
        session.server = Some(([192, 0, 2, 1], 5432).into());
        let request = crate::registry::PickRequest { key: None, tried: &[], now: Instant::now() };
        let in_flight = route.pool.pick(&request).unwrap().enter();
        let connection = Connection {
            stream: Transport::Plain(upstream),
            place: DescriptorPermit::for_open(),
            made: Instant::now(),
            served: 0,
            reused: false,
        };
        let relay = Relay::new(ours, ahead, session, connection, in_flight, idle);
        Self { relay, client, endpoint }
    }
}

#[tokio::test]
async fn a_proxy_line_precedes_what_was_read_ahead() {
    let Relayed { mut relay, mut client, mut endpoint } =
        Relayed::new(true, b"hello", Duration::from_secs(60)).await;
    let relay = tokio::spawn(async move { relay.run().await });
    client.write_all(b" world").await.unwrap();
    client.shutdown().await.unwrap();
    let mut text = String::new();
    endpoint.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "PROXY TCP4 192.0.2.7 192.0.2.1 4711 5432\r\nhello world");
    endpoint.write_all(b"after the end").await.unwrap();
    drop(endpoint);
    let mut text = String::new();
    client.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "after the end", "one end leaves the other direction open");
    relay.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn bytes_of_either_side_keep_a_stream_until_both_are_silent() {
    const IDLE: Duration = Duration::from_secs(600);
    // The clock advances only where the test does it.
    let (_busy, ended) = std::sync::mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || ended.recv());
    let Relayed { mut relay, mut client, mut endpoint } = Relayed::new(false, b"", IDLE).await;
    let mut alarm = Alarm::default();
    for round in 1..=4 {
        advance(IDLE - Duration::from_millis(1)).await;
        let from = if round % 2 == 0 { &mut client } else { &mut endpoint };
        from.write_all(b"x").await.unwrap();
        poll_fn(|cx| match relay.poll(cx, &mut alarm) {
            Poll::Pending if relay.up.read() + relay.down.read() == round => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
            Poll::Ready(end) => panic!("{end:?} in round {round}"),
        })
        .await;
    }
    advance(IDLE).await;
    let end = poll_fn(|cx| relay.poll(cx, &mut alarm)).await;
    assert_eq!(end.unwrap_err().kind(), io::ErrorKind::TimedOut);
}
