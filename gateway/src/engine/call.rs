//! Carries a call of the gateway's own out: over a connection of the same pools, with the same strict reading of what
//! comes back. There is no client beside it, so it is a plain sequence of writes and reads, each with its limit.

mod http2;

use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

use http::Method;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::body::tee::{self, Feed};
use crate::engine::interim::InterimCounter;
use crate::io::budget::Reservation;
use crate::io::counted::counted;
use crate::message::field_list::line;
use crate::message::framing::Framing;
use crate::message::response::Response;
use crate::pipeline::call;
use crate::pipeline::{Call, CallFailure, Failure, FailureKind, Subrequest, Upstream};
use crate::registry::Admission;
use crate::upstream::connect;
use crate::upstream::connection::Connection;
use crate::upstream::pool::{self, InUse};
use crate::worker::Worker;

/// Bytes that are read at a time.
const PIECE: usize = 8 * 1024;

/// Asks. To give up, drop it.
pub(crate) async fn call(worker: &Worker, subrequest: Subrequest) -> Result<call::Response, CallFailure> {
    call_with(worker, subrequest, None).await
}

/// Asks, with a body that comes while it is sent.
pub(crate) async fn call_with(
    worker: &Worker,
    subrequest: Subrequest,
    feed: Option<Feed>,
) -> Result<call::Response, CallFailure> {
    carry(worker, &mut Call::new(subrequest), feed).await
}

/// Carries a call out, which knows afterwards how it went.
pub(crate) async fn carry(
    worker: &Worker,
    call: &mut Call,
    mut feed: Option<Feed>,
) -> Result<call::Response, CallFailure> {
    let size = call.subrequest.settings.upstream_keepalive_connections.min(worker.idle);
    let mut waited_since = None;
    loop {
        let Some(upstream) = call.pick() else { return Err(CallFailure::NoEndpoint) };
        if upstream.protocol.is_http2() {
            // In a box: rare and large.
            let feed = feed.as_mut();
            let attempt = http2::attempt(worker, call, feed, &upstream, size, &mut waited_since);
            match Box::pin(attempt).await {
                Ok(Some(response)) => return Ok(response),
                Ok(None) => {}
                Err(failure) => go_on(call, &failure)?,
            }
            yield_now().await;
            continue;
        }
        let _in_use = InUse::new();
        let connection = match pool::take(&upstream) {
            Some(connection) => Ok(connection),
            None => {
                let mut room = ConnectionGate { worker, call };
                connect::obtain(&upstream, &mut room, &mut waited_since).await
            }
        };
        let failure = match connection {
            Ok(mut connection) => {
                call.connected(upstream.address, connection.reused);
                let last = size == 0 || connection.served + 1 >= upstream.keep_alive.requests;
                let mut attempt = Attempt::default();
                match attempt.run(&call.subrequest, feed.as_mut(), &mut connection, &upstream, last).await {
                    Ok(()) => {
                        if attempt.is_reusable() {
                            pool::put(connection, &upstream, size, worker.idle, Instant::now());
                        }
                        if !call.responded(attempt.response.status) {
                            return Ok(attempt.into_response());
                        }
                        None
                    }
                    Err(kind) => {
                        let replayable = feed.as_ref().is_none_or(Feed::is_replayable);
                        Some(Failure { replayable, ..attempt.failure(kind, &connection) })
                    }
                }
            }
            Err(kind) => {
                let replayable = feed.as_ref().is_none_or(Feed::is_replayable);
                Some(Failure::before_connecting(kind, replayable))
            }
        };
        if let Some(failure) = failure {
            go_on(call, &failure)?;
        }
        // A refusal may come without a wait. Others have their turn, and the end of the program its.
        yield_now().await;
    }
}

/// Whether an attempt that failed is followed by another.
///
/// # Errors
/// It is not.
fn go_on(call: &mut Call, failure: &Failure) -> Result<(), CallFailure> {
    // The rest of the body never comes.
    let is_cut = matches!(failure.kind, FailureKind::Client | FailureKind::Memory);
    match !is_cut && call.failed(failure) {
        true => Ok(()),
        false => Err(CallFailure::Attempt(failure.kind)),
    }
}

/// Admission of new connections for a call.
struct ConnectionGate<'r> {
    worker: &'r Worker,
    call: &'r mut Call,
}

impl connect::ConnectionGate for ConnectionGate<'_> {
    fn clients(&self) -> usize {
        self.worker.drain.shared().connections()
    }

    fn ask(&mut self) -> Admission {
        match self.call.ask_for_room() {
            Admission::Waits if !self.may_wait() => Admission::Refused,
            admission => admission,
        }
    }

    /// The places for those who wait are for requests.
    fn may_wait(&self) -> bool {
        !self.call.subrequest.is_copy
    }

    fn go(&mut self) {
        self.call.needs_no_room();
    }
}

/// One attempt.
#[derive(Default)]
struct Attempt {
    response: Response,
    /// What of the body is wanted.
    body: Vec<u8>,
    /// Bytes of it that came.
    length: usize,
    /// The body is complete.
    whole: bool,
    /// Bytes of the request that went out.
    sent: u64,
    /// The endpoint has sent something.
    heard: bool,
    /// It has ended its connection in order.
    ended: bool,
    /// It has sent more than its response.
    excess: bool,
    memory: Reservation,
    /// Of which so much is for what is sent and read.
    working: usize,
}

impl Attempt {
    async fn run(
        &mut self,
        subrequest: &Subrequest,
        mut feed: Option<&mut Feed>,
        connection: &mut Connection,
        upstream: &Upstream,
        last: bool,
    ) -> Result<(), FailureKind> {
        let request = written(subrequest, feed.as_ref().map(|feed| feed.framing), last);
        // As fields and as text.
        self.working = 2 * request.len() + PIECE;
        self.hold(0, subrequest).await?;
        self.send(&request, connection, upstream).await?;
        if let Some(feed) = &mut feed {
            feed.rewind();
            loop {
                let mut next = feed.next().await;
                if let tee::FeedItem::Piece(bytes) = &next {
                    tokio::select! {
                        biased;
                        sent = self.send(bytes, connection, upstream) => {
                            sent?;
                            continue;
                        }
                        why = feed.given_up() => next = why,
                    }
                }
                match next {
                    tee::FeedItem::Piece(_) => {}
                    tee::FeedItem::End => break,
                    tee::FeedItem::Cut => return Err(FailureKind::Client),
                    tee::FeedItem::Lost => return Err(FailureKind::Memory),
                }
            }
        }
        within(upstream.send_timeout, FailureKind::SendTimeout, connection.stream.flush()).await?;
        let mut piece = vec![0; PIECE];
        let mut partial = self.head(&mut piece, subrequest, connection, upstream).await?;
        loop {
            self.take(&partial, subrequest).await?;
            if self.whole || self.length > subrequest.most_body {
                return Ok(());
            }
            partial.clear();
            match self.read(&mut piece, connection, upstream).await? {
                0 if self.response.framing == Framing::Opaque => {
                    self.whole = true;
                    return Ok(());
                }
                0 => return Err(FailureKind::Broken),
                read => partial.extend_from_slice(&piece[..read]),
            }
        }
    }

    async fn send(
        &mut self,
        mut left: &[u8],
        connection: &mut Connection,
        upstream: &Upstream,
    ) -> Result<(), FailureKind> {
        while !left.is_empty() {
            let written = connection.stream.write(left);
            let sent = within(upstream.send_timeout, FailureKind::SendTimeout, written).await?;
            if sent == 0 {
                return Err(FailureKind::Broken);
            }
            self.sent += sent as u64;
            left = &left[sent..];
        }
        Ok(())
    }

    /// Reads interim heads and the final one. Gives what came behind it.
    async fn head(
        &mut self,
        piece: &mut [u8],
        subrequest: &Subrequest,
        connection: &mut Connection,
        upstream: &Upstream,
    ) -> Result<Vec<u8>, FailureKind> {
        let (mut partial, mut heads) = (Vec::new(), InterimCounter::default());
        loop {
            match self.read(piece, connection, upstream).await? {
                0 => return Err(FailureKind::Broken),
                read => partial.extend_from_slice(&piece[..read]),
            }
            self.hold(partial.len(), subrequest).await?;
            while let Some(length) = heads.read(&mut self.response, &partial, &subrequest.method, false)? {
                partial.drain(..length);
                if !self.response.is_interim() {
                    return Ok(partial);
                }
            }
        }
    }

    async fn read(
        &mut self,
        piece: &mut [u8],
        connection: &mut Connection,
        upstream: &Upstream,
    ) -> Result<usize, FailureKind> {
        let read = connection.stream.read(piece);
        let read = within(upstream.read_timeout, FailureKind::ReadTimeout, read).await?;
        match read {
            0 => self.ended = true,
            _ => self.heard = true,
        }
        Ok(read)
    }

    /// Takes in bytes of the body.
    async fn take(&mut self, bytes: &[u8], subrequest: &Subrequest) -> Result<(), FailureKind> {
        let wanted = if subrequest.wants_body { subrequest.most_body } else { 0 };
        let least = self.body.len() + bytes.len().min(wanted - self.body.len());
        if least > self.body.capacity() {
            let size = least.max(2 * self.body.capacity()).min(wanted);
            self.hold(size, subrequest).await?;
            self.body.reserve_exact(size - self.body.len());
        }
        let Self { response, body, length, .. } = self;
        let taken = response.framing.read(bytes, |data| {
            *length = length.saturating_add(data.len());
            let room = wanted - body.len();
            body.extend_from_slice(&data[..data.len().min(room)]);
        });
        let taken = taken.map_err(|_| FailureKind::InvalidHead)?;
        self.excess |= taken < bytes.len();
        self.whole = self.response.framing.is_done();
        Ok(())
    }

    /// Holds so many bytes besides what it works with, if there is memory for them. What a request
    /// needs waits for that.
    async fn hold(&mut self, bytes: usize, subrequest: &Subrequest) -> Result<(), FailureKind> {
        hold(&mut self.memory, self.working + bytes, subrequest).await
    }

    fn failure(&self, kind: FailureKind, connection: &Connection) -> Failure {
        let untouched = match self.sent {
            0 => true,
            sent => self.ended && connection.has_delivered_none_of(sent),
        };
        Failure {
            kind,
            stale: kind == FailureKind::Broken && connection.reused && !self.heard,
            sent: kind != FailureKind::Broken || self.heard || !untouched,
            replayable: true,
            response_started: false,
        }
    }

    fn is_reusable(&self) -> bool {
        self.whole && self.response.keeps_alive && !self.excess && self.response.framing != Framing::Opaque
    }

    fn into_response(self) -> call::Response {
        let Self { response, body, length, whole, mut memory, .. } = self;
        memory.hold(body.capacity() + response.fields.text().len());
        let fields = response.fields.iter().filter_map(|(name, value)| {
            Some((HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?))
        });
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(name, value);
        }
        call::Response {
            status: response.status,
            fields: map,
            // The end may come in the same read as bytes beyond the limit.
            whole: whole && length == body.len(),
            body: counted(body, memory),
        }
    }
}

/// Makes a share one of so many bytes, if there is memory for them. What a request needs waits for
/// that.
async fn hold(memory: &mut Reservation, bytes: usize, subrequest: &Subrequest) -> Result<(), FailureKind> {
    // In a box: rare.
    let held = memory.try_hold(bytes) || subrequest.is_needed() && Box::pin(memory.hold_in_time(bytes)).await;
    if held { Ok(()) } else { Err(FailureKind::Memory) }
}

/// The request as it goes out.
fn written(subrequest: &Subrequest, streams: Option<Framing>, last: bool) -> Vec<u8> {
    let Subrequest { method, target, fields, body, .. } = subrequest;
    let mut out = Vec::with_capacity(1024 + body.len());
    out.extend_from_slice(method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in fields {
        line(&mut out, name.as_str().as_bytes(), value.as_bytes());
    }
    if let Some(Framing::Chunked(_)) = streams {
        line(&mut out, b"Transfer-Encoding", b"chunked");
    } else if let Some(length) = content_length(subrequest, streams) {
        line(&mut out, b"Content-Length", length.to_string().as_bytes());
    }
    if last {
        line(&mut out, b"Connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out
}

/// The length of the request body, where it is known and to be told.
fn content_length(subrequest: &Subrequest, streams: Option<Framing>) -> Option<u64> {
    let Subrequest { method, body, .. } = subrequest;
    // RFC 9110 §8.6: a method that gives content a meaning says that there is none.
    let tells = !body.is_empty() || matches!(*method, Method::POST | Method::PUT | Method::PATCH);
    match streams {
        Some(framing) => framing.left(),
        None => tells.then_some(body.len() as u64),
    }
}

async fn within<T>(
    limit: Option<Duration>,
    late: FailureKind,
    io: impl Future<Output = io::Result<T>>,
) -> Result<T, FailureKind> {
    let done = match limit {
        Some(limit) => timeout(limit, io).await.map_err(|_| late)?,
        None => io.await,
    };
    done.map_err(|_| FailureKind::Broken)
}

#[cfg(test)]
mod tests;
