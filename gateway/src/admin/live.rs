//! Streams of live requests: `/tap`, one line of JSON per request, and `/trace-next`, the steps of
//! the next one.
//!
//! Both have the same parameters: those of a filter, and `seconds`, after which they end. A stream
//! ends with a line that states why. Blank lines keep the connection open, and show whether the
//! client is still there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, interval_at};

use super::explain::explain_observed;
use super::format;
use super::pages::{Document, LineStream};
use crate::router::query_values;
use crate::state::State;
use crate::tap::{READERS, RequestFilter, TapReader, TappedRequest};

/// Path of the stream of requests.
pub(super) const TAP: &str = "/tap";
/// Path of the steps of the next request.
pub(super) const TRACE_NEXT: &str = "/trace-next";

/// How long a stream lasts without `seconds`.
const USUAL: Duration = Duration::from_secs(300);
/// How long a stream may last.
const LONGEST: Duration = Duration::from_secs(3600);
/// Interval between blank lines.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Size in bytes above which no further line is added to those that are sent at once.
const CHUNK: usize = 16 * 1024;

/// A stream that is read.
struct Live {
    state: Arc<State>,
    reader: TapReader,
    ends: Instant,
    heartbeat: tokio::time::Interval,
    duration: Duration,
    /// Number of lost requests that have been reported.
    reported: u64,
    has_ended: bool,
}

/// Opens a stream.
///
/// # Errors
/// The query is invalid, or there are too many readers.
pub(super) fn open(state: &Arc<State>, path: &str, query: &str) -> Result<LineStream, Document> {
    let refused = |said: String| Document::text(StatusCode::BAD_REQUEST, format!("{said}\n"));
    let filter = RequestFilter::read(query).map_err(refused)?;
    let duration = duration(query).map_err(refused)?;
    let with_steps = path == TRACE_NEXT;
    let Some(reader) = state.taps.open(filter, with_steps) else {
        let said =
            format!("{READERS} clients already read live requests, which is the limit; end one of them\n");
        return Err(Document::text(StatusCode::SERVICE_UNAVAILABLE, said));
    };
    let now = Instant::now();
    let live = Live {
        state: state.clone(),
        reader,
        ends: now + duration,
        // The first blank line is sent at once: it shows that requests are followed from now on.
        heartbeat: interval_at(now, HEARTBEAT),
        duration,
        reported: 0,
        has_ended: false,
    };
    Ok(LineStream::new(duration, lines(live, with_steps)))
}

fn duration(query: &str) -> Result<Duration, String> {
    let Some(text) = query_values(query, "seconds").next() else { return Ok(USUAL) };
    let text = String::from_utf8_lossy(&text).into_owned();
    let seconds =
        text.parse().ok().map(Duration::from_secs).filter(|time| *time <= LONGEST && !time.is_zero());
    seconds.ok_or_else(|| format!("seconds {text:?}: write a number from 1 to {}", LONGEST.as_secs()))
}

fn lines(live: Live, with_steps: bool) -> impl Stream<Item = Bytes> + Send {
    futures::stream::unfold(live, move |mut live| async move {
        if live.has_ended {
            return None;
        }
        let chunk = live.next(with_steps).await;
        Some((chunk, live))
    })
}

impl Live {
    /// Waits for the next lines.
    async fn next(&mut self, with_steps: bool) -> Bytes {
        let mut chunk = Vec::new();
        tokio::select! {
            Some(request) = self.reader.requests.recv() => match with_steps {
                true => {
                    self.has_ended = true;
                    add(&mut chunk, &self.explained(request).await);
                }
                false => {
                    self.report_lost(&mut chunk);
                    add(&mut chunk, &line(&request));
                    while chunk.len() < CHUNK && let Ok(request) = self.reader.requests.try_recv() {
                        add(&mut chunk, &line(&request));
                    }
                }
            },
            () = tokio::time::sleep_until(self.ends) => {
                self.has_ended = true;
                self.report_lost(&mut chunk);
                let what = if with_steps { "no such request ended" } else { "the time is over" };
                add(&mut chunk, &json!({ "end": format!("{what} within {}", format::long(self.duration)) }));
            }
            _ = self.heartbeat.tick() => {
                self.report_lost(&mut chunk);
                chunk.push(b'\n');
            }
        }
        chunk.into()
    }

    /// Adds a line if requests have been lost since the last one.
    fn report_lost(&mut self, chunk: &mut Vec<u8>) {
        let lost = self.reader.lost();
        if lost > self.reported {
            add(chunk, &json!({ "lost": lost - self.reported }));
            self.reported = lost;
        }
    }

    /// Explains a request on a thread that may block.
    async fn explained(&self, request: Arc<TappedRequest>) -> Value {
        let state = self.state.clone();
        let explained = tokio::task::spawn_blocking(move || {
            let mut value = line(&request);
            if let (Value::Object(value), Value::Object(more)) =
                (&mut value, explain_observed(&state, &request))
            {
                value.extend(more);
            }
            value
        });
        explained.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a request could not be explained");
            json!({ "end": "the request could not be explained; see the log of the gateway" })
        })
    }
}

fn add(chunk: &mut Vec<u8>, value: &Value) {
    chunk.extend_from_slice(value.to_string().as_bytes());
    chunk.push(b'\n');
}

/// Returns the line of a request.
fn line(request: &TappedRequest) -> Value {
    let TappedRequest {
        began,
        client,
        method,
        host,
        target,
        status,
        time,
        endpoint,
        backend,
        attempts,
        rule,
        ..
    } = request;
    let rule = rule.as_ref().map(|rule| {
        let name = &rule.object.name;
        json!({ "kind": rule.object.kind, "namespace": name.namespace, "name": name.name,
            "host": rule.host, "path": rule.path })
    });
    json!({
        "time": format::precise(*began),
        "client": client,
        "method": method,
        "host": host,
        "target": target,
        "status": status,
        "millis": format::millis(*time),
        "endpoint": endpoint,
        "attempts": attempts,
        "backend": backend,
        "rule": rule,
    })
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;
    use crate::pipeline::tests::fixture::Plane;

    fn stream(query: &str) -> Result<futures::stream::BoxStream<'static, Bytes>, Document> {
        let state = Plane::new().state.clone();
        open(&state, TAP, query).map(|stream| stream.lines)
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_with_the_reason() {
        let chunks: Vec<Bytes> = stream("seconds=12").unwrap().collect().await;
        let blank = chunks.iter().filter(|chunk| **chunk == "\n").count();
        assert_eq!(blank, 3, "at once, after 5 s and 10 s");
        assert_eq!(chunks.last().unwrap(), "{\"end\":\"the time is over within 12 s\"}\n");
    }

    #[test]
    fn invalid_parameters_are_refused() {
        for (query, part) in [("seconds=0", "from 1 to 3600"), ("status=no", "5xx")] {
            let document = stream(query).err().unwrap();
            let said = String::from_utf8_lossy(&document.body).into_owned();
            assert!(document.status == StatusCode::BAD_REQUEST && said.contains(part), "{query}: {said}");
        }
    }
}
