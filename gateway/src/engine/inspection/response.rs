//! Has a response inspected by the agent of the web application firewall, before the client gets
//! any of it.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;

use crate::body::downstream::Downstream;
use crate::body::hold::{Judgement, ResponseJudge};
use crate::body::staged::Staged;
use crate::engine::Forwarded;
use crate::firewall::{BodyResult, Denial, Inspection, ResponseHeadMessage};
use crate::message::response::Response;
use crate::pipeline::Exchange;

/// The inspection of the response to a request that is being forwarded.
pub(in crate::engine) struct ResponseInspection {
    outcome: Arc<OnceLock<Outcome>>,
}

/// What was decided.
#[derive(Debug)]
enum Outcome {
    Passed,
    Denied(Denial),
    /// There is no decision. `closes`: the client does not get the response.
    Undecided {
        closes: bool,
    },
}

/// Asks the agent.
struct Judge {
    state: JudgeState,
    enforces: bool,
    outcome: Arc<OnceLock<Outcome>>,
}

type Asking = Pin<Box<dyn Future<Output = (Box<Inspection>, BodyResult)> + Send>>;

enum JudgeState {
    Waits(Box<Inspection>),
    /// In a lock that is never taken, because futures need not be `Sync`.
    Asks(Mutex<Asking>),
    Over,
}

impl ResponseInspection {
    /// Has the response of this request held, if it is to be inspected.
    pub(in crate::engine) fn begin<D: Downstream>(
        exchange: &mut Exchange,
        staged: &mut Staged<D>,
    ) -> Option<Self> {
        let inspection = exchange.take_inspection()?;
        let outcome = Arc::new(OnceLock::new());
        staged.hold_response(Box::new(Judge {
            enforces: inspection.enforces,
            state: JudgeState::Waits(inspection),
            outcome: outcome.clone(),
        }));
        Some(Self { outcome })
    }

    /// Counts the decision, and replaces the outcome of a request whose response is refused.
    pub(in crate::engine) fn end(self, exchange: &Exchange, forwarded: Forwarded) -> Forwarded {
        let refusal = match self.outcome.get() {
            // Without a response, there is nothing to inspect.
            None | Some(Outcome::Passed) => {
                exchange.has_passed();
                None
            }
            Some(Outcome::Denied(denial)) => Some(exchange.denied(denial.clone())),
            Some(Outcome::Undecided { closes }) => exchange.not_inspected(*closes),
        };
        match (forwarded, refusal) {
            (Forwarded::Answer(_), Some(refusal)) => Forwarded::Answer(refusal),
            (forwarded, _) => forwarded,
        }
    }
}

impl Judge {
    /// Starts to ask, if the agent still waits.
    fn ask<F>(&mut self, ask: impl FnOnce(Box<Inspection>) -> F)
    where
        F: Future<Output = (Box<Inspection>, BodyResult)> + Send + 'static,
    {
        self.state = match mem::replace(&mut self.state, JudgeState::Over) {
            JudgeState::Waits(inspection) => JudgeState::Asks(Mutex::new(Box::pin(ask(inspection)))),
            other => other,
        };
    }

    fn decide(&mut self, outcome: Outcome) -> Judgement {
        let refuses = matches!(outcome, Outcome::Denied(_) | Outcome::Undecided { closes: true });
        self.state = JudgeState::Over;
        // A response is decided on once.
        let _ = self.outcome.set(outcome);
        if refuses { Judgement::Refused } else { Judgement::Passes }
    }
}

impl ResponseJudge for Judge {
    fn head(&mut self, response: &Response, ends: bool) {
        let fields = response.fields.iter();
        let lower = |name: &[u8]| String::from_utf8_lossy(name).to_ascii_lowercase();
        let fields = fields.map(|(name, value)| (lower(name), value));
        let message = ResponseHeadMessage::new(response.status, fields, ends);
        self.ask(|mut inspection| async move {
            let result = inspection.response_head(message, ends).await;
            (inspection, result)
        });
    }

    fn content(&mut self, content: Bytes, ends: bool) {
        self.ask(|mut inspection| async move {
            let result = inspection.response_body(content, ends).await;
            (inspection, result)
        });
    }

    fn exceeded(&mut self) -> Judgement {
        self.decide(match self.enforces {
            // As ModSecurity answers for SecResponseBodyLimitAction Reject.
            true => Outcome::Denied(Denial { status: StatusCode::INTERNAL_SERVER_ERROR, location: None }),
            false => Outcome::Undecided { closes: false },
        })
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Judgement> {
        let (inspection, result) = match &mut self.state {
            JudgeState::Waits(_) => return Poll::Ready(Judgement::Wants),
            JudgeState::Asks(asking) => {
                let asking = asking.get_mut().unwrap_or_else(PoisonError::into_inner);
                ready!(asking.as_mut().poll(cx))
            }
            JudgeState::Over => return Poll::Ready(Judgement::Passes),
        };
        let closes = self.enforces;
        Poll::Ready(match result {
            BodyResult::Continues => {
                self.state = JudgeState::Waits(inspection);
                Judgement::Wants
            }
            BodyResult::Passed => self.decide(Outcome::Passed),
            BodyResult::Denied(denial) => self.decide(Outcome::Denied(denial)),
            BodyResult::Unavailable => self.decide(Outcome::Undecided { closes }),
        })
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}
