//! Access checks: address lists, credentials and an authorisation service, and how they combine
//! (`satisfy`).
//!
//! A check admits a client, refuses it (401 or 403), or does not apply because the rule does not
//! use it. With `satisfy: all` every check that applies must admit the client. With `satisfy: any`
//! one is enough: later checks are skipped, and a refusal takes effect after the last check only.
//! This is nginx's access phase, including one consequence: a list of denied addresses by itself
//! admits no client, so the other checks still apply to unlisted clients. A check that fails for
//! another reason closes the route in either mode.

use std::net::IpAddr;

use http::StatusCode;
use http::header::{HeaderValue, SET_COOKIE, WWW_AUTHENTICATE};
use sluice_config::{Countries, Satisfy};

use super::auth_service::{AuthService, is_exempt, service};
use super::exchange::{Exchange, Verdict};
use super::question::{Job, Question, Reply};
use super::satisfy_any::{ClientRefusal, SatisfyAny};
use super::stages::{StageInput, Step};
use crate::location::Country;
use crate::message::answer::Answer;
use crate::policy::Sources;
use crate::policy::basic_auth::PasswordDecision;
use crate::policy::countries;
use crate::policy::digest_auth::DigestAccess;
use crate::policy::sources::{self, SourceDecision};
use crate::policy::template::Template;
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
    No(ClientRefusal),
    /// Another request must be made first, or the check failed.
    Stop(Verdict),
}

impl Exchange {
    /// Returns whether a check has admitted the client with `satisfy: any`.
    pub(super) fn is_admitted(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| matches!(extras.satisfy_any, SatisfyAny::Admitted))
    }

    /// Applies the decision of one check to the request.
    pub(super) fn apply_check(&mut self, decision: CheckDecision, route: &Route) -> Step {
        let any = route.policies.satisfy == Satisfy::Any;
        match decision {
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

    /// Refuses the request if checks ran and none admitted the client.
    pub(super) fn check_satisfy_any(&mut self) -> Step {
        let Some(extras) = &mut self.extras else { return Step::Continue(()) };
        match std::mem::take(&mut extras.satisfy_any) {
            SatisfyAny::Open | SatisfyAny::Admitted => Step::Continue(()),
            SatisfyAny::Refused(refusal) => Step::Break(Verdict::Answer(refusal.answer)),
        }
    }

    pub(super) fn check_source(&self, route: &Route, input: &StageInput<'_>) -> CheckDecision {
        let compiled = route.compiled.as_ref();
        let own = compiled.and_then(|compiled| compiled.sources.as_ref());
        let countries = compiled.and_then(|compiled| compiled.countries.as_ref());
        let client = self.client.address;
        let by_country =
            countries.map_or(SourceDecision::Unlisted, |lists| self.check_country(lists, client));
        let global = global_sources(route, input.compiled_settings);
        match sources::decide(own, global, route.access_list(), client).and(by_country) {
            SourceDecision::Unlisted => CheckDecision::Nothing,
            SourceDecision::Allowed => CheckDecision::Yes,
            SourceDecision::Denied => CheckDecision::No(ClientRefusal {
                can_retry: false,
                answer: self.answer(StatusCode::FORBIDDEN),
            }),
        }
    }

    fn check_country(&self, lists: &Countries, client: IpAddr) -> SourceDecision {
        let locations = &self.state().locations;
        let country = locations.country(client);
        if country == Country::NoDatabase {
            locations.miss();
        }
        countries::decide(lists, country)
    }

    pub(super) fn check_credentials(&self, route: &Route, input: &StageInput<'_>) -> CheckDecision {
        if is_exempt(route, input.compiled_settings) {
            return CheckDecision::Nothing;
        }
        if let Some(policy) = route.digest_auth() {
            let (head, nonces) = (input.head, &self.state().nonces);
            return match policy.access(head.method.as_str(), head.target, head.headers, nonces) {
                DigestAccess::Granted => CheckDecision::Yes,
                DigestAccess::Denied { stale } => {
                    self.challenged(policy.challenges(nonces, stale), route, input)
                }
                DigestAccess::Closed => CheckDecision::Stop(self.refused(StatusCode::SERVICE_UNAVAILABLE)),
            };
        }
        let Some(policy) = route.basic_auth() else { return CheckDecision::Nothing };
        match policy.access(input.head.headers, &self.state().verified) {
            PasswordDecision::Granted => CheckDecision::Yes,
            PasswordDecision::Denied => self.challenged([policy.challenge().clone()], route, input),
            PasswordDecision::Closed => CheckDecision::Stop(self.refused(StatusCode::SERVICE_UNAVAILABLE)),
            PasswordDecision::Unknown(verification) => {
                let job = Job::new(move || Reply::Checked(verification.run()));
                CheckDecision::Stop(Verdict::Ask(Question::Compute(job)))
            }
        }
    }

    /// Returns the decision after a password check.
    pub(super) fn credentials_checked(
        &self,
        good: bool,
        route: &Route,
        input: &StageInput<'_>,
    ) -> CheckDecision {
        match good {
            true => CheckDecision::Yes,
            false => {
                self.challenged(route.basic_auth().map(|policy| policy.challenge().clone()), route, input)
            }
        }
    }

    /// Returns a 401 refusal with these challenges. As in nginx, the sign-in page of the rule's
    /// authorisation service replaces it.
    fn challenged(
        &self,
        challenges: impl IntoIterator<Item = HeaderValue>,
        route: &Route,
        input: &StageInput<'_>,
    ) -> CheckDecision {
        if let AuthService::Usable(auth) = service(route, input.compiled_settings)
            && let Some(sign_in) = &auth.sign_in
        {
            return self.redirect_to_sign_in(sign_in, &[], route, input);
        }
        let mut answer = Answer::page(StatusCode::UNAUTHORIZED);
        answer.fields.extend(challenges.into_iter().map(|challenge| (WWW_AUTHENTICATE, challenge)));
        CheckDecision::No(ClientRefusal { can_retry: true, answer: self.with_response_headers(answer) })
    }

    /// Returns a 401 refusal as a redirect to the sign-in page, with the service's cookies.
    pub(super) fn redirect_to_sign_in(
        &self,
        sign_in: &Template,
        cookies: &[HeaderValue],
        route: &Route,
        input: &StageInput<'_>,
    ) -> CheckDecision {
        let url = sign_in.fill(&self.template_context(Some(route), input));
        let Ok(location) = HeaderValue::try_from(self.sign_in_location(url)) else {
            return CheckDecision::Stop(self.refused(StatusCode::INTERNAL_SERVER_ERROR));
        };
        let mut answer = Answer::redirect(StatusCode::FOUND, location);
        answer.fields.extend(cookies.iter().map(|cookie| (SET_COOKIE, cookie.clone())));
        CheckDecision::No(ClientRefusal { can_retry: true, answer: self.with_response_headers(answer) })
    }
}

/// Returns the lists of the ConfigMap for the rule, which are for rules of objects.
pub(crate) fn global_sources<'s>(
    route: &Route,
    compiled_settings: &'s CompiledSettings,
) -> Option<&'s Sources> {
    compiled_settings.sources.as_ref().filter(|_| !route.is_for_unmatched)
}
