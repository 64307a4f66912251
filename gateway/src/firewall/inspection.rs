//! The inspection of one request, and of its response: a stream that stays open until the agent has
//! decided on all parts that it wants.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderValue, LOCATION};
use tokio::time::timeout;

use super::agent::AgentLink;
use super::configuration::{ConfigurationState, Configurations, FirewallConfiguration};
use super::ext_proc::{
    BodySide, HeadMessage, ImmediateResponse, ProcessingResponse, ResponseHeadMessage, ResponsePart,
    body_message,
};
use super::stream::{FAILED_PRECONDITION, MessageStream, StreamFault};
use crate::body::hold::MOST_JUDGED;
use crate::message::grpc::BadMessage;
use crate::upstream::http2::StreamPermit;

/// Bytes of a body that are inspected. A longer body is refused if the rules enforce, and otherwise
/// inspected up to here.
pub(crate) const MOST_BODY: u64 = MOST_JUDGED as u64;
/// Bytes of the body in a message.
const PIECE: usize = 32 * 1024;

/// A request that is to be inspected.
#[derive(Debug)]
pub struct InspectionRequest {
    pub(crate) configuration: Arc<FirewallConfiguration>,
    pub(crate) head: HeadMessage,
}

/// The result of the inspection of a head.
#[derive(Debug, PartialEq, Eq)]
pub enum InspectionResult {
    /// The head passes. The inspection continues with the parts that the agent wants.
    Passed(Option<Box<Inspection>>),
    /// A rule stops the request.
    Denied(Denial),
    /// There is no decision.
    Unavailable,
}

/// The result of the inspection of a body or of the head of a response, or of a part of it.
#[derive(Debug)]
pub(crate) enum BodyResult {
    /// The agent wants the next part.
    Continues,
    /// The request passes.
    Passed,
    /// A rule stops the request.
    Denied(Denial),
    /// There is no decision.
    Unavailable,
}

/// The answer of a rule that stops a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub(crate) status: StatusCode,
    /// The destination of a redirect.
    pub(crate) location: Option<HeaderValue>,
}

/// An inspection that waits for a further part.
#[derive(Debug)]
pub struct Inspection {
    stream: MessageStream,
    permit: StreamPermit,
    time_limit: Duration,
    /// Whether the rules refuse requests.
    pub(crate) enforces: bool,
    /// Whether the agent wants the body of the request.
    pub(crate) needs_body: bool,
    /// Whether the agent wants the response.
    pub(crate) needs_response: bool,
}

/// An inspection equals itself only.
impl PartialEq for Inspection {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Inspection {}

impl InspectionRequest {
    /// Sends the head to the agent and waits for the decision. `ends`: the request has no body.
    pub(crate) async fn run(
        self,
        link: Option<AgentLink<'_>>,
        configurations: &Configurations,
        ends: bool,
    ) -> InspectionResult {
        let Some(link) = link else { return InspectionResult::Unavailable };
        let Self { configuration, head } = self;
        let message = head.encoded(ends);
        let mut decided = decide(link, &configuration, &message, ends).await;
        if let Err(StreamFault::Grpc { status: FAILED_PRECONDITION, .. }) = decided {
            configurations.lost(&configuration);
            decided = decide(link, &configuration, &message, ends).await;
        }
        decided.unwrap_or_else(|fault| {
            tracing::debug!(%fault, "the firewall's agent has not decided");
            InspectionResult::Unavailable
        })
    }
}

/// Returns the decision on a head, once the agent has the directives.
async fn decide(
    link: AgentLink<'_>,
    configuration: &FirewallConfiguration,
    message: &Bytes,
    ends: bool,
) -> Result<InspectionResult, StreamFault> {
    match timeout(link.agent.time_limit, configuration.settled()).await {
        Ok(ConfigurationState::Ready) => {}
        Ok(_) => return Ok(InspectionResult::Unavailable),
        Err(_) => return Err(StreamFault::Timeout),
    }
    match begin(link, configuration, message.clone(), ends, false).await {
        // The agent has closed the connection: it may have been restarted.
        Err(StreamFault::Http(_)) => begin(link, configuration, message.clone(), ends, true).await,
        result => result,
    }
}

/// Opens a stream with the head. `ends`: the request has no body. `fresh`: over a connection that
/// is made now.
async fn begin(
    link: AgentLink<'_>,
    configuration: &FirewallConfiguration,
    message: Bytes,
    ends: bool,
    fresh: bool,
) -> Result<InspectionResult, StreamFault> {
    let time_limit = link.agent.time_limit;
    let open = timeout(time_limit, link.open(&configuration.hash, fresh)).await;
    let (stream, permit) = open.map_err(|_| StreamFault::Timeout)??;
    let mut inspection = Inspection {
        stream,
        permit,
        time_limit,
        enforces: configuration.enforces,
        needs_body: false,
        needs_response: false,
    };
    let response = inspection.exchange(message, false).await?;
    inspection.needs_body = !ends && !response.needs_no_body(BodySide::Request);
    Ok(match response.response {
        Some(ResponsePart::RequestHeaders(_)) => {
            let goes_on = inspection.needs_body || inspection.needs_response;
            InspectionResult::Passed(goes_on.then(|| Box::new(inspection)))
        }
        Some(ResponsePart::Immediate(answer)) => InspectionResult::Denied(denial(&answer)),
        _ => return Err(BadMessage.into()),
    })
}

impl Inspection {
    /// Sends a part of the request's body until it is sent or the agent has decided. `ends`: the
    /// body ends with it.
    pub(crate) async fn body(&mut self, content: Bytes, ends: bool) -> BodyResult {
        self.content(BodySide::Request, content, ends).await
    }

    /// Sends the head of the response. The agent wants the body if the result is
    /// [`BodyResult::Continues`].
    pub(crate) async fn response_head(&mut self, head: ResponseHeadMessage, ends: bool) -> BodyResult {
        let result = self.exchange(head.into_bytes(), ends).await.and_then(|response| {
            let needs_no_body = ends || response.needs_no_body(BodySide::Response);
            match response.response {
                Some(ResponsePart::ResponseHeaders(_)) if needs_no_body => Ok(BodyResult::Passed),
                Some(ResponsePart::ResponseHeaders(_)) => Ok(BodyResult::Continues),
                Some(ResponsePart::Immediate(answer)) => Ok(BodyResult::Denied(denial(&answer))),
                _ => Err(BadMessage.into()),
            }
        });
        result.unwrap_or_else(undecided)
    }

    /// Sends a part of the response's body, like [`body`](Self::body).
    pub(crate) async fn response_body(&mut self, content: Bytes, ends: bool) -> BodyResult {
        self.content(BodySide::Response, content, ends).await
    }

    /// Sends a part of a body piece by piece.
    async fn content(&mut self, side: BodySide, mut content: Bytes, ends: bool) -> BodyResult {
        loop {
            let piece = content.split_to(PIECE.min(content.len()));
            let is_last = ends && content.is_empty();
            match self.piece(side, piece, is_last).await {
                Ok(BodyResult::Continues) if !content.is_empty() => {}
                Ok(BodyResult::Continues) if is_last => return BodyResult::Passed,
                Ok(result) => return result,
                Err(fault) => return undecided(fault),
            }
        }
    }

    async fn piece(
        &mut self,
        side: BodySide,
        piece: Bytes,
        is_last: bool,
    ) -> Result<BodyResult, StreamFault> {
        // A response may follow a request.
        let ends = is_last && (side == BodySide::Response || !self.needs_response);
        let response = self.exchange(body_message(side, piece, is_last), ends).await?;
        let needs_no_body = response.needs_no_body(side);
        match (response.response, side) {
            (Some(ResponsePart::RequestBody(_)), BodySide::Request)
            | (Some(ResponsePart::ResponseBody(_)), BodySide::Response) => {
                Ok(if needs_no_body { BodyResult::Passed } else { BodyResult::Continues })
            }
            (Some(ResponsePart::Immediate(answer)), _) => Ok(BodyResult::Denied(denial(&answer))),
            _ => Err(BadMessage.into()),
        }
    }

    /// Sends a message and returns the answer. `ends`: no other message follows.
    async fn exchange(&mut self, message: Bytes, ends: bool) -> Result<ProcessingResponse, StreamFault> {
        let exchange = async {
            self.stream.send(message, ends).await?;
            self.stream.receive().await
        };
        let answered: Result<ProcessingResponse, _> =
            timeout(self.time_limit, exchange).await.unwrap_or_else(|_| {
                self.permit.distrust();
                Err(StreamFault::Timeout)
            });
        if let Some(wants) = answered.as_ref().ok().and_then(ProcessingResponse::needs_response) {
            self.needs_response = wants;
        }
        answered
    }
}

fn undecided(fault: StreamFault) -> BodyResult {
    tracing::debug!(%fault, "the firewall's agent has not decided");
    BodyResult::Unavailable
}

/// Returns the answer of a rule. A status that no response can have becomes 403.
fn denial(answer: &ImmediateResponse) -> Denial {
    let code = answer.status.as_ref().and_then(|status| u16::try_from(status.code).ok());
    let status = code.filter(|code| (200..=599).contains(code));
    let status = status.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::FORBIDDEN);
    let set = answer.headers.iter().flat_map(|headers| &headers.set_headers);
    let mut set = set.filter_map(|option| option.header.as_ref());
    let location = set.find(|field| field.key.eq_ignore_ascii_case(LOCATION.as_str()));
    Denial { status, location: location.and_then(|field| HeaderValue::from_bytes(field.bytes()).ok()) }
}
