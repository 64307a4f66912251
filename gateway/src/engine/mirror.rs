//! Sends copies of requests to mirrors (`mirror-target`).
//!
//! A copy is a task of the worker that shares nothing with its request except the pieces of the
//! body. The request never waits for it, and it may outlive the request and its client's
//! connection. A graceful shutdown does not wait for it; it ends with the worker. Its outcome is
//! counted, and its response dropped.

use std::cell::Cell;
use std::sync::Arc;

use super::own_call;
use crate::body::tee::{Tee, tee};
use crate::message::head::Head;
use crate::message::request;
use crate::pipeline::{CallFailure, Exchange, FailureKind, MirroredRequest, OwnCall};
use crate::telemetry::MirrorOutcome;
use crate::worker::Worker;

/// Maximum number of copies in progress, per worker. A copy whose endpoint hangs counts until its
/// timeouts expire.
const MOST: usize = 256;

thread_local! {
    /// Copies of this worker in progress.
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

/// Starts to send the copy of a request that is about to be forwarded, with `head` as it was
/// received. Returns the tee for the request body, if the copy gets the body.
pub(super) fn begin(worker: &Arc<Worker>, exchange: &Exchange, head: &Head) -> Option<Tee> {
    let Some(permit) = MirrorPermit::take() else {
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
            (Some(tee), Some(Box::new(feed)))
        }
        false => (None, None),
    };
    let worker = worker.clone();
    tokio::spawn(async move {
        let done = own_call::send(&worker, &mut OwnCall::new(subrequest), feed).await;
        drop(permit);
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
