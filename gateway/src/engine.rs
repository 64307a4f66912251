//! Serves requests, for every client protocol and with either engine.
//!
//! The loops of [`downstream`](crate::downstream) call [`serve`] with a head and a client side. The
//! pipeline decides on the head. Its own answers are sent from here; a forwarded request goes to an
//! engine, chosen when the pool's protocol is known:
//!
//! | engine | what |
//! |---|---|
//! | `direct` | ours: HTTP/1.1, HTTP/2 and FastCGI |
//! | `proxy` | Pingora's `ProxyHttp`: rules with a cache, and all with `--driver proxy`; no FastCGI |
//! | `stored` | none of them: a stored response that is fresh and in memory needs no endpoint |
//!
//! Policies are independent of the engine: a difference between the two is a bug. `tunnel` relays
//! both directions after a switch to another protocol.

mod answer;
mod cut_off;
mod direct;
mod grpc;
mod inspection;
mod interim;
mod jobs;
mod mirror;
mod own_call;
pub(crate) mod proxy;
mod questions;
mod stored;
pub(crate) mod tunnel;
mod watch;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use h2::Reason;
use http::{Method, StatusCode, Version};

use crate::body::downstream::{ClientSide, Downstream};
use crate::body::plan::BodyPlan;
use crate::body::staged::Staged;
use crate::connection::info::ConnectionInfo;
use crate::io::alarm::Alarm;
use crate::io::budget::Reservation;
use crate::message::head::Head;
use crate::message::request;
use crate::pipeline::{
    Answer, Exchange, ExchangeOutcome, Failure, FailureKind, Next, Originator, Question, RequestBody,
    RequestShape, Verdict,
};
use crate::state::snapshot::PublishedSnapshot;
use crate::worker::Worker;
use crate::worker::engine_choice::EngineChoice;
use cut_off::CutOff;
use inspection::response::ResponseInspection;
use tunnel::Switched;

/// How a request ended, for the client's connection.
#[derive(Debug)]
pub(crate) enum RequestEnd {
    /// The client received the whole response.
    Whole,
    /// The connection continues with another protocol.
    Switched(Box<Switched>),
    /// The exchange was aborted. `asked`: an endpoint had received the request.
    Broken { asked: bool },
}

/// The outcome of forwarding a request. `A` is
/// [`Originator::Answer`].
enum Forwarded<A = Answer> {
    /// The client received the endpoint's response, at this time.
    Relayed(Instant),
    /// The endpoint accepted a switch to another protocol.
    Switched(tunnel::TunnelEndpoint),
    /// This answer goes to the client.
    Answer(A),
    /// No answer can reach the client. `asked`: an endpoint had received the request.
    Aborted { asked: bool },
}

/// Uses of bodies besides those of client and endpoint.
#[derive(Clone, Copy, Debug)]
struct StagedUses {
    mirrors: bool,
    inspects: bool,
    inspects_copy: bool,
    inspects_response: bool,
}

/// Counts of one forwarded request.
#[derive(Debug, Default)]
struct ForwardCounts {
    /// The status of the endpoint's response, once part of it was sent to the client.
    status: Option<StatusCode>,
    /// Bytes received of the request body, without transfer coding.
    received: u64,
    /// Bytes received of the last attempt's response body, without transfer coding.
    upstream_received: u64,
    /// The error code with which the last attempt's endpoint reset its stream.
    reset: Option<Reason>,
}

impl ForwardCounts {
    /// Returns the counts as part of an outcome.
    fn outcome(&self) -> ExchangeOutcome {
        ExchangeOutcome {
            status: self.status,
            body_received: self.received,
            upstream_received: self.upstream_received,
            ..ExchangeOutcome::default()
        }
    }
}

/// Serves one request from its head to its log line, and returns its client side. Client side and
/// exchange are boxed because both are moved several times.
pub(crate) async fn serve<D: ClientSide + Send + Sync + 'static>(
    worker: &Arc<Worker>,
    snapshot: PublishedSnapshot,
    info: &Arc<ConnectionInfo>,
    mut head: Head,
    mut downstream: Box<D>,
    alarm: &mut Alarm,
) -> (Box<D>, RequestEnd) {
    let (mut exchange, mut verdict) = Exchange::begin(snapshot, info, &request::view(&head));
    // A client would take the page's status of success for an open tunnel.
    if !is_websocket_over_http2(&head)
        && let Some(target) = exchange.take_certificate_page()
    {
        head.become_error_page(&target);
        downstream.withhold_body();
        downstream.close_after_response();
        verdict = exchange.begin_certificate_page(&request::view(&head));
    }
    let mut memory = Reservation::default();
    let verdict = match holds(&mut memory, &head) {
        true => verdict,
        false => Verdict::Answer(exchange.without_memory()),
    };
    let mut counts = ForwardCounts::default();
    let decided = match verdict {
        Verdict::Answer(answer) => Some(Forwarded::Answer(answer)),
        Verdict::Forward => None,
        // Boxed, because most requests have no question.
        Verdict::Ask(question) => {
            Box::pin(execute_question(worker, question, &mut exchange, &head, &mut *downstream)).await
        }
    };
    let forwarded = match decided {
        Some(forwarded) => forwarded,
        None => {
            let is_whole = downstream.has_whole_body();
            let upgrades = !is_whole && request::asks_for_upgrade(&head);
            let body = RequestBody { framing: head.framing, is_whole, upgrades };
            let mut plan = exchange.bodies(&head.fields, body);
            if let Ok(BodyPlan { buffer, .. }) = &mut plan
                && buffer.is_some()
                && !exchange.logs_body()
                && poll_fn(|cx| Poll::Ready(downstream.gather(cx))).await
            {
                *buffer = None;
            }
            match plan {
                Err(answer) => Forwarded::Answer(answer),
                Ok(plan) if plan.is_empty() => {
                    let inspects = plan.inspects;
                    match inspection::inspect(&mut exchange, inspects, &head, &mut *downstream).await {
                        Some(forwarded) => forwarded,
                        None => {
                            let forwarded;
                            (downstream, exchange, forwarded) =
                                forward(worker, downstream, alarm, exchange, &mut head, &mut counts).await;
                            forwarded
                        }
                    }
                }
                Ok(plan) => {
                    let uses = StagedUses {
                        mirrors: plan.mirror,
                        inspects: plan.inspects,
                        inspects_copy: plan.inspects_copy,
                        inspects_response: plan.holds_response,
                    };
                    let staged = Box::new(Staged::new(downstream, plan, head.framing, &worker.state.disk));
                    // Boxed, because most requests have no stage.
                    let staged =
                        forward_staged(worker, staged, uses, alarm, exchange, &mut head, &mut counts);
                    let forwarded;
                    (downstream, exchange, forwarded) = Box::pin(staged).await;
                    forwarded
                }
            }
        }
    };
    let mut outcome = counts.outcome();
    let ended = match forwarded {
        Forwarded::Relayed(at) => {
            outcome.ended = Some(at);
            RequestEnd::Whole
        }
        Forwarded::Switched(endpoint) => {
            return (downstream, RequestEnd::Switched(Box::new(Switched { exchange, endpoint })));
        }
        Forwarded::Answer(mut answer) => {
            // For the log and the metrics. A gRPC client gets a gRPC status instead of a page.
            let mut status = answer.status;
            if grpc::is_grpc(&head) {
                grpc::convert(&mut answer, counts.reset);
            } else {
                let Some(page) = page(worker, answer, &exchange, &head, &mut *downstream).await else {
                    exchange.end(outcome.left(downstream.sent()));
                    return (downstream, RequestEnd::Broken { asked: true });
                };
                status = page.status;
                answer = page;
            }
            let bare = head.method == Method::HEAD || answer.status == StatusCode::NO_CONTENT;
            exchange.log_answer(&answer);
            match answer::send(&answer, bare, &mut *downstream, alarm).await {
                Ok(()) => {
                    outcome.status = Some(status);
                    RequestEnd::Whole
                }
                Err(_) => {
                    outcome.status = None;
                    RequestEnd::Broken { asked: false }
                }
            }
        }
        Forwarded::Aborted { asked } => RequestEnd::Broken { asked },
    };
    outcome.aborted = matches!(ended, RequestEnd::Broken { .. });
    (outcome.bytes_sent, outcome.body_sent) = downstream.sent();
    exchange.end(outcome);
    (downstream, ended)
}

/// Runs the engine; returns the client side and the exchange.
async fn forward<D: Downstream + Send + Sync + 'static>(
    worker: &Worker,
    mut downstream: Box<D>,
    alarm: &mut Alarm,
    mut exchange: Box<Exchange>,
    head: &mut Head,
    counts: &mut ForwardCounts,
) -> (Box<D>, Box<Exchange>, Forwarded) {
    if exchange.has_cache() {
        let shape =
            RequestShape { has_body: !head.framing.is_done(), upgrades: request::asks_for_upgrade(head) };
        if let Some(cached) = exchange.cached_request(&request::view(head), shape) {
            if worker.engine == EngineChoice::Direct
                && let Some(response) = stored::find(&cached, &exchange, head)
            {
                // Boxed, because most requests are forwarded.
                let sent =
                    Box::pin(stored::send(response, &mut *downstream, alarm, &mut exchange, counts)).await;
                return (downstream, exchange, sent);
            }
            return Box::pin(proxy::forward(worker, downstream, exchange, head, counts, Some(cached))).await;
        }
    }
    // Pingora's engine has no FastCGI, and no tunnels over streams of HTTP/2.
    if worker.engine == EngineChoice::Direct || exchange.speaks_fastcgi() || is_websocket_over_http2(head) {
        let forwarded = direct::forward(worker, &mut *downstream, alarm, &mut *exchange, head, counts).await;
        return (downstream, exchange, forwarded);
    }
    // Boxed, because the direct engine is the common case.
    Box::pin(proxy::forward(worker, downstream, exchange, head, counts, None)).await
}

/// Returns whether the request is an extended CONNECT (RFC 8441).
fn is_websocket_over_http2(head: &Head) -> bool {
    head.version == Version::HTTP_2 && request::asks_for_upgrade(head)
}

/// Returns the outcome of a request that failed before an endpoint was chosen.
fn failed_before_connecting(exchange: &mut Exchange, kind: FailureKind) -> Forwarded {
    match exchange.failed(Failure::before_connecting(kind, false)) {
        Next::Answer(answer) => Forwarded::Answer(answer),
        Next::Retry | Next::Abort => Forwarded::Aborted { asked: false },
    }
}

/// Forwards a request whose bodies pass through stages. Starts when the request body is as complete
/// as they require.
async fn forward_staged<D: Downstream + Send + Sync + 'static>(
    worker: &Arc<Worker>,
    mut staged: Box<Staged<D>>,
    uses: StagedUses,
    alarm: &mut Alarm,
    mut exchange: Box<Exchange>,
    head: &mut Head,
    counts: &mut ForwardCounts,
) -> (Box<D>, Box<Exchange>, Forwarded) {
    let time_limit = exchange.settings().client_body_timeout;
    let collected = staged.collect(head, alarm, time_limit).await;
    let refused = match collected {
        Ok(()) => {
            if exchange.logs_body()
                && let Some(body) = staged.body_in_memory()
            {
                exchange.keep_body(body);
            }
            match uses.inspects_copy {
                true => {
                    if let Some(tee) = inspection::copy::begin(worker, &mut exchange, head) {
                        staged.copy_to(tee);
                    }
                    None
                }
                false => inspection::inspect(&mut exchange, uses.inspects, head, &mut *staged).await,
            }
        }
        Err(kind) => Some(failed_before_connecting(&mut exchange, kind)),
    };
    let forwarded = match refused {
        Some(forwarded) => forwarded,
        None => {
            if uses.mirrors
                && let Some(tee) = mirror::begin(worker, &exchange, head)
            {
                staged.copy_to(tee);
            }
            let inspection = match uses.inspects_response {
                true => ResponseInspection::begin(&mut exchange, &mut staged),
                false => None,
            };
            let forwarded;
            (staged, exchange, forwarded) = forward(worker, staged, alarm, exchange, head, counts).await;
            staged.finish_copy();
            let forwarded = deliver(&mut staged, alarm, &mut exchange, forwarded, counts.status).await;
            if let Some(fields) = staged.sent_fields() {
                exchange.log_sent(fields);
            }
            match inspection {
                Some(inspection) => inspection.end(&exchange, forwarded),
                None => forwarded,
            }
        }
    };
    counts.received = counts.received.max(staged.collected());
    (staged.into_inner(), exchange, forwarded)
}

/// Sends the buffered rest of a response, for which its endpoint is no longer occupied.
async fn deliver<D: Downstream>(
    staged: &mut Staged<D>,
    alarm: &mut Alarm,
    exchange: &mut Exchange,
    forwarded: Forwarded,
    status: Option<StatusCode>,
) -> Forwarded {
    if !staged.has_undelivered() {
        return forwarded;
    }
    match forwarded {
        Forwarded::Relayed(at) => exchange.call().completed(at),
        Forwarded::Aborted { .. } if exchange.call().was_broken_off() => {}
        other => return other,
    }
    let mut sending = CutOff { exchange, downstream: staged, status };
    // Boxed, because it is rare and large.
    let delivered = Box::pin(sending.downstream.deliver(alarm)).await;
    sending.status = None;
    match (forwarded, delivered) {
        (Forwarded::Relayed(_), Ok(())) => Forwarded::Relayed(Instant::now()),
        (Forwarded::Relayed(_), Err(_)) => Forwarded::Aborted { asked: true },
        // A response that its endpoint broke off ends where it did without a buffer.
        (other, _) => other,
    }
}

/// Reserves memory for the head while the request is in progress. Compression lets a client create
/// many large heads from few bytes, so a connection gets its fair share only.
fn holds(memory: &mut Reservation, head: &Head) -> bool {
    memory.try_hold(head.fields.text().len())
}

/// Executes questions; `None` if the request is forwarded. Nothing is read from the client
/// meanwhile.
async fn execute_question(
    worker: &Worker,
    question: Question,
    exchange: &mut Exchange,
    head: &Head,
    downstream: &mut impl Downstream,
) -> Option<Forwarded> {
    downstream.set_stalled(!downstream.is_spent());
    questions::decide(worker, question, exchange, &request::view(head), downstream).await
}

/// The answer with the page of the error backend, if the rule has one; `None` if the client has
/// left meanwhile.
async fn page(
    worker: &Worker,
    answer: Answer,
    exchange: &Exchange,
    head: &Head,
    downstream: &mut impl Downstream,
) -> Option<Answer> {
    let Some(question) = exchange.ask_for_page(&answer, &request::view(head)) else { return Some(answer) };
    downstream.set_stalled(!downstream.is_spent());
    // Boxed, because it is rare and large.
    Box::pin(questions::page(worker, question, answer, exchange, downstream)).await
}

/// Answers a request that could not be read with a page, a log line and a metric. Returns whether
/// the client received it.
pub(crate) async fn refuse(
    worker: &Worker,
    info: &Arc<ConnectionInfo>,
    refusal: UnreadableRequest<'_>,
    downstream: &mut impl Downstream,
) -> bool {
    let UnreadableRequest { request_line, length, status } = refusal;
    let (mut exchange, answer) =
        Exchange::refuse(PublishedSnapshot::take(&worker.state), info, request_line, length, status);
    exchange.log_answer(&answer);
    let bare = request_line.starts_with(b"HEAD ");
    let sent = answer::send(&answer, bare, downstream, &mut Alarm::default()).await;
    let (bytes_sent, body_sent) = downstream.sent();
    exchange.end(ExchangeOutcome {
        status: sent.is_ok().then_some(answer.status),
        body_sent,
        bytes_sent,
        aborted: sent.is_err(),
        ..ExchangeOutcome::default()
    });
    sent.is_ok()
}

/// A request that is refused because it cannot be read.
pub(crate) struct UnreadableRequest<'a> {
    /// The part of the first line that arrived.
    pub(crate) request_line: &'a [u8],
    /// Bytes that arrived.
    pub(crate) length: usize,
    /// The answer's status.
    pub(crate) status: StatusCode,
}
