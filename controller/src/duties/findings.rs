//! How a duty tells what it finds wrong: as problems, like everything else.

use sluice_config::{Code, ObjectRef, Problem};
use tokio::sync::mpsc;

use super::Duty;
use super::api::Refused;
use crate::input::Input;
use crate::problem::{error, warning};

/// The way of the duties' problems into the control loop.
#[derive(Clone, Debug)]
pub(crate) struct Findings {
    inputs: mpsc::WeakSender<Input>,
}

impl Findings {
    pub(crate) fn new(inputs: mpsc::WeakSender<Input>) -> Self {
        Self { inputs }
    }

    /// This is wrong now, and nothing else.
    pub(crate) async fn set(&self, duty: Duty, problems: Vec<Problem>) {
        if let Some(inputs) = self.inputs.upgrade() {
            // It is only at the end that nobody listens.
            let _ = inputs.send(Input::Finding(duty, problems)).await;
        }
    }

    /// Nothing is wrong any more.
    pub(crate) async fn clear(&self, duty: Duty) {
        self.set(duty, Vec::new()).await;
    }

    /// A request was refused; `effect` says what that means. An API that is away is told by the source, and a conflict is
    /// no fault.
    pub(crate) async fn refused(&self, duty: Duty, object: &str, effect: &str, refused: &Refused) {
        if let Some(problem) = refusal(object, effect, refused) {
            self.set(duty, vec![problem]).await;
        }
    }
}

/// A refusal as a problem, if it is one.
pub(crate) fn refusal(object: &str, effect: &str, refused: &Refused) -> Option<Problem> {
    let object = ObjectRef::new("KubernetesApi", "", object);
    match refused {
        Refused::Away(_) | Refused::Conflict => None,
        Refused::Forbidden(message) => Some(error(
            Code::RightMissing,
            &object,
            "",
            format!("no right ({message}); {effect}"),
            "give the ServiceAccount the right that the message names; it is picked up without a restart",
        )),
        Refused::NotFound | Refused::Invalid(_) => Some(warning(
            Code::DutyFailed,
            &object,
            "",
            format!("the API server refuses: {refused}; {effect}"),
            "see the message; it is tried again all the time",
        )),
    }
}
