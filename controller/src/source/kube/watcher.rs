//! One watch at work: what the library's watcher gives, pruned, into the queue of the reader.
//!
//! Streaming lists first, because with them one object is decoded at a time; where the server refuses them,
//! lists in small pages. What failed is passed on in words, and the next try is the watcher's: the
//! [gate](super::gate) makes it wait.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::networking::v1 as networking;
use kube::api::ListParams;
use kube::runtime::watcher::{Config, Event, InitialListStrategy, watcher};
use kube::{Api, Client, ResourceExt};
use sluice_config::NamespacedName;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;

use super::backoff;
use super::canary::Canary;
use super::contact::Contact;
use super::fault::Fault;
use super::known::Version;
use super::plan::Scope;
use super::wire::{Slim, Watched};
use crate::store::{Kind, Object, Prune};

/// Seconds that one watch request lives, at least. A peer that has fallen silent is given up five seconds
/// after the request should have ended, which is within a minute.
const LIFETIME: u32 = 45;
/// Seconds by which lifetimes differ, so that watches are not renewed all at once.
const SPREAD: u32 = 6;
/// Objects of one page, which is decoded as a whole.
const PAGE: u32 = 100;
/// Until it is tried again whether we may.
const FORBIDDEN: Duration = Duration::from_secs(10);
/// Lists without an end after which a server is taken for one that ignores what it does not know.
const ENDLESS: u32 = 2;

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
    /// An object of this version.
    Put(Object, Version),
    /// No such object any more, as of this version.
    Gone(NamespacedName, Version),
    /// The list is whole.
    Done,
    /// It does not work.
    Failed(Fault),
    /// An object that was asked for by name; none when there is none.
    Fetched(NamespacedName, Option<(Object, Version)>),
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

impl Watcher {
    /// Runs until nobody listens.
    pub(super) async fn run(self) {
        match self.scope.kind {
            Kind::Ingress => self.watch::<networking::Ingress>().await,
            Kind::IngressClass => self.watch::<networking::IngressClass>().await,
            Kind::Service => self.watch::<core::Service>().await,
            Kind::EndpointSlice => self.watch::<discovery::EndpointSlice>().await,
            Kind::Secret => self.watch::<core::Secret>().await,
            Kind::ConfigMap => self.watch::<core::ConfigMap>().await,
            Kind::Namespace => self.watch::<core::Namespace>().await,
        }
    }

    fn api<K: Watched>(&self) -> Api<Slim<K>> {
        match &self.scope.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &()),
            None => Api::all_with(self.client.clone(), &()),
        }
    }

    async fn watch<K: Watched>(self) {
        let mut strategy = InitialListStrategy::StreamingList;
        while self.watch_by::<K>(strategy.clone()).await.is_some() {
            tracing::debug!(scope = %self.scope, "the API server has no streaming lists; listing in pages");
            strategy = InitialListStrategy::ListWatch;
        }
    }

    /// Runs until nobody listens, or until the server turns out to have no streaming lists.
    async fn watch_by<K: Watched>(&self, strategy: InitialListStrategy) -> Option<()> {
        let streaming = strategy == InitialListStrategy::StreamingList;
        let config = Config {
            initial_list_strategy: strategy,
            timeout: Some(LIFETIME + fastrand::u32(..SPREAD)),
            page_size: Some(PAGE),
            field_selector: self.scope.fields.clone(),
            label_selector: self.scope.labels.clone(),
            ..Config::default()
        };
        let mut events = pin!(watcher(self.api::<K>(), config));
        let mut endless = 0;
        while let Some(event) = events.next().await {
            let mut pause = Duration::ZERO;
            let what = match event {
                Ok(event) => {
                    self.contact.heard();
                    match event {
                        Event::Init => {
                            endless += 1;
                            if streaming && endless > ENDLESS {
                                return Some(());
                            }
                            What::Begin
                        }
                        Event::InitDone => {
                            endless = 0;
                            What::Done
                        }
                        Event::InitApply(object) | Event::Apply(object) => match self.put(object) {
                            Some(what) => what,
                            None => continue,
                        },
                        Event::Delete(object) => match self.gone(&object) {
                            Some(what) => what,
                            None => continue,
                        },
                    }
                }
                Err(error) => {
                    let fault = Fault::of_watch(&error);
                    endless = 0;
                    match fault {
                        Fault::NoStreaming if streaming => return Some(()),
                        Fault::Forbidden(_) => pause = FORBIDDEN,
                        _ => {}
                    }
                    What::Failed(fault)
                }
            };
            self.say(what).await?;
            tokio::time::sleep(pause).await;
        }
        None
    }

    /// Asks for one object by name until there is an answer, with the same rights and filters as the watch.
    pub(super) async fn fetch(self, name: NamespacedName) {
        // Nobody closes it.
        let Ok(_permit) = self.fetches.clone().acquire_owned().await else { return };
        let api: Api<Slim<core::Secret>> = match &self.scope.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &()),
            None => Api::namespaced_with(self.client.clone(), &name.namespace, &()),
        };
        let how = ListParams::default().fields(&self.scope.fields_of_one(&name.name));
        let mut failures = 0;
        loop {
            match api.list(&how).await {
                Ok(found) => {
                    let found = found.items.into_iter().find_map(|object| match self.put(object)? {
                        What::Put(object, version) => Some((object, version)),
                        _ => None,
                    });
                    let _ = self.say(What::Fetched(name, found)).await;
                    return;
                }
                Err(error) => {
                    failures += 1;
                    if let fault @ Fault::Forbidden(_) = Fault::of_request(&error)
                        && self.say(What::Failed(fault)).await.is_none()
                    {
                        return;
                    }
                    tokio::time::sleep(backoff::wait(failures)).await;
                }
            }
            if self.news.is_closed() {
                return;
            }
        }
    }

    fn put<K: Watched>(&self, object: Slim<K>) -> Option<What> {
        let version = Version::of(object.0.meta().resource_version.as_deref());
        // Without a name there is nothing to know it by; an API server gives none of that sort.
        object.0.prune(&self.prune).ok().flatten().map(|object| What::Put(object, version))
    }

    fn gone<K: Watched>(&self, object: &Slim<K>) -> Option<What> {
        let version = Version::of(object.resource_version().as_deref());
        let name = self.prune.name_of(object.0.meta(), K::KIND.is_namespaced()).ok()?;
        Some(What::Gone(name, version))
    }

    /// `None` when nobody listens any more.
    async fn say(&self, what: What) -> Option<()> {
        self.news.send(News { scope: self.number, what, at: Instant::now() }).await.ok()
    }
}
