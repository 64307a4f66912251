//! Requests of the duties, with time limits and typed refusals.

use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt, pin_mut};
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use crate::source::kube::postponed::Postponed;

/// Time limit of a request.
const LONGEST: Duration = Duration::from_secs(10);
/// Lifetime of a watch in seconds, and its random increase.
const WATCH: u32 = 290;
const SPREAD: u32 = 60;
/// Seconds after its lifetime at which a watch is dropped that the server has not ended.
const MARGIN: u32 = 5;
/// Maximum number of characters of an API server's message that are repeated.
const LONGEST_MESSAGE: usize = 300;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// The right is missing.
    #[error("{0}")]
    Forbidden(String),
    /// A quota of the namespace is used up.
    #[error("{0}")]
    Quota(String),
    /// The object does not exist.
    #[error("not found")]
    NotFound,
    /// Another client has written the object meanwhile, or it exists already.
    #[error("another client wrote the object in the meantime")]
    Conflict,
    /// The server rejects the object.
    #[error("{0}")]
    Invalid(String),
    /// There was no response, or one that postpones the request.
    #[error("{reason}")]
    Away {
        /// The reason.
        reason: String,
        /// `Retry-After`.
        retry_after: Option<Duration>,
    },
}

/// Executes a request.
pub(crate) async fn execute<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Refused> {
    match tokio::time::timeout(LONGEST, request).await {
        Ok(outcome) => outcome.map_err(|error| Refused::of(&error)),
        Err(_) => Err(Refused::silent(LONGEST)),
    }
}

/// Executes a request for an object that may be absent.
pub(crate) async fn found<T>(request: impl Future<Output = kube::Result<T>>) -> Result<Option<T>, Refused> {
    match execute(request).await {
        Ok(object) => Ok(Some(object)),
        Err(Refused::NotFound) => Ok(None),
        Err(refused) => Err(refused),
    }
}

/// Starts a watch at a version.
pub(crate) async fn watch<K>(
    api: &Api<K>,
    fields: &str,
    version: &str,
) -> Result<impl Stream<Item = kube::Result<WatchEvent<K>>> + use<K>, Refused>
where
    K: Clone + DeserializeOwned + Debug,
{
    let lifetime = WATCH + fastrand::u32(..SPREAD);
    let how = WatchParams::default().fields(fields).timeout(lifetime).disable_bookmarks();
    let events = execute(api.watch(&how, version)).await?;
    let end = sleep(Duration::from_secs((lifetime + MARGIN).into()));
    Ok(events.take_until(end))
}

/// Waits until one of these objects changes. Returns false if that cannot be watched, or the watch
/// ends; the caller then reads the objects itself.
pub(crate) async fn changed<K>(api: &Api<K>, fields: &str, version: &str) -> bool
where
    K: Clone + DeserializeOwned + Debug,
{
    let Ok(events) = watch(api, fields, version).await else { return false };
    pin_mut!(events);
    matches!(
        events.next().await,
        Some(Ok(WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_)))
    )
}

impl Refused {
    /// There was no response in time.
    pub(crate) fn silent(limit: Duration) -> Self {
        Self::Away { reason: format!("no answer within {} s", limit.as_secs()), retry_after: None }
    }

    /// Returns the wait that the server requests.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Away { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// There was no response, or one that postpones the request.
    fn failed(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut cause = error;
        loop {
            if let Some(postponed) = cause.downcast_ref::<Postponed>() {
                return Self::Away { reason: postponed.to_string(), retry_after: Some(postponed.after) };
            }
            let Some(source) = cause.source() else { break };
            cause = source;
        }
        // The innermost cause is the most specific one.
        Self::Away { reason: short(&cause.to_string()), retry_after: None }
    }

    fn of(error: &kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::failed(error);
        };
        let message = short(&status.message);
        match status.code {
            // A namespace that is being deleted accepts no new objects.
            403 if status.message.contains("is being terminated") => Self::NotFound,
            403 if status.message.contains("exceeded quota") => Self::Quota(message),
            401 | 403 => Self::Forbidden(message),
            404 => Self::NotFound,
            409 => Self::Conflict,
            429 | 500.. => Self::Away { reason: message, retry_after: None },
            _ => Self::Invalid(message),
        }
    }
}

fn short(message: &str) -> String {
    let mut short: String = message.chars().take(LONGEST_MESSAGE).collect();
    if short.len() < message.len() {
        short.push_str("...");
    }
    short
}
