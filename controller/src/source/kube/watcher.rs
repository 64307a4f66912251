//! One watch at work: lists, then follows, and never gives up.
//!
//! Streaming lists first, because with them one object is decoded at a time; where the server refuses them,
//! lists in small pages. Between two requests a watch is where its [`Course`] says. What failed is passed on in words
//! and tried again from there: nothing that has been said before is taken back by it. The [gate](super::gate) makes
//! the next request wait.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1 as core;
use kube::Client;
use kube::api::{ListParams, Request, WatchParams};
use sluice_config::NamespacedName;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;

use super::backoff;
use super::canary::Canary;
use super::contact::Contact;
use super::fault::Fault;
use super::interest::Number;
use super::known::Version;
use super::lines::{Lines, Next};
use super::plan::Scope;
use super::wire::{self, Item, Line, Page, Watched};
use crate::store::{Kind, Need, Prune, for_each_kind};

/// Seconds that one watch request lives, at least. A peer that has fallen silent is given up five seconds
/// after the request should have ended, which is within a minute.
const LIFETIME: u32 = 45;
/// Seconds by which lifetimes differ, so that watches are not renewed all at once.
const SPREAD: u32 = 6;
/// For the end of a watch that should have ended.
const MARGIN: u32 = 5;
/// Between two objects of a streaming list. A server that does not know of them gives what there is and falls silent.
const LIST_SILENCE: Duration = Duration::from_secs(10);
/// Objects of one page, which is read as a whole.
const PAGE: u32 = 100;
/// So many refusals are followed by the next try soon: a right that is being replaced, or an API server that has just
/// begun, refuses for a moment.
const SOON: u32 = 5;
/// Between two looks whether a kind that a cluster need not have has appeared.
const ABSENT: Duration = Duration::from_secs(10);
/// Until it is tried again whether we may, after those.
const FORBIDDEN: Duration = Duration::from_secs(10);

/// What a watch has to say.
#[derive(Debug)]
pub(super) struct News {
    /// Number of the watch in the plan.
    pub(super) scope: usize,
    /// What it is.
    pub(super) what: What,
    /// When it was noticed.
    pub(super) at: Instant,
}

/// What there is to say.
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
    Failed(Fault),
    /// It works again.
    Works,
    /// The answer to a question for one object; none when there is none.
    Fetched(NamespacedName, Number, Option<Item>),
    /// There is none yet, for this reason.
    Unfetched(NamespacedName, Number, Fault),
}

/// What a watch needs.
#[derive(Clone)]
pub(super) struct Watcher {
    pub(super) client: Client,
    pub(super) contact: Contact,
    pub(super) prune: Prune,
    pub(super) news: Sender<News>,
    /// Bounds how many objects are asked for at a time: each takes a connection.
    pub(super) fetches: Arc<Semaphore>,
    pub(super) number: usize,
    pub(super) scope: Scope,
    pub(super) _canary: Canary,
}

/// Where a watch stands between two requests.
struct Course {
    /// Whether lists come as streams.
    streaming: bool,
    /// The version from which changes are followed; a list is due where there is none.
    position: Option<String>,
    /// Whether the API server may have gone back behind that version: it was away, or a watch has said nothing all its
    /// life. Such a server would keep silent until it has come past that version again.
    doubtful: bool,
    /// Refusals in a row.
    refusals: u32,
    /// Whether the last thing said is that it does not work.
    failed: bool,
}

/// Why a request has not come to its end.
enum Stop {
    /// Nobody listens any more.
    Unheard,
    /// It does not work.
    Fault(Fault),
}

impl Watcher {
    /// Runs until nobody listens.
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
        let mut course =
            Course { streaming: true, position: None, doubtful: false, refusals: 0, failed: false };
        loop {
            let step = match &course.position {
                Some(position) if course.doubtful => self.confirm::<K>(&position.clone(), &mut course).await,
                None if !course.streaming => self.list::<K>(&mut course).await,
                _ => self.follow::<K>(&mut course).await,
            };
            let pause = match step {
                Ok(()) => continue,
                Err(Stop::Unheard) => return,
                Err(Stop::Fault(fault)) => self.fail(fault, &mut course).await,
            };
            match pause {
                Ok(pause) => tokio::time::sleep(pause).await,
                Err(_) => return,
            }
        }
    }

    /// Decides how to go on after a fault; gives how long to wait beyond what the gate asks for.
    async fn fail(&self, fault: Fault, course: &mut Course) -> Result<Duration, Stop> {
        match &fault {
            Fault::NoStreaming if course.streaming => {
                course.streaming = false;
                tracing::debug!(scope = %self.scope, "the API server has no streaming lists; listing in pages");
                return Ok(Duration::ZERO);
            }
            // What it refuses may be the version itself.
            Fault::Expired | Fault::Rewound | Fault::Refused(_) | Fault::NoStreaming => {
                course.position = None
            }
            Fault::Away => course.doubtful = true,
            Fault::Forbidden(_) | Fault::Unauthorized | Fault::NoKind => {}
        }
        let is_absent = matches!(fault, Fault::NoKind) && self.scope.need == Need::Optional;
        let is_refusal = matches!(fault, Fault::Forbidden(_));
        course.refusals = if is_refusal { course.refusals.saturating_add(1) } else { 0 };
        course.failed = true;
        self.say(What::Failed(fault)).await?;
        Ok(match () {
            () if is_absent => ABSENT,
            () if course.refusals > SOON => FORBIDDEN,
            () => Duration::ZERO,
        })
    }

    /// The API server has answered.
    async fn answered(&self, course: &mut Course) -> Result<(), Stop> {
        course.refusals = 0;
        if std::mem::take(&mut course.failed) {
            self.say(What::Works).await?;
        }
        Ok(())
    }

    /// One watch request: a list as a stream where one is due, then changes until it ends.
    async fn follow<K: Watched>(&self, course: &mut Course) -> Result<(), Stop> {
        let lifetime = LIFETIME + fastrand::u32(..SPREAD);
        let how = WatchParams {
            field_selector: self.scope.fields.clone(),
            label_selector: self.scope.labels.clone(),
            timeout: Some(lifetime),
            bookmarks: true,
            send_initial_events: course.position.is_none(),
        };
        // Without a version a list is as new as the request, wherever it is read from.
        let request = self.request::<K>().watch(&how, course.position.as_deref().unwrap_or_default());
        let mut answer = pin!(self.client.request_stream(request.map_err(odd)?).await.map_err(failed)?);
        self.answered(course).await?;
        if course.position.is_none() {
            self.say(What::Begin).await?;
        }
        let mut lines = Lines::new(answer.as_mut());
        let mut silent = true;
        loop {
            let listing = course.position.is_none();
            let patience = match listing {
                true => LIST_SILENCE,
                false => Duration::from_secs((lifetime + MARGIN).into()),
            };
            let text = match lines.next(patience).await {
                Next::Line(text) => text,
                Next::End | Next::Silence if listing => return Err(Fault::NoStreaming.into()),
                Next::End => {
                    course.doubtful |= silent;
                    return Ok(());
                }
                Next::Silence | Next::Cut => {
                    course.doubtful = true;
                    return Ok(());
                }
            };
            silent = false;
            self.contact.heard();
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
                    course.position = Some(version);
                    self.say(What::Done).await?;
                    continue;
                }
                Line::Bookmark(version, _) => {
                    course.advance(version)?;
                    continue;
                }
                Line::Error(status) => return Err(Fault::of_status(&status).into()),
            };
            if !listing {
                let version = wire::version(text);
                course
                    .advance(version.ok_or_else(|| Fault::Refused("an object without a version".into()))?)?;
            }
        }
    }

    /// A list in pages.
    async fn list<K: Watched>(&self, course: &mut Course) -> Result<(), Stop> {
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
            self.answered(course).await?;
            self.contact.heard();
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
                    let version = version.ok_or_else(|| Fault::Refused("a list without a version".into()))?;
                    course.position = Some(version.to_owned());
                    course.doubtful = false;
                    return self.say(What::Done).await;
                }
            }
        }
    }

    /// Asks how far the API server is, in as few words as there are.
    async fn confirm<K: Watched>(&self, position: &str, course: &mut Course) -> Result<(), Stop> {
        let how = ListParams {
            field_selector: self.scope.fields.clone(),
            label_selector: self.scope.labels.clone(),
            limit: Some(1),
            ..ListParams::default()
        };
        let text = match self.page::<K>(&how).await {
            Ok(text) => text,
            // Whether we may watch, the watch itself will find.
            Err(Stop::Fault(Fault::Forbidden(_))) => {
                course.doubtful = false;
                return Ok(());
            }
            Err(stop) => return Err(stop),
        };
        let page = Page::read(&text)?;
        self.contact.heard();
        course.doubtful = false;
        match page.version() {
            Some(now) if Version::of(now).is_before(Version::of(position)) => Err(Fault::Rewound.into()),
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
        // Whatever ends this, nobody waits for these requests any more.
        let _record = Record { contact: &self.contact, path: &path };
        let request = Request::new(path.clone());
        let how = ListParams::default().fields(&self.scope.fields_of_one(&name.name));
        let mut failures = 0;
        loop {
            let found = {
                // Held while it is asked and not while it waits: one that nobody may read must not keep others.
                let Ok(_permit) = self.fetches.acquire().await else { return };
                self.ask(&request, &how).await
            };
            let found = found.and_then(|text| {
                let page = Page::read(&text)?;
                let mut items = page.items().map(|item| wire::read::<K>(item, &self.prune));
                Ok(items.find(|item| !matches!(item, Item::Skipped)))
            });
            let fault = match found {
                Ok(found) => {
                    // An end of the program is the only reason for which nobody listens.
                    let _ = self.say(What::Fetched(name, number, found)).await;
                    return;
                }
                Err(Stop::Unheard) => return,
                Err(Stop::Fault(fault)) => fault,
            };
            failures += 1;
            let pause = match fault {
                Fault::Forbidden(_) if failures > SOON => FORBIDDEN,
                _ => backoff::wait(failures),
            };
            if self.say(What::Unfetched(name.clone(), number, fault)).await.is_err() {
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
        let news = News { scope: self.number, what, at: Instant::now() };
        self.news.send(news).await.map_err(|_| Stop::Unheard)
    }
}

impl Course {
    /// Changes are known up to this version. Within a watch versions only rise.
    fn advance(&mut self, version: String) -> Result<(), Fault> {
        if let Some(position) = &self.position {
            if Version::of(&version).is_before(Version::of(position)) {
                return Err(Fault::Rewound);
            }
            self.position = Some(version);
        }
        Ok(())
    }
}

/// The record of contact of a question that ends with it.
struct Record<'a> {
    contact: &'a Contact,
    path: &'a str,
}

impl Drop for Record<'_> {
    fn drop(&mut self) {
        self.contact.forget(self.path);
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

fn failed(error: kube::Error) -> Stop {
    Fault::of_request(&error).into()
}

/// A request that cannot be made of what a flag says.
fn odd(error: kube::core::request::Error) -> Stop {
    Fault::Refused(error.to_string()).into()
}
