//! One watch: lists, then follows changes, and never gives up.
//!
//! Streaming lists are preferred, because they are decoded one object at a time; if the server
//! refuses them, lists are read in small pages. [`WatchState`] is the state between two requests. A
//! failure is reported and retried from there; it revokes nothing that was already delivered. The
//! [pacer](super::pacer) delays the next request. While only the watch fails, changes are seen by
//! complete lists.

mod state;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1 as core;
use kube::Client;
use kube::api::{ListParams, Request, WatchParams};
use sluice_config::NamespacedName;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;

use super::api_health::{self, ApiHealth};
use super::failure::WatchFailure;
use super::known::Version;
use super::lines::{LineRead, Lines};
use super::pacer::{REFUSED, SHORT_WATCH};
use super::plan::Scope;
use super::referenced_objects::Number;
use super::wire::{self, Item, Line, Page, Watched};
use crate::panic_guard::PanicGuard;
use crate::store::{Kind, Need, Prune, for_each_kind};
use state::{Step, WatchState};

/// Minimum lifetime of one watch request in seconds, as in client-go.
const LIFETIME: u32 = 300;
/// Jitter of lifetimes in seconds, so that watches are not all renewed at once.
const SPREAD: u32 = 60;
/// Maximum time between two lines of a watch. API servers send a bookmark every minute if there is
/// nothing else; a silent peer is dead.
const SILENCE: Duration = Duration::from_secs(75);
/// Time in seconds after its lifetime by which a watch must end.
const MARGIN: u32 = 5;
/// Maximum time between two objects of a streaming list. A server without support for them sends
/// the current state and then nothing.
const LIST_SILENCE: Duration = Duration::from_secs(10);
/// Number of objects per page. A page is read as a whole.
const PAGE: u32 = 100;
/// Number of refusals after which attempts become rare. Before that they are frequent: while a
/// right is being replaced or an API server starts, refusals are brief.
const SOON: u32 = 5;
/// Interval between attempts for an optional kind that the API lacks.
const ABSENT: Duration = Duration::from_secs(10);
/// Interval between attempts after [`SOON`] refusals.
const FORBIDDEN: Duration = Duration::from_secs(10);

/// An event of a watch.
#[derive(Debug)]
pub(super) struct WatchEvent {
    /// Number of the watch in the plan.
    pub(super) scope: usize,
    /// The content of the event.
    pub(super) what: What,
    /// When it was received.
    pub(super) at: Instant,
}

/// The content of an event.
#[derive(Debug)]
pub(super) enum What {
    /// A list starts.
    Begin,
    /// An object.
    Item(Item),
    /// The object was deleted as of this version.
    Gone(NamespacedName, Version),
    /// The list is complete.
    Done,
    /// The watch failed.
    Failed(WatchFailure),
    /// The watch works again.
    Works,
    /// The response to a request for one object. `None` if it does not exist.
    Fetched(NamespacedName, Number, Option<Item>),
    /// The request for one object failed.
    Unfetched(NamespacedName, Number, WatchFailure),
}

/// The inputs of a watch.
#[derive(Clone)]
pub(super) struct Watcher {
    pub(super) client: Client,
    pub(super) api_health: ApiHealth,
    pub(super) prune: Prune,
    pub(super) events: Sender<WatchEvent>,
    /// Limits concurrent requests for single objects: each needs a connection.
    pub(super) fetches: Arc<Semaphore>,
    pub(super) number: usize,
    pub(super) scope: Scope,
    pub(super) _guard: PanicGuard,
}

/// Why a request ended early.
enum Stop {
    /// The receiver of events is gone.
    Unheard,
    /// The request failed.
    Failed(WatchFailure),
}

impl Watcher {
    /// Runs until the receiver of events is dropped.
    pub(super) async fn run(self) {
        macro_rules! watch {
            ($($kind:ident: $store:ident, $api:ty, $group:literal, $resource:literal, $namespaced:literal,
                $need:ident, $doc:literal;)*) => {
                match self.scope.kind {
                    $(Kind::$kind => self.watch::<$api>().await,)*
                }
            };
        }
        for_each_kind!(watch);
    }

    async fn watch<K: Watched>(self) {
        let mut state = WatchState::new();
        loop {
            let step = state.step();
            let result = match &step {
                Step::Confirm(position) => self.confirm::<K>(position, &mut state).await,
                Step::List => self.list::<K>(&mut state).await,
                Step::Follow => self.follow::<K>(&mut state).await,
            };
            let failure = match result {
                Ok(()) => continue,
                Err(Stop::Unheard) => return,
                Err(Stop::Failed(failure)) => failure,
            };
            let relist = match step {
                Step::Follow => state.watch_failed(&failure),
                Step::Confirm(_) | Step::List => Duration::ZERO,
            };
            match self.fail(failure, &mut state).await {
                Ok(pause) => tokio::time::sleep(pause.max(relist)).await,
                Err(_) => return,
            }
        }
    }

    /// Updates the state after a failure. Returns the wait in addition to the pacer's.
    async fn fail(&self, failure: WatchFailure, state: &mut WatchState) -> Result<Duration, Stop> {
        match &failure {
            WatchFailure::NoStreaming if state.streaming => {
                state.streaming = false;
                tracing::debug!(scope = %self.scope, "the API server has no streaming lists; listing in pages");
                return Ok(Duration::ZERO);
            }
            // The refused value may be the version itself.
            WatchFailure::Expired
            | WatchFailure::Rewound
            | WatchFailure::Refused(_)
            | WatchFailure::NoStreaming => state.position = None,
            WatchFailure::Away => state.doubtful = true,
            WatchFailure::Forbidden(_) | WatchFailure::Unauthorized | WatchFailure::NoKind => {}
        }
        let is_absent = matches!(failure, WatchFailure::NoKind) && self.scope.need == Need::Optional;
        let is_refusal = matches!(failure, WatchFailure::Forbidden(_));
        state.refusals = if is_refusal { state.refusals.saturating_add(1) } else { 0 };
        state.failed = true;
        self.send_event(What::Failed(failure)).await?;
        Ok(match () {
            () if is_absent => ABSENT,
            () if state.refusals > SOON => FORBIDDEN,
            () => Duration::ZERO,
        })
    }

    /// Records a successful response.
    async fn answered(&self, state: &mut WatchState) -> Result<(), Stop> {
        state.refusals = 0;
        if std::mem::take(&mut state.failed) {
            self.send_event(What::Works).await?;
        }
        Ok(())
    }

    /// Runs one watch request: a streamed list if one is due, then changes until it ends.
    async fn follow<K: Watched>(&self, state: &mut WatchState) -> Result<(), Stop> {
        let lifetime = LIFETIME + fastrand::u32(..SPREAD);
        let how = WatchParams {
            field_selector: self.scope.fields.clone(),
            label_selector: self.scope.labels.clone(),
            timeout: Some(lifetime),
            bookmarks: true,
            send_initial_events: state.position.is_none(),
        };
        // Without a version, a list is always current as of the request.
        let request = self.request::<K>();
        let watch = api_health::watch_of(&request.url_path);
        state.proven = false;
        let request = request.watch(&how, state.position.as_deref().unwrap_or_default());
        let mut answer =
            pin!(self.client.request_stream(request.map_err(invalid_request)?).await.map_err(failed)?);
        self.answered(state).await?;
        if state.position.is_none() {
            self.send_event(What::Begin).await?;
        }
        let mut lines = Lines::new(answer.as_mut());
        let begun = Instant::now();
        let mut silent = true;
        loop {
            let listing = state.position.is_none();
            let time_limit = match listing {
                true => LIST_SILENCE,
                false => SILENCE.min(Duration::from_secs((lifetime + MARGIN).into())),
            };
            let text = match lines.next(time_limit).await {
                LineRead::Line(text) => text,
                LineRead::End | LineRead::Silence if listing => return Err(WatchFailure::NoStreaming.into()),
                // Counted, so that lists in pages follow if every streamed list is cut: by a proxy
                // that limits the time or size of a response, for example.
                LineRead::Cut if listing => {
                    self.watch_fails(&watch, "its streamed lists are cut before their end");
                    return Err(WatchFailure::Away.into());
                }
                LineRead::End | LineRead::Cut if silent && begun.elapsed() < SHORT_WATCH => {
                    self.watch_fails(&watch, "its watches are closed at once");
                    return Err(WatchFailure::Away.into());
                }
                end => {
                    state.doubtful |= silent || end != LineRead::End;
                    self.watch_works(&watch, state);
                    return Ok(());
                }
            };
            silent = false;
            self.api_health.data_received();
            let text = match wire::line(text)? {
                Line::Put(text) => {
                    self.send_event(What::Item(wire::read::<K>(text, &self.prune))).await?;
                    text
                }
                Line::Gone(text) => {
                    let version = Version::of(&wire::version(text).unwrap_or_default());
                    if let Some(name) = wire::name::<K>(text, &self.prune) {
                        self.send_event(What::Gone(name, version)).await?;
                    }
                    text
                }
                Line::Bookmark(version, true) if listing => {
                    state.position = Some(version);
                    self.send_event(What::Done).await?;
                    continue;
                }
                Line::Bookmark(version, _) => {
                    state.advance(version)?;
                    self.watch_works(&watch, state);
                    continue;
                }
                Line::Error(status) => {
                    let failure = WatchFailure::of_status(&status);
                    if failure == WatchFailure::Away {
                        self.watch_fails(&watch, &format!("its watches end with the error {}", status.code));
                    }
                    return Err(failure.into());
                }
            };
            if !listing {
                let version = wire::version(text);
                state.advance(
                    version.ok_or_else(|| WatchFailure::Refused("an object without a version".into()))?,
                )?;
                self.watch_works(&watch, state);
            }
        }
    }

    /// Records in the API health that a watch works. Once per request, because it takes a lock.
    fn watch_works(&self, watch: &str, state: &mut WatchState) {
        state.watch_failures = 0;
        if !std::mem::replace(&mut state.proven, true) {
            self.api_health.answered(watch);
        }
    }

    /// Records in the API health that a watch failed although its request was granted.
    fn watch_fails(&self, watch: &str, reason: &str) {
        self.api_health.failed(watch, tokio::time::Instant::now(), reason);
    }

    /// Reads a list in pages.
    async fn list<K: Watched>(&self, state: &mut WatchState) -> Result<(), Stop> {
        let mut how = ListParams {
            field_selector: self.scope.fields.clone(),
            label_selector: self.scope.labels.clone(),
            limit: Some(PAGE),
            ..ListParams::default()
        };
        let mut first = true;
        loop {
            let text = self.page::<K>(&how).await?;
            let page = Page::read(&text)?;
            // Otherwise only a watch that is granted ends the failure.
            if state.watch_failures == 0 {
                self.answered(state).await?;
            }
            self.api_health.data_received();
            if std::mem::take(&mut first) {
                self.send_event(What::Begin).await?;
            }
            for item in page.items() {
                self.send_event(What::Item(wire::read::<K>(item, &self.prune))).await?;
            }
            match page.rest() {
                Some(rest) => how.continue_token = Some(rest.to_owned()),
                None => {
                    let version = page.version();
                    let version =
                        version.ok_or_else(|| WatchFailure::Refused("a list without a version".into()))?;
                    state.position = Some(version.to_owned());
                    state.doubtful = false;
                    return self.send_event(What::Done).await;
                }
            }
        }
    }

    /// Requests the newest version of the API server by the smallest possible list.
    async fn confirm<K: Watched>(&self, position: &str, state: &mut WatchState) -> Result<(), Stop> {
        let how = ListParams {
            field_selector: self.scope.fields.clone(),
            label_selector: self.scope.labels.clone(),
            limit: Some(1),
            ..ListParams::default()
        };
        let text = match self.page::<K>(&how).await {
            Ok(text) => text,
            // The watch request itself shows whether watching is permitted.
            Err(Stop::Failed(WatchFailure::Forbidden(_))) => {
                state.doubtful = false;
                return Ok(());
            }
            Err(stop) => return Err(stop),
        };
        let page = Page::read(&text)?;
        self.api_health.data_received();
        state.doubtful = false;
        match page.version() {
            Some(now) if Version::of(now).is_before(Version::of(position)) => {
                Err(WatchFailure::Rewound.into())
            }
            _ => Ok(()),
        }
    }

    /// Requests one object by name until there is a response, with the rights and filters of the
    /// watch.
    pub(super) async fn fetch(self, name: NamespacedName, number: Number) {
        match self.scope.kind {
            Kind::ConfigMap => self.fetch_of::<core::ConfigMap>(name, number).await,
            // No other kind is requested by name.
            _ => self.fetch_of::<core::Secret>(name, number).await,
        }
    }

    async fn fetch_of<K: Watched>(self, name: NamespacedName, number: Number) {
        let namespace = self.scope.namespace.as_ref().unwrap_or(&name.namespace);
        let path = K::url_path(&(), Some(namespace));
        // Ends the health record of this path when the request ends, for whatever reason.
        let _record = Record { api_health: &self.api_health, path: &path };
        let request = Request::new(path.clone());
        let how = ListParams::default().fields(&self.scope.fields_of_one(&name.name));
        let mut failures = 0;
        loop {
            let found = {
                // Held during requests only and not during waits: a forbidden object must not delay
                // others.
                let Ok(_permit) = self.fetches.acquire().await else { return };
                self.fetch_text(&request, &how).await
            };
            let found = found.and_then(|text| {
                let page = Page::read(&text)?;
                let mut items = page.items().map(|item| wire::read::<K>(item, &self.prune));
                Ok(items.find(|item| !matches!(item, Item::Skipped)))
            });
            let failure = match found {
                Ok(found) => {
                    // Fails only during shutdown.
                    let _ = self.send_event(What::Fetched(name, number, found)).await;
                    return;
                }
                Err(Stop::Unheard) => return,
                Err(Stop::Failed(failure)) => failure,
            };
            failures += 1;
            // The same wait as the pacer's, done here because the pacer would wait while the permit
            // is held.
            let pause = match failure {
                WatchFailure::Forbidden(_) if failures > SOON => FORBIDDEN.max(REFUSED.longest(failures)),
                _ => REFUSED.longest(failures),
            };
            if self.send_event(What::Unfetched(name.clone(), number, failure)).await.is_err() {
                return;
            }
            tokio::time::sleep(pause).await;
        }
    }

    fn request<K: Watched>(&self) -> Request {
        Request::new(K::url_path(&(), self.scope.namespace.as_deref()))
    }

    /// Returns the text of a page.
    async fn page<K: Watched>(&self, how: &ListParams) -> Result<String, Stop> {
        self.fetch_text(&self.request::<K>(), how).await
    }

    async fn fetch_text(&self, request: &Request, how: &ListParams) -> Result<String, Stop> {
        let request = request.list(how).map_err(invalid_request)?;
        self.client.request_text(request).await.map_err(failed)
    }

    async fn send_event(&self, what: What) -> Result<(), Stop> {
        let event = WatchEvent { scope: self.number, what, at: Instant::now() };
        self.events.send(event).await.map_err(|_| Stop::Unheard)
    }
}

/// Removes the API health record of a path when dropped.
struct Record<'a> {
    api_health: &'a ApiHealth,
    path: &'a str,
}

impl Drop for Record<'_> {
    fn drop(&mut self) {
        self.api_health.forget(self.path);
    }
}

impl From<WatchFailure> for Stop {
    fn from(failure: WatchFailure) -> Self {
        Self::Failed(failure)
    }
}

fn failed(error: kube::Error) -> Stop {
    WatchFailure::of_request(&error).into()
}

/// Returns the failure of a request that cannot be built from the flags.
fn invalid_request(error: kube::core::request::Error) -> Stop {
    WatchFailure::Refused(error.to_string()).into()
}

#[cfg(test)]
mod tests;
