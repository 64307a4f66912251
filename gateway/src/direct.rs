//! The direct driver: HTTP/1 clients to HTTP/1.1 endpoints, without Pingora's `HttpProxy`.
//!
//! That is what nearly all requests are, and for them `HttpProxy` does much that is not needed: two tasks with a
//! channel between them, clones of every head, buffers that are cold whenever they are used. This driver parses
//! a head where it was read, lets the same pipeline judge and change it, and writes it on; bodies pass through
//! one buffer of the worker. Whatever is another protocol (upgrades, HTTP/2 endpoints) is handed to `proxy`
//! together with what the pipeline has begun. No policy knows which driver runs, and where the two differ, one
//! of them has a bug.
//!
//! | file | what |
//! |---|---|
//! | `request`, `response` | heads: for the pipeline, strict reading, writing |
//! | `relay` | one try, both directions; `upload` and `download` are one each |
//! | `upstream`, `pool` | connections to endpoints |
//! | `limits`, `alarm` | time |
//! | `scratch`, `backlog` | memory |

pub(crate) mod alarm;
mod backlog;
mod download;
mod limits;
mod pool;
mod relay;
mod request;
mod response;
mod scratch;
#[cfg(any(test, feature = "fuzzing"))]
pub mod trial;
mod upload;
mod upstream;

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use http::{Method, StatusCode};
use sluice_config::UpstreamProtocol;

use crate::connection::ConnectionInfo;
use crate::connection::answer::write_head;
use crate::connection::framing::Framing;
use crate::connection::head::Head;
use crate::connection::wire::Wire;
use crate::pipeline::{Answer, Exchange, Failure, FailureKind, Next, Outcome, Verdict};
use crate::worker::Worker;
use alarm::Alarm;
use download::Download;
use limits::Limits;
use relay::{Client, End, Relay};
use upload::{Outgoing, Upload};

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
    /// It broke off.
    Broken,
    /// It is for `HttpProxy`: the pipeline has begun, and says "forward".
    Begun(Box<Exchange>, Head),
}

/// How the tries of a request ended.
enum Tried {
    /// With a response that went out; says whether the connection goes on.
    Relayed { keep: bool, ended: Instant },
    /// With an answer of ours.
    Answer(Answer),
    /// With nothing that could be told to the client.
    Aborted,
}

impl Driver {
    /// Whether the direct driver takes a request with this head.
    pub(crate) fn takes(self, head: &Head) -> bool {
        match self {
            Self::Auto => !head.http_1_0,
            Self::Proxy => false,
            Self::Direct => true,
        }
    }
}

/// Serves one request.
pub(crate) async fn serve(turn: Turn<'_>, mut head: Head) -> Served {
    let (mut exchange, verdict) = Exchange::begin(&turn.worker.state, turn.info, &request::view(&head));
    let mut upload = Upload::new(head.framing, head.expects_continue);
    let mut download = Download::default();
    let client = Client { http_1_0: head.http_1_0, keep: !turn.last && request::keeps_alive(&head) };
    let Turn { worker, wire, alarm, .. } = turn;
    let tried = match verdict {
        Verdict::Answer(answer) => Tried::Answer(answer),
        Verdict::Forward if request::asks_for_upgrade(&head) || !speaks_http1(&exchange) => {
            return Served::Begun(Box::new(exchange), head);
        }
        Verdict::Forward => {
            let ends = Ends { worker, wire: &mut *wire, alarm: &mut *alarm, client };
            tries(ends, &mut exchange, &mut head, &mut upload, &mut download).await
        }
    };
    let mut ended = None;
    let (status, served, aborted) = match tried {
        Tried::Relayed { keep, ended: at } => {
            ended = Some(at);
            (Some(download.response.status), Served::Whole { framing: upload.framing, keep }, false)
        }
        Tried::Answer(answer) => {
            let keep = client.keep && !answer.close && !worker.drain.is_draining() && upload.can_drain();
            let written = write(&answer, keep, &head.method, wire, alarm, &mut download).await;
            match written {
                Ok(()) => (Some(answer.status), Served::Whole { framing: upload.framing, keep }, false),
                Err(_) => (None, Served::Broken, true),
            }
        }
        Tried::Aborted => (download.started.then_some(download.response.status), Served::Broken, true),
    };
    exchange.end(Outcome {
        status,
        body_sent: download.body_out(),
        bytes_sent: download.sent,
        body_received: upload.received,
        upstream_received: download.received,
        aborted,
        ended,
    });
    served
}

/// Whether this driver can speak to the endpoints that the request is for.
fn speaks_http1(exchange: &Exchange) -> bool {
    match exchange.protocol() {
        Some(UpstreamProtocol::Http | UpstreamProtocol::HttpsUnverified) => true,
        // Without a pool there is an answer, which either driver can write.
        None => true,
    }
}

/// What the tries of a request share of its connection.
struct Ends<'c> {
    worker: &'c Arc<Worker>,
    wire: &'c mut Wire,
    alarm: &'c mut Alarm,
    client: Client,
}

/// Tries endpoints until one answers, or the pipeline has had enough.
async fn tries(
    ends: Ends<'_>,
    exchange: &mut Exchange,
    head: &mut Head,
    upload: &mut Upload,
    download: &mut Download,
) -> Tried {
    let Ends { worker, wire, alarm, client } = ends;
    let mut first = true;
    loop {
        let upstream = match exchange.pick() {
            Ok(upstream) => upstream,
            Err(answer) => return Tried::Answer(answer),
        };
        let (size, body_timeout) = {
            let tuning = worker.state.tuning.load();
            (tuning.upstream_keepalive_connections, tuning.client_body_timeout)
        };
        let pooled = pool::take(&upstream);
        let mut connection = match pooled {
            Some(connection) => connection,
            // In a box: rare and large.
            None => match Box::pin(upstream::connect(&upstream)).await {
                Ok(connection) => connection,
                Err(kind) => {
                    let replayable = upload.is_replayable();
                    let failure =
                        Failure { kind, stale: false, sent: false, replayable, response_started: false };
                    match follow(exchange.failed(failure), kind) {
                        Some(tried) => return tried,
                        None => continue,
                    }
                }
            },
        };
        exchange.connected(upstream.address, connection.reused);
        if !std::mem::take(&mut first) {
            request::restore(head);
        }
        exchange.upstream_request(&mut head.fields);
        let last = size == 0 || connection.served + 1 >= upstream.keep_alive.requests;
        download.begin();
        upload.begin();
        let mut relay = Relay {
            wire: &mut *wire,
            alarm: &mut *alarm,
            drain: &worker.drain,
            exchange: &mut *exchange,
            upload: &mut *upload,
            download: &mut *download,
            connection: &mut connection,
            upstream: &upstream,
            client,
            outgoing: Outgoing { head, last, client: body_timeout, endpoint: upstream.send_timeout },
            limits: Limits::default(),
            waited: false,
        };
        match poll_fn(|cx| relay.poll(cx)).await {
            End::Whole => {
                let (keep, ended) = (relay.client.keep, Instant::now());
                if relay.is_reusable() {
                    pool::put(connection, &upstream, size, ended);
                }
                return Tried::Relayed { keep, ended };
            }
            End::Retry => {}
            End::Failed(failure) => {
                if let Some(tried) = follow(exchange.failed(failure), failure.kind) {
                    return tried;
                }
            }
        }
    }
}

/// What the pipeline says to a failed try; `None` is another one.
fn follow(next: Next, kind: FailureKind) -> Option<Tried> {
    match next {
        Next::Retry => None,
        // Who let us wait for a body would do so again.
        Next::Answer(answer) => Some(Tried::Answer(Answer {
            close: answer.close || kind == FailureKind::ClientTimeout,
            ..answer
        })),
        Next::Relay | Next::Abort => Some(Tried::Aborted),
    }
}

/// Writes an answer of our own.
async fn write(
    answer: &Answer,
    keep: bool,
    method: &Method,
    wire: &mut Wire,
    alarm: &mut Alarm,
    download: &mut Download,
) -> io::Result<()> {
    let mut head = Vec::with_capacity(512 + answer.body.len());
    write_head(answer, keep, &mut head);
    let body = match *method == Method::HEAD || answer.status == StatusCode::NO_CONTENT {
        true => &[][..],
        false => &answer.body[..],
    };
    let (mut limits, mut begun) = (Limits::default(), false);
    poll_fn(|cx| {
        if !std::mem::replace(&mut begun, true) {
            download.send(cx, &mut wire.transport, &mut head, body)?;
        }
        let flushed = download.poll_flush(cx, &mut wire.transport, &mut limits);
        if flushed.is_pending() && limits.poll(cx, alarm).is_ready() {
            return std::task::Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        flushed
    })
    .await?;
    download.body_sent = body.len() as u64;
    Ok(())
}
