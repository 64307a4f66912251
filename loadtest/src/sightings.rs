//! The times at which a separate watch received changes. They show which part of the propagation
//! delay is the API server's.

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

/// Maximum delay of the watch.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The changes that watches received, with the times. The watches end with this value.
pub struct Sightings {
    seen: Arc<Mutex<HashMap<String, Instant>>>,
    count: watch::Sender<u64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Sightings {
    /// Creates an instance without watches.
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
                // The stream restarts a broken watch. The sighting is then late or missing.
                let Ok(object) = object else { continue };
                let version = object.resource_version().unwrap_or_default();
                seen.lock().unwrap_or_else(PoisonError::into_inner).insert(version, now);
                count.send_modify(|count| *count += 1);
            }
        }));
    }

    /// Returns when the change with a resource version was received, and removes it.
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
        tokio::time::timeout(TIMEOUT, seen).await.context("our own watch has not seen a change")?
    }

    /// Removes all sightings.
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
