//! Chooses the stages for the bodies of a request that is about to be forwarded: the last check of
//! its head.

use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{Method, StatusCode};
use sluice_config::{GlobalSettings, ResponseBuffering, UpstreamProtocol};

use super::exchange::{Exchange, Verdict};
use super::stages::{StageInput, Step};
use crate::body::compression::is_grpc;
use crate::body::plan::BodyPlan;
use crate::message::answer::Answer;
use crate::message::fields::Fields;
use crate::message::framing::Framing;
use crate::message::head::content_length;
use crate::pipeline::Originator;
use crate::route::Route;

/// Properties of the request body from its head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestBody {
    pub(crate) framing: Framing,
    /// The whole body has arrived.
    pub(crate) is_whole: bool,
    /// The request asks for another protocol, which the bytes behind its head may use. Relevant if
    /// there are any.
    pub(crate) upgrades: bool,
}

impl Exchange {
    /// Returns the answer to a request for whose head no memory is available.
    pub(crate) fn without_memory(&self) -> Answer {
        Answer { close: true, ..self.answer(StatusCode::SERVICE_UNAVAILABLE) }
    }

    /// Answers 413 to a request whose head declares more than its rule permits. Redirects of the
    /// server come before the choice of a location.
    pub(super) fn check_body_length(&mut self, route: &Route, input: &StageInput<'_>) -> Step {
        let Some(length) = input.head.headers.first(&CONTENT_LENGTH).and_then(content_length) else {
            return Step::Continue(());
        };
        let limit = body_limit(Some(route), &input.compiled_settings.settings);
        if limit.is_none_or(|limit| length <= limit) || route.action.is_of_server() {
            return Step::Continue(());
        }
        // A page of another origin may read the answer.
        self.accept_origin(route, input);
        self.enter_without_program(route, input);
        Step::Break(Verdict::Answer(self.body_too_large()))
    }

    /// Returns the answer to a body that is too large. Its rest is not read, as in nginx.
    fn body_too_large(&self) -> Answer {
        Answer { close: true, ..self.answer(StatusCode::PAYLOAD_TOO_LARGE) }
    }

    /// Returns the stages for the bodies.
    ///
    /// # Errors
    /// The request body exceeds its limit. The answer is 413, and no endpoint receives the request.
    pub(crate) fn bodies(&self, head: &impl Fields, body: RequestBody) -> Result<BodyPlan, Answer> {
        let compiled_settings = self.compiled_settings();
        let settings = &compiled_settings.settings;
        let bodies = self.route.as_ref().map(|route| &route.policies.bodies);
        let limit = body_limit(self.route.as_deref(), settings);
        let length = body.framing.left();
        // Without a rule, no stage has compared them.
        if limit.is_some_and(|limit| length.is_some_and(|length| length > limit)) {
            return Err(self.body_too_large());
        }
        let buffering =
            bodies.and_then(|bodies| bodies.request_buffering).unwrap_or(settings.request_buffering);
        // A whole body needs no buffer, unless the log line has it.
        let waits = buffering
            && !(body.is_whole && (!self.logs_body() || body.framing.is_done()))
            && !body.upgrades
            && !head.first(&CONTENT_TYPE).is_some_and(is_grpc)
            // Without an endpoint the answer is immediate. HTTP/2 endpoints usually serve gRPC,
            // which streams.
            && self.pool().is_some_and(|pool| !pool.is_empty() && !pool.protocol().is_http2());
        // Endpoints of HTTP/1.0 need the length, and so do the programs of FastCGI endpoints.
        let needs_length = || self.speaks_http_1_0() || self.speaks_fastcgi();
        let waits = waits || !body.framing.is_done() && length.is_none() && needs_length();
        let (inspects, inspects_copy) = self.body_inspection(head, body);
        let waits = waits || inspects && !body.framing.is_done();
        let memory = bodies.and_then(|bodies| bodies.memory).unwrap_or(settings.body_buffer);
        let compression = compiled_settings.compression.as_ref();
        let rate = bodies.and_then(|bodies| bodies.rate).unwrap_or(settings.response_rate);
        let after = bodies.and_then(|bodies| bodies.rate_after).unwrap_or(settings.response_rate_after);
        let is_head = self.method == Method::HEAD;
        let response_buffering = self.response_buffering().filter(|_| !is_head && !body.upgrades);
        Ok(BodyPlan {
            limit: limit.filter(|_| length.is_none()),
            buffer: waits.then_some(memory),
            response_buffering,
            substitution: self.substitution(),
            compression: compression.map(|rules| (rules.clone(), rules.wanted(self.version, head))),
            is_head,
            keeps_fields: self.needs_sent_fields(),
            rate: (rate > 0).then_some((rate, after)),
            mirror: self.mirror().is_some(),
            holds_response: self.inspects_response(),
            inspects,
            inspects_copy,
        })
    }

    /// Returns how the response is buffered, if it is. That of an HTTP/2 endpoint never is: these
    /// usually serve gRPC, for which nginx has no such buffers.
    fn response_buffering(&self) -> Option<ResponseBuffering> {
        let global = &self.compiled_settings().settings.response_buffering;
        let rule = self.route.as_ref().and_then(|route| route.policies.bodies.response_buffering.as_ref());
        let is_enabled = rule.and_then(|rule| rule.enabled).unwrap_or(global.enabled);
        let pool = self.pool().filter(|pool| !pool.is_empty())?;
        match pool.protocol() {
            UpstreamProtocol::FastCgi => Some(ResponseBuffering::FASTCGI),
            protocol if !is_enabled || protocol.is_http2() => None,
            _ => Some(rule.map_or(*global, |rule| rule.resolve(global))),
        }
    }

    /// Returns whether the firewall inspects the request body before it is forwarded, and whether
    /// it inspects a copy meanwhile. A firewall that only detects does not delay gRPC, because a
    /// client may wait for the response before it ends its stream. One that enforces holds every
    /// body: an exception by content type would let each client choose not to be inspected.
    fn body_inspection(&self, head: &impl Fields, body: RequestBody) -> (bool, bool) {
        let is_other_protocol = body.upgrades && body.framing == Framing::Opaque;
        let inspection = self.inspection().filter(|inspection| inspection.needs_body && !is_other_protocol);
        let Some(inspection) = inspection else { return (false, false) };
        let may_stream = head.first(&CONTENT_TYPE).is_some_and(is_grpc)
            && self.pool().is_some_and(|pool| pool.protocol().is_http2());
        if inspection.enforces || !may_stream {
            return (true, false);
        }
        // There is one copy, and the inspection of a response starts when the request's has ended.
        (false, self.mirror().is_none() && !inspection.needs_response)
    }
}

/// Returns the maximum length of a request body in bytes; `None` is no limit.
pub(crate) fn body_limit(route: Option<&Route>, settings: &GlobalSettings) -> Option<u64> {
    let own = route.and_then(|route| route.policies.bodies.limit);
    Some(own.unwrap_or(settings.body_limit)).filter(|limit| *limit > 0)
}
