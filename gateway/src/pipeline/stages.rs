//! The stages of a request that a rule takes, in the order of their checks: this list is the only
//! place that knows it.
//!
//! The order is that of ingress-nginx, because it is visible: it decides which of two answers a
//! client gets.
//!
//! Before any stage, **the path is normalised** for matching: a rule must not be passed by writing
//! its path in another way. One that cannot be normalised is answered with 400. Then come **host
//! and rule**. The host decides which rules there are; the rules of the most specific host are
//! tried in their total order. A known host without a fitting rule gets the program's default
//! backend. For a host that no Ingress names, `/healthz` is answered with 200, because load
//! balancers in front of a gateway request it, unless the path of a catch-all rule names it.
//! Everything else goes to the catch-all rules and the default backend; without one the answer is
//! 404.
//!
//! After the last stage the request is forwarded. Each attempt picks an endpoint; no endpoint is
//! 503. What goes out loses the fields of the client's connection first, then gets ours, so that no
//! client can remove one of ours by naming it in `Connection`; changes that a rule asks for come
//! last and win.

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
    /// Who is blocked everywhere gets 403, also where no rule takes the request.
    Blocked,
    /// The certificate of the client: 400 without an acceptable one, 403 for a subject that may not
    /// come in, 421 for a connection that was made for a host with another verification.
    ClientCertificate,
    /// A closed rule answers with its status (503), before redirects: a policy that protects it
    /// could not be built, and nothing about it may be learned.
    Denied,
    /// The directives of server snippets: their program, and `location` blocks that take the path.
    Server,
    /// Whether a page of another origin may read the answer. Its browser's question before the
    /// request (OPTIONS) is answered with 204, before redirects, which no browser follows there,
    /// and before anybody is asked for a password, which it does not send.
    Cors,
    /// The program of the snippets of the location.
    Location,
    /// Redirects that the rule asks for, among them the slash that nginx appends. They come before
    /// the redirect to https, as in nginx: the second request then gets that one.
    Redirect,
    /// The path for the endpoint. It comes before the redirect to https because a template may be a
    /// URL, which the client is redirected to.
    Rewrite,
    /// The redirect to https, before everything that a client could learn over http.
    HttpsRedirect,
    /// Fixed answers, then the draw of a backend by weight. A backend that is not valid keeps its
    /// share and answers with its status; no weight at all is 500. Without any endpoint it is 503,
    /// or the rule's own default backend takes the request.
    Backend,
    /// How much the client may ask for: 503, or what the ConfigMap says.
    Limits,
    /// Where the client may come from: 403.
    Sources,
    /// Basic or digest authentication: 401.
    Credentials,
    /// Authorisation by another service: 401, 403, a redirect to where one signs in, or 500.
    Authorisation,
    /// Where any one of the last three is enough: the answer of those who have said no, if none has
    /// said yes.
    SatisfyAny,
    /// A request that has come through so many gateways that it must be going round: 508.
    Loop,
}

/// The order.
pub(crate) const ORDER: [PipelineStage; 16] = [
    PipelineStage::Blocked,
    PipelineStage::ClientCertificate,
    PipelineStage::Denied,
    PipelineStage::Server,
    PipelineStage::Cors,
    PipelineStage::Location,
    PipelineStage::Redirect,
    PipelineStage::Rewrite,
    PipelineStage::HttpsRedirect,
    PipelineStage::Backend,
    PipelineStage::Limits,
    PipelineStage::Sources,
    PipelineStage::Credentials,
    PipelineStage::Authorisation,
    PipelineStage::SatisfyAny,
    PipelineStage::Loop,
];

impl PipelineStage {
    /// Whether it looks at what every rule has. The others have nothing to say where neither the
    /// rule nor the operator asks for anything, and most rules are like that.
    pub(super) const fn is_for_all_rules(self) -> bool {
        matches!(self, Self::Redirect | Self::HttpsRedirect | Self::Backend | Self::Loop)
    }
}

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
    /// Runs all stages from the start.
    pub(super) fn run(&mut self, route: &Route, input: &StageInput<'_>) -> Verdict {
        self.run_from(0, route, input)
    }

    /// Takes in the reply to the question of the stage that waits, and goes on behind it.
    pub(super) fn run_on(&mut self, reply: Reply, route: &Route, input: &StageInput<'_>) -> Verdict {
        let Some(at) = self.asked.take() else {
            // Nobody has asked. What nobody has asked for lets nobody through.
            return self.refused(StatusCode::INTERNAL_SERVER_ERROR);
        };
        let at = usize::from(at);
        match self.answered(ORDER[at], reply, route, input) {
            ControlFlow::Continue(()) => self.run_from(at + 1, route, input),
            ControlFlow::Break(verdict) => self.stopped(at, verdict),
        }
    }

    fn run_from(&mut self, from: usize, route: &Route, input: &StageInput<'_>) -> Verdict {
        let is_plain = route.is_plain() && input.compiled_settings.ask_nothing();
        for (at, stage) in ORDER.iter().enumerate().skip(from) {
            if is_plain && !stage.is_for_all_rules() {
                continue;
            }
            if let ControlFlow::Break(verdict) = self.look(*stage, route, input) {
                return self.stopped(at, verdict);
            }
        }
        Verdict::Forward
    }

    /// Remembers where the exchange goes on if the verdict is a question.
    fn stopped(&mut self, at: usize, verdict: Verdict) -> Verdict {
        if let Verdict::Ask(_) = verdict {
            self.asked = u8::try_from(at).ok();
        }
        verdict
    }

    /// One stage looks at the request.
    pub(super) fn look(&mut self, stage: PipelineStage, route: &Route, input: &StageInput<'_>) -> Step {
        match stage {
            PipelineStage::Blocked => self.check_blocked(input.head, input.compiled_settings),
            PipelineStage::ClientCertificate => self.check_client_certificate(route, input),
            PipelineStage::Denied => self.check_denied(route),
            PipelineStage::Server => self.follow_server(route, input),
            PipelineStage::Location => self.follow_location(route, input),
            PipelineStage::Cors => self.check_origin(route, input),
            PipelineStage::Redirect => self.check_redirect(route, input),
            PipelineStage::Rewrite => self.rewrite(route, input),
            PipelineStage::HttpsRedirect => self.check_https(route, input),
            PipelineStage::Backend => self.draw_backend(route, input),
            PipelineStage::Limits => self.check_limits(route, input),
            PipelineStage::Sources => self.weigh(self.check_source(route, input), route),
            PipelineStage::Credentials if self.is_admitted() => Step::Continue(()),
            PipelineStage::Credentials => self.weigh(self.check_credentials(route, input), route),
            PipelineStage::Authorisation => {
                let word = self.authorise(route, input);
                self.weigh(word, route)
            }
            PipelineStage::SatisfyAny => self.check_satisfy_any(),
            PipelineStage::Loop => self.check_loop(),
        }
    }

    /// The stage that asked is told. A reply that it has no use for closes: it never opens.
    fn answered(
        &mut self,
        stage: PipelineStage,
        reply: Reply,
        route: &Route,
        input: &StageInput<'_>,
    ) -> Step {
        match (stage, reply) {
            (PipelineStage::Credentials, Reply::Checked(good)) => {
                self.weigh(self.credentials_checked(good, route), route)
            }
            (PipelineStage::Authorisation, reply) => {
                let word = self.authorised(reply, route, input);
                self.weigh(word, route)
            }
            (_, Reply::Overloaded) => Step::Break(self.refused(StatusCode::SERVICE_UNAVAILABLE)),
            _ => Step::Break(self.refused(StatusCode::INTERNAL_SERVER_ERROR)),
        }
    }
}
