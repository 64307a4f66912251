//! A request that readers of live requests follow.

use std::sync::Mutex;
use std::time::{Instant, SystemTime};

use crate::tap::{CheckStep, FieldLines, Followers, ReceivedHead, SentHead};

/// A request that readers follow.
#[derive(Debug)]
pub(super) struct ObservedRequest {
    pub(super) followers: Followers,
    pub(super) began: SystemTime,
    /// Without the values of secret parameters.
    pub(super) target: String,
    /// `None` if no reader wants the steps.
    pub(super) steps: Option<Box<ObservedSteps>>,
}

impl ObservedRequest {
    /// Returns whether a reader needs the steps.
    pub(super) fn has_steps(&self) -> bool {
        self.steps.is_some()
    }
}

/// The steps so far.
#[derive(Debug)]
pub(super) struct ObservedSteps {
    pub(super) received: ReceivedHead,
    /// Path and query of the error page that the request became.
    pub(super) page: Option<String>,
    pub(super) checks: Vec<CheckStep>,
    /// When the last question was asked.
    pub(super) asked: Option<Instant>,
    /// The head of the last attempt. It is recorded where the exchange cannot be changed.
    pub(super) sent: Mutex<Option<SentHead>>,
    pub(super) response: FieldLines,
}
