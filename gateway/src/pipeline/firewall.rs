//! The stage that has a request inspected by the agent of the web application firewall, and what
//! follows from its decisions.
//!
//! The head is inspected before the checks of access, as in ingress-nginx, so an authorisation
//! service gets no request that the rules refuse. The body is inspected when all checks of the head
//! have passed ([`Exchange::take_inspection`]).

use std::net::SocketAddr;

use http::header::HOST;
use http::{StatusCode, Version};

use super::exchange::{Exchange, Verdict};
use super::question::Question;
use super::stages::{StageInput, Step};
use crate::firewall::{
    Denial, Firewall, HeadMessage, InspectedHead, Inspection, InspectionRequest, InspectionResult,
};
use crate::message::answer::Answer;
use crate::route::Route;
use crate::telemetry::InspectionOutcome;

impl Exchange {
    /// Requests the inspection of the head.
    pub(super) fn check_firewall(&self, route: &Route, input: &StageInput<'_>) -> Step {
        let Some(firewall) = firewall(route) else { return Step::Continue(()) };
        let head = input.head;
        let id =
            firewall.transaction_id.as_ref().map(|id| id.fill(&self.template_context(Some(route), input)));
        let (client, peer) = (self.client.address, self.connection.peer);
        let port = if peer.ip() == client { peer.port() } else { 0 };
        let fields =
            head.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(HOST.as_str().as_bytes()));
        let lower = |name: &[u8]| String::from_utf8_lossy(name).to_ascii_lowercase();
        let head = HeadMessage::new(InspectedHead {
            method: head.method.as_str(),
            target: head.target,
            authority: head.authority,
            scheme: self.connection.scheme(),
            fields: fields.map(|(name, value)| (lower(name), value)),
            protocol: match head.version {
                Version::HTTP_10 => "HTTP/1.0",
                Version::HTTP_2 => "HTTP/2.0",
                _ => "HTTP/1.1",
            },
            client: SocketAddr::new(client, port),
            port: self.connection.port,
            transaction_id: String::from_utf8_lossy(&id.unwrap_or_default()).into_owned(),
        });
        let configuration = firewall.configuration.clone();
        Step::Break(Verdict::Ask(Question::Inspect(Box::new(InspectionRequest { configuration, head }))))
    }

    /// Applies the decision on the head.
    pub(super) fn inspected(&mut self, result: InspectionResult, route: &Route) -> Step {
        let enforces = firewall(route).is_none_or(|firewall| firewall.configuration.enforces);
        match result {
            InspectionResult::Passed(None) => self.has_passed(),
            InspectionResult::Passed(Some(inspection)) => self.keep_inspection(inspection),
            InspectionResult::Denied(denial) => return Step::Break(Verdict::Answer(self.denied(denial))),
            InspectionResult::Unavailable => {
                if let Some(answer) = self.not_inspected(enforces) {
                    return Step::Break(Verdict::Answer(answer));
                }
            }
        }
        Step::Continue(())
    }

    /// Returns whether the response may have to be inspected.
    pub(super) fn inspects_response(&self) -> bool {
        self.inspection().is_some_and(|inspection| inspection.needs_response)
    }

    /// Returns the inspection that waits for the body or the response.
    pub(super) fn inspection(&self) -> Option<&Inspection> {
        self.extras.as_ref()?.inspection.as_deref()
    }

    /// Takes the inspection that waits for the body or the response; `None` if there is none.
    pub(crate) fn take_inspection(&mut self) -> Option<Box<Inspection>> {
        self.extras.as_mut()?.inspection.take()
    }

    /// Keeps the inspection for the response.
    pub(crate) fn keep_inspection(&mut self, inspection: Box<Inspection>) {
        self.extras.get_or_insert_default().inspection = Some(inspection);
    }

    /// Counts a request that has passed.
    pub(crate) fn has_passed(&self) {
        self.state().telemetry.inspected(InspectionOutcome::Passed);
    }

    /// Returns the answer of a rule that stops the request.
    pub(crate) fn denied(&self, denial: Denial) -> Answer {
        self.state().telemetry.inspected(InspectionOutcome::Denied);
        match denial.location {
            Some(location) => self.with_response_headers(Answer::redirect(denial.status, location)),
            None => self.answer(denial.status),
        }
    }

    /// Returns the answer to a request without a decision; `None` if it is served all the same.
    pub(crate) fn not_inspected(&self, enforces: bool) -> Option<Answer> {
        let outcome = if enforces { InspectionOutcome::Closed } else { InspectionOutcome::Uninspected };
        self.state().telemetry.inspected(outcome);
        enforces.then(|| self.answer(StatusCode::SERVICE_UNAVAILABLE))
    }

    /// Returns the answer to a request whose body is larger than what is inspected.
    pub(crate) fn exceeds_inspection(&self) -> Answer {
        self.denied(Denial { status: StatusCode::PAYLOAD_TOO_LARGE, location: None })
    }
}

fn firewall(route: &Route) -> Option<&Firewall> {
    route.compiled.as_ref()?.firewall.as_ref()
}
