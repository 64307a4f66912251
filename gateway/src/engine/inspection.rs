//! Sends the body of a request to the agent of the web application firewall, before an endpoint is
//! chosen. The body is whole then; afterwards it begins anew for the endpoint. [`response`] does
//! the same with the response. [`copy`] inspects a body that cannot be held.

pub(super) mod copy;
pub(super) mod response;

use std::future::poll_fn;

use bytes::Bytes;

use super::{Forwarded, failed_before_connecting};
use crate::body::downstream::Downstream;
use crate::body::pieces::{Decoder, Piece};
use crate::firewall::{BodyResult, Inspection, MOST_BODY};
use crate::io::failure::FailureKind;
use crate::message::head::Head;
use crate::pipeline::{Answer, Exchange};

/// Inspects the body, if the exchange has an inspection. `is_held`: the body is whole and can be
/// read twice; otherwise only its head is inspected. Returns the outcome of a request that does not
/// pass.
pub(super) async fn inspect(
    exchange: &mut Exchange,
    is_held: bool,
    head: &Head,
    downstream: &mut impl Downstream,
) -> Option<Forwarded> {
    let mut inspection = exchange.take_inspection()?;
    let goes_on = inspection.needs_response;
    if inspection.needs_body {
        // Boxed, because it is rare and large.
        match Box::pin(inspect_body(exchange, &mut inspection, is_held, head, downstream)).await {
            Ok(None) => {}
            Ok(Some(answer)) => return Some(Forwarded::Answer(answer)),
            Err(kind) => return Some(failed_before_connecting(exchange, kind)),
        }
    }
    match goes_on {
        true => exchange.keep_inspection(inspection),
        false => exchange.has_passed(),
    }
    None
}

async fn inspect_body(
    exchange: &Exchange,
    inspection: &mut Inspection,
    is_held: bool,
    head: &Head,
    downstream: &mut impl Downstream,
) -> Result<Option<Answer>, FailureKind> {
    let enforces = inspection.enforces;
    if !is_held {
        let result = inspection.body(Bytes::new(), true).await;
        return Ok(decided(exchange, result, enforces));
    }
    let mut decoder = Decoder::new(head);
    let mut length = 0;
    let result = loop {
        let piece = poll_fn(|cx| downstream.poll_piece(cx, &mut decoder)).await?;
        let (content, ends) = match piece {
            Piece::Data { content, ends } => (content, ends),
            Piece::Trailers(_) | Piece::End => (Bytes::new(), true),
        };
        length += content.len() as u64;
        if length > MOST_BODY {
            if enforces {
                return Ok(Some(exchange.exceeds_inspection()));
            }
            break inspection.body(Bytes::new(), true).await;
        }
        match inspection.body(content, ends).await {
            BodyResult::Continues => {}
            result => break result,
        }
    };
    let answer = decided(exchange, result, enforces);
    if answer.is_none() && !downstream.rewind() {
        // Not reached: the body is held.
        return Err(FailureKind::Storage);
    }
    Ok(answer)
}

/// Returns the answer that follows from the decision; `None` if the request passes.
fn decided(exchange: &Exchange, result: BodyResult, enforces: bool) -> Option<Answer> {
    match result {
        BodyResult::Continues | BodyResult::Passed => None,
        BodyResult::Denied(denial) => Some(exchange.denied(denial)),
        BodyResult::Unavailable => exchange.not_inspected(enforces),
    }
}
