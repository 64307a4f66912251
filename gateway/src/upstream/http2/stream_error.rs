//! The consequences of a failed stream for its request.

use h2::{Error, Reason};

use super::connection::StreamPermit;
use crate::io::failure::{Failure, FailureKind};

/// A failed stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamError {
    pub(crate) kind: FailureKind,
    /// The endpoint declared that it did not process the request: it refused the stream or sent
    /// GOAWAY (RFC 9113 §6.8 and §8.7).
    unseen: bool,
    /// The error code of the endpoint's RST_STREAM.
    pub(crate) reset: Option<Reason>,
}

/// Progress of the attempt when its stream failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamProgress {
    /// Whether a part of the response arrived, and whether a part of it was sent to the client.
    pub(crate) heard: bool,
    pub(crate) response_started: bool,
    /// Whether all received parts of the request body can be sent again.
    pub(crate) replayable: bool,
}

impl StreamError {
    /// Classifies an error of `h2`.
    pub(crate) fn of(error: &Error) -> Self {
        let reset = error.reason().filter(|_| error.is_remote() && error.is_reset());
        // `h2` reports a GOAWAY only to streams that the endpoint has not processed.
        let unseen = reset == Some(Reason::REFUSED_STREAM) || error.is_remote() && error.is_go_away();
        // A library error means that the endpoint sent invalid HTTP/2 or an invalid response.
        let kind = if error.is_library() { FailureKind::InvalidHead } else { FailureKind::Broken };
        Self { kind, unseen, reset: reset.filter(|_| !unseen) }
    }

    /// Returns the error of a stream that the gateway abandoned for this reason.
    pub(crate) fn given_up(kind: FailureKind) -> Self {
        Self { kind, unseen: false, reset: None }
    }

    /// Returns the failure of the attempt.
    pub(crate) fn failure(self, stream_permit: &StreamPermit, progress: StreamProgress) -> Failure {
        let Self { kind, unseen, reset } = self;
        let StreamProgress { heard, response_started, replayable } = progress;
        if matches!(kind, FailureKind::ReadTimeout | FailureKind::SendTimeout) {
            stream_permit.distrust();
        }
        let answered = heard || reset.is_some();
        let broken = kind == FailureKind::Broken;
        let unseen = unseen && !heard;
        Failure {
            kind,
            stale: unseen || broken && stream_permit.reused && !answered,
            sent: !unseen && (!broken || answered || !stream_permit.is_untouched()),
            replayable,
            response_started,
        }
    }
}
