//! What the end of a stream before its time means for its request.

use h2::{Error, Reason};

use super::connection::StreamPermit;
use crate::failure::{Failure, FailureKind};

/// Why a stream failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamError {
    pub(crate) kind: FailureKind,
    /// The endpoint declared that it did not process the request: it refused the stream or sent
    /// GOAWAY (RFC 9113 §6.8 and §8.7).
    unseen: bool,
    /// The error code of the endpoint's RST_STREAM.
    pub(crate) reset: Option<Reason>,
}

/// How far the attempt had come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Something of the response had come, and something of it had gone to the client.
    pub(crate) heard: bool,
    pub(crate) response_started: bool,
    /// All that came of the request body can be sent again.
    pub(crate) replayable: bool,
}

impl StreamError {
    /// What `h2` says.
    pub(crate) fn of(error: &Error) -> Self {
        let reset = error.reason().filter(|_| error.is_remote() && error.is_reset());
        // `h2` gives a GOAWAY only to those streams that the endpoint has not begun with.
        let unseen = reset == Some(Reason::REFUSED_STREAM) || error.is_remote() && error.is_go_away();
        // What `h2` refuses is no HTTP/2, or no response.
        let kind = if error.is_library() { FailureKind::InvalidHead } else { FailureKind::Broken };
        Self { kind, unseen, reset: reset.filter(|_| !unseen) }
    }

    /// It was given up for this reason.
    pub(crate) fn given_up(kind: FailureKind) -> Self {
        Self { kind, unseen: false, reset: None }
    }

    /// The failure of the attempt.
    pub(crate) fn failure(self, stream_permit: &StreamPermit, progress: Progress) -> Failure {
        let Self { kind, unseen, reset } = self;
        let Progress { heard, response_started, replayable } = progress;
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
