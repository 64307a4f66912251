//! A place on a connection where none has room: on one that is made, by this request or by another one.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::super::connect::{ConnectionGate, Obtained, obtain_or};
use super::connection::{Connection, StreamPermit};
use super::group::Group;
use super::pool;
use crate::failure::FailureKind;
use crate::upstream::attempt::Upstream;

/// A place on a connection to the endpoint. So many of its connections may be idle (`size`), of which `share` while
/// descriptors are short; with none, each request has a connection of its own. `waited_since` is when the request first
/// had to wait for room, in any attempt.
pub(crate) async fn obtain(
    upstream: &Upstream,
    room: &mut impl ConnectionGate,
    waited_since: &mut Option<Instant>,
    size: usize,
    share: usize,
) -> Result<StreamPermit, FailureKind> {
    // A connection to an address that has left its set serves this request only.
    let size = if upstream.is_member() { size } else { 0 };
    let deadline = upstream.connect_timeout.and_then(|limit| Instant::now().checked_add(limit));
    let group = pool::group(upstream);
    let waiting = group.wait();
    if size > 0
        && let Some(stream_permit) = wait(upstream, &group, deadline).await?
    {
        return Ok(stream_permit);
    }
    let coming = group.coming();
    drop(waiting);
    let limit = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let limit = limit.map(|left| left.max(Duration::from_millis(1)));
    let take = |upstream: &Upstream| (size > 0).then(|| pool::take(upstream)).flatten();
    let made = match obtain_or(upstream, limit, room, waited_since, take).await {
        Ok(Obtained::Pooled(stream_permit)) => return Ok(stream_permit),
        Ok(Obtained::New(made)) => made,
        Err(kind) => {
            // The time of others is not over.
            if !matches!(kind, FailureKind::ConnectTimeout | FailureKind::HandshakeTimeout) {
                group.fail(kind);
            }
            return Err(kind);
        }
    };
    let connection = Connection::begin(made, upstream, coming).await?;
    let stream_permit = connection.take(upstream, false).ok_or(FailureKind::Broken)?;
    if size > 0 {
        pool::put(connection, upstream, size, share);
    }
    Ok(stream_permit)
}

/// A place on a connection that others make. `None` where more are needed than are on their way.
async fn wait(
    upstream: &Upstream,
    group: &Group,
    deadline: Option<Instant>,
) -> Result<Option<StreamPermit>, FailureKind> {
    let (failures, _) = group.failures();
    loop {
        let changed = group.changed();
        if let Some(stream_permit) = pool::take(upstream) {
            return Ok(Some(stream_permit));
        }
        if group.lacks_connections() {
            return Ok(None);
        }
        match deadline {
            Some(deadline) => {
                timeout_at(deadline, changed).await.map_err(|_| FailureKind::ConnectTimeout)?;
            }
            None => changed.await,
        }
        let (failed, kind) = group.failures();
        if failed != failures {
            return Err(kind);
        }
    }
}
