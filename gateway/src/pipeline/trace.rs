//! The trace of a request: the context for its endpoint, and what its spans contain.
//!
//! A request that is not traced pays for one check. One that is traced but not sampled pays for two
//! random numbers and the fields of the context; only a sampled one keeps data of its head.

use std::time::{Duration, SystemTime};

use http::header::USER_AGENT;
use sluice_config::UpstreamProtocol;

use super::call::Attempt;
use super::end::logged;
use super::exchange::Exchange;
use super::outcome::ExchangeOutcome;
use super::trace_state::{RecordedHead, TraceState};
use crate::io::failure::{CLIENT_LEFT, FailureKind};
use crate::message::fields::{Fields, FieldsMut};
use crate::message::request_head::RequestHead;
use crate::otel::{
    AttemptTrace, IncomingContext, RequestTrace, SpanId, TraceContext, TraceId, is_sampled, shortened,
};
use crate::policy::tracing::SpanName;
use crate::route::Route;
use crate::telemetry::{LogFormat, LogLine};

impl Exchange {
    /// Returns the id of the trace, if it is sampled.
    pub(super) fn sampled_trace(&self) -> Option<[u8; 16]> {
        let context = &self.trace.as_ref()?.context;
        context.is_sampled.then(|| context.trace.bytes())
    }

    /// Begins the trace of a request that matches this rule, or none, if it is traced. Must be
    /// called before values of variables are filled in.
    pub(super) fn begin_trace(&mut self, head: &RequestHead<'_>, path: &str, route: Option<&Route>) {
        let own = route.and_then(|route| route.policies.tracing.enabled);
        if own.unwrap_or(self.compiled_settings().trace.enabled) {
            self.trace = Some(Box::new(self.new_trace(head, path, route)));
        }
    }

    fn new_trace(&self, head: &RequestHead<'_>, path: &str, route: Option<&Route>) -> TraceState {
        let rules = &self.compiled_settings().trace;
        let trusts = route.and_then(|route| route.policies.tracing.trusts_incoming);
        let incoming =
            trusts.unwrap_or(rules.trusts_incoming).then(|| IncomingContext::read(head.headers)).flatten();
        let parent_is_sampled = incoming.as_ref().map(|incoming| incoming.is_sampled);
        let (trace, parent, state) = match incoming {
            Some(IncomingContext { trace, parent, state, .. }) => (trace, Some(parent), state),
            None => (TraceId::random(), None, None),
        };
        let is_sampled = is_sampled(rules.sampler, trace, parent_is_sampled);
        let context = TraceContext { trace, span: SpanId::random(), is_sampled, state };
        let recorded = (is_sampled && rules.sends_spans).then(|| {
            let user_agent = head.headers.first(&USER_AGENT).map(String::from_utf8_lossy);
            RecordedHead {
                began: SystemTime::now(),
                path: shortened(head.path()),
                user_agent: user_agent.as_deref().map(shortened),
                name: self
                    .span_name(route)
                    .map(|SpanName(name)| self.begin_line(name, head, Some(path.as_bytes())))
                    .unwrap_or_default(),
            }
        });
        TraceState { context, parent, recorded }
    }

    /// The name of spans of this rule, or of all; `None` is the path of the rule.
    fn span_name<'n>(&'n self, route: Option<&'n Route>) -> Option<&'n SpanName> {
        let own = route.and_then(|route| route.compiled.as_deref()?.span_name.as_ref());
        own.or(self.compiled_settings().trace.span_name.as_ref())
    }

    /// Saves the fields of a response that the name of the span needs.
    pub(super) fn name_response(&mut self, put: impl Fn(&LogFormat, &mut LogLine)) {
        if !self.names_span_by_response() {
            return;
        }
        let Some(mut trace) = self.trace.take() else { return };
        if let Some(recorded) = &mut trace.recorded
            && let Some(SpanName(name)) = self.span_name(self.route.as_deref())
        {
            put(name, &mut recorded.name);
        }
        self.trace = Some(trace);
    }

    /// Returns whether the name of the span needs fields of a response.
    pub(super) fn names_span_by_response(&self) -> bool {
        let is_recorded = self.trace.as_ref().is_some_and(|trace| trace.recorded.is_some());
        let name = is_recorded.then(|| self.span_name(self.route.as_deref())).flatten();
        name.is_some_and(|SpanName(name)| name.needs_response())
    }

    /// Begins the span of the current attempt, if spans are sent.
    pub(super) fn begin_attempt_span(&mut self) {
        if self.trace.as_ref().is_some_and(|trace| trace.recorded.is_some())
            && let Some(attempt) = self.call.attempts.last_mut()
        {
            attempt.span = Some(SpanId::random());
        }
    }

    /// Sets the context for the endpoint of the current attempt.
    pub(super) fn set_context_of_attempt(&self, fields: &mut impl FieldsMut) {
        if let Some(trace) = &self.trace {
            let span = self.call.attempts.last().and_then(|attempt| attempt.span);
            trace.context.write(fields, span.unwrap_or(trace.context.span));
        }
    }

    /// Sets the context for a request of the gateway's own.
    pub(super) fn set_context(&self, fields: &mut impl FieldsMut) {
        if let Some(trace) = &self.trace {
            trace.context.write(fields, trace.context.span);
        }
    }

    /// Ends the trace: puts its spans into the queue.
    pub(super) fn end_trace(&mut self, outcome: &ExchangeOutcome, status: u16, time: Duration) {
        let Some(trace) = self.trace.as_deref_mut() else { return };
        let Some(recorded) = trace.recorded.take() else { return };
        let (parent, context) = (trace.parent, trace.context.clone());
        let RecordedHead { began, path, user_agent, name } = recorded;
        let route = self.named_rule();
        let name = match self.span_name(route) {
            Some(SpanName(format)) => {
                let attempts = logged(&self.call.attempts, outcome.upstream_received);
                let mut text = Vec::new();
                format.write(&name, &self.final_record(outcome, status, time, &attempts), &mut text);
                shortened(String::from_utf8_lossy(&text).trim_end())
            }
            // As in ingress-nginx: the name of nginx's location.
            None => shortened(route.map_or("/", |route| &route.origin.path)),
        };
        let attempts = self.call.attempts.iter().filter_map(|attempt| self.attempt_trace(attempt, &path));
        let attempts = attempts.collect();
        self.state().spans.push(RequestTrace {
            context,
            parent,
            name,
            began,
            time,
            method: self.method.clone(),
            version: self.version,
            scheme: self.connection.scheme(),
            authority: shortened(self.authority.to_str().unwrap_or_default()),
            user_agent,
            request_id: self.request_id.as_ref().and_then(|id| id.to_str().ok()).map(shortened),
            client: self.client.address,
            peer: self.connection.peer,
            status: outcome.status.map(|status| status.as_u16()),
            error: self.error_of_request(outcome),
            origin: route.map(|route| route.origin.clone()),
            service: route.and_then(|route| self.service(route)).cloned(),
            attempts,
            path,
        });
    }

    fn attempt_trace(&self, attempt: &Attempt, path: &str) -> Option<AttemptTrace> {
        let path = match &self.outgoing {
            Some(outgoing) => shortened(outgoing.target().split('?').next().unwrap_or_default()),
            None => path.into(),
        };
        let time = attempt.ended.unwrap_or_else(|| attempt.began.elapsed());
        Some(AttemptTrace {
            span: attempt.span?,
            after: attempt.began.saturating_duration_since(self.began),
            time,
            address: attempt.address,
            scheme: self.pool().map_or("http", |pool| scheme(self.protocol_of(pool))),
            path,
            // An attempt without a response has the status that is logged for it.
            status: attempt.status.filter(|_| attempt.header.is_some()).map(|status| status.as_u16()),
            error: attempt.failure.map(FailureKind::as_str),
        })
    }

    /// Returns why the response is missing or incomplete.
    fn error_of_request(&self, outcome: &ExchangeOutcome) -> Option<&'static str> {
        let failed = self.call.attempts.last().and_then(|attempt| attempt.failure).map(FailureKind::as_str);
        outcome.aborted.then(|| failed.unwrap_or(CLIENT_LEFT))
    }
}

fn scheme(protocol: UpstreamProtocol) -> &'static str {
    match protocol {
        UpstreamProtocol::FastCgi => "fastcgi",
        protocol if protocol.has_tls() => "https",
        _ => "http",
    }
}
