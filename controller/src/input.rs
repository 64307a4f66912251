//! What the control loop takes. Everything that may change what is served, or asks about it, comes as one of these
//! through one channel: so the loop waits in one place, and what came first is looked at first.

use sluice_config::{Problem, Report};
use tokio::sync::{mpsc, oneshot};

use crate::controller::{Controller, Verdict};
use crate::duties::Duty;
use crate::names::LookedUp;
use crate::source::Batch;
use crate::store::Object;

/// Inputs that wait for the loop before those who send them wait too.
const QUEUE: usize = 64;

/// One input.
#[derive(Debug)]
pub enum Input {
    /// A source has found something.
    Batch(Batch),
    /// A name has been looked up.
    Name(LookedUp),
    /// The data plane says something that no delta asked for.
    Report(Report),
    /// Somebody asks what would be wrong.
    Review(Review),
    /// One of the controller's duties finds this wrong now, and nothing else.
    Finding(Duty, Vec<Problem>),
}

/// A question about an object that may or may not be there already.
#[derive(Debug)]
pub struct Review {
    /// The object as it would be.
    pub object: Object,
    /// Where the answer goes; none is given before everything is known.
    pub reply: oneshot::Sender<Option<Verdict>>,
}

/// The way into a control loop, which runs for as long as there is a sender. A source holds one; whoever else has
/// something to say holds a [weak](mpsc::Sender::downgrade) one.
pub fn channel() -> (mpsc::Sender<Input>, mpsc::Receiver<Input>) {
    mpsc::channel(QUEUE)
}

impl Review {
    pub(crate) fn answer(self, controller: &Controller) {
        // Whoever asked may have gone.
        let _ = self.reply.send(controller.review(self.object));
    }
}
