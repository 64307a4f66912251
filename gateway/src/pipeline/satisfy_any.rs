//! The refusal of a client, and the state of `satisfy: any`.

use http::StatusCode;
use http::header::WWW_AUTHENTICATE;

use crate::message::answer::Answer;

/// The refusal of a client.
#[derive(Debug)]
pub(super) struct ClientRefusal {
    /// Other credentials could be accepted (401); false if this client never is (403).
    pub(super) can_retry: bool,
    /// The page, or the redirect to the sign-in page.
    pub(super) answer: Answer,
}

/// The state of `satisfy: any`, where one passed check admits the client.
#[derive(Debug, Default)]
pub(super) enum SatisfyAny {
    /// No check has run.
    #[default]
    Open,
    /// One check admitted the client.
    Admitted,
    /// All checks so far have refused the client.
    Refused(ClientRefusal),
}

impl ClientRefusal {
    /// Combines two refusals into one that lists every way to be admitted.
    pub(super) fn and(self, mut later: Self) -> Self {
        if !later.can_retry {
            return if self.can_retry { self } else { later };
        }
        if self.can_retry && later.answer.status == StatusCode::UNAUTHORIZED {
            let earlier = self.answer.fields.into_iter().filter(|(name, _)| name == WWW_AUTHENTICATE);
            later.answer.fields.extend(earlier);
        }
        later
    }
}
