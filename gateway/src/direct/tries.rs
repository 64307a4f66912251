//! A request from the pipeline's verdict to its log line: its tries, endpoint after endpoint, until one answers or
//! the pipeline has had enough; then what the client is told.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Instant;

use http::{Method, StatusCode};
use tokio::task::yield_now;

use super::connect;
use super::download::Download;
use super::near::Near;
use super::pool::{self, InUse};
use super::questions::Decision;
use super::relay::{End, Relay};
use super::tunnel::Switched;
use super::upload::{Outgoing, Upload};
use super::upstream::Connection;
use crate::io::alarm::Alarm;
use crate::io::limits::Limits;
use crate::message::head::Head;
use crate::message::request;
use crate::pipeline::{Answer, Exchange, Failure, FailureKind, Next, Outcome, Upstream};
use crate::registry::Admission;
use crate::worker::Worker;

/// A request under way.
pub(super) struct Run<'r, N> {
    pub(super) worker: &'r Worker,
    pub(super) near: &'r mut N,
    pub(super) alarm: &'r mut Alarm,
    pub(super) exchange: Exchange,
    pub(super) head: Head,
    pub(super) upload: Upload,
    /// The client asks for another protocol, and could get it.
    pub(super) upgrade: bool,
}

/// How its tries ended.
enum Tried {
    /// With a response that went out, at this time.
    Relayed(Instant),
    /// With another protocol, spoken over this connection.
    Switched(Connection, Upstream),
    /// With an answer of ours.
    Answer(Answer),
    /// With nothing that could be told to the client.
    Aborted,
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Ended {
    /// The client has a whole response. If it is still sending its request, and `drains` says so, the rest of that
    /// will come by itself.
    Whole { drains: bool },
    /// Another protocol goes on.
    Switched(Box<Switched>),
    /// It broke off. `asked` says that an endpoint was busy with it.
    Broken { asked: bool },
}

impl<N: Near> Run<'_, N> {
    /// Does what the pipeline says.
    pub(super) async fn run(mut self, decision: Decision) -> Ended {
        let mut download = Download::default();
        let tried = match decision {
            Decision::Answer(answer) => Tried::Answer(answer),
            Decision::Forward => self.tries(&mut download).await,
            Decision::Left => Tried::Aborted,
        };
        let asked = matches!(tried, Tried::Aborted);
        let mut at = None;
        let (status, aborted) = match tried {
            Tried::Relayed(ended) => {
                at = Some(ended);
                (Some(download.response.status), false)
            }
            Tried::Switched(endpoint, upstream) => {
                let (exchange, up) = (self.exchange, self.upload.into_flow());
                return Ended::Switched(Box::new(Switched { exchange, upstream, endpoint, up }));
            }
            Tried::Answer(answer) => match self.answer(&answer).await {
                Ok(()) => (Some(answer.status), false),
                Err(_) => (None, true),
            },
            Tried::Aborted => (download.started.then_some(download.response.status), true),
        };
        let (bytes_sent, body_sent) = self.near.sent();
        self.exchange.end(Outcome {
            status,
            body_sent,
            bytes_sent,
            body_received: self.upload.received,
            upstream_received: download.received,
            aborted,
            ended: at,
        });
        match aborted {
            true => Ended::Broken { asked },
            false => Ended::Whole { drains: !self.upload.awaits_continue },
        }
    }

    /// Tries endpoints.
    async fn tries(&mut self, download: &mut Download) -> Tried {
        let Self { worker, near, alarm, exchange, head, upload, upgrade } = self;
        let mut first = true;
        let mut waited_since = None;
        loop {
            let upstream = match exchange.pick() {
                Ok(upstream) => upstream,
                Err(answer) => return Tried::Answer(answer),
            };
            let (size, body_timeout) = {
                let tuning = worker.state.tuning.load();
                (tuning.upstream_keepalive_connections.min(worker.idle), tuning.client_body_timeout)
            };
            let _in_use = InUse::new();
            let pooled = pool::take(&upstream);
            // What the client sends meanwhile waits.
            near.set_stalled(pooled.is_none() && !near.is_spent());
            let mut connection = match pooled {
                Some(connection) => connection,
                // In a box: rare and large.
                None => {
                    let mut room = Room { worker, exchange };
                    let connecting = connect::connection(&upstream, *near, &mut room, &mut waited_since);
                    match Box::pin(connecting).await {
                        Ok(connection) => connection,
                        Err(kind) => {
                            let failure = Failure {
                                kind,
                                stale: false,
                                sent: false,
                                replayable: upload.is_replayable(),
                                response_started: false,
                            };
                            if let Some(tried) = follow(exchange.failed(failure)) {
                                return tried;
                            }
                            // A refusal may come without a wait. Others have their turn, and the end of the program its.
                            yield_now().await;
                            continue;
                        }
                    }
                }
            };
            exchange.connected(upstream.address, connection.reused);
            // Every attempt begins with the head as it was received.
            match std::mem::take(&mut first) {
                true => head.fields.keep(),
                false => head.fields.restore(),
            }
            exchange.upstream_request(&mut head.fields);
            let upgrade = *upgrade && request::asks_for_upgrade(head);
            let last = size == 0 || connection.served + 1 >= upstream.keep_alive.requests;
            download.begin();
            upload.begin();
            let mut relay = Relay {
                near: &mut **near,
                alarm,
                exchange,
                upload,
                download: &mut *download,
                connection: &mut connection,
                upstream: &upstream,
                outgoing: Outgoing {
                    head,
                    last,
                    upgrade,
                    client: body_timeout,
                    endpoint: upstream.send_timeout,
                },
                limits: Limits::default(),
                waited: false,
                ended: false,
            };
            match poll_fn(|cx| relay.poll(cx)).await {
                End::Whole => {
                    let ended = Instant::now();
                    if relay.is_reusable() {
                        pool::put(connection, &upstream, size, worker.idle, ended);
                    }
                    return Tried::Relayed(ended);
                }
                End::Switched => return Tried::Switched(connection, upstream),
                End::Retry => {}
                End::Failed(failure) => {
                    if let Some(tried) = follow(exchange.failed(failure)) {
                        return tried;
                    }
                }
            }
        }
    }

    async fn answer(&mut self, answer: &Answer) -> Result<(), FailureKind> {
        let Self { near, alarm, head, upload, .. } = self;
        let bare = head.method == Method::HEAD || answer.status == StatusCode::NO_CONTENT;
        send(answer, bare, *near, alarm, upload).await
    }
}

/// Room for one more connection of an exchange.
struct Room<'r> {
    worker: &'r Worker,
    exchange: &'r mut Exchange,
}

impl connect::Room for Room<'_> {
    fn clients(&self) -> usize {
        self.worker.drain.shared().connections()
    }

    fn ask(&mut self) -> Admission {
        self.exchange.ask_for_room()
    }

    fn go(&mut self) {
        self.exchange.needs_no_room();
    }
}

/// Answers what has never been a request.
pub(super) async fn refuse(mut exchange: Exchange, answer: &Answer, near: &mut impl Near) {
    let sent = send(answer, false, near, &mut Alarm::default(), &Upload::new(false)).await;
    let (bytes_sent, body_sent) = near.sent();
    exchange.end(Outcome {
        status: sent.is_ok().then_some(answer.status),
        body_sent,
        bytes_sent,
        aborted: sent.is_err(),
        ..Outcome::default()
    });
}

/// Sends an answer of our own.
async fn send(
    answer: &Answer,
    bare: bool,
    near: &mut impl Near,
    alarm: &mut Alarm,
    upload: &Upload,
) -> Result<(), FailureKind> {
    let (mut limits, mut begun) = (Limits::default(), false);
    poll_fn(|cx| {
        if !std::mem::replace(&mut begun, true) {
            near.answer(cx, answer, bare, upload)?;
        }
        let flushed = near.poll_flush(cx, &mut limits);
        if flushed.is_pending() && limits.poll(cx, alarm).is_ready() {
            return Poll::Ready(Err(FailureKind::Client));
        }
        flushed
    })
    .await
}

/// What the pipeline says to a failed try; `None` is another one.
fn follow(next: Next) -> Option<Tried> {
    match next {
        Next::Retry => None,
        Next::Answer(answer) => Some(Tried::Answer(answer)),
        Next::Relay | Next::Abort => Some(Tried::Aborted),
    }
}
