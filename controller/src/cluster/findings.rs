//! Reports faults that a duty finds as problems.

use std::collections::BTreeMap;

use sluice_config::{Code, ObjectRef, Problem};
use tokio::sync::mpsc;

use super::api::Refused;
use crate::input::Input;
use crate::problem::{Duty, error, warning};

/// The channel for problems of the duties to the control loop. Sending never waits: a waiting duty
/// would miss the end of its term.
#[derive(Clone, Debug)]
pub(crate) struct Findings {
    sender: mpsc::UnboundedSender<(Duty, Vec<Problem>)>,
}

impl Findings {
    /// Creates the channel. Must be called within a runtime.
    pub(crate) fn new(inputs: mpsc::WeakSender<Input>) -> Self {
        let (sender, found) = mpsc::unbounded_channel();
        tokio::spawn(forward(found, inputs));
        Self { sender }
    }

    /// Replaces the problems of a duty.
    pub(crate) fn set(&self, duty: Duty, problems: Vec<Problem>) {
        // Sending fails during shutdown only.
        let _ = self.sender.send((duty, problems));
    }

    /// Removes the problems of a duty.
    pub(crate) fn clear(&self, duty: Duty) {
        self.set(duty, Vec::new());
    }

    /// Reports a refused request; `effect` describes the consequence. The source reports an
    /// unavailable API, and a conflict is not a fault.
    pub(crate) fn refused(&self, duty: Duty, object: &str, effect: &str, refused: &Refused) {
        if let Some(problem) = refusal(object, effect, refused) {
            self.set(duty, vec![problem]);
        }
    }
}

/// Forwards changed problems.
async fn forward(mut found: mpsc::UnboundedReceiver<(Duty, Vec<Problem>)>, inputs: mpsc::WeakSender<Input>) {
    let mut known: BTreeMap<Duty, Vec<Problem>> = BTreeMap::new();
    while let Some((duty, problems)) = found.recv().await {
        let known = known.entry(duty).or_default();
        if *known != problems {
            known.clone_from(&problems);
            let Some(inputs) = inputs.upgrade() else { return };
            let _ = inputs.send(Input::Finding(duty, problems)).await;
        }
    }
}

/// Returns the problem of a refusal, if it is one.
pub(crate) fn refusal(object: &str, effect: &str, refused: &Refused) -> Option<Problem> {
    let object = ObjectRef::new("KubernetesApi", "", object);
    match refused {
        Refused::Away { .. } | Refused::Conflict => None,
        Refused::Forbidden(message) => Some(error(
            Code::RightMissing,
            &object,
            "",
            format!("no right ({message}); {effect}"),
            "give the ServiceAccount the right that the message names; it is picked up without a restart",
        )),
        Refused::NotFound | Refused::Invalid(_) | Refused::Quota(_) => Some(warning(
            Code::DutyFailed,
            &object,
            "",
            format!("the API server refuses: {refused}; {effect}"),
            "see the message; it is tried again all the time",
        )),
    }
}
