//! Carries out what the stages of the pipeline ask, before it is known which engine serves the request: once for all
//! engines and protocols.
//!
//! A client who leaves takes its question back. So does the end of a graceful shutdown, which drops whatever a worker
//! is doing. Work on the blocking pool that has begun comes to its end then, unheard.

use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::thread::available_parallelism;
use std::time::Instant;

use super::Forwarded;
use super::call::{call, carry};
use super::jobs::Jobs;
use crate::message::fields::Fields;
use crate::message::request_head::RequestHead;
use crate::pipeline::call::Response;
use crate::pipeline::{Answer, Call, CallFailure, Exchange, Question, Reply, Subrequest, Verdict};
use crate::worker::Worker;

/// What the question comes to. It and those behind it are carried out until one is the last, or `left` is ready: the
/// client has gone. `None` is that the request goes to an endpoint.
pub(super) async fn decide<F: Fields>(
    worker: &Worker,
    mut question: Question,
    exchange: &mut Exchange,
    head: &RequestHead<'_, F>,
    left: impl Future<Output = ()>,
) -> Option<Forwarded> {
    let (mut left, client) = (pin!(left), exchange.client());
    loop {
        let reply = match question {
            // In a box: rare and large.
            Question::Call(subrequest) if exchange.logs_questions() => {
                let logged = logged_reply(worker, *subrequest, exchange, head);
                Box::pin(unless(left.as_mut(), logged)).await
            }
            question => unless(left.as_mut(), reply(worker, client, question)).await,
        };
        let Some(reply) = reply else { return Some(Forwarded::Aborted { asked: false }) };
        match exchange.resume(reply, head) {
            Verdict::Answer(answer) => return Some(Forwarded::Answer(answer)),
            Verdict::Forward => return None,
            Verdict::Ask(next) => question = next,
        }
    }
}

/// Asks for the page of an answer, which goes out as it is if none comes. `None` when the client has left.
pub(crate) async fn page(
    worker: &Worker,
    question: Question,
    answer: Answer,
    exchange: &Exchange,
    left: impl Future<Output = ()>,
) -> Option<Answer> {
    let mut left = pin!(left);
    let reply = unless(left.as_mut(), reply(worker, exchange.client(), question)).await?;
    Some(exchange.with_page(answer, reply))
}

/// The reply, unless the client leaves before it is there.
async fn unless(
    mut left: Pin<&mut impl Future<Output = ()>>,
    reply: impl Future<Output = Reply>,
) -> Option<Reply> {
    let mut reply = pin!(reply);
    poll_fn(|cx| match reply.as_mut().poll(cx) {
        Poll::Ready(reply) => Poll::Ready(Some(reply)),
        Poll::Pending => left.as_mut().poll(cx).map(|()| None),
    })
    .await
}

async fn reply(worker: &Worker, client: IpAddr, question: Question) -> Reply {
    match question {
        Question::Compute(job) => JOBS.run(client, job).await,
        Question::Call(subrequest) => replied(call(worker, *subrequest).await),
    }
}

/// The reply to a question that has a line in the access log.
async fn logged_reply<F: Fields>(
    worker: &Worker,
    subrequest: Subrequest,
    exchange: &Exchange,
    head: &RequestHead<'_, F>,
) -> Reply {
    let (mut call, began) = (Call::new(subrequest), Instant::now());
    let reply = replied(carry(worker, &mut call, None).await);
    exchange.log_question(head, &call, &reply, began.elapsed());
    reply
}

fn replied(result: Result<Response, CallFailure>) -> Reply {
    match result {
        Ok(response) => Reply::Response(Box::new(response)),
        Err(failure) => Reply::NoResponse(failure),
    }
}

static JOBS: LazyLock<Arc<Jobs>> = LazyLock::new(|| {
    // What cannot be counted is small. The other half is for requests: the system shares it out evenly otherwise.
    Jobs::new(available_parallelism().map_or(1, |processors| (processors.get() / 2).max(1)))
});
