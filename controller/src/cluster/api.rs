//! Requests of the duties: each with a time limit, and with what a refusal means to them.

use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt, pin_mut};
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use crate::source::kube::postponed::Postponed;

/// For one request.
const LONGEST: Duration = Duration::from_secs(10);
/// Seconds that a watch is asked to live, and by how much that differs between watches.
const WATCH: u32 = 290;
const SPREAD: u32 = 60;
/// Seconds after which a watch is given up that its server should have ended.
const MARGIN: u32 = 5;
/// The most characters of a message of the API server that are repeated.
const LONGEST_MESSAGE: usize = 300;

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// The right is missing.
    #[error("{0}")]
    Forbidden(String),
    /// A quota of the namespace is used up.
    #[error("{0}")]
    Quota(String),
    /// There is no such object.
    #[error("not found")]
    NotFound,
    /// Somebody else has written meanwhile, or the object is there already.
    #[error("somebody else has written it meanwhile")]
    Conflict,
    /// The server does not take it.
    #[error("{0}")]
    Invalid(String),
    /// No answer, or one that says to come again, after a while where it names one.
    #[error("{reason}")]
    Away {
        /// What became of the request.
        reason: String,
        /// `Retry-After`.
        retry_after: Option<Duration>,
    },
}

/// Carries a request out.
pub(crate) async fn ask<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Refused> {
    match tokio::time::timeout(LONGEST, request).await {
        Ok(outcome) => outcome.map_err(|error| Refused::of(&error)),
        Err(_) => Err(Refused::silent(LONGEST)),
    }
}

/// The same for an object that need not be there.
pub(crate) async fn found<T>(request: impl Future<Output = kube::Result<T>>) -> Result<Option<T>, Refused> {
    match ask(request).await {
        Ok(object) => Ok(Some(object)),
        Err(Refused::NotFound) => Ok(None),
        Err(refused) => Err(refused),
    }
}

/// One watch at work, from a version on.
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
    let events = ask(api.watch(&how, version)).await?;
    let end = sleep(Duration::from_secs((lifetime + MARGIN).into()));
    Ok(events.take_until(end))
}

/// Waits until one of these objects changes. False where that is not seen: they cannot be watched,
/// or the watch has ended. The caller looks by itself then.
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
    /// There was no answer in time.
    pub(crate) fn silent(limit: Duration) -> Self {
        Self::Away { reason: format!("no answer within {} s", limit.as_secs()), retry_after: None }
    }

    /// How long the server asks to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Away { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// There was no answer, or one to come again later.
    fn failed(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut cause = error;
        loop {
            if let Some(postponed) = cause.downcast_ref::<Postponed>() {
                return Self::Away { reason: postponed.to_string(), retry_after: Some(postponed.after) };
            }
            let Some(source) = cause.source() else { break };
            cause = source;
        }
        // The innermost cause, which is the one that helps.
        Self::Away { reason: short(&cause.to_string()), retry_after: None }
    }

    fn of(error: &kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::failed(error);
        };
        let message = short(&status.message);
        match status.code {
            // A namespace that is being deleted takes nothing new.
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
