//! OCSP stapling (`enable-ocsp`): fetches the state of each certificate from the responder that it
//! names, and staples it until it expires (RFC 6066 §8, RFC 6960).
//!
//! One task beside the workers asks all responders and publishes their responses as new versions of
//! the certificates. Handshakes neither wait nor cause a request. A responder that does not answer
//! changes nothing: the last response is stapled while it is valid, and then none.

mod backoff;
mod fetch;
mod responder;
mod response;
mod schedule;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::store::CertificateStore;
use responder::Responder;
use response::Staple;
use schedule::{Question, Schedule};

/// Responders that are asked at the same time.
const CONCURRENT: usize = 4;

/// The end of one exchange.
struct Answer {
    question: Question,
    result: Result<Staple, StaplingFault>,
}

/// Why there is nothing to staple.
#[derive(Debug, thiserror::Error)]
enum StaplingFault {
    /// The request cannot be encoded.
    #[error("cannot be asked: {0}")]
    Request(#[from] x509_cert::der::Error),
    /// There is no response.
    #[error(transparent)]
    Fetch(#[from] fetch::FetchError),
    /// The response is unusable.
    #[error("sends a response that {0}")]
    Response(#[from] response::ResponseFault),
    /// The code that reads the response has a fault.
    #[error("sends a response that cannot be read")]
    Panic,
}

impl StaplingFault {
    /// Whether requests about other certificates would fail too.
    fn is_of_responder(&self) -> bool {
        matches!(self, Self::Fetch(error) if error.is_of_responder())
    }
}

/// Keeps the staples of all certificates of a store fresh, for as long as it is polled.
pub(crate) async fn run(store: Arc<CertificateStore>) {
    let mut schedule = Schedule::default();
    let mut exchanges = JoinSet::new();
    let mut asks_local = false;
    loop {
        let now = Instant::now();
        for (id, key) in schedule.take_expired(now) {
            store.staple(&id, &key, None);
        }
        while exchanges.len() < CONCURRENT
            && let Some(question) = schedule.take_due(now)
        {
            exchanges.spawn(answer(question, asks_local));
        }
        let next = schedule.next(exchanges.len() < CONCURRENT);
        let pause = async {
            match next {
                Some(next) => sleep_until(next.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = store.changed() => match store.to_staple() {
                Some(to_staple) => {
                    asks_local = to_staple.asks_local;
                    schedule.follow(&to_staple.certificates, Instant::now());
                }
                None => schedule.take_all().for_each(|(id, key)| store.staple(&id, &key, None)),
            },
            Some(Ok(answer)) = exchanges.join_next() => take(&store, &mut schedule, answer),
            () = pause => {}
        }
    }
}

async fn answer(question: Question, asks_local: bool) -> Answer {
    // A panic would leave the certificate without another exchange.
    let result = AssertUnwindSafe(ask(&question.responder, asks_local)).catch_unwind().await;
    Answer { result: result.unwrap_or(Err(StaplingFault::Panic)), question }
}

async fn ask(responder: &Responder, asks_local: bool) -> Result<Staple, StaplingFault> {
    let response = fetch::fetch(&responder.url, responder.request()?, asks_local).await?;
    Ok(response::check(&response, responder, SystemTime::now())?)
}

/// Staples the result of an exchange, or schedules the next one. Only the first of several failures
/// is a warning.
fn take(store: &CertificateStore, schedule: &mut Schedule, answer: Answer) {
    let Answer { question, result } = answer;
    let now = Instant::now();
    let fault = match result {
        Ok(staple) => {
            let lifetime = staple.until.duration_since(SystemTime::now()).unwrap_or_default();
            if schedule.answered(&question, now, lifetime) {
                store.staple(&question.id, &question.key, Some(staple.der));
            }
            return;
        }
        Err(fault) => fault,
    };
    let is_first = match fault.is_of_responder() {
        true => schedule.unreachable(&question, now),
        false => schedule.unusable(&question, now),
    };
    let (certificate, url) = (&question.id, &question.responder.url);
    match is_first {
        true => tracing::warn!(%certificate, %url, "the OCSP responder {fault}"),
        false => tracing::debug!(%certificate, %url, "the OCSP responder {fault}"),
    }
}
