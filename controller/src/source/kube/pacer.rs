//! Pacing of all requests to the API: a request waits after failures of similar ones, has a time
//! limit for the head of its response, and its result is recorded in the API health.
//!
//! A watch and the lists of the same path have separate records: otherwise a list that succeeds
//! would hide a watch that always fails. A streamed list counts as a list.
//!
//! A closed watch is renewed at once, so a server or proxy that closes each watch immediately would
//! cause a busy loop. The pacer prevents that: a watch that closely follows the previous one of its
//! kind delays the next one like a failure, whatever other requests return.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, StatusCode, Uri};
use tokio::time::Instant;
use tower::{BoxError, Layer, Service, ServiceExt};

use super::api_health::{self, ApiHealth};
use super::postponed::retry_after;
use crate::backoff::Backoff;

/// Time limit for the head of a response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// A watch that ended earlier than this counts as closed at once.
pub(super) const SHORT_WATCH: Duration = Duration::from_secs(2);

/// Wait after failures to connect. The maximum is low: attempts do not burden a server that is
/// down, and the configuration must not stay outdated for half a minute after an outage.
const UNREACHABLE: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
/// Wait after refusals and timeouts: the server is up and may be overloaded. The maximum is that of
/// client-go.
pub(super) const REFUSED: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(30));

/// Reason and remedy for a request that was rate-limited.
const THROTTLED: &str = "it answers 429, too many requests: it limits the requests of this gateway; check its \
                         load, and the FlowSchemas and priority levels of its ServiceAccount";

/// A layer that adds the pacer to a client.
#[derive(Clone)]
pub(super) struct PacerLayer {
    api_health: ApiHealth,
    paces: Arc<Mutex<Paces>>,
}

/// By key of the requests.
type Paces = HashMap<String, Pace>;

/// What the pacer needs of a request.
#[derive(Debug, PartialEq, Eq)]
struct RequestKind {
    /// Shared with later requests like it: path and selectors, and whether it follows changes.
    key: String,
    /// Its name in the API health.
    name: String,
    /// Whether it is a watch, possibly with a streamed list.
    is_watch: bool,
}

/// The history of requests of one kind.
#[derive(Debug, Default)]
struct Pace {
    /// Consecutive failures of the same category.
    failures: u32,
    sort: Failure,
    /// No request before this time.
    not_before: Option<Instant>,
    /// Consecutive watches that were closed at once.
    short: u32,
    /// When the last watch got its response.
    watch: Option<Instant>,
}

/// The category of a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Failure {
    /// The connection failed.
    #[default]
    Unreachable,
    /// The server refused, or did not respond in time.
    Refused,
}

/// A client with the pacer.
#[derive(Clone)]
pub(super) struct Pacer<S> {
    layer: PacerLayer,
    inner: S,
}

impl PacerLayer {
    pub(super) fn new(api_health: ApiHealth) -> Self {
        Self { api_health, paces: Arc::default() }
    }

    fn with_pace<T>(&self, key: &str, change: impl FnOnce(&mut Pace) -> T) -> T {
        // The counts are consistent at all times, so a panic elsewhere does no harm.
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        match paces.get_mut(key) {
            Some(pace) => change(pace),
            None => change(paces.entry(key.to_owned()).or_default()),
        }
    }
}

impl Pace {
    /// Returns how long a request must wait from now.
    fn wait(&mut self, is_watch: bool, now: Instant) -> Duration {
        if let Some(began) = self.watch.take_if(|_| is_watch) {
            let is_short = now.duration_since(began) < SHORT_WATCH;
            self.short = if is_short { self.short.saturating_add(1) } else { 0 };
        }
        let short = if is_watch { UNREACHABLE.wait(self.short) } else { Duration::ZERO };
        let failed = self.not_before.map(|at| at.saturating_duration_since(now)).unwrap_or_default();
        failed.max(short)
    }

    fn answered(&mut self, is_watch: bool, now: Instant) {
        (self.failures, self.not_before) = (0, None);
        if is_watch {
            // The success of a watch is judged when it ends.
            self.watch = Some(now);
        }
    }

    fn failed(&mut self, sort: Failure, retry_after: Option<Duration>, now: Instant) {
        self.failures = if sort == self.sort { self.failures.saturating_add(1) } else { 1 };
        self.sort = sort;
        let backoff = match sort {
            Failure::Unreachable => UNREACHABLE,
            Failure::Refused => REFUSED,
        };
        self.not_before = Some(now + backoff.wait(self.failures).max(retry_after.unwrap_or_default()));
    }
}

impl<S> Layer<S> for PacerLayer {
    type Service = Pacer<S>;

    fn layer(&self, inner: S) -> Pacer<S> {
        Pacer { layer: self.clone(), inner }
    }
}

impl<S, B, T> Service<Request<B>> for Pacer<S>
where
    S: Service<Request<B>, Response = Response<T>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = Response<T>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<T>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (pacer, inner) = (self.layer.clone(), self.inner.clone());
        let RequestKind { key, name, is_watch } = RequestKind::of(request.uri());
        let path = request.uri().path().to_owned();
        Box::pin(async move {
            let wait = pacer.with_pace(&key, |pace| pace.wait(is_watch, Instant::now()));
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            let begun = Instant::now();
            let (outcome, sort) = match tokio::time::timeout(ANSWER_TIMEOUT, inner.oneshot(request)).await {
                Ok(outcome) => (outcome.map_err(Into::into), Failure::Unreachable),
                Err(_) => {
                    let silence = format!("no answer within {} s", ANSWER_TIMEOUT.as_secs());
                    (Err(silence.into()), Failure::Refused)
                }
            };
            match &outcome {
                Ok(answer) => {
                    let status = answer.status();
                    if status == StatusCode::TOO_MANY_REQUESTS {
                        // Rate limiting is not an outage, but operators must see why there is no
                        // response.
                        pacer.api_health.failed(&name, begun, THROTTLED);
                    } else if status.is_server_error() {
                        pacer.api_health.failed(&name, begun, &format!("it answers {status}"));
                    } else if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
                        pacer.api_health.refused(
                            &name,
                            begun,
                            &format!("it refuses every request ({status})"),
                        );
                    } else if status.is_success() {
                        // Whether a watch works is seen from its events.
                        pacer.api_health.answered(&path);
                    } else {
                        pacer.api_health.answered(&name);
                    }
                    let after = retry_after(status, answer.headers());
                    pacer.with_pace(&key, |pace| match status.is_success() {
                        true => pace.answered(is_watch, Instant::now()),
                        false => pace.failed(Failure::Refused, after, Instant::now()),
                    });
                }
                Err(error) => {
                    pacer.api_health.failed(&name, begun, &innermost(&**error));
                    pacer.with_pace(&key, |pace| pace.failed(sort, None, Instant::now()));
                }
            }
            outcome
        })
    }
}

impl RequestKind {
    fn of(uri: &Uri) -> Self {
        let mut key = uri.path().to_owned();
        let (mut is_watch, mut is_list) = (false, false);
        for part in uri.query().unwrap_or_default().split('&') {
            is_watch |= part == "watch=true";
            is_list |= part == "sendInitialEvents=true";
            if part.starts_with("fieldSelector=") || part.starts_with("labelSelector=") {
                key.push('&');
                key.push_str(part);
            }
        }
        let mut name = uri.path().to_owned();
        if is_watch && !is_list {
            key.push_str("&watch");
            name = api_health::watch_of(&name);
        }
        Self { key, name, is_watch }
    }
}

/// Returns the innermost cause, which is the most informative.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_that_end_at_once_wait_ever_longer_and_one_that_lives_ends_that() {
        let mut pace = Pace::default();
        let mut now = Instant::now();
        assert_eq!(pace.wait(true, now), Duration::ZERO);
        let mut waits = Vec::new();
        for _ in 0..10 {
            pace.answered(true, now);
            let wait = pace.wait(true, now);
            assert!(!wait.is_zero());
            waits.push(wait);
            now += wait.min(SHORT_WATCH / 2);
        }
        assert!(waits[9] >= Duration::from_secs(1) && waits[0] <= Duration::from_millis(50), "{waits:?}");
        pace.answered(true, now);
        assert_eq!(pace.wait(true, now + SHORT_WATCH), Duration::ZERO);
    }

    #[test]
    fn lists_between_watches_that_end_at_once_do_not_make_them_faster() {
        let mut pace = Pace::default();
        let now = Instant::now();
        for _ in 0..10 {
            assert_eq!(pace.wait(false, now), Duration::ZERO);
            pace.answered(false, now);
            pace.wait(true, now);
            pace.answered(true, now);
        }
        assert!(pace.wait(true, now) >= Duration::from_secs(1));
    }

    #[test]
    fn failures_wait_and_pages_of_a_list_do_not() {
        let mut pace = Pace::default();
        let now = Instant::now();
        pace.failed(Failure::Unreachable, None, now);
        pace.failed(Failure::Unreachable, None, now);
        assert!(pace.wait(false, now) >= Duration::from_millis(50));
        pace.answered(false, now);
        for _ in 0..10 {
            assert_eq!(pace.wait(false, now), Duration::ZERO);
            pace.answered(false, now);
        }
        assert_eq!(pace.wait(true, now), Duration::ZERO);
    }

    #[test]
    fn a_server_that_refuses_is_left_alone_longer_than_one_that_is_not_there() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        (0..20).for_each(|_| pace.failed(Failure::Unreachable, None, now));
        assert!((1..=2).contains(&pace.wait(false, now).as_secs()));
        pace.failed(Failure::Refused, None, now);
        assert!(pace.wait(false, now) <= Duration::from_millis(50), "it is back, and the count begins anew");
        (0..20).for_each(|_| pace.failed(Failure::Refused, None, now));
        assert!((15..=30).contains(&pace.wait(false, now).as_secs()));
        assert_eq!(pace.wait(false, now + REFUSED.cap()), Duration::ZERO, "the time since then counts");
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_of_a_list_or_watch_is_waited_for() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let inner = tower::service_fn({
            let asked = asked.clone();
            move |_: Request<()>| {
                asked.lock().unwrap().push(Instant::now());
                let busy = Response::builder().status(429).header("retry-after", "30").body(()).unwrap();
                async { Ok::<_, BoxError>(busy) }
            }
        });
        let mut pacer = PacerLayer::new(ApiHealth::new()).layer(inner);
        let rounds = async {
            loop {
                pacer.call(Request::get("/api/v1/services").body(()).unwrap()).await.unwrap();
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(95), rounds).await.is_err());
        assert_eq!(asked.lock().unwrap().len(), 4, "every 30 s");
    }

    #[tokio::test]
    async fn an_api_server_that_only_postpones_counts_as_unavailable() {
        let api_health = ApiHealth::new();
        let mut seen = api_health.subscribe();
        let inner = tower::service_fn(async |_: Request<()>| {
            Ok::<_, BoxError>(Response::builder().status(StatusCode::TOO_MANY_REQUESTS).body(()).unwrap())
        });
        let mut pacer = PacerLayer::new(api_health).layer(inner);
        let limit = Instant::now() + Duration::from_secs(60);
        while seen.borrow_and_update().away.is_none() {
            assert!(Instant::now() < limit, "no subscriber was woken");
            pacer.call(Request::get("/api/v1/services").body(()).unwrap()).await.unwrap();
        }
        let reason = seen.borrow().away.clone().unwrap().reason;
        assert!(reason.contains("429") && reason.contains("FlowSchemas"), "{reason}");
    }

    /// As of a watch that fails and is confirmed by a list each time.
    #[tokio::test(start_paused = true)]
    async fn lists_that_succeed_hide_no_watch_that_always_fails() {
        let api_health = ApiHealth::new();
        let watches = Arc::new(Mutex::new(0));
        let inner = tower::service_fn({
            let watches = watches.clone();
            move |request: Request<()>| {
                let is_watch = RequestKind::of(request.uri()).is_watch;
                *watches.lock().unwrap() += u32::from(is_watch);
                let status = if is_watch { 500 } else { 200 };
                async move { Ok::<_, BoxError>(Response::builder().status(status).body(()).unwrap()) }
            }
        });
        let mut pacer = PacerLayer::new(api_health.clone()).layer(inner);
        let rounds = async {
            loop {
                for uri in ["/api/v1/services?watch=true", "/api/v1/services?limit=1"] {
                    pacer.call(Request::get(uri).body(()).unwrap()).await.unwrap();
                }
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(120), rounds).await.is_err());
        let state = api_health.subscribe().borrow().clone();
        assert_eq!(state.away, None);
        assert_eq!(
            state.failing.keys().map(|name| &**name).collect::<Vec<_>>(),
            ["/api/v1/services?watch=true"]
        );
        let watches = *watches.lock().unwrap();
        assert!((10..20).contains(&watches), "{watches}");
    }

    #[test]
    fn a_request_is_known_by_path_selectors_and_whether_it_follows_changes() {
        let kind = |query: &str| {
            let uri = format!("https://a/api/v1/secrets?{query}").parse::<Uri>().unwrap();
            let RequestKind { key, name, is_watch } = RequestKind::of(&uri);
            (key.replace("/api/v1/", ""), name.replace("/api/v1/", ""), is_watch)
        };
        let of = |key: &str, name: &str, is_watch| (key.to_owned(), name.to_owned(), is_watch);
        let list = "secrets&fieldSelector=x";
        assert_eq!(kind("fieldSelector=x&limit=500"), of(list, "secrets", false));
        let streamed = "watch=true&fieldSelector=x&sendInitialEvents=true";
        assert_eq!(kind(streamed), of(list, "secrets", true));
        let watch = "watch=true&fieldSelector=x&resourceVersion=7";
        assert_eq!(kind(watch), of("secrets&fieldSelector=x&watch", "secrets?watch=true", true));
    }
}
