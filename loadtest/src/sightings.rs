//! When a watch of our own saw a change: the part of its way to the gateway that is the API server's, so that what is
//! left is ours.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long a change may take to be seen.
const PATIENCE: Duration = Duration::from_secs(30);

/// What watches saw, and when. They end with this value.
pub struct Sightings {
    seen: Arc<Mutex<HashMap<String, Instant>>>,
    count: watch::Sender<u64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Sightings {
    /// Nothing is watched yet.
    pub fn new() -> Self {
        Self { seen: Arc::default(), count: watch::Sender::new(0), tasks: Vec::new() }
    }

    /// Watches the objects of a kind.
    pub fn watch<K>(&mut self, api: Api<K>)
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
        K::DynamicType: Default,
    {
        let (seen, count) = (self.seen.clone(), self.count.clone());
        self.tasks.push(tokio::spawn(async move {
            let mut objects = std::pin::pin!(watcher(api, watcher::Config::default()).touched_objects());
            while let Some(object) = objects.next().await {
                let now = Instant::now();
                // A watch that broke is begun again by the stream; the sighting is then late or missing.
                let Ok(object) = object else { continue };
                let version = object.resource_version().unwrap_or_default();
                seen.lock().unwrap_or_else(PoisonError::into_inner).insert(version, now);
                count.send_modify(|count| *count += 1);
            }
        }));
    }

    /// When the change that led to a resource version was seen. The sighting is forgotten.
    ///
    /// # Errors
    /// It is not seen in time.
    pub async fn of(&self, version: &str) -> anyhow::Result<Instant> {
        let take = || self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(version);
        let mut count = self.count.subscribe();
        let seen = async {
            loop {
                if let Some(moment) = take() {
                    return anyhow::Ok(moment);
                }
                count.changed().await?;
            }
        };
        tokio::time::timeout(PATIENCE, seen).await.context("our own watch has not seen a change")?
    }

    /// Forgets what was not asked for.
    pub fn forget(&self) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Default for Sightings {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Sightings {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
