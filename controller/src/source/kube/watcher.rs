//! One watch at work: it lists, then follows changes, and never gives up.
//!
//! Streaming lists first, because with them one object is decoded at a time; where the server refuses them,
//! lists in small pages. Between two requests a watch is where its [`WatchState`] says. A failure is passed on and
//! tried again from there: it takes back nothing that was passed on before. The [pacer](super::pacer) makes the next
//! request wait.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1 as core;
use kube::Client;
use kube::api::{ListParams, Request, WatchParams};
use sluice_config::NamespacedName;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;

use super::api_health::ApiHealth;
use super::failure::WatchFailure;
use super::known::Version;
use super::lines::{LineRead, Lines};
use super::pacer::REFUSED;
use super::plan::Scope;
use super::referenced_objects::Number;
use super::wire::{self, Item, Line, Page, Watched};
use crate::panic_guard::PanicGuard;
use crate::store::{Kind, Need, Prune, for_each_kind};

/// Seconds that one watch request lives, at least, as with client-go.
const LIFETIME: u32 = 300;
/// Seconds by which lifetimes differ, so that watches are not renewed all at once.
const SPREAD: u32 = 60;
/// Between two lines of a watch. An API server sends a bookmark every minute where nothing else is
/// to be sent; a peer that sends nothing has stopped answering.
const SILENCE: Duration = Duration::from_secs(75);
/// How much later than its lifetime a watch may end.
const MARGIN: u32 = 5;
/// Between two objects of a streaming list. A server that does not support them sends what there is and then nothing.
const LIST_SILENCE: Duration = Duration::from_secs(10);
/// Objects of one page, which is read as a whole.
const PAGE: u32 = 100;
/// After so many refusals the next attempt still comes soon: a right that is being replaced, or an API server that has just
/// begun, refuses for a moment.
const SOON: u32 = 5;
/// Between two attempts at a kind that the API does not have and need not have.
const ABSENT: Duration = Duration::from_secs(10);
/// Between two attempts after those.
const FORBIDDEN: Duration = Duration::from_secs(10);

/// An event of a watch.
#[derive(Debug)]
pub(super) struct WatchEvent {
    /// Number of the watch in the plan.
    pub(super) scope: usize,
    /// What it is.
    pub(super) what: What,
    /// When it was noticed.
    pub(super) at: Instant,
}

/// What has happened.
#[derive(Debug)]
pub(super) enum What {
    /// A list begins.
    Begin,
    /// There is an object.
    Item(Item),
    /// No such object any more, as of this version.
    Gone(NamespacedName, Version),
    /// The list is whole.
    Done,
    /// It does not work.
    Failed(WatchFailure),
    /// It works again.
    Works,
    /// The answer to a request for one object; none when there is none.
    Fetched(NamespacedName, Number, Option<Item>),
    /// There is none yet, for this reason.
    Unfetched(NamespacedName, Number, WatchFailure),
}

/// What a watch needs.
#[derive(Clone)]
pub(super) struct Watcher {
    pub(super) client: Client,
    pub(super) api_health: ApiHealth,
    pub(super) prune: Prune,
    pub(super) events: Sender<WatchEvent>,
    /// Bounds how many objects are asked for at a time: each takes a connection.
    pub(super) fetches: Arc<Semaphore>,
    pub(super) number: usize,
    pub(super) scope: Scope,
    pub(super) _guard: PanicGuard,
}

/// The state of a watch between two requests.
struct WatchState {
    /// Whether lists come as streams.
    streaming: bool,
    /// The version from which changes are followed; a list is due where there is none.
    position: Option<String>,
    /// Whether the API server may have gone back behind that version: it was away, or a watch has had no event in all
    /// its life. Such a server would send nothing until it has come past that version again.
    doubtful: bool,
    /// Refusals in a row.
    refusals: u32,
    /// Whether the last event was that it does not work.
    failed: bool,
}

/// Why a request has not come to its end.
enum Stop {
    /// The receiver of events is gone.
    Unheard,
    /// It does not work.
    Failed(WatchFailure),
}

impl Watcher {
    /// Runs until the receiver of events is gone.
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
        let mut state =
            WatchState { streaming: true, position: None, doubtful: false, refusals: 0, failed: false };
        loop {
            let step = match &state.position {
                Some(position) if state.doubtful => self.confirm::<K>(&position.clone(), &mut state).await,
                None if !state.streaming => self.list::<K>(&mut state).await,
                _ => self.follow::<K>(&mut state).await,
            };
            let pause = match step {
                Ok(()) => continue,
                Err(Stop::Unheard) => return,
                Err(Stop::Failed(failure)) => self.fail(failure, &mut state).await,
            };
            match pause {
                Ok(pause) => tokio::time::sleep(pause).await,
                Err(_) => return,
            }
        }
    }

    /// Decides how to go on after a failure; returns how long to wait beyond what the pacer asks for.
    async fn fail(&self, failure: WatchFailure, state: &mut WatchState) -> Result<Duration, Stop> {
        match &failure {
            WatchFailure::NoStreaming if state.streaming => {
                state.streaming = false;
                tracing::debug!(scope = %self.scope, "the API server has no streaming lists; listing in pages");
                return Ok(Duration::ZERO);
            }
            // What it refuses may be the version itself.
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
        self.say(What::Failed(failure)).await?;
        Ok(match () {
            () if is_absent => ABSENT,
            () if state.refusals > SOON => FORBIDDEN,
            () => Duration::ZERO,
        })
    }

    /// The API server has answered.
    async fn answered(&self, state: &mut WatchState) -> Result<(), Stop> {
        state.refusals = 0;
        if std::mem::take(&mut state.failed) {
            self.say(What::Works).await?;
        }
        Ok(())
    }

    /// One watch request: a list as a stream where one is due, then changes until it ends.
    async fn follow<K: Watched>(&self, state: &mut WatchState) -> Result<(), Stop> {
        let lifetime = LIFETIME + fastrand::u32(..SPREAD);
        let how = WatchParams {
            field_selector: self.scope.fields.clone(),
            label_selector: self.scope.labels.clone(),
            timeout: Some(lifetime),
            bookmarks: true,
            send_initial_events: state.position.is_none(),
        };
        // Without a version a list is as new as the request, wherever it is read from.
        let request = self.request::<K>().watch(&how, state.position.as_deref().unwrap_or_default());
        let mut answer = pin!(self.client.request_stream(request.map_err(odd)?).await.map_err(failed)?);
        self.answered(state).await?;
        if state.position.is_none() {
            self.say(What::Begin).await?;
        }
        let mut lines = Lines::new(answer.as_mut());
        let mut silent = true;
        loop {
            let listing = state.position.is_none();
            let patience = match listing {
                true => LIST_SILENCE,
                false => SILENCE.min(Duration::from_secs((lifetime + MARGIN).into())),
            };
            let text = match lines.next(patience).await {
                LineRead::Line(text) => text,
                LineRead::End | LineRead::Silence if listing => return Err(WatchFailure::NoStreaming.into()),
                LineRead::End => {
                    state.doubtful |= silent;
                    return Ok(());
                }
                LineRead::Silence | LineRead::Cut => {
                    state.doubtful = true;
                    return Ok(());
                }
            };
            silent = false;
            self.api_health.heard();
            let text = match wire::line(text)? {
                Line::Put(text) => {
                    self.say(What::Item(wire::read::<K>(text, &self.prune))).await?;
                    text
                }
                Line::Gone(text) => {
                    let version = Version::of(&wire::version(text).unwrap_or_default());
                    if let Some(name) = wire::name::<K>(text, &self.prune) {
                        self.say(What::Gone(name, version)).await?;
                    }
                    text
                }
                Line::Bookmark(version, true) if listing => {
                    state.position = Some(version);
                    self.say(What::Done).await?;
                    continue;
                }
                Line::Bookmark(version, _) => {
                    state.advance(version)?;
                    continue;
                }
                Line::Error(status) => return Err(WatchFailure::of_status(&status).into()),
            };
            if !listing {
                let version = wire::version(text);
                state.advance(
                    version.ok_or_else(|| WatchFailure::Refused("an object without a version".into()))?,
                )?;
            }
        }
    }

    /// A list in pages.
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
            self.answered(state).await?;
            self.api_health.heard();
            if std::mem::take(&mut first) {
                self.say(What::Begin).await?;
            }
            for item in page.items() {
                self.say(What::Item(wire::read::<K>(item, &self.prune))).await?;
            }
            match page.rest() {
                Some(rest) => how.continue_token = Some(rest.to_owned()),
                None => {
                    let version = page.version();
                    let version =
                        version.ok_or_else(|| WatchFailure::Refused("a list without a version".into()))?;
                    state.position = Some(version.to_owned());
                    state.doubtful = false;
                    return self.say(What::Done).await;
                }
            }
        }
    }

    /// Asks for the newest version of the API server, with the smallest request there is.
    async fn confirm<K: Watched>(&self, position: &str, state: &mut WatchState) -> Result<(), Stop> {
        let how = ListParams {
            field_selector: self.scope.fields.clone(),
            label_selector: self.scope.labels.clone(),
            limit: Some(1),
            ..ListParams::default()
        };
        let text = match self.page::<K>(&how).await {
            Ok(text) => text,
            // Whether watching is allowed, the watch itself will find out.
            Err(Stop::Failed(WatchFailure::Forbidden(_))) => {
                state.doubtful = false;
                return Ok(());
            }
            Err(stop) => return Err(stop),
        };
        let page = Page::read(&text)?;
        self.api_health.heard();
        state.doubtful = false;
        match page.version() {
            Some(now) if Version::of(now).is_before(Version::of(position)) => {
                Err(WatchFailure::Rewound.into())
            }
            _ => Ok(()),
        }
    }

    /// Asks for one object by name until there is an answer, with the same rights and filters as the watch.
    pub(super) async fn fetch(self, name: NamespacedName, number: Number) {
        match self.scope.kind {
            Kind::ConfigMap => self.fetch_of::<core::ConfigMap>(name, number).await,
            // No other kind is asked for by name.
            _ => self.fetch_of::<core::Secret>(name, number).await,
        }
    }

    async fn fetch_of<K: Watched>(self, name: NamespacedName, number: Number) {
        let namespace = self.scope.namespace.as_ref().unwrap_or(&name.namespace);
        let path = K::url_path(&(), Some(namespace));
        // Whatever ends this, there are no more of these requests.
        let _record = Record { api_health: &self.api_health, path: &path };
        let request = Request::new(path.clone());
        let how = ListParams::default().fields(&self.scope.fields_of_one(&name.name));
        let mut failures = 0;
        loop {
            let found = {
                // Held while the request runs and not while it waits: an object that may not be read must not delay others.
                let Ok(_permit) = self.fetches.acquire().await else { return };
                self.ask(&request, &how).await
            };
            let found = found.and_then(|text| {
                let page = Page::read(&text)?;
                let mut items = page.items().map(|item| wire::read::<K>(item, &self.prune));
                Ok(items.find(|item| !matches!(item, Item::Skipped)))
            });
            let failure = match found {
                Ok(found) => {
                    // The receiver is gone at shutdown only.
                    let _ = self.say(What::Fetched(name, number, found)).await;
                    return;
                }
                Err(Stop::Unheard) => return,
                Err(Stop::Failed(failure)) => failure,
            };
            failures += 1;
            // As long as the pacer would have it wait, because it would do so with a permit in
            // hand.
            let pause = match failure {
                WatchFailure::Forbidden(_) if failures > SOON => FORBIDDEN.max(REFUSED.longest(failures)),
                _ => REFUSED.longest(failures),
            };
            if self.say(What::Unfetched(name.clone(), number, failure)).await.is_err() {
                return;
            }
            tokio::time::sleep(pause).await;
        }
    }

    fn request<K: Watched>(&self) -> Request {
        Request::new(K::url_path(&(), self.scope.namespace.as_deref()))
    }

    /// The text of a page.
    async fn page<K: Watched>(&self, how: &ListParams) -> Result<String, Stop> {
        self.ask(&self.request::<K>(), how).await
    }

    async fn ask(&self, request: &Request, how: &ListParams) -> Result<String, Stop> {
        let request = request.list(how).map_err(odd)?;
        self.client.request_text(request).await.map_err(failed)
    }

    async fn say(&self, what: What) -> Result<(), Stop> {
        let event = WatchEvent { scope: self.number, what, at: Instant::now() };
        self.events.send(event).await.map_err(|_| Stop::Unheard)
    }
}

impl WatchState {
    /// Changes are known up to this version. Within a watch versions only rise.
    fn advance(&mut self, version: String) -> Result<(), WatchFailure> {
        if let Some(position) = &self.position {
            if Version::of(&version).is_before(Version::of(position)) {
                return Err(WatchFailure::Rewound);
            }
            self.position = Some(version);
        }
        Ok(())
    }
}

/// The API health record of a question that ends with it.
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

/// A request that cannot be made of what a flag says.
fn odd(error: kube::core::request::Error) -> Stop {
    WatchFailure::Refused(error.to_string()).into()
}
