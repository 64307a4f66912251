//! Obtains a stream on an HTTP/2 connection: opens a connection if no existing one has a free
//! stream, or waits for one that another request opens.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::connect::{ConnectionGate, Obtained, obtain_or};
use super::http2::connection::{Connection, StreamPermit};
use super::http2::group::ConnectionGroup;
use super::http2::pool;
use crate::io::failure::FailureKind;
use crate::upstream::attempt::Upstream;

/// Returns a stream permit on a connection to the endpoint. `size` is the maximum number of idle
/// connections, of which the worker keeps only `share` while descriptors are short; if `size` is 0,
/// each request has a connection of its own. `waited_since` is the time at which the request first
/// had to wait for a connection slot, in any attempt.
pub(crate) async fn obtain(
    upstream: &Upstream,
    gate: &mut ConnectionGate<'_>,
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
    let made = match obtain_or(upstream, limit, gate, waited_since, take).await {
        Ok(Obtained::Pooled(stream_permit)) => return Ok(stream_permit),
        Ok(Obtained::New(made)) => made,
        Err(kind) => {
            // A timeout of this request does not concern the waiting requests, whose deadlines are
            // later.
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

/// Waits for a stream on a connection that another request opens. Returns `None` if more
/// connections are needed than are being opened.
async fn wait(
    upstream: &Upstream,
    group: &ConnectionGroup,
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
