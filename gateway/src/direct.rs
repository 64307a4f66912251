//! The direct driver: HTTP/1 clients to HTTP/1.1 endpoints, without Pingora's `HttpProxy`.
//!
//! That is what nearly all requests are, and for them `HttpProxy` does much that is not needed: two tasks with a
//! channel between them, clones of every head, buffers that are cold whenever they are used. This driver parses
//! a head where it was read, lets the same pipeline judge and change it, and writes it on; bodies pass through
//! one buffer of the worker, and so does whatever an endpoint switches to. No policy knows which driver runs,
//! and where the two differ, one of them has a bug.
//!
//! | file | what |
//! |---|---|
//! | `tries`, `relay` | tries, and one try, both directions; `upload` and `download` are one each |
//! | `near`, `http1`, `http2` | the client's side |
//! | `tunnel` | both directions after a switch to another protocol |
//! | `connect`, `pool`, `upstream` | connections to endpoints |

mod connect;
mod download;
mod http1;
mod http2;
mod near;
mod pool;
pub(crate) mod questions;
mod relay;
mod tries;
pub(crate) mod tunnel;
mod upload;
mod upstream;

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::Version;

use crate::connection::http2::OpenStream;
use crate::connection::refusal::Refusal;
use crate::connection_info::ConnectionInfo;
use crate::io::alarm::Alarm;
use crate::io::wire::Wire;
use crate::message::field_names::FieldNames;
use crate::message::framing::Framing;
use crate::message::head::Head;
use crate::message::request;
use crate::pipeline::{Exchange, Verdict};
use crate::worker::Worker;
use connect::Watch;
use http1::Http1;
use http2::Http2;
use near::Near;
use questions::Decision;
use tries::{Ended, Run};
use tunnel::Tunnel;
use upload::Upload;

/// Which driver serves requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// This one for HTTP/1.1, `HttpProxy` for everything else.
    #[default]
    Auto,
    /// `HttpProxy` for everything.
    Proxy,
    /// This one for whatever it can do, HTTP/1.0 included.
    Direct,
}

/// A request whose turn it is on its connection.
pub(crate) struct Turn<'c> {
    pub(crate) worker: &'c Arc<Worker>,
    pub(crate) info: &'c Arc<ConnectionInfo>,
    pub(crate) wire: &'c mut Wire,
    pub(crate) alarm: &'c mut Alarm,
    /// It is the last one of the connection.
    pub(crate) last: bool,
}

/// What came of it.
pub(crate) enum Served {
    /// It was answered. `framing` is what the client has still to send, `keep` what it was told of the
    /// connection.
    Whole { framing: Framing, keep: bool },
    /// Another protocol goes on.
    Switched(Box<Tunnel>),
    /// It broke off.
    Broken,
}

impl Driver {
    /// Whether the direct driver takes connections of HTTP/2.
    pub(crate) fn takes_http2(self) -> bool {
        self != Self::Proxy
    }

    /// Whether the direct driver takes a request with this head.
    pub(crate) fn takes(self, head: &Head) -> bool {
        match self {
            Self::Auto => head.version != Version::HTTP_10,
            Self::Proxy => false,
            Self::Direct => true,
        }
    }
}

/// Serves one request of HTTP/1.
pub(crate) async fn serve(turn: Turn<'_>, head: Head) -> Served {
    let Turn { worker, info, wire, alarm, last } = turn;
    let (mut exchange, verdict) = Exchange::begin(&worker.state, info, &request::view(&head));
    let keep = !last && request::keeps_alive(&head);
    let upgrade = request::asks_for_upgrade(&head);
    let mut near = Http1::new(wire, &worker.drain, &head, keep);
    let upload = Upload::new(head.expects_continue && !near.is_spent());
    let decision = decide(verdict, &mut exchange, &head, &mut near).await;
    let run = Run { worker, near: &mut near, alarm, exchange, head, upload, upgrade };
    match run.run(decision).await {
        Ended::Whole { .. } => Served::Whole { framing: near.framing, keep: near.keep },
        Ended::Switched(switched) => Served::Switched(near.into_tunnel(*switched)),
        Ended::Broken { .. } => Served::Broken,
    }
}

/// What the verdict comes to. What the client sends while somebody is asked waits.
async fn decide(verdict: Verdict, exchange: &mut Exchange, head: &Head, near: &mut impl Near) -> Decision {
    if let Verdict::Ask(_) = verdict {
        near.set_stalled(!near.is_spent());
    }
    let mut watch = Watch::default();
    let left = poll_fn(|cx| watch.poll(cx, near));
    questions::decide(verdict, exchange, &request::view(head), left).await
}

/// Serves one stream of HTTP/2.
pub(crate) async fn serve_stream(
    worker: &Worker,
    info: &Arc<ConnectionInfo>,
    head: Head,
    body: RecvStream,
    reply: SendResponse<Bytes>,
    open: &OpenStream,
) {
    let (mut exchange, verdict) = Exchange::begin(&worker.state, info, &request::view(&head));
    let mut near = Http2::new(body, reply, head.framing, head.names, open);
    let upload = Upload::new(head.expects_continue && !near.is_spent());
    let alarm = &mut Alarm::default();
    let decision = decide(verdict, &mut exchange, &head, &mut near).await;
    let run = Run { worker, near: &mut near, alarm, exchange, head, upload, upgrade: false };
    match run.run(decision).await {
        Ended::Whole { drains } => {
            open.ended(false);
            near.settle(drains, worker).await;
        }
        // No stream asks for another protocol.
        Ended::Broken { asked } => open.ended(near.reset() && asked),
        Ended::Switched(_) => open.ended(near.reset()),
    }
}

/// Answers a stream that cannot be served.
pub(crate) async fn refuse_stream(
    worker: &Worker,
    info: &Arc<ConnectionInfo>,
    refusal: Refusal<'_>,
    body: RecvStream,
    reply: SendResponse<Bytes>,
    open: &OpenStream,
) {
    let Refusal { request_line, length, status } = refusal;
    let (exchange, answer) = Exchange::refuse(&worker.state, info, request_line, length, status);
    let mut near = Http2::new(body, reply, Framing::NONE, FieldNames::ANY, open);
    tries::refuse(exchange, &answer, &mut near).await;
    near.settle(true, worker).await;
}
