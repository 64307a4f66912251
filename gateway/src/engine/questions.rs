//! Executes the questions of pipeline stages, before the engine of a request is chosen: once for
//! all engines and protocols.
//!
//! A client that leaves ends its question. So does the end of a graceful shutdown, which drops all
//! tasks of a worker. A job on the blocking pool then runs to its end, and its result is dropped.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;
use std::time::Instant;

use super::jobs::Jobs;
use super::watch::unless_left;
use super::{Forwarded, own_call};
use crate::body::downstream::Downstream;
use crate::firewall::{AgentLink, InspectionRequest};
use crate::message::request_head::RequestHead;
use crate::pipeline::{Answer, Exchange, OwnCall, Question, Reply, Subrequest, Verdict};
use crate::worker::Worker;

/// Executes a question and those that follow it. Returns the outcome, or `None` if the request goes
/// to an endpoint.
pub(super) async fn decide(
    worker: &Worker,
    mut question: Question,
    exchange: &mut Exchange,
    head: &RequestHead<'_>,
    downstream: &mut impl Downstream,
) -> Option<Forwarded> {
    let client = exchange.client();
    loop {
        let reply = match question {
            // Boxed, because it is rare and large.
            Question::Call(subrequest) if exchange.logs_questions() => {
                let mut logged = Box::pin(logged_reply(worker, *subrequest, exchange, head));
                unless_left(downstream, logged.as_mut()).await
            }
            Question::Inspect(inspection) => {
                let ends = downstream.is_spent();
                // Boxed, because it is rare and large.
                let mut inspected = Box::pin(inspected(worker, inspection, ends));
                unless_left(downstream, inspected.as_mut()).await
            }
            question => unless_left(downstream, pin!(reply(worker, client, question))).await,
        };
        let Some(reply) = reply else { return Some(Forwarded::Aborted { asked: false }) };
        match exchange.resume(reply, head) {
            Verdict::Answer(answer) => return Some(Forwarded::Answer(answer)),
            Verdict::Forward => return None,
            Verdict::Ask(next) => question = next,
        }
    }
}

/// Requests the page of an answer, which is sent as it is if there is none. `None` if the client
/// has left.
pub(super) async fn page(
    worker: &Worker,
    question: Question,
    answer: Answer,
    exchange: &Exchange,
    downstream: &mut impl Downstream,
) -> Option<Answer> {
    let reply = pin!(reply(worker, exchange.client(), question));
    let reply = unless_left(downstream, reply).await?;
    Some(exchange.with_page(answer, reply))
}

async fn reply(worker: &Worker, client: IpAddr, question: Question) -> Reply {
    match question {
        Question::Compute(job) => JOBS.run(client, job).await,
        Question::Call(subrequest) => replied(worker, &mut OwnCall::new(*subrequest)).await,
        Question::Inspect(inspection) => Box::pin(inspected(worker, inspection, false)).await,
        Question::Wait(delay) => {
            tokio::time::sleep(delay).await;
            Reply::Waited
        }
    }
}

/// The decision of the firewall on the head of a request. `ends`: it has no body.
async fn inspected(worker: &Worker, inspection: Box<InspectionRequest>, ends: bool) -> Reply {
    let state = &worker.state;
    let link = state.firewall_agent.get().map(|agent| AgentLink {
        agent,
        clients: worker.drain.shared(),
        idle: worker.idle,
    });
    Reply::Inspected(inspection.run(link, &state.firewall_configurations, ends).await)
}

/// The reply to a question that has a line in the access log.
async fn logged_reply(
    worker: &Worker,
    subrequest: Subrequest,
    exchange: &Exchange,
    head: &RequestHead<'_>,
) -> Reply {
    let (mut own_call, began) = (OwnCall::new(subrequest), Instant::now());
    let reply = replied(worker, &mut own_call).await;
    exchange.log_question(head, &own_call, &reply, began.elapsed());
    reply
}

async fn replied(worker: &Worker, own_call: &mut OwnCall) -> Reply {
    match own_call::send(worker, own_call, None).await {
        Ok(response) => Reply::Response(Box::new(response)),
        Err(failure) => Reply::NoResponse(failure),
    }
}

static JOBS: LazyLock<Arc<Jobs>> = LazyLock::new(|| {
    // One if the processors cannot be counted. The other half is for requests, which would
    // otherwise get an equal share.
    Jobs::new(available_parallelism().map_or(1, |processors| (processors.get() / 2).max(1)))
});
