//! Who gets in: address lists, passwords and the word of another service, and how they count
//! together (`satisfy`).
//!
//! Each says of a request that it may pass, that it may not (401 or 403), or nothing, where the
//! rule does not ask. Of all of them every one must say yes, as far as the rule asks. Of any of
//! them one yes is enough: what comes after it is not asked, and a no counts only when the last of
//! them has spoken. That is nginx's access phase, with one of its consequences: a list of denied
//! addresses alone lets nobody in by itself, so that others still need a password. What fails for
//! another reason closes in either case.

use http::StatusCode;
use http::header::{HeaderValue, WWW_AUTHENTICATE};
use sluice_config::Satisfy;

use super::exchange::{Exchange, Verdict};
use super::question::{Job, Question, Reply};
use super::stages::{StageInput, Step};
use crate::message::answer::Answer;
use crate::policy::basic_auth::Access;
use crate::policy::digest_auth::DigestAccess;
use crate::policy::sources::{self, Standpoint};
use crate::route::Route;
use crate::state::compiled_settings::CompiledSettings;

/// The decision of one check.
#[derive(Debug)]
pub(super) enum CheckDecision {
    /// The rule does not use this check.
    Nothing,
    /// The check admits the client.
    Yes,
    /// The check refuses the client.
    No(Refusal),
    /// Something else must come first, or nobody can tell.
    Stop(Verdict),
}

/// Why a client may not pass, as it is told.
#[derive(Debug)]
pub(super) struct Refusal {
    /// Another name and password might do (401), not the same client in any case (403).
    pub(super) can_retry: bool,
    /// The page, or the way to where one signs in.
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
    /// All that were asked have said no.
    Refused(Refusal),
}

impl Exchange {
    /// Whether nobody else need be asked.
    pub(super) fn is_admitted(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| matches!(extras.satisfy_any, SatisfyAny::Admitted))
    }

    /// What a word of one check means for the request.
    pub(super) fn weigh(&mut self, word: CheckDecision, route: &Route) -> Step {
        let any = route.policies.satisfy == Satisfy::Any;
        match word {
            CheckDecision::Nothing => Step::Continue(()),
            CheckDecision::Stop(verdict) => Step::Break(verdict),
            CheckDecision::Yes if !any => Step::Continue(()),
            CheckDecision::No(refusal) if !any => Step::Break(Verdict::Answer(refusal.answer)),
            CheckDecision::Yes => {
                self.extras.get_or_insert_default().satisfy_any = SatisfyAny::Admitted;
                Step::Continue(())
            }
            CheckDecision::No(refusal) => {
                let satisfy_any = &mut self.extras.get_or_insert_default().satisfy_any;
                *satisfy_any = SatisfyAny::Refused(match std::mem::take(satisfy_any) {
                    SatisfyAny::Refused(earlier) => earlier.and(refusal),
                    SatisfyAny::Open | SatisfyAny::Admitted => refusal,
                });
                Step::Continue(())
            }
        }
    }

    /// All that might let the client in have been asked.
    pub(super) fn check_satisfy_any(&mut self) -> Step {
        let Some(extras) = &mut self.extras else { return Step::Continue(()) };
        match std::mem::take(&mut extras.satisfy_any) {
            SatisfyAny::Open | SatisfyAny::Admitted => Step::Continue(()),
            SatisfyAny::Refused(refusal) => Step::Break(Verdict::Answer(refusal.answer)),
        }
    }

    pub(super) fn check_source(&self, route: &Route, input: &StageInput<'_>) -> CheckDecision {
        let own = route.compiled.as_ref().and_then(|compiled| compiled.sources.as_ref());
        let forbidden =
            || CheckDecision::No(Refusal { can_retry: false, answer: self.answer(StatusCode::FORBIDDEN) });
        match sources::standpoint(own, input.compiled_settings.sources.as_ref(), self.client.address) {
            Standpoint::Unlisted => match self.admitted_by_directives(route) {
                None => CheckDecision::Nothing,
                Some(true) => CheckDecision::Yes,
                Some(false) => forbidden(),
            },
            Standpoint::Allowed => CheckDecision::Yes,
            Standpoint::Denied => forbidden(),
        }
    }

    pub(super) fn check_credentials(&self, route: &Route, input: &StageInput<'_>) -> CheckDecision {
        if is_exempt(route, input.compiled_settings) {
            return CheckDecision::Nothing;
        }
        if let Some(policy) = route.digest_auth() {
            let (head, nonces) = (input.head, &self.state().nonces);
            return match policy.access(head.method.as_str(), head.target, head.headers, nonces) {
                DigestAccess::Granted => CheckDecision::Yes,
                DigestAccess::Denied { stale } => self.challenged(policy.challenges(nonces, stale)),
                DigestAccess::Closed => CheckDecision::Stop(self.refused(StatusCode::SERVICE_UNAVAILABLE)),
            };
        }
        let Some(policy) = route.basic_auth() else { return CheckDecision::Nothing };
        match policy.access(input.head.headers, &self.state().verified) {
            Access::Granted => CheckDecision::Yes,
            Access::Denied => self.challenged([policy.challenge().clone()]),
            Access::Closed => CheckDecision::Stop(self.refused(StatusCode::SERVICE_UNAVAILABLE)),
            Access::Unknown(verification) => {
                let job = Job::new(move || Reply::Checked(verification.run()));
                CheckDecision::Stop(Verdict::Ask(Question::Compute(job)))
            }
        }
    }

    /// A password has been checked.
    pub(super) fn credentials_checked(&self, good: bool, route: &Route) -> CheckDecision {
        match good {
            true => CheckDecision::Yes,
            false => self.challenged(route.basic_auth().map(|policy| policy.challenge().clone())),
        }
    }

    /// The client is asked for a name and a password.
    fn challenged(&self, challenges: impl IntoIterator<Item = HeaderValue>) -> CheckDecision {
        let mut answer = Answer::page(StatusCode::UNAUTHORIZED);
        answer.fields.extend(challenges.into_iter().map(|challenge| (WWW_AUTHENTICATE, challenge)));
        CheckDecision::No(Refusal { can_retry: true, answer: self.with_response_headers(answer) })
    }
}

/// Whether `no-auth-locations` switches authentication off for a rule: passwords, and authorisation
/// by its own service or by that of all rules.
pub(crate) fn is_exempt(route: &Route, compiled_settings: &CompiledSettings) -> bool {
    let path = &*route.origin.path;
    compiled_settings.settings.no_auth_locations.iter().any(|prefix| path.starts_with(&**prefix))
}

impl Refusal {
    /// What a client is told that two have refused: how it might get in, and of two ways both.
    fn and(self, mut later: Self) -> Self {
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
