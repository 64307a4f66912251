//! Sends the gateway's own requests through the direct engine, with an in-memory client side.

mod client;

use std::mem;

use self::client::CallClient;
use super::{ForwardCounts, Forwarded, direct};
use crate::body::tee::Feed;
use crate::io::alarm::Alarm;
use crate::io::budget::Reservation;
use crate::message::framing::Framing;
use crate::message::head::Head;
use crate::pipeline::{CallFailure, CallTarget, FailureKind, OwnCall, Subrequest, SubrequestResponse};
use crate::worker::Worker;

/// Makes a call whose request body, if it has one, comes from `feed`. Dropping the future ends the
/// call.
///
/// # Errors
/// No endpoint responded.
pub(super) async fn send(
    worker: &Worker,
    own_call: &mut OwnCall,
    feed: Option<Box<Feed>>,
) -> Result<SubrequestResponse, CallFailure> {
    resolve(worker, &mut own_call.subrequest).await?;
    let framing = feed.as_ref().map_or(Framing::NONE, |feed| feed.framing);
    let mut head = take_head(&mut own_call.subrequest, framing);
    let mut memory = Reservation::default();
    let (subrequest, bytes) = (&own_call.subrequest, head.length);
    // Boxed, because waiting is rare.
    let held = memory.try_hold(bytes) || subrequest.is_needed() && Box::pin(memory.hold_in_time(bytes)).await;
    if !held {
        return Err(CallFailure::Attempt(FailureKind::Memory));
    }
    let mut client = CallClient::new(subrequest, feed);
    let (mut alarm, mut counts) = (Alarm::default(), ForwardCounts::default());
    let forwarded = direct::forward(worker, &mut client, &mut alarm, own_call, &mut head, &mut counts).await;
    match forwarded {
        Forwarded::Relayed(_) => Ok(client.into_response()),
        _ if client.has_enough() => Ok(client.into_response()),
        Forwarded::Answer(failure) => Err(client.failure().map_or(failure, CallFailure::Attempt)),
        // The request asks for no other protocol, so the engine refuses a switch.
        Forwarded::Switched(_) | Forwarded::Aborted { .. } => Err(CallFailure::Attempt(FailureKind::Broken)),
    }
}

/// Looks up the host of a call, if the request determines it, within the time for a connection.
async fn resolve(worker: &Worker, subrequest: &mut Subrequest) -> Result<(), CallFailure> {
    let CallTarget::Host(host) = &subrequest.to else { return Ok(()) };
    let limit = subrequest.connect_timeout();
    // Boxed, because it is rare.
    let pool = Box::pin(worker.state.registry.pool_of_host(host, limit)).await;
    subrequest.to = CallTarget::Pool(pool.ok_or(CallFailure::NoEndpoint)?);
    Ok(())
}

/// Returns the head of a call. Its fields do not exist a second time while a service is slow.
fn take_head(subrequest: &mut Subrequest, framing: Framing) -> Head {
    let fields = mem::take(&mut subrequest.fields);
    Head::own(&subrequest.method, subrequest.target.as_str(), &fields, framing)
}

#[cfg(test)]
mod tests;
