//! Stages as an engine uses them, around a fake client side.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Waker;

use http::{HeaderMap, Method, Version};
use sluice_config::{GlobalSettings, ResponseBuffering};
use tokio::time::Instant;

use super::super::compression::CompressionRules;
use super::super::encoder::tests::decoded;
use super::super::fake::Fake;
use super::super::substitution::{Substitution, SubstitutionRules};
use super::*;
use crate::body::coding::Coding;
use crate::body::hold::{Judgement, ResponseJudge};

fn compressing(accepted: &'static str) -> BodyPlan {
    let mut settings = GlobalSettings::default();
    settings.gzip.enabled = true;
    settings.brotli.enabled = true;
    settings.zstd.enabled = true;
    settings.gzip.types = vec!["text/event-stream".into(), "text/plain".into()];
    let rules = Arc::new(CompressionRules::compile(&settings).unwrap());
    let mut head = HeaderMap::new();
    head.insert("accept-encoding", HeaderValue::from_static(accepted));
    let wanted = rules.wanted(Version::HTTP_11, &head);
    BodyPlan { compression: Some((rules, wanted)), ..BodyPlan::default() }
}

fn staged(client: Fake, plan: BodyPlan, framing: Framing) -> Staged<Fake> {
    Staged::new(Box::new(client), plan, framing, &Arc::default())
}

/// Parses the response in `text` and returns it with the length of its head.
fn head(text: &str) -> (Response, usize) {
    let mut response = Response::default();
    let length = response.read(text.as_bytes(), &Method::GET).unwrap().unwrap();
    (response, length)
}

#[test]
fn a_response_is_compressed_whatever_its_framing_and_its_pieces() {
    let text = "A line of a page, again and again.\n".repeat(200);
    let length = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    );
    let (first, second) = text.split_at(3000);
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n{first}\r\n{:x};a=b\r\n{second}\r\n0\r\n\r\n",
        first.len(),
        second.len(),
    );
    let until_close = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{text}");
    for (coding, whole) in Coding::ALL
        .into_iter()
        .flat_map(|coding| [&length, &chunked, &until_close].map(move |whole| (coding, whole.as_bytes())))
    {
        for step in [1, 777, usize::MAX] {
            let client = Fake::silent();
            let mut stages = staged(client, compressing(coding.name()), Framing::NONE);
            let cx = &mut Context::from_waker(Waker::noop());
            let (mut response, start) = head(str::from_utf8(whole).unwrap());
            let mut pieces = whole[start..].chunks(step.min(whole.len()));
            let passed = stages.respond(cx, &mut response, pieces.next().unwrap()).unwrap();
            let mut data = passed.data;
            for piece in pieces {
                let passed = stages.pass(cx, &mut response, piece).unwrap();
                assert_eq!(passed.taken, piece.len());
                data += passed.data;
            }
            if response.framing == Framing::Opaque {
                stages.end(cx, &mut response, None).unwrap();
            }
            assert!(stages.inner.has_last && stages.inner.ended, "{coding:?} {step}");
            assert_eq!(data, text.len());
            assert_eq!(decoded(coding, &stages.inner.body), text.as_bytes());
            assert!(stages.inner.body.len() < 400, "{coding:?}: {}", stages.inner.body.len());
            for expected in
                ["Transfer-Encoding: chunked\r\n", &format!("content-encoding: {}\r\n", coding.name())]
            {
                assert_eq!(stages.inner.head.matches(expected).count(), 1, "{}", stages.inner.head);
            }
            assert!(!stages.inner.head.contains("Content-Length"), "{}", stages.inner.head);
        }
    }
}

#[test]
fn uncompressed_responses_pass_unchanged() {
    let cx = &mut Context::from_waker(Waker::noop());
    for (accepted, varies) in [("identity", true), ("gzip", false)] {
        let media_type = if varies { "text/plain" } else { "image/png" };
        let text = format!("HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: 300\r\n\r\n");
        let (mut response, _) = head(&text);
        let client = Fake::silent();
        let mut stages = staged(client, compressing(accepted), Framing::NONE);
        stages.respond(cx, &mut response, &[b'x'; 100]).unwrap();
        stages.pass(cx, &mut response, &[b'x'; 200]).unwrap();
        assert!(response.framing.is_done());
        assert_eq!(stages.inner.body, [b'x'; 300]);
        assert!(stages.inner.head.contains("Content-Length: 300\r\n"), "{}", stages.inner.head);
        assert_eq!(stages.inner.head.contains("vary: Accept-Encoding\r\n"), varies, "{}", stages.inner.head);
    }
}

#[test]
fn the_response_to_head_has_the_fields_of_a_changed_body() {
    let rules = SubstitutionRules::compile(["a"].into_iter(), true, &["text/plain".into()], false).unwrap();
    let substitution = Substitution { rules: Arc::new(rules), values: [b"b".to_vec()].into() };
    let text = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 300\r\nETag: \"v1\"\r\n\
                Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT\r\nAccept-Ranges: bytes\r\n\r\n";
    for (accepted, substitution) in
        [("gzip", None), ("identity", None), ("gzip", Some(&substitution)), ("identity", Some(&substitution))]
    {
        let [get, head] = [Method::GET, Method::HEAD].map(|method| {
            let is_head = method == Method::HEAD;
            let plan = BodyPlan { is_head, substitution: substitution.cloned(), ..compressing(accepted) };
            let mut stages = staged(Fake::silent(), plan, Framing::NONE);
            let mut response = Response::default();
            response.read(text.as_bytes(), &method).unwrap().unwrap();
            let body = if is_head { &b""[..] } else { &[b'x'; 300] };
            stages.respond(&mut Context::from_waker(Waker::noop()), &mut response, body).unwrap();
            assert!(!is_head || stages.inner.body.is_empty() && !stages.inner.ended);
            stages.inner.head.replace("Transfer-Encoding: chunked\r\n", "")
        });
        assert_eq!(head, get);
        assert_eq!(head.contains("content-encoding: gzip\r\n"), accepted == "gzip", "{head}");
        assert_eq!(head.contains("Last-Modified"), substitution.is_none(), "{head}");
        let is_unchanged = accepted == "identity" && substitution.is_none();
        assert_eq!(head.contains("Content-Length"), is_unchanged, "{head}");
    }
}

#[test]
fn a_length_that_only_the_head_states_counts_for_the_least_length() {
    for (length, is_compressed) in [(255, false), (256, true)] {
        let mut stages = staged(Fake::silent(), compressing("gzip"), Framing::NONE);
        let text = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n");
        let (mut response, _) = head(&text);
        // As for a client of HTTP/2.
        response.framing = Framing::Opaque;
        stages.respond(&mut Context::from_waker(Waker::noop()), &mut response, b"x").unwrap();
        assert_eq!(stages.inner.head.contains("content-encoding: gzip\r\n"), is_compressed, "{length}");
    }
}

#[test]
fn an_endpoint_that_pauses_has_its_event_delivered() {
    let cx = &mut Context::from_waker(Waker::noop());
    let client = Fake::silent();
    let mut stages = staged(client, compressing("gzip"), Framing::NONE);
    let (mut response, _) = head("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
    stages.respond(cx, &mut response, b"data: 1\n\n").unwrap();
    assert!(stages.pause(cx, &mut response).unwrap());
    assert!(!stages.pause(cx, &mut response).unwrap(), "there is nothing more");
    assert_eq!(decoded(Coding::Gzip, &stages.inner.body), b"data: 1\n\n");
    stages.pass(cx, &mut response, b"data: 2\n\n").unwrap();
    assert!(stages.pause(cx, &mut response).unwrap());
    assert_eq!(decoded(Coding::Gzip, &stages.inner.body), b"data: 1\n\ndata: 2\n\n");
    stages.end(cx, &mut response, None).unwrap();
    assert_eq!(decoded(Coding::Gzip, &stages.inner.body), b"data: 1\n\ndata: 2\n\n");
}

#[test]
fn a_large_response_lets_others_have_their_turn() {
    let cx = &mut Context::from_waker(Waker::noop());
    let client = Fake::silent();
    let mut stages = staged(client, compressing("gzip"), Framing::NONE);
    let (mut response, _) = head("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n");
    stages.respond(cx, &mut response, b"").unwrap();
    let deadlines = &mut Deadlines::default();
    assert!(stages.poll_flush(cx, deadlines).is_ready());
    stages.pass(cx, &mut response, &[b'x'; 64 * 1024]).unwrap();
    assert!(stages.poll_flush(cx, deadlines).is_pending());
    assert!(stages.poll_flush(cx, deadlines).is_ready());
}

#[test]
fn a_response_that_cannot_be_read_does_not_begin() {
    let cx = &mut Context::from_waker(Waker::noop());
    let client = Fake::silent();
    let mut stages = staged(client, compressing("gzip"), Framing::NONE);
    let (mut response, _) =
        head("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(stages.respond(cx, &mut response, b"no size\r\n"), Err(FailureKind::InvalidHead));
    assert_eq!(stages.inner.head, "");
}

#[tokio::test]
async fn a_streamed_body_fails_where_it_becomes_too_large() {
    let client = Fake::new(Framing::CHUNKED, &[b"3\r\nabc\r\n", b"3\r\ndef\r\n"]);
    let plan = BodyPlan { limit: Some(5), ..BodyPlan::default() };
    let mut stages = staged(client, plan, Framing::CHUNKED);
    let mut passed = Vec::new();
    let mut result = Ok(());
    while result.is_ok() {
        let body = poll_fn(|cx| stages.poll_body(cx, |_, bytes, _| passed.extend_from_slice(bytes)));
        result = body.await;
    }
    assert_eq!(result, Err(FailureKind::BodyTooLarge));
    assert_eq!(passed, b"3\r\nabc\r\n", "nothing of what is too much goes on");
}

/// Admits every response.
#[derive(Debug)]
struct AdmittingJudge;

impl ResponseJudge for AdmittingJudge {
    fn head(&mut self, _: &Response, _: bool) {}

    fn content(&mut self, _: Bytes, _: bool) {}

    fn exceeded(&mut self) -> Judgement {
        Judgement::Passes
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<Judgement> {
        Poll::Ready(Judgement::Passes)
    }
}

/// A rate counts for bytes that are held or buffered, too: all of them were sent at once.
#[tokio::test(start_paused = true)]
async fn a_response_that_was_held_is_sent_at_the_limited_rate() {
    const LENGTH: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n";
    const UNTIL_CLOSE: &str = "HTTP/1.1 200 OK\r\n\r\n";
    let buffering = ResponseBuffering { enabled: true, ..ResponseBuffering::default() };
    for (text, buffering) in
        [(LENGTH, None), (LENGTH, Some(buffering)), (UNTIL_CLOSE, None), (UNTIL_CLOSE, Some(buffering))]
    {
        let plan = BodyPlan { rate: Some((1000, 0)), response_buffering: buffering, ..BodyPlan::default() };
        let mut stages = staged(Fake::silent(), plan, Framing::NONE);
        stages.hold_response(Box::new(AdmittingJudge));
        let (mut response, _) = head(text);
        let began = Instant::now();
        let mut cx = Context::from_waker(Waker::noop());
        stages.respond(&mut cx, &mut response, &[b'x'; 1500]).unwrap();
        stages.pass(&mut cx, &mut response, &[b'x'; 1500]).unwrap();
        if response.framing == Framing::Opaque {
            stages.end(&mut cx, &mut response, None).unwrap();
        }
        poll_fn(|cx| stages.poll_flush(cx, &mut Deadlines::default())).await.unwrap();
        assert_eq!(stages.inner.body.len(), 3000);
        assert_eq!(stages.inner.ended, text == UNTIL_CLOSE);
        // The first 1000 bytes are free.
        let took = began.elapsed().as_millis();
        assert!((1900..2200).contains(&took), "{text:?} {took} ms");
    }
}
