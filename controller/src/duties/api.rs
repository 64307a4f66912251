//! Requests of the duties: each with a time limit, and with what a refusal means to them.

use std::fmt::Debug;
use std::future::pending;
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use serde::de::DeserializeOwned;

/// For one request.
const LONGEST: Duration = Duration::from_secs(10);
/// Seconds that a watch is asked to live.
const WATCH: u32 = 50;
/// The most characters of a message of the API server that are repeated.
const LONGEST_MESSAGE: usize = 300;

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// The right is missing.
    #[error("{0}")]
    Forbidden(String),
    /// There is no such object.
    #[error("not found")]
    NotFound,
    /// Somebody else has written meanwhile, or the object is there already.
    #[error("somebody else has written it meanwhile")]
    Conflict,
    /// The server does not take it.
    #[error("{0}")]
    Invalid(String),
    /// No answer, or one that says to come again.
    #[error("{0}")]
    Away(String),
}

/// Carries a request out.
pub(crate) async fn ask<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Refused> {
    match tokio::time::timeout(LONGEST, request).await {
        Ok(outcome) => outcome.map_err(|error| Refused::of(&error)),
        Err(_) => Err(Refused::Away(format!("no answer within {} s", LONGEST.as_secs()))),
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

/// Waits until one of these objects changes; for ever where that cannot be watched. Whoever waits has a time of its own
/// after which it looks anyway.
pub(crate) async fn hint<K>(api: &Api<K>, fields: &str, version: &str)
where
    K: Clone + DeserializeOwned + Debug,
{
    let how = WatchParams::default().fields(fields).timeout(WATCH).disable_bookmarks();
    let Ok(events) = ask(api.watch(&how, version)).await else { return pending().await };
    pin_mut!(events);
    match events.next().await {
        Some(Ok(WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_))) => {}
        _ => pending().await,
    }
}

impl Refused {
    fn of(error: &kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::Away(short(&innermost(error)));
        };
        let message = short(&status.message);
        match status.code {
            // A namespace that is being deleted takes nothing new.
            403 if status.message.contains("is being terminated") => Self::NotFound,
            401 | 403 => Self::Forbidden(message),
            404 => Self::NotFound,
            409 => Self::Conflict,
            429 | 500.. => Self::Away(message),
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

/// The innermost cause, which is the one that helps.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
