//! Inspects a copy of a request body while the body is forwarded, for firewalls that only detect.
//!
//! A client of gRPC may wait for the response before it ends its request, so holding the body would
//! break a call that the rules do not refuse anyway. The request never waits for the agent: a copy
//! that the agent does not keep up with is given up. The agent evaluates the part that has arrived
//! when the call breaks off, or when the client pauses for `client-body-timeout`, so that a long
//! call occupies it no longer than a body that is held.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::timeout;

use crate::body::tee::{Feed, Tee, tee};
use crate::firewall::{BodyResult, Inspection, MOST_BODY};
use crate::io::failure::FailureKind;
use crate::message::head::Head;
use crate::pipeline::Exchange;
use crate::telemetry::InspectionOutcome;
use crate::worker::Worker;

/// Starts the inspection, if the exchange has one. Returns the tee for the request body.
pub(in crate::engine) fn begin(worker: &Arc<Worker>, exchange: &mut Exchange, head: &Head) -> Option<Tee> {
    let inspection = exchange.take_inspection()?;
    let (tee, feed) = tee(head.framing);
    let time_limit = exchange.settings().client_body_timeout;
    let state = worker.state.clone();
    tokio::spawn(async move {
        let outcome = match inspect(inspection, feed, time_limit).await {
            Some(BodyResult::Unavailable) | None => InspectionOutcome::Uninspected,
            // The request has been forwarded: an agent with rules of its own denies it in vain.
            Some(_) => InspectionOutcome::Passed,
        };
        state.telemetry.inspected(outcome);
    });
    Some(tee)
}

/// Returns the decision; `None` if the copy was given up.
async fn inspect(
    mut inspection: Box<Inspection>,
    mut feed: Feed,
    time_limit: Duration,
) -> Option<BodyResult> {
    let mut framing = feed.framing;
    let mut length = 0;
    loop {
        let coded = match timeout(time_limit, poll_fn(|cx| feed.poll_next(cx))).await.unwrap_or(Ok(None)) {
            Ok(Some(coded)) => coded,
            // The end of the body, a pause, or the end of a call that broke off: the endpoint has
            // what has arrived.
            Ok(None) | Err(FailureKind::Client) => return Some(inspection.body(Bytes::new(), true).await),
            Err(_) => return None,
        };
        let mut content = BytesMut::with_capacity(coded.len());
        framing.read(&coded, |piece| content.extend_from_slice(piece)).ok()?;
        length += content.len() as u64;
        if length > MOST_BODY {
            return Some(inspection.body(Bytes::new(), true).await);
        }
        match inspection.body(content.freeze(), false).await {
            BodyResult::Continues => {}
            result => return Some(result),
        }
    }
}
