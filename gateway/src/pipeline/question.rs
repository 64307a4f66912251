//! What a stage asks when it cannot decide from the head alone, and what it is told.
//!
//! The pipeline never waits. A stage that needs somebody else's word returns a question, which owns all that it needs;
//! the engine carries it out and resumes the exchange with the reply, at the stage that asked.

use std::fmt;

use super::call::{CallFailure, Response, Subrequest};

/// What a stage must know before the exchange can go on.
#[derive(Debug)]
pub enum Question {
    /// Work that would hold up an event loop: it runs on the blocking pool.
    Compute(Job),
    /// A call of our own.
    Call(Box<Subrequest>),
}

/// Work for the blocking pool.
pub struct Job(Box<dyn FnOnce() -> Reply + Send>);

/// The reply to a question.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// A job has checked what the client gave: whether it is good.
    Checked(bool),
    /// A call has brought this.
    Response(Box<Response>),
    /// A call has brought nothing.
    NoResponse(CallFailure),
    /// More questions wait than there is room for.
    Overloaded,
    /// The job did not come to an end.
    Lost,
}

impl Job {
    /// Work that gives a reply.
    pub fn new(work: impl FnOnce() -> Reply + Send + 'static) -> Self {
        Self(Box::new(work))
    }

    /// Does it, on the thread of the caller.
    pub fn run(self) -> Reply {
        (self.0)()
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}
