//! The state of the trace of a request.

use std::time::SystemTime;

use crate::otel::{SpanId, TraceContext};
use crate::telemetry::LogLine;

/// The trace of a request.
#[derive(Debug)]
pub(super) struct TraceState {
    pub(super) context: TraceContext,
    /// The span of the client.
    pub(super) parent: Option<SpanId>,
    /// `None` if the trace is not sampled, or spans are not sent.
    pub(super) recorded: Option<RecordedHead>,
}

/// What spans contain of the head of the request.
#[derive(Debug)]
pub(super) struct RecordedHead {
    pub(super) began: SystemTime,
    pub(super) path: Box<str>,
    pub(super) user_agent: Option<Box<str>>,
    /// Values of the name, if it is configured.
    pub(super) name: LogLine,
}
