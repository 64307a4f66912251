//! Who gets in: address lists, passwords and the word of another service, and how they count together (`satisfy`).
//!
//! Each says of a request that it may pass, that it may not (401 or 403), or nothing, where the rule does not ask. Of
//! all of them every one must say yes, as far as the rule asks. Of any of them one yes is enough: what comes after it
//! is not asked, and a no counts only when the last of them has spoken. That is nginx's access phase, with one of its
//! consequences: a list of denied addresses alone lets nobody in by itself, so that others still need a password. What
//! fails for another reason closes in either case.

use http::StatusCode;
use http::header::{HeaderValue, WWW_AUTHENTICATE};
use sluice_config::Satisfy;

use super::exchange::{Exchange, Verdict};
use super::question::{Job, Question, Reply};
use super::stages::{Looks, Step};
use crate::globals::Globals;
use crate::message::answer::Answer;
use crate::message::fields::Fields;
use crate::policy::basic_auth::Access;
use crate::policy::digest_auth::DigestAccess;
use crate::policy::sources::{self, Standpoint};
use crate::route::Route;

/// What one of the checks says.
#[derive(Debug)]
pub(super) enum Word {
    /// The rule does not ask.
    Nothing,
    /// The client may pass.
    Yes,
    /// It may not.
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

/// How a client stands whom any one check may let in.
#[derive(Debug, Default)]
pub(super) enum Standing {
    /// Nobody was asked.
    #[default]
    Open,
    /// One has said yes.
    Admitted,
    /// All that were asked have said no.
    Refused(Refusal),
}

impl Exchange {
    /// Whether nobody else need be asked.
    pub(super) fn is_admitted(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| matches!(rare.standing, Standing::Admitted))
    }

    /// What a word of one check means for the request.
    pub(super) fn weigh(&mut self, word: Word, route: &Route) -> Step {
        let any = route.policies.satisfy == Satisfy::Any;
        match word {
            Word::Nothing => Step::Continue(()),
            Word::Stop(verdict) => Step::Break(verdict),
            Word::Yes if !any => Step::Continue(()),
            Word::No(refusal) if !any => Step::Break(Verdict::Answer(refusal.answer)),
            Word::Yes => {
                self.rare.get_or_insert_default().standing = Standing::Admitted;
                Step::Continue(())
            }
            Word::No(refusal) => {
                let standing = &mut self.rare.get_or_insert_default().standing;
                *standing = Standing::Refused(match std::mem::take(standing) {
                    Standing::Refused(earlier) => earlier.and(refusal),
                    Standing::Open | Standing::Admitted => refusal,
                });
                Step::Continue(())
            }
        }
    }

    /// All that might let the client in have been asked.
    pub(super) fn check_standing(&mut self) -> Step {
        let Some(rare) = &mut self.rare else { return Step::Continue(()) };
        match std::mem::take(&mut rare.standing) {
            Standing::Open | Standing::Admitted => Step::Continue(()),
            Standing::Refused(refusal) => Step::Break(Verdict::Answer(refusal.answer)),
        }
    }

    pub(super) fn check_source<F: Fields>(&self, route: &Route, looks: &Looks<'_, F>) -> Word {
        let own = route.compiled.as_ref().and_then(|compiled| compiled.sources.as_ref());
        match sources::standpoint(own, looks.globals.sources.as_ref(), self.client.address) {
            Standpoint::Unlisted => Word::Nothing,
            Standpoint::Allowed => Word::Yes,
            Standpoint::Denied => {
                Word::No(Refusal { can_retry: false, answer: self.answer(StatusCode::FORBIDDEN) })
            }
        }
    }

    pub(super) fn check_credentials<F: Fields>(&self, route: &Route, looks: &Looks<'_, F>) -> Word {
        if is_exempt(route, looks.globals) {
            return Word::Nothing;
        }
        if let Some(policy) = route.digest_auth() {
            let (head, nonces) = (looks.head, &self.state().nonces);
            return match policy.access(head.method.as_str(), head.target, head.headers, nonces) {
                DigestAccess::Granted => Word::Yes,
                DigestAccess::Denied { stale } => self.challenged(policy.challenges(nonces, stale)),
                DigestAccess::Closed => Word::Stop(self.refused(StatusCode::SERVICE_UNAVAILABLE)),
            };
        }
        let Some(policy) = route.basic_auth() else { return Word::Nothing };
        match policy.access(looks.head.headers, &self.state().verified) {
            Access::Granted => Word::Yes,
            Access::Denied => self.challenged([policy.challenge().clone()]),
            Access::Closed => Word::Stop(self.refused(StatusCode::SERVICE_UNAVAILABLE)),
            Access::Unknown(verification) => {
                let job = Job::new(move || Reply::Checked(verification.run()));
                Word::Stop(Verdict::Ask(Question::Compute(job)))
            }
        }
    }

    /// A password has been checked.
    pub(super) fn credentials_checked(&self, good: bool, route: &Route) -> Word {
        match good {
            true => Word::Yes,
            false => self.challenged(route.basic_auth().map(|policy| policy.challenge().clone())),
        }
    }

    /// The client is asked for a name and a password.
    fn challenged(&self, challenges: impl IntoIterator<Item = HeaderValue>) -> Word {
        let mut answer = Answer::page(StatusCode::UNAUTHORIZED, self.hsts());
        answer.fields.extend(challenges.into_iter().map(|challenge| (WWW_AUTHENTICATE, challenge)));
        Word::No(Refusal { can_retry: true, answer: self.dressed(answer) })
    }
}

/// Whether `no-auth-locations` switches authentication off for a rule: passwords, and authorisation
/// by its own service or by that of all rules.
pub(crate) fn is_exempt(route: &Route, globals: &Globals) -> bool {
    let path = &*route.origin.path;
    globals.tuning.no_auth_locations.iter().any(|prefix| path.starts_with(&**prefix))
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
