//! An attempt of a call over HTTP/2.

use std::future::poll_fn;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::client::ResponseFuture;
use h2::{RecvStream, SendStream};
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use tokio::time::{Instant, timeout};

use super::{ConnectionGate, content_length, hold};
use crate::body::tee::{self, Feed};
use crate::engine::interim::InterimCounter;
use crate::io::budget::Reservation;
use crate::io::counted::counted;
use crate::message::field_names::FieldNames;
use crate::message::hop_by_hop;
use crate::message::http2::{Http2Target, build, interim as interim_of, map};
use crate::message::trailers::Section;
use crate::pipeline::call::Response;
use crate::pipeline::{Call, Failure, FailureKind, Subrequest, Upstream};
use crate::upstream::http2::{self, Progress, StreamError, StreamPermit};
use crate::worker::Worker;

/// One attempt. `None` says that the response is dropped for another one.
///
/// # Errors
/// It failed.
pub(super) async fn attempt(
    worker: &Worker,
    call: &mut Call,
    mut feed: Option<&mut Feed>,
    upstream: &Upstream,
    size: usize,
    waited_since: &mut Option<Instant>,
) -> Result<Option<Response>, Failure> {
    let mut replayable = feed.as_ref().is_none_or(|feed| feed.is_replayable());
    let pooled = if size > 0 { http2::take(upstream) } else { None };
    let stream_permit = match pooled {
        Some(stream_permit) => stream_permit,
        None => {
            let mut room = ConnectionGate { worker, call };
            let obtained = http2::obtain(upstream, &mut room, waited_since, size, worker.idle).await;
            obtained.map_err(|kind| Failure::before_connecting(kind, replayable))?
        }
    };
    call.connected(upstream.address, stream_permit.reused);
    let mut heard = false;
    let done = converse(&call.subrequest, feed.as_deref_mut(), &stream_permit, upstream, &mut heard).await;
    replayable &= feed.is_none_or(|feed| feed.is_replayable());
    let progress = Progress { heard, response_started: false, replayable };
    let response = done.map_err(|stream_error| stream_error.failure(&stream_permit, progress))?;
    Ok((!call.responded(response.status)).then_some(response))
}

/// Sends the request and reads the response, as far as it is wanted.
async fn converse(
    subrequest: &Subrequest,
    feed: Option<&mut Feed>,
    stream_permit: &StreamPermit,
    upstream: &Upstream,
    heard: &mut bool,
) -> Result<Response, StreamError> {
    let body = &subrequest.body;
    let ends = feed.is_none() && body.is_empty();
    let request = head(subrequest, feed.as_deref(), upstream);
    let (response, mut stream) =
        stream_permit.send(request, ends).map_err(|error| StreamError::of(&error))?;
    let sending = Sending { stream: &mut stream, limit: upstream.send_timeout };
    match feed {
        Some(feed) => sending.feed(feed).await?,
        None if !ends => sending.all(body.clone()).await?,
        None => {}
    }
    let (parts, mut content) = read_head(response, upstream.read_timeout, heard).await?.into_parts();
    let wanted = if subrequest.wants_body { subrequest.most_body } else { 0 };
    let (mut body, mut length, mut whole) = (Vec::new(), 0_usize, false);
    let mut memory = Reservation::default();
    let fields: usize = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    while !whole && length <= subrequest.most_body {
        match within(upstream.read_timeout, FailureKind::ReadTimeout, next(&mut content)).await? {
            None => whole = true,
            Some(piece) => {
                length = length.saturating_add(piece.len());
                let piece = &piece[..piece.len().min(wanted - body.len())];
                let held = hold(&mut memory, fields + body.len() + piece.len(), subrequest).await;
                held.map_err(StreamError::given_up)?;
                body.extend_from_slice(piece);
            }
        }
    }
    Ok(Response { status: parts.status, fields: parts.headers, body: counted(body, memory), whole })
}

/// The request as it goes out.
fn head(subrequest: &Subrequest, feed: Option<&Feed>, upstream: &Upstream) -> http::Request<()> {
    let Subrequest { method, target, fields, .. } = subrequest;
    let mut all = HeaderMap::with_capacity(fields.len() + 1);
    for (name, value) in fields {
        if !hop_by_hop::is_connection_field(name) {
            all.append(name, value.clone());
        }
    }
    if let Some(length) = content_length(subrequest, feed.map(|feed| feed.framing)) {
        all.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    let tls = upstream.protocol.has_tls();
    build(method, target, all, Http2Target { tls, address: upstream.address, trailers: false })
}

/// A request body on its way.
struct Sending<'s> {
    stream: &'s mut SendStream<Bytes>,
    limit: Option<Duration>,
}

impl Sending<'_> {
    /// Sends the whole body. An endpoint that takes no more of it may have answered.
    async fn all(mut self, body: Bytes) -> Result<(), StreamError> {
        if self.piece(body).await? {
            self.end(None);
        }
        Ok(())
    }

    /// Sends what comes, free of its coding.
    async fn feed(mut self, feed: &mut Feed) -> Result<(), StreamError> {
        feed.rewind();
        let (mut framing, mut section) = (feed.framing, Section::default());
        loop {
            let mut next = feed.next().await;
            if let tee::FeedItem::Piece(bytes) = &next {
                let mut content = BytesMut::with_capacity(bytes.len());
                let read = framing.read_all(
                    bytes,
                    |data| content.extend_from_slice(data),
                    |trailer| section.push(trailer),
                );
                read.map_err(|_| StreamError::given_up(FailureKind::Client))?;
                tokio::select! {
                    biased;
                    taken = self.piece(content.freeze()) => match taken? {
                        true => continue,
                        false => return Ok(()),
                    },
                    why = feed.given_up() => next = why,
                }
            }
            match next {
                tee::FeedItem::Piece(_) => {}
                tee::FeedItem::End => break,
                tee::FeedItem::Cut => return Err(StreamError::given_up(FailureKind::Client)),
                tee::FeedItem::Lost => return Err(StreamError::given_up(FailureKind::Memory)),
            }
        }
        let trailers = map(section.fields(FieldNames::ANY), 0);
        self.end(Some(trailers).filter(|trailers| !trailers.is_empty()));
        Ok(())
    }

    /// Sends a piece as the endpoint's windows allow. False where it takes no more.
    async fn piece(&mut self, mut piece: Bytes) -> Result<bool, StreamError> {
        while !piece.is_empty() {
            self.stream.reserve_capacity(piece.len());
            let mut room = self.stream.capacity();
            if room == 0 {
                let more = poll_fn(|cx| self.stream.poll_capacity(cx));
                let more = async { Ok(more.await) };
                match within(self.limit, FailureKind::SendTimeout, more).await? {
                    Some(Ok(more)) => room = more,
                    Some(Err(_)) | None => return Ok(false),
                }
            }
            if self.stream.send_data(piece.split_to(room.min(piece.len())), false).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn end(&mut self, trailers: Option<HeaderMap>) {
        // If it takes no end, it has said what it has to say about the request.
        let _ = match trailers {
            Some(trailers) => self.stream.send_trailers(trailers),
            None => self.stream.send_data(Bytes::new(), true),
        };
    }
}

/// Reads interim heads and the final one.
async fn read_head(
    mut response: ResponseFuture,
    limit: Option<Duration>,
    heard: &mut bool,
) -> Result<http::Response<RecvStream>, StreamError> {
    let mut heads = InterimCounter::default();
    loop {
        let interim = poll_fn(|cx| response.poll_informational(cx));
        let interim = within(limit, FailureKind::ReadTimeout, async { interim.await.transpose() }).await?;
        let Some(interim) = interim else { break };
        *heard = true;
        let interim = interim_of(&interim).map_err(|_| FailureKind::InvalidHead);
        interim.and_then(|interim| heads.take(&interim, false)).map_err(StreamError::given_up)?;
    }
    let head = within(limit, FailureKind::ReadTimeout, response).await?;
    *heard = true;
    Ok(head)
}

/// The next piece of the body.
async fn next(content: &mut RecvStream) -> Result<Option<Bytes>, h2::Error> {
    let Some(piece) = content.data().await.transpose()? else { return Ok(None) };
    content.flow_control().release_capacity(piece.len())?;
    Ok(Some(piece))
}

async fn within<T>(
    limit: Option<Duration>,
    late: FailureKind,
    step: impl Future<Output = Result<T, h2::Error>>,
) -> Result<T, StreamError> {
    let done = match limit {
        Some(limit) => timeout(limit, step).await.map_err(|_| StreamError::given_up(late))?,
        None => step.await,
    };
    done.map_err(|error| StreamError::of(&error))
}
