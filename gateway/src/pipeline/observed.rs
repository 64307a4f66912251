//! What readers of live requests receive of an exchange (`sluice tap`, `sluice trace-next`).
//!
//! Without a reader, a request pays for one relaxed load at its start, and for the test of a field
//! where a step could be recorded.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use http::StatusCode;

use super::call::Attempt;
use super::exchange::{CertificatePage, Exchange, Verdict};
use super::observed_request::{ObservedRequest, ObservedSteps};
use super::outcome::ExchangeOutcome;
use super::satisfy_any::SatisfyAny;
use super::stages::{PipelineStage, Step};
use crate::io::failure::FailureKind;
use crate::message::edit::RequestMut;
use crate::message::fields::Fields;
use crate::message::request_head::RequestHead;
use crate::router::host_of;
use crate::tap::{
    AttemptStep, CheckResult, CheckStep, FieldLines, ReceivedHead, RequestSteps, SentHead, TappedHead,
    TappedRequest, TappedRule,
};

impl Exchange {
    /// Follows the request if a reader wants it. `head` is `None` if it could not be read.
    pub(super) fn observe(&mut self, head: Option<&RequestHead<'_>>) {
        if self.state().taps.is_open() {
            self.begin_observation(head);
        }
    }

    fn begin_observation(&mut self, head: Option<&RequestHead<'_>>) {
        let host = head.map(|head| host_of(head.authority)).unwrap_or_default();
        let followers = self.state().taps.followers(&TappedHead {
            host: &host,
            method: head.map_or("", |head| head.method.as_str()),
            path: head.map_or("", RequestHead::path),
            client: self.client.address,
        });
        if followers.is_empty() {
            return;
        }
        let steps = head.filter(|_| followers.want_steps()).map(|head| {
            Box::new(ObservedSteps {
                received: self.received(head),
                page: None,
                checks: Vec::new(),
                asked: None,
                sent: Mutex::default(),
                response: FieldLines::default(),
            })
        });
        let target = head.map(|head| sluice_config::redaction::target(head.target).into_owned());
        let began = SystemTime::now();
        self.observed =
            Some(Box::new(ObservedRequest { followers, began, target: target.unwrap_or_default(), steps }));
    }

    fn received(&self, head: &RequestHead<'_>) -> ReceivedHead {
        ReceivedHead {
            group: self.connection.group.clone(),
            https: self.connection.is_https(),
            version: head.version,
            target: head.target.to_owned(),
            fields: head.headers.parsed().collect(),
        }
    }

    fn steps(&mut self) -> Option<&mut ObservedSteps> {
        self.observed.as_deref_mut()?.steps.as_deref_mut()
    }

    /// Records that the request became one for an error page.
    pub(super) fn note_page(&mut self, target: &str) {
        if self.observed.is_some()
            && let Some(steps) = self.steps()
        {
            steps.page = Some(target.to_owned());
        }
    }

    /// Records the result of the stage with this index.
    pub(super) fn note_stage(&mut self, stage: usize, kind: PipelineStage, step: &Step) {
        if self.observed.is_some() {
            self.record_stage(stage, kind, step);
        }
    }

    fn record_stage(&mut self, stage: usize, kind: PipelineStage, step: &Step) {
        let is_admission = matches!(
            kind,
            PipelineStage::Sources | PipelineStage::Credentials | PipelineStage::Authorisation
        );
        let extras = self.extras.as_deref();
        let refused = extras.is_some_and(|extras| matches!(extras.satisfy_any, SatisfyAny::Refused(_)));
        let offers_page =
            extras.is_some_and(|extras| matches!(extras.certificate_page, CertificatePage::Offered(_)));
        let result = match step {
            Step::Continue(()) if is_admission && refused => CheckResult::Refused,
            Step::Continue(()) | Step::Break(Verdict::Forward) => CheckResult::Passed,
            Step::Break(Verdict::Answer(_)) if offers_page => CheckResult::Refused,
            Step::Break(Verdict::Answer(answer)) => CheckResult::Answered(answer.status.as_u16()),
            Step::Break(Verdict::Ask(_)) => CheckResult::Unanswered,
        };
        let Some(steps) = self.steps() else { return };
        let waited = steps.asked.take().map(|asked| asked.elapsed());
        if result == CheckResult::Unanswered {
            steps.asked = Some(Instant::now());
        }
        match steps.checks.last_mut().filter(|last| last.stage == stage) {
            Some(last) => (last.result, last.waited) = (result, waited),
            None => steps.checks.push(CheckStep { stage, result, waited }),
        }
    }

    /// Records the head for the endpoint of the current attempt.
    pub(super) fn note_sent(&self, head: &mut impl RequestMut) {
        let Some(steps) = self.observed.as_deref().and_then(|observed| observed.steps.as_deref()) else {
            return;
        };
        let received = steps.page.as_ref().unwrap_or(&steps.received.target);
        let target = self.outgoing.as_ref().map_or(&**received, |outgoing| outgoing.target());
        let target = sluice_config::redaction::target(target).into_owned();
        let method = head.method().to_string();
        let fields = FieldLines::of(head.fields());
        *steps.sent.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(SentHead { method, target, fields });
    }

    /// Records the fields of the response to the client.
    pub(super) fn note_response(&mut self, fields: &impl Fields) {
        if self.observed.is_some()
            && let Some(steps) = self.steps()
        {
            steps.response = FieldLines::of(fields);
        }
    }

    /// Hands the request to its readers.
    pub(super) fn end_observation(&mut self, outcome: &ExchangeOutcome, status: u16, time: Duration) {
        let Some(observed) = self.observed.take() else { return };
        let ObservedRequest { followers, began, target, steps } = *observed;
        let attempts = &self.call.attempts;
        let steps = steps.map(|steps| {
            let ObservedSteps { received, page, checks, sent, response, .. } = *steps;
            let sent = sent.into_inner().unwrap_or_else(PoisonError::into_inner);
            let attempts = attempts.iter().map(|attempt| self.attempt_step(attempt)).collect();
            Box::new(RequestSteps {
                received,
                page,
                checks,
                sent,
                attempts,
                response,
                bytes_sent: outcome.bytes_sent,
            })
        });
        let rule = self.named_rule().map(|route| TappedRule {
            object: route.origin.object.clone(),
            host: route.host().to_owned(),
            path: route.origin.path.to_string(),
        });
        followers.offer(&Arc::new(TappedRequest {
            began,
            client: self.client.address,
            method: if self.head_was_read { self.method.to_string() } else { String::new() },
            host: self.authority.to_str().unwrap_or_default().to_owned(),
            target,
            status,
            time,
            endpoint: attempts.last().map(|attempt| attempt.address),
            backend: self.backend.as_ref().map(|backend| backend.name.to_string()),
            attempts: attempts.len(),
            rule,
            steps,
        }));
    }

    fn attempt_step(&self, attempt: &Attempt) -> AttemptStep {
        AttemptStep {
            address: attempt.address,
            after: attempt.began.saturating_duration_since(self.began),
            connected: attempt.connected,
            head: attempt.header,
            time: attempt.ended.unwrap_or_else(|| attempt.began.elapsed()),
            // Without a response, it is the status of the gateway's own answer.
            status: attempt.status.filter(|_| attempt.header.is_some()).as_ref().map(StatusCode::as_u16),
            failure: attempt.failure.map(FailureKind::as_str),
        }
    }
}
