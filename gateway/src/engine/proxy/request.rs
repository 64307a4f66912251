//! From Pingora's session to the pipeline's view of a request.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode, Version};
use pingora_http::RequestHeader;
use pingora_proxy::Session;
use tokio::time::{sleep, timeout};

use super::Result;
use super::context::{Context, client};
use crate::downstream::{LINGER, MAX_SETTLED};
use crate::engine::call::Ground;
use crate::engine::questions::{Decision, decide};
use crate::message::authority::is_authority;
use crate::message::field_names::FieldNames;
use crate::message::head::Limits;
use crate::message::head::check_target;
use crate::message::head::http2::check_size;
use crate::message::head::http2::is_sound;
use crate::message::request_head::RequestHead;
use crate::pipeline::Exchange;
use crate::state::State;

/// How long the client may let a part of the response wait (nginx's `send_timeout`).
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// Between two looks whether a client has left for whom somebody is asked.
const LOOK: Duration = Duration::from_millis(100);

/// Takes the request into the pipeline, without the fields whose names are not served.
pub(super) async fn begin(
    state: &Arc<State>,
    ground: Ground<'_>,
    session: &mut Session,
    ctx: &mut Context,
) -> Result<Decision> {
    let mut sound = true;
    if ctx.link.is_none() {
        let names = FieldNames::of(&state.tuning.load());
        sound = are_sound(session.req_header(), names);
        drop_odd_names(session.req_header_mut(), names);
    }
    let connection = &client(session)?.info;
    let head = session.req_header();
    let target = std::str::from_utf8(head.raw_path()).unwrap_or_default();
    let authority = match head.uri.authority() {
        Some(authority) => authority.as_str(),
        None => head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default(),
    };
    let length = match &ctx.link {
        Some(link) => link.head_length(),
        None => target.len() + authority.len() + usize::try_from(fields_length(&head.headers)).unwrap_or(0),
    };
    let status = fault(head, target, authority, &Limits::of(&state.tuning.load()));
    if let Some(status) = status.or_else(|| (!sound).then_some(StatusCode::BAD_REQUEST)) {
        let line = format!("{} {target} {:?}", head.method, head.version);
        let (exchange, answer) = Exchange::refuse(state, connection, line.as_bytes(), length, status);
        ctx.exchange = Some(Box::new(exchange));
        return Ok(Decision::Answer(answer));
    }
    let head = RequestHead {
        method: &head.method,
        target,
        authority,
        version: head.version,
        headers: &head.headers,
        length,
    };
    let (mut exchange, verdict) = Exchange::begin(state, connection, &head);
    let left = async {
        while !ctx.has_left() {
            sleep(LOOK).await;
        }
    };
    let decision = decide(ground, verdict, &mut exchange, &head, left).await;
    ctx.exchange = Some(Box::new(exchange));
    Ok(decision)
}

/// HTTP/2 heads have passed no check of ours yet. HTTP/1 heads have; once more costs little and holds whatever
/// Pingora made of them.
fn fault(head: &RequestHeader, target: &str, authority: &str, limits: &Limits) -> Option<StatusCode> {
    if let Err(fault) = check_target(head.method.as_str(), target) {
        return Some(fault.status);
    }
    if head.version == Version::HTTP_2
        && let Err(fault) = check_size(&head.method, target, authority, &head.headers, limits)
    {
        return Some(fault.status);
    }
    let named =
        is_authority(authority.as_bytes()) || authority.is_empty() && head.version == Version::HTTP_10;
    (!named).then_some(StatusCode::BAD_REQUEST)
}

/// Of HTTP/1 they were dropped when the head was read.
fn drop_odd_names(head: &mut RequestHeader, names: FieldNames) {
    let is_odd = |name: &&HeaderName| names.drops(name.as_str().as_bytes());
    let odd: Vec<HeaderName> = head.headers.keys().filter(is_odd).cloned().collect();
    for name in odd {
        head.remove_header(&name);
    }
}

/// Whether fields are as [`Head::http2`](crate::message::head::Head::http2) takes them.
fn are_sound(head: &RequestHeader, names: FieldNames) -> bool {
    head.headers.iter().all(|(name, value)| is_sound(name, value, names))
        && head.headers.get_all(CONTENT_LENGTH).iter().count() <= 1
}

/// After the response to an HTTP/2 request: reads and drops what the client has still to send, if that will come, because some clients take the reset of the stream for a failure (`downstream/http2/client.rs` does the same).
pub(super) async fn drain(state: &State, session: &mut Session) {
    if session.is_body_done() || session.req_header().headers.contains_key(EXPECT) {
        return;
    }
    let most = state.tuning.load().client_body_timeout;
    let drop_rest = async {
        let mut dropped = 0;
        while dropped <= MAX_SETTLED {
            let read = timeout(LINGER, session.downstream_session.read_request_body()).await;
            let Ok(Ok(Some(data))) = read else { return };
            dropped += data.len() as u64;
        }
    };
    // Late or not, there is nothing left to say.
    let _ = timeout(most, drop_rest).await;
}

/// One field of what an HTTP/2 client may have split for the sake of compression (RFC 9113 §8.2.3).
fn join_cookies(head: &mut RequestHeader) {
    if head.version != Version::HTTP_2 || head.headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let crumbs: Vec<&[u8]> = head.headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    // Values with a separator between them are a value.
    if let Ok(whole) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        let _ = head.insert_header(COOKIE, whole);
    }
}

/// Sets the limits of a request.
pub(super) fn prepare(state: &State, session: &mut Session) {
    join_cookies(session.req_header_mut());
    let patience = Some(state.tuning.load().client_body_timeout);
    session.set_read_timeout(patience);
    session.set_total_drain_timeout(patience);
    session.set_write_timeout(Some(SEND_TIMEOUT));
    // Pingora would end the connection after every `100 Continue`. We do where a body remains unread.
    session.set_close_on_response_before_downstream_finish(false);
    if session.req_header().version == Version::HTTP_10 {
        // HTTP/1.0 has no interim responses (RFC 9110 §15.2).
        session.set_ignore_info_resp(true);
    }
}

/// Bytes of names and values.
pub(super) fn fields_length(fields: &HeaderMap) -> u64 {
    fields.iter().map(|(name, value)| (name.as_str().len() + value.len()) as u64).sum()
}
