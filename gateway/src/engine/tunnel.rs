//! A request whose endpoint has switched protocols (RFC 9110 §7.8): bytes pass both ways without
//! inspection. The client's side is its connection, or a stream of HTTP/2.
//!
//! The end of one direction is passed on, and the other direction continues; nginx and `HttpProxy`
//! end both and lose the rest of the other side's data. All other state of the request is dropped,
//! because most of these connections are idle for a long time.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::io::alarm::Alarm;
use crate::io::deadlines::{Deadlines, STALL};
use crate::io::flow::Flow;
use crate::io::transport::Transport;
use crate::pipeline::{Exchange, ExchangeOutcome};
use crate::process::descriptors::DescriptorPermit;
use crate::upstream::connection::Connection;

/// The client's side of a tunnel.
pub(crate) trait TunnelClient: AsyncRead + AsyncWrite + Unpin {
    /// Ready when the client has cancelled the tunnel, also while nothing is read from it.
    fn poll_cancelled(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl TunnelClient for Transport {}

/// Both directions, from the response head to the end. Dropping it ends the exchange.
#[derive(Debug)]
pub(crate) struct Tunnel {
    exchange: Box<Exchange>,
    /// The status that the client received.
    status: StatusCode,
    endpoint: Transport,
    _place: DescriptorPermit,
    up: Flow,
    down: Flow,
    /// Bytes of heads that were sent to the client, or wait for it.
    heads: u64,
    deadlines: Deadlines,
    /// Time limit for any bytes, in either direction (nginx's `proxy_read_timeout`).
    idle: Option<Duration>,
    /// Time limit for the endpoint to accept more bytes.
    time_limit: Option<Duration>,
    whole: bool,
}

/// The exchange and the endpoint of a request after a protocol switch.
#[derive(Debug)]
pub(crate) struct Switched {
    pub(super) exchange: Box<Exchange>,
    pub(super) endpoint: TunnelEndpoint,
}

/// The endpoint side of a tunnel.
#[derive(Debug)]
pub(super) struct TunnelEndpoint {
    pub(super) connection: Connection,
    /// Time limit for any bytes, in either direction.
    pub(super) read_timeout: Option<Duration>,
    /// Time limit for the endpoint to accept more bytes.
    pub(super) send_timeout: Option<Duration>,
    /// The client-to-endpoint direction so far.
    pub(super) up: Flow,
}

impl Tunnel {
    /// A tunnel behind a response with this status. The client has sent `ahead` behind its request.
    pub(crate) fn new(
        switched: Switched,
        status: StatusCode,
        ahead: &[u8],
        down: Flow,
        heads: u64,
    ) -> Box<Self> {
        let Switched { exchange, endpoint } = switched;
        let TunnelEndpoint { connection, read_timeout: idle, send_timeout: time_limit, mut up } = endpoint;
        let Connection { stream: endpoint, place: _place, .. } = connection;
        up.push(ahead);
        let (deadlines, whole) = (Deadlines::default(), false);
        Box::new(Self {
            exchange,
            status,
            endpoint,
            _place,
            up,
            down,
            heads,
            deadlines,
            idle,
            time_limit,
            whole,
        })
    }

    /// Relays until both sides have ended, or one breaks off, or a limit is over. Returns whether
    /// both have ended.
    pub(crate) async fn run(mut self: Box<Self>, client: &mut impl TunnelClient, alarm: &mut Alarm) -> bool {
        self.whole = poll_fn(|cx| self.poll(cx, client, alarm)).await.is_ok();
        self.whole
    }

    /// Relays as far as possible.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut impl TunnelClient,
        alarm: &mut Alarm,
    ) -> Poll<io::Result<()>> {
        let Self { endpoint, up, down, deadlines, .. } = self;
        if client.poll_cancelled(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        // Both before either's failure is looked at: who takes no more may have said something
        // before that.
        let (sent, received) = (up.poll(cx, client, endpoint), down.poll(cx, endpoint, client));
        if (sent?, received?) == (Poll::Ready(()), Poll::Ready(())) {
            return Poll::Ready(Ok(()));
        }
        let moved =
            [up.wait(&mut deadlines.send, self.time_limit), down.wait(&mut deadlines.stall, Some(STALL))];
        if moved.contains(&true) {
            deadlines.read.end();
        }
        deadlines.read.begin(self.idle);
        deadlines.poll(cx, alarm).map(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let waiting = self.down.waiting();
        self.exchange.end(ExchangeOutcome {
            status: Some(self.status),
            body_sent: self.down.read().saturating_sub(waiting),
            bytes_sent: (self.heads + self.down.read()).saturating_sub(waiting),
            body_received: self.up.read(),
            upstream_received: self.down.read(),
            aborted: !self.whole,
            ended: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::time::advance;

    use super::*;
    use crate::io::transport::tests::pair;
    use crate::io::write_buffer::WriteBuffer;
    use crate::pipeline::tests::fixture::{Plane, Request};

    /// Thousands of tunnels are idle at any time.
    #[test]
    fn it_is_small() {
        assert!(size_of::<Tunnel>() <= 984, "{} bytes", size_of::<Tunnel>());
    }

    #[tokio::test(start_paused = true)]
    async fn one_side_alone_keeps_it_going_until_it_is_silent_too() {
        const IDLE: Duration = Duration::from_secs(60);
        // The paused clock advances only on request while a blocking thread is busy.
        let (_busy, ended) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || ended.recv());
        let ((client, mut from_client), (stream, _endpoint)) = (pair().await, pair().await);
        let (mut client, stream) = (Transport::Plain(client), Transport::Plain(stream));
        let exchange = Plane::simple(&[1]).forward(&Request::get("a.example", "/"));
        let (made, place) = (std::time::Instant::now(), DescriptorPermit::for_open());
        let connection = Connection { stream, place, made, served: 0, reused: false };
        let endpoint = TunnelEndpoint {
            connection,
            read_timeout: Some(IDLE),
            send_timeout: Some(IDLE),
            up: Flow::after(WriteBuffer::default(), 0),
        };
        let switched = Switched { exchange, endpoint };
        let status = StatusCode::SWITCHING_PROTOCOLS;
        let mut tunnel = Tunnel::new(switched, status, &[], Flow::default(), 0);
        let mut alarm = Alarm::default();
        for count in 1..=5 {
            advance(IDLE - Duration::from_millis(1)).await;
            from_client.write_all(b"x").await.unwrap();
            poll_fn(|cx| match tunnel.poll(cx, &mut client, &mut alarm) {
                Poll::Pending if tunnel.up.read() == count => Poll::Ready(()),
                Poll::Pending => Poll::Pending,
                Poll::Ready(end) => panic!("{end:?} after {count}"),
            })
            .await;
        }
        advance(IDLE).await;
        let end = poll_fn(|cx| tunnel.poll(cx, &mut client, &mut alarm)).await;
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
