//! Where a request is served, whichever protocol its client speaks and whichever engine carries it.
//!
//! The loops of [`downstream`](crate::downstream) call [`serve`] with a head and a client side. The pipeline judges the
//! head; what it answers itself is sent from here, and what it forwards is carried by an engine that is chosen now,
//! when the protocol of the pool is known:
//!
//! | engine | what |
//! |---|---|
//! | `direct` | ours: HTTP/1.1 and HTTP/2 |
//! | `proxy` | Pingora's `ProxyHttp`: with `--driver proxy` |
//!
//! No policy knows which engine runs, and where the two differ, one of them has a bug. `tunnel` relays both directions
//! after a switch to another protocol.

mod answer;
pub(crate) mod call;
mod direct;
mod grpc;
mod heads;
mod jobs;
mod mirror;
pub(crate) mod proxy;
mod questions;
pub(crate) mod tunnel;
mod watch;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Instant;

use h2::Reason;
use http::{Method, StatusCode};

use crate::body::downstream::Downstream;
use crate::body::staged::Staged;
use crate::connection_info::ConnectionInfo;
use crate::driver::Driver;
use crate::io::alarm::Alarm;
use crate::io::budget::Share;
use crate::message::head::Head;
use crate::message::request;
use crate::pipeline::{Answer, Exchange, Failure, Next, Outcome, Question, RequestBody, Verdict};
use crate::snapshot::Snapshot;
use crate::worker::Worker;
use tunnel::Switched;
use watch::Watch;

/// How a request ended, as far as the client's connection has to know.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The client has a whole response.
    Whole,
    /// Another protocol goes on.
    Switched(Box<Switched>),
    /// It broke off. `asked` says that an endpoint was busy with it.
    Broken { asked: bool },
}

/// What an engine has made of a request.
enum Forwarded {
    /// The client has the endpoint's response, since then.
    Relayed(Instant),
    /// Another protocol is spoken from now on.
    Switched(tunnel::Endpoint),
    /// The client is to be told this.
    Answer(Answer),
    /// There is nothing that could be told to the client. `asked` says that an endpoint was busy with the request.
    Aborted { asked: bool },
}

/// What an engine has counted.
#[derive(Debug, Default)]
struct Counts {
    /// The status of the endpoint's response, once something of that went to the client.
    status: Option<StatusCode>,
    /// Bytes of the request body that came, free of their coding.
    received: u64,
    /// Bytes of the response body that the endpoint of the last attempt has sent, free of their coding.
    upstream_received: u64,
    /// With what the endpoint of the last attempt has reset its stream.
    reset: Option<Reason>,
}

/// Serves one request from its head to its log line, and gives its client side back. That is in a box, like the
/// exchange, because both change hands several times.
pub(crate) async fn serve<D: Downstream + Send + Sync + 'static>(
    worker: &Arc<Worker>,
    snapshot: Snapshot,
    info: &Arc<ConnectionInfo>,
    mut head: Head,
    mut downstream: Box<D>,
    alarm: &mut Alarm,
) -> (Box<D>, Ended) {
    let (mut exchange, verdict) = Exchange::begin(snapshot, info, &request::view(&head));
    let mut memory = Share::default();
    let verdict = match holds(&mut memory, &head) {
        true => verdict,
        false => Verdict::Answer(exchange.without_memory()),
    };
    let mut counts = Counts::default();
    let decided = match verdict {
        Verdict::Answer(answer) => Some(Forwarded::Answer(answer)),
        Verdict::Forward => None,
        // In a box: most requests ask nothing.
        Verdict::Ask(question) => {
            Box::pin(ask(worker, question, &mut exchange, &head, &mut *downstream)).await
        }
    };
    let forwarded = match decided {
        Some(forwarded) => forwarded,
        None => {
            let is_whole = downstream.has_whole_body();
            let upgrades = !is_whole && request::asks_for_upgrade(&head);
            let body = RequestBody { framing: head.framing, is_whole, upgrades };
            match exchange.bodies(&head.fields, body) {
                Err(answer) => Forwarded::Answer(answer),
                Ok(plan) if plan.is_empty() => {
                    let forwarded;
                    (downstream, exchange, forwarded) =
                        forward(worker, downstream, alarm, exchange, &mut head, &mut counts).await;
                    forwarded
                }
                Ok(plan) => {
                    let mirrors = plan.mirror;
                    let staged = Box::new(Staged::new(downstream, plan, head.framing, &worker.state.disk));
                    // In a box: most requests have no stage.
                    let staged =
                        forward_staged(worker, staged, mirrors, alarm, exchange, &mut head, &mut counts);
                    let forwarded;
                    (downstream, exchange, forwarded) = Box::pin(staged).await;
                    forwarded
                }
            }
        }
    };
    let mut outcome = Outcome {
        status: counts.status,
        body_received: counts.received,
        upstream_received: counts.upstream_received,
        ..Outcome::default()
    };
    let ended = match forwarded {
        Forwarded::Relayed(at) => {
            outcome.ended = Some(at);
            Ended::Whole
        }
        Forwarded::Switched(endpoint) => {
            return (downstream, Ended::Switched(Box::new(Switched { exchange, endpoint })));
        }
        Forwarded::Answer(mut answer) => {
            // What the log and the metrics say. A client of gRPC is told in its own way, and reads no page.
            let mut status = answer.status;
            if grpc::asks(&head) {
                grpc::convert(&mut answer, counts.reset);
            } else {
                let Some(page) = page(worker, answer, &exchange, &head, &mut *downstream).await else {
                    exchange.end(outcome.left(downstream.sent()));
                    return (downstream, Ended::Broken { asked: true });
                };
                status = page.status;
                answer = page;
            }
            let bare = head.method == Method::HEAD || answer.status == StatusCode::NO_CONTENT;
            exchange.log_answer(&answer);
            match answer::send(&answer, bare, &mut *downstream, alarm).await {
                Ok(()) => {
                    outcome.status = Some(status);
                    Ended::Whole
                }
                Err(_) => {
                    outcome.status = None;
                    Ended::Broken { asked: false }
                }
            }
        }
        Forwarded::Aborted { asked } => Ended::Broken { asked },
    };
    outcome.aborted = matches!(ended, Ended::Broken { .. });
    (outcome.bytes_sent, outcome.body_sent) = downstream.sent();
    exchange.end(outcome);
    (downstream, ended)
}

/// Has an engine carry a request, and gives back what that was given.
async fn forward<D: Downstream + Send + Sync + 'static>(
    worker: &Worker,
    mut downstream: Box<D>,
    alarm: &mut Alarm,
    mut exchange: Box<Exchange>,
    head: &mut Head,
    counts: &mut Counts,
) -> (Box<D>, Box<Exchange>, Forwarded) {
    if worker.driver == Driver::Direct {
        let forwarded = direct::forward(worker, &mut *downstream, alarm, &mut exchange, head, counts).await;
        return (downstream, exchange, forwarded);
    }
    // In a box, which the common case does not need.
    Box::pin(proxy::forward(worker, downstream, exchange, head, counts)).await
}

/// Carries a request whose bodies pass through stages. An endpoint is asked when the request body is as whole as they
/// want it.
async fn forward_staged<D: Downstream + Send + Sync + 'static>(
    worker: &Arc<Worker>,
    mut staged: Box<Staged<D>>,
    mirrors: bool,
    alarm: &mut Alarm,
    mut exchange: Box<Exchange>,
    head: &mut Head,
    counts: &mut Counts,
) -> (Box<D>, Box<Exchange>, Forwarded) {
    let patience = exchange.tuning().client_body_timeout;
    let collected = staged.collect(head, alarm, patience).await;
    let forwarded;
    match collected {
        Ok(()) => {
            if mirrors && let Some(tee) = mirror::begin(worker, &exchange, head) {
                staged.copy_to(tee);
            }
            (staged, exchange, forwarded) = forward(worker, staged, alarm, exchange, head, counts).await;
            staged.finish_copy();
        }
        Err(kind) => {
            forwarded = match exchange.failed(Failure::before_connecting(kind, false)) {
                Next::Answer(answer) => Forwarded::Answer(answer),
                Next::Retry | Next::Abort => Forwarded::Aborted { asked: false },
            };
        }
    }
    counts.received = counts.received.max(staged.collected());
    (staged.into_inner(), exchange, forwarded)
}

/// Whether there is memory for the head while the request is under way. Of large heads, of which compression lets a
/// client make many from nothing, a connection gets what is its fair share.
fn holds(memory: &mut Share, head: &Head) -> bool {
    memory.try_hold(head.fields.text().len())
}

/// What questions come to; `None` is that the request is forwarded. What the client sends meanwhile waits.
async fn ask(
    worker: &Worker,
    question: Question,
    exchange: &mut Exchange,
    head: &Head,
    downstream: &mut impl Downstream,
) -> Option<Forwarded> {
    downstream.set_stalled(!downstream.is_spent());
    let mut watch = Watch::default();
    let left = poll_fn(|cx| watch.poll(cx, downstream));
    questions::decide(worker, question, exchange, &request::view(head), left).await
}

/// The answer as somebody else words it, where the rule asks for that; `None` when the client has left meanwhile.
async fn page(
    worker: &Worker,
    answer: Answer,
    exchange: &Exchange,
    head: &Head,
    downstream: &mut impl Downstream,
) -> Option<Answer> {
    let Some(question) = exchange.ask_for_page(&answer, &request::view(head)) else { return Some(answer) };
    downstream.set_stalled(!downstream.is_spent());
    let mut watch = Watch::default();
    let left = poll_fn(|cx| watch.poll(cx, downstream));
    // In a box: rare and large.
    Box::pin(questions::page(worker, question, answer, exchange, left)).await
}

/// Answers what could not be read as a request: our page, a log line and a metric. Says whether the client has got it.
pub(crate) async fn refuse(
    worker: &Worker,
    info: &Arc<ConnectionInfo>,
    refusal: Refusal<'_>,
    downstream: &mut impl Downstream,
) -> bool {
    let Refusal { request_line, length, status } = refusal;
    let (mut exchange, answer) =
        Exchange::refuse(Snapshot::take(&worker.state), info, request_line, length, status);
    exchange.log_answer(&answer);
    let sent = answer::send(&answer, false, downstream, &mut Alarm::default()).await;
    let (bytes_sent, body_sent) = downstream.sent();
    exchange.end(Outcome {
        status: sent.is_ok().then_some(answer.status),
        body_sent,
        bytes_sent,
        aborted: sent.is_err(),
        ..Outcome::default()
    });
    sent.is_ok()
}

/// A request that is refused because it cannot be read.
pub(crate) struct Refusal<'a> {
    /// As much of the first line as there is.
    pub(crate) request_line: &'a [u8],
    /// Bytes that arrived.
    pub(crate) length: usize,
    /// The answer's status.
    pub(crate) status: StatusCode,
}
