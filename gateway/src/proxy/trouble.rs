//! Pingora's errors as the pipeline's failures.

use pingora_core::{Error, ErrorSource, ErrorType};
use pingora_proxy::Session;

use crate::pipeline::{Failure, FailureKind};

/// A failure before there was a connection.
pub(super) fn connecting(session: &Session, error: &Error) -> Failure {
    let kind = match error.etype() {
        ErrorType::ConnectTimedout | ErrorType::TLSHandshakeTimedout => FailureKind::ConnectTimeout,
        _ => FailureKind::Connect,
    };
    Failure {
        kind,
        stale: false,
        sent: false,
        replayable: !session.as_ref().retry_buffer_truncated(),
        response_started: has_begun(session),
    }
}

/// A failure on a connection. `reused` when it came from the pool.
pub(super) fn on_connection(session: &Session, error: &Error, reused: bool) -> Failure {
    let response_started = has_begun(session);
    let kind = match (error.esource(), error.etype()) {
        (ErrorSource::Downstream, ErrorType::ReadTimedout) => FailureKind::ClientTimeout,
        (ErrorSource::Downstream, _) => FailureKind::Client,
        (_, ErrorType::ReadTimedout) => FailureKind::ReadTimeout,
        (_, ErrorType::WriteTimedout) => FailureKind::SendTimeout,
        (_, ErrorType::ReadError | ErrorType::WriteError | ErrorType::ConnectionClosed) => {
            FailureKind::Broken
        }
        _ => FailureKind::InvalidHead,
    };
    Failure {
        kind,
        stale: reused && kind == FailureKind::Broken && !response_started,
        sent: true,
        replayable: !session.as_ref().retry_buffer_truncated(),
        response_started,
    }
}

/// Whether a final response head has gone to the client.
pub(super) fn has_begun(session: &Session) -> bool {
    session.response_written().is_some_and(|head| !head.status.is_informational() || head.status == 101)
}
