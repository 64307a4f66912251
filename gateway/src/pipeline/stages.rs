//! The stages of a request that matches a rule, and their order, which is defined only here.
//!
//! The order is that of ingress-nginx. It is visible to clients: it determines which of two answers
//! a request gets.
//!
//! Before any stage, **the path is normalised** for matching, so that another spelling of a path
//! does not bypass its rule; 400 if it cannot be. Then **host and rule** are looked up. The rules
//! of the most specific host are tried in their total order. A known host without a matching rule
//! gets the program's default backend. For a host that no Ingress names, `/healthz` is answered
//! with 200 unless the path of a catch-all rule names it, because load balancers request it.
//! Everything else goes to the catch-all rules and the default backend; without one the answer is
//! 404. Requests for the default backend without a rule run the stages of the rule for unmatched
//! requests, if the ConfigMap applies anything to all servers.
//!
//! After the last stage the request is forwarded. Each attempt picks an endpoint; 503 without one.
//! The head loses the fields of the client's connection before the gateway adds its own, so that no
//! client can remove those by naming them in `Connection`. The rule's changes come last.

use std::ops::ControlFlow;

use http::StatusCode;

use super::exchange::{Exchange, Verdict};
use super::question::Reply;
use crate::message::request_head::RequestHead;
use crate::route::Route;
use crate::state::compiled_settings::CompiledSettings;

/// A stage of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PipelineStage {
    /// Blocked clients get 403, also if no rule matches.
    Blocked,
    /// The client's certificate: 400 without an acceptable one, or the error page; 403 for a
    /// subject that is not accepted, 421 on a connection for a host with another verification.
    ClientCertificate,
    /// A closed rule answers with its status (503), before redirects: a policy that protects it
    /// could not be built, so nothing about it may be disclosed.
    Denied,
    /// The program of server snippets, and `location` blocks that take the path.
    Server,
    /// The length of the request body that the head declares: 413 above the limit of the rule.
    /// nginx compares it when it has chosen the location, before redirects and access checks.
    BodyLength,
    /// Whether a page of another origin may read the response. A preflight request (OPTIONS) is
    /// answered with 204, before redirects, which browsers do not follow there, and before
    /// authentication, because browsers send no credentials with it.
    Cors,
    /// The program of the location's snippets.
    Location,
    /// The rule's redirects, and the slash that nginx appends. They come before the redirect to
    /// https, as in nginx: the second request then gets that one.
    Redirect,
    /// The path for the endpoint. Before the redirect to https, because a template may be a URL, to
    /// which the client is redirected.
    Rewrite,
    /// The redirect to https, before checks that would disclose something over http.
    HttpsRedirect,
    /// Fixed answers, then the choice of a backend by weight. An invalid backend keeps its share
    /// and answers with its status; 500 if all weights are 0. Without any endpoint the answer is
    /// 503, or the rule's own default backend takes the request.
    Backend,
    /// The client's limits: 503, or the status from the ConfigMap. A rate of a snippet may delay
    /// the request.
    Limits,
    /// The web application firewall: 403, or the status of its rule. Behind the limits, which
    /// protect its agent.
    Firewall,
    /// The client's address: 403.
    Sources,
    /// Basic or digest authentication: 401.
    Credentials,
    /// The authorisation service: 401, 403, a redirect to the sign-in page, or 500.
    Authorisation,
    /// With `satisfy: any`: refuses only if the last three checks refused.
    SatisfyAny,
    /// Without a default backend, 404. Behind the checks, because that of ingress-nginx is a server
    /// to which it forwards.
    DefaultBackend,
    /// The host for the endpoint (`upstream-vhost`): 400 if the values of the request make none.
    EndpointHost,
    /// Too many gateways: the request is in a loop, 508.
    Loop,
}

/// The order.
pub(crate) const ORDER: [PipelineStage; 20] = [
    PipelineStage::Blocked,
    PipelineStage::ClientCertificate,
    PipelineStage::Denied,
    PipelineStage::Server,
    PipelineStage::BodyLength,
    PipelineStage::Cors,
    PipelineStage::Location,
    PipelineStage::Redirect,
    PipelineStage::Rewrite,
    PipelineStage::HttpsRedirect,
    PipelineStage::Backend,
    PipelineStage::Limits,
    PipelineStage::Firewall,
    PipelineStage::Sources,
    PipelineStage::Credentials,
    PipelineStage::Authorisation,
    PipelineStage::SatisfyAny,
    PipelineStage::DefaultBackend,
    PipelineStage::EndpointHost,
    PipelineStage::Loop,
];

impl PipelineStage {
    /// Returns whether the stage runs a program, which may rewrite the path.
    const fn runs_program(self) -> bool {
        matches!(self, Self::Server | Self::Location)
    }

    /// Returns whether the stage applies to every rule. The others apply only if the rule or the
    /// global settings use them, and most rules do not.
    pub(super) const fn is_for_all_rules(self) -> bool {
        matches!(self, Self::BodyLength | Self::Redirect | Self::HttpsRedirect | Self::Backend | Self::Loop)
    }
}

/// The stages of a rule that is chosen for a rewritten path start behind the first one, which is
/// about the client.
const AFTER_BLOCKED: usize = 1;

/// The stages of the rule for an error page start behind the stage whose refusal the page replaces.
pub(super) const AFTER_CLIENT_CERTIFICATE: usize = 2;
const _: () = assert!(matches!(ORDER[AFTER_CLIENT_CERTIFICATE - 1], PipelineStage::ClientCertificate));

/// Continue with the next stage, or end the pipeline with a verdict.
pub(super) type Step = ControlFlow<Verdict>;

/// The input of a pipeline stage.
pub(super) struct StageInput<'l> {
    pub(super) head: &'l RequestHead<'l>,
    /// The normalised path.
    pub(super) path: &'l str,
    pub(super) compiled_settings: &'l CompiledSettings,
}

impl Exchange {
    /// Passes the reply to the stage that asked, and continues behind it.
    pub(super) fn run_on(&mut self, reply: Reply, route: &Route, input: &StageInput<'_>) -> Verdict {
        let Some(at) = self.asked.take() else {
            // No stage has asked: fail closed.
            return self.refused(StatusCode::INTERNAL_SERVER_ERROR);
        };
        let at = usize::from(at);
        let step = self.answered(ORDER[at], reply, route, input);
        self.note_stage(at, ORDER[at], &step);
        match step {
            ControlFlow::Continue(()) => self.run_from(at + 1, route, input),
            ControlFlow::Break(verdict) => self.stopped(at, verdict),
        }
    }

    /// Runs the stages from this one on.
    pub(super) fn run_from(&mut self, from: usize, route: &Route, input: &StageInput<'_>) -> Verdict {
        let is_plain = route.is_plain() && input.compiled_settings.ask_nothing();
        for (at, stage) in ORDER.iter().enumerate().skip(from) {
            if is_plain && !stage.is_for_all_rules() {
                continue;
            }
            let step = self.run_stage(*stage, route, input);
            self.note_stage(at, *stage, &step);
            if let ControlFlow::Break(verdict) = step {
                return self.stopped(at, verdict);
            }
            if stage.runs_program() && self.relocates() {
                return self.relocate(route, input);
            }
        }
        Verdict::Forward
    }

    /// Chooses the rule for the path that a program has set, and runs its stages.
    fn relocate(&mut self, route: &Route, input: &StageInput<'_>) -> Verdict {
        if !self.leave_location() {
            return self.refused(StatusCode::INTERNAL_SERVER_ERROR);
        }
        match self.find_relocated(input) {
            Some(found) if route.may_lead_to(&found) => {
                self.enter_route(&found, input);
                self.run_from(AFTER_BLOCKED, &found, input)
            }
            _ => {
                self.enter_server(route, input);
                self.refused(StatusCode::NOT_FOUND)
            }
        }
    }

    /// Records where to continue if the verdict is a question.
    fn stopped(&mut self, at: usize, verdict: Verdict) -> Verdict {
        if let Verdict::Ask(_) = verdict {
            self.asked = u8::try_from(at).ok();
        }
        verdict
    }

    /// Runs one stage.
    pub(super) fn run_stage(&mut self, stage: PipelineStage, route: &Route, input: &StageInput<'_>) -> Step {
        match stage {
            PipelineStage::Blocked => self.check_blocked(input.head, input.compiled_settings),
            PipelineStage::ClientCertificate => self.check_client_certificate(route, input),
            PipelineStage::Denied => self.check_denied(route),
            PipelineStage::Server => self.follow_server(route, input),
            PipelineStage::Location => self.follow_location(route, input),
            PipelineStage::BodyLength => self.check_body_length(route, input),
            PipelineStage::Cors => self.check_origin(route, input),
            PipelineStage::Redirect => self.check_redirect(route, input),
            PipelineStage::Rewrite => self.rewrite(route, input),
            PipelineStage::HttpsRedirect => self.check_https(route, input),
            PipelineStage::Backend => self.draw_backend(route, input),
            PipelineStage::Limits => self.check_limits(route, input),
            PipelineStage::Firewall => self.check_firewall(route, input),
            PipelineStage::Sources => self.apply_check(self.check_source(route, input), route),
            PipelineStage::Credentials if self.is_admitted() => Step::Continue(()),
            PipelineStage::Credentials => self.apply_check(self.check_credentials(route, input), route),
            PipelineStage::Authorisation => {
                let decision = self.authorise(route, input);
                self.apply_check(decision, route)
            }
            PipelineStage::SatisfyAny => self.check_satisfy_any(),
            PipelineStage::DefaultBackend => self.check_default_backend(),
            PipelineStage::EndpointHost => self.check_host_for_endpoint(),
            PipelineStage::Loop => self.check_loop(),
        }
    }

    /// Passes a reply to the stage that asked. A reply of another kind closes the request.
    fn answered(
        &mut self,
        stage: PipelineStage,
        reply: Reply,
        route: &Route,
        input: &StageInput<'_>,
    ) -> Step {
        match (stage, reply) {
            (PipelineStage::Credentials, Reply::Checked(good)) => {
                self.apply_check(self.credentials_checked(good, route, input), route)
            }
            (PipelineStage::Limits, Reply::Waited) => self.check_concurrency(route, input),
            (PipelineStage::Firewall, Reply::Inspected(result)) => self.inspected(result, route),
            (PipelineStage::Authorisation, reply) => {
                let decision = self.authorised(reply, route, input);
                self.apply_check(decision, route)
            }
            (_, Reply::Overloaded) => Step::Break(self.refused(StatusCode::SERVICE_UNAVAILABLE)),
            _ => Step::Break(self.refused(StatusCode::INTERNAL_SERVER_ERROR)),
        }
    }
}
