//! Questions of stages that cannot decide from the head alone, and their replies.
//!
//! The pipeline never waits. Such a stage returns a question, which owns all that it needs. The
//! engine executes it and resumes the exchange with the reply, at the stage that asked.

use std::fmt;
use std::time::Duration;

use super::subrequest::{CallFailure, Subrequest, SubrequestResponse};
use crate::firewall::{InspectionRequest, InspectionResult};

/// Work that a stage needs before the exchange can continue.
#[derive(Debug)]
pub enum Question {
    /// Work for the blocking pool, because it would hold up an event loop.
    Compute(Job),
    /// A call of the gateway's own.
    Call(Box<Subrequest>),
    /// An inspection by the firewall.
    Inspect(Box<InspectionRequest>),
    /// A delay.
    Wait(Duration),
}

/// Work for the blocking pool.
pub struct Job(Box<dyn FnOnce() -> Reply + Send>);

/// The reply to a question.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// A job has checked credentials: whether they are valid.
    Checked(bool),
    /// The response to a call.
    Response(Box<SubrequestResponse>),
    /// A call has no response.
    NoResponse(CallFailure),
    /// The firewall has decided.
    Inspected(InspectionResult),
    /// The delay is over.
    Waited,
    /// Too many questions wait.
    Overloaded,
    /// The job did not finish.
    Lost,
}

impl Job {
    /// A job that computes a reply.
    pub fn new(work: impl FnOnce() -> Reply + Send + 'static) -> Self {
        Self(Box::new(work))
    }

    /// Runs the job on the caller's thread.
    pub fn run(self) -> Reply {
        (self.0)()
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}
