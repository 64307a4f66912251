//! Carries out what the stages of the pipeline ask, before it is known which engine serves the request: once for all
//! engines and protocols.
//!
//! A client who leaves takes its question back. So does the end of a graceful shutdown, which drops whatever a worker
//! is doing. Work on the blocking pool that has begun comes to its end then, unheard.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::call::{Ground, call};
use crate::message::fields::Fields;
use crate::message::request_head::RequestHead;
use crate::pipeline::{Answer, Exchange, Job, Question, Reply, Verdict};

/// Jobs that wait, for each that runs. Many requests with one new password come at once, and all but the first find
/// their work done when their turn comes.
const WAITING: usize = 512;
/// How long a job waits for its turn. Some take a second, and a row of wrong passwords is no reason to keep everybody.
const PATIENCE: Duration = Duration::from_secs(5);

/// What becomes of a request, once nothing is left to ask.
#[derive(Debug)]
pub(crate) enum Decision {
    /// It is answered at once.
    Answer(Answer),
    /// It goes to an endpoint.
    Forward,
    /// Its client has left.
    Left,
}

/// What the question comes to. It and those behind it are carried out until one is the last, or `left` is ready: the
/// client has gone.
pub(crate) async fn decide<F: Fields>(
    ground: Ground<'_>,
    mut question: Question,
    exchange: &mut Exchange,
    head: &RequestHead<'_, F>,
    left: impl Future<Output = ()>,
) -> Decision {
    let mut left = pin!(left);
    loop {
        let reply = unless(left.as_mut(), reply(ground, question)).await;
        let Some(reply) = reply else { return Decision::Left };
        match exchange.resume(reply, head) {
            Verdict::Answer(answer) => return Decision::Answer(answer),
            Verdict::Forward => return Decision::Forward,
            Verdict::Ask(next) => question = next,
        }
    }
}

/// Asks for the page of an answer, which goes out as it is if none comes. `None` when the client has left.
pub(crate) async fn page(
    ground: Ground<'_>,
    question: Question,
    answer: Answer,
    exchange: &Exchange,
    left: impl Future<Output = ()>,
) -> Option<Answer> {
    let mut left = pin!(left);
    let reply = unless(left.as_mut(), reply(ground, question)).await?;
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

async fn reply(ground: Ground<'_>, question: Question) -> Reply {
    match question {
        Question::Compute(job) => JOBS.run(job).await,
        Question::Call(subrequest) => match call(ground, *subrequest).await {
            Ok(response) => Reply::Response(Box::new(response)),
            Err(failure) => Reply::NoResponse(failure),
        },
    }
}

static JOBS: LazyLock<Jobs> = LazyLock::new(|| {
    // What cannot be counted is small. The other half is for requests: the system shares it out evenly otherwise.
    Jobs::new(available_parallelism().map_or(1, |processors| (processors.get() / 2).max(1)))
});

/// The jobs of the process: so many run at a time, and a multiple of that waits.
#[derive(Debug)]
struct Jobs {
    running: Arc<Semaphore>,
    waiting: AtomicUsize,
    most_waiting: usize,
}

/// One that waits.
struct Waits<'j>(&'j AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Jobs {
    fn new(running: usize) -> Self {
        Self {
            running: Arc::new(Semaphore::new(running)),
            waiting: AtomicUsize::new(0),
            most_waiting: running * WAITING,
        }
    }

    async fn run(&self, job: Job) -> Reply {
        let permit = match self.running.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let before = self.waiting.fetch_add(1, Relaxed);
                let waits = Waits(&self.waiting);
                if before >= self.most_waiting {
                    return Reply::Overloaded;
                }
                let permit = timeout(PATIENCE, self.running.clone().acquire_owned()).await;
                drop(waits);
                match permit {
                    Ok(Ok(permit)) => permit,
                    // Nobody closes it.
                    Ok(Err(_)) => return Reply::Lost,
                    Err(_) => return Reply::Overloaded,
                }
            }
        };
        let run = tokio::task::spawn_blocking(move || {
            // The place is free when the work is done, whether or not anybody still waits for it.
            let _permit = permit;
            job.run()
        });
        run.await.unwrap_or(Reply::Lost)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn what_there_is_no_room_for_is_not_waited_for() {
        let jobs = Arc::new(Jobs::new(1));
        let (go, held) = mpsc::channel::<()>();
        let first = tokio::spawn({
            let jobs = jobs.clone();
            async move {
                let job = Job::new(move || Reply::Checked(held.recv().is_ok()));
                jobs.run(job).await
            }
        });
        while jobs.running.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let mut waiting = Vec::new();
        for _ in 0..WAITING {
            let jobs = jobs.clone();
            waiting.push(tokio::spawn(async move { jobs.run(Job::new(|| Reply::Checked(false))).await }));
        }
        while jobs.waiting.load(Relaxed) < WAITING {
            tokio::task::yield_now().await;
        }
        assert_eq!(jobs.run(Job::new(|| Reply::Checked(true))).await, Reply::Overloaded);
        // Who leaves makes room.
        waiting.remove(0).abort();
        while jobs.waiting.load(Relaxed) == WAITING {
            tokio::task::yield_now().await;
        }
        go.send(()).unwrap();
        assert_eq!(jobs.run(Job::new(|| Reply::Checked(true))).await, Reply::Checked(true));
        assert_eq!(first.await.unwrap(), Reply::Checked(true));
        for one in waiting {
            assert_eq!(one.await.unwrap(), Reply::Checked(false));
        }
        assert_eq!(jobs.waiting.load(Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_whose_turn_does_not_come_is_given_up() {
        let jobs = Jobs::new(1);
        let busy = jobs.running.clone().acquire_owned().await.unwrap();
        assert_eq!(jobs.run(Job::new(|| Reply::Checked(true))).await, Reply::Overloaded);
        assert_eq!(jobs.waiting.load(Relaxed), 0);
        drop(busy);
        assert_eq!(jobs.run(Job::new(|| Reply::Checked(true))).await, Reply::Checked(true));
    }

    #[tokio::test]
    async fn a_job_that_panics_is_lost_and_its_place_is_not() {
        let jobs = Jobs::new(1);
        assert_eq!(jobs.run(Job::new(|| panic!("on purpose"))).await, Reply::Lost);
        assert_eq!(jobs.run(Job::new(|| Reply::Checked(true))).await, Reply::Checked(true));
    }
}
