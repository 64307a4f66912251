//! A request that is to be forwarded: its attempts, endpoint after endpoint, until one answers or the pipeline has had
//! enough.

use std::future::poll_fn;
use std::mem;
use std::time::Instant;

use tokio::task::yield_now;

use super::connecting;
use super::download::Download;
use super::relay::{End, Relay};
use super::upload::{Outgoing, Upload};
use crate::engine::downstream::Downstream;
use crate::engine::tunnel::Endpoint;
use crate::engine::{Counts, Forwarded};
use crate::io::alarm::Alarm;
use crate::io::budget::Ticket;
use crate::io::limits::Limits;
use crate::message::head::Head;
use crate::message::request;
use crate::pipeline::{Exchange, Failure, Next, Upstream};
use crate::registry::Admission;
use crate::upstream::connect;
use crate::upstream::pool::{self, InUse};
use crate::worker::Worker;

/// Carries a request to endpoints.
pub(in crate::engine) async fn forward<D: Downstream>(
    worker: &Worker,
    downstream: &mut D,
    alarm: &mut Alarm,
    exchange: &mut Exchange,
    head: &mut Head,
    counts: &mut Counts,
) -> Forwarded {
    let (mut upload, mut download) = (Upload::new(), Download::default());
    let mut changed = false;
    let run = Run { worker, downstream, alarm, exchange, head, upload: &mut upload, download: &mut download };
    let forwarded = run.attempts(&mut changed).await;
    if changed && let Forwarded::Answer(_) = forwarded {
        // Whoever is asked about the answer is told of the request, not of an attempt.
        head.restore();
    }
    counts.status = download.started.then_some(download.response.status);
    (counts.received, counts.upstream_received) = (upload.received, download.received);
    forwarded
}

/// A request under way.
struct Run<'r, D> {
    worker: &'r Worker,
    downstream: &'r mut D,
    alarm: &'r mut Alarm,
    exchange: &'r mut Exchange,
    head: &'r mut Head,
    upload: &'r mut Upload,
    download: &'r mut Download,
}

impl<D: Downstream> Run<'_, D> {
    /// `changed` says that the head is as the last attempt sent it.
    async fn attempts(self, changed: &mut bool) -> Forwarded {
        let Self { worker, downstream, alarm, exchange, head, upload, download } = self;
        let asks_for_upgrade = request::asks_for_upgrade(head);
        let mut waited_since = None;
        loop {
            let upstream = match exchange.pick() {
                Ok(upstream) => upstream,
                Err(answer) => return Forwarded::Answer(answer),
            };
            let (size, body_timeout) = {
                let tuning = exchange.tuning();
                (tuning.upstream_keepalive_connections.min(worker.idle), tuning.client_body_timeout)
            };
            let _in_use = InUse::new();
            let pooled = pool::take(&upstream);
            // What the client sends meanwhile waits.
            downstream.set_stalled(pooled.is_none() && !downstream.is_spent());
            let mut connection = match pooled {
                Some(connection) => connection,
                // In a box: rare and large.
                None => {
                    let mut room = Room { worker, exchange };
                    let connecting =
                        connecting::connection(&upstream, downstream, &mut room, &mut waited_since);
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
                            if let Some(forwarded) = follow(exchange.failed(failure)) {
                                return forwarded;
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
            match mem::replace(changed, true) {
                false => head.keep(),
                true => head.restore(),
            }
            exchange.upstream_request(head);
            let upgrade = asks_for_upgrade && request::asks_for_upgrade(head);
            let last = size == 0 || connection.served + 1 >= upstream.keep_alive.requests;
            download.begin();
            upload.begin(downstream);
            let mut relay = Relay {
                downstream: &mut *downstream,
                alarm: &mut *alarm,
                exchange: &mut *exchange,
                upload: &mut *upload,
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
                ticket: Ticket::default(),
                waited: false,
                ended: false,
            };
            match poll_fn(|cx| relay.poll(cx)).await {
                End::Whole => {
                    let ended = Instant::now();
                    if relay.is_reusable() {
                        pool::put(connection, &upstream, size, worker.idle, ended);
                    }
                    return Forwarded::Relayed(ended);
                }
                End::Switched => {
                    let Upstream { read_timeout, send_timeout, .. } = upstream;
                    let up = upload.take_flow();
                    return Forwarded::Switched(Endpoint { connection, read_timeout, send_timeout, up });
                }
                End::Retry => {}
                End::Replaced(answer) => {
                    if relay.is_reusable() {
                        pool::put(connection, &upstream, size, worker.idle, Instant::now());
                    }
                    return Forwarded::Answer(answer);
                }
                End::Failed(failure) => {
                    if let Some(forwarded) = follow(exchange.failed(failure)) {
                        return forwarded;
                    }
                }
            }
        }
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

/// What the pipeline says to a failed attempt; `None` is another one.
fn follow(next: Next) -> Option<Forwarded> {
    match next {
        Next::Retry => None,
        Next::Answer(answer) => Some(Forwarded::Answer(answer)),
        Next::Relay | Next::Abort => Some(Forwarded::Aborted),
    }
}
