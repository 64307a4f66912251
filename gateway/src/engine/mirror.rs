//! Copies of requests on their way to another place (`mirror-target`).
//!
//! A copy is a task of the worker beside the request that it was made of, and has nothing in common with it but the
//! pieces of the body that pass: the request never waits for it, and it may outlive the request and its client's
//! connection. It keeps no graceful shutdown waiting, and ends with the worker. Whatever it comes to is counted and
//! forgotten.

use std::cell::Cell;
use std::sync::Arc;

use super::call::call_with;
use crate::body::tee::{Tee, tee};
use crate::message::head::Head;
use crate::message::request;
use crate::pipeline::{CallFailure, Exchange, FailureKind, MirroredRequest};
use crate::telemetry::MirrorOutcome;
use crate::worker::Worker;

/// Copies under way at a time, for each worker. One that hangs has its place for as long as its timeouts allow.
const MOST: usize = 256;

thread_local! {
    /// Copies of this worker that are under way.
    static UNDER_WAY: Cell<usize> = const { Cell::new(0) };
}

/// Permission for one mirrored request.
struct MirrorPermit;

impl MirrorPermit {
    fn take() -> Option<Self> {
        let taken = UNDER_WAY.get();
        (taken < MOST).then(|| {
            UNDER_WAY.set(taken + 1);
            Self
        })
    }
}

impl Drop for MirrorPermit {
    fn drop(&mut self) {
        UNDER_WAY.set(UNDER_WAY.get() - 1);
    }
}

/// Begins to send the copy of a request that is about to be forwarded, with `head` as it was received. Gives what is to
/// take a copy of the body, where the copy gets one.
pub(super) fn begin(worker: &Arc<Worker>, exchange: &Exchange, head: &Head) -> Option<Tee> {
    let Some(place) = MirrorPermit::take() else {
        worker.state.telemetry.mirrored(MirrorOutcome::Dropped);
        return None;
    };
    let Some(MirroredRequest { subrequest, body }) = exchange.mirrored(&request::view(head)) else {
        worker.state.telemetry.mirrored(MirrorOutcome::Failed);
        return None;
    };
    let (tee, feed) = match body && !head.framing.is_done() {
        true => {
            let (tee, feed) = tee(head.framing);
            (Some(tee), Some(feed))
        }
        false => (None, None),
    };
    let worker = worker.clone();
    tokio::spawn(async move {
        let done = call_with(&worker, subrequest, feed).await;
        drop(place);
        if let Err(failure) = &done {
            tracing::debug!(?failure, "the copy of a request was not answered");
        }
        worker.state.telemetry.mirrored(match done {
            Ok(_) => MirrorOutcome::Answered,
            Err(CallFailure::Attempt(FailureKind::Memory | FailureKind::Shortage)) => MirrorOutcome::Dropped,
            Err(_) => MirrorOutcome::Failed,
        });
    });
    tee
}
