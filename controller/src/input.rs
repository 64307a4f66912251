//! Inputs of the control loop. All changes and queries arrive through one channel, so the loop
//! waits in one place and processes them in order.

use sluice_config::{Problem, Report};
use tokio::sync::{mpsc, oneshot};

use crate::controller::{Controller, ReviewVerdict};
use crate::problem::Duty;
use crate::store::{Batch, LookedUp, Object};

/// Capacity of the channel. Senders wait while it is full.
const QUEUE: usize = 64;

/// One input.
#[derive(Debug)]
pub enum Input {
    /// Events of a source.
    Batch(Batch),
    /// The result of a name resolution.
    Name(LookedUp),
    /// A report of the data plane that no delta requested.
    Report(Report),
    /// A review of an object.
    Review(Review),
    /// The current problems of one duty, in place of its previous ones.
    Finding(Duty, Vec<Problem>),
}

/// A request for the problems that an object would have.
#[derive(Debug)]
pub struct Review {
    /// The object, new or changed.
    pub object: Object,
    /// Channel for the verdict; `None` is sent until the initial state has been read.
    pub reply: oneshot::Sender<Option<ReviewVerdict>>,
}

/// Creates the input channel. The control loop runs as long as a strong sender exists. A source
/// holds one; other senders are [weak](mpsc::Sender::downgrade).
pub fn channel() -> (mpsc::Sender<Input>, mpsc::Receiver<Input>) {
    mpsc::channel(QUEUE)
}

impl Review {
    /// Reviews the object and sends the verdict.
    pub(crate) fn answer(self, controller: &Controller) {
        // The receiver may be gone.
        let _ = self.reply.send(controller.review(self.object));
    }
}
