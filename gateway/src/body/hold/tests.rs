use std::sync::{Arc, Mutex};
use std::task::Waker;

use http::Method;

use super::*;

/// Returns given decisions in order, and records what it has seen.
#[derive(Debug, Default)]
struct ScriptedJudge {
    judgements: Vec<Judgement>,
    seen: Arc<Mutex<Vec<(Bytes, bool)>>>,
}

impl ResponseJudge for ScriptedJudge {
    fn head(&mut self, response: &Response, ends: bool) {
        self.content(response.status.as_str().to_owned().into(), ends);
    }

    fn content(&mut self, content: Bytes, ends: bool) {
        self.seen.lock().unwrap().push((content, ends));
    }

    fn exceeded(&mut self) -> Judgement {
        Judgement::Refused
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<Judgement> {
        Poll::Ready(self.judgements.remove(0))
    }
}

/// A held response and what its judge has seen.
struct Case {
    hold: ResponseHold,
    response: Response,
    seen: Arc<Mutex<Vec<(Bytes, bool)>>>,
}

impl Case {
    fn new(head: &str, judgements: &[Judgement]) -> Self {
        let seen = Arc::default();
        let judge = ScriptedJudge { judgements: judgements.to_vec(), seen: Arc::clone(&seen) };
        let mut response = Response::default();
        response.read(head.as_bytes(), &Method::GET).unwrap().unwrap();
        Self { hold: ResponseHold::new(Box::new(judge)), response, seen }
    }

    fn poll(&mut self) -> Poll<Result<Option<Box<HeldBody>>, FailureKind>> {
        self.hold.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn seen(&self) -> Vec<(String, bool)> {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|(text, ends)| (String::from_utf8_lossy(text).into_owned(), *ends)).collect()
    }
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn a_response_is_held_until_its_judge_has_seen_the_end() {
    let mut case = Case::new(CHUNKED, &[&[Judgement::Wants; 3][..], &[Judgement::Passes]].concat());
    let passed = case.hold.respond(&mut case.response, b"3\r\nabc\r\n").unwrap();
    assert_eq!(passed, Passed { taken: 8, data: 3 });
    assert!(matches!(case.poll(), Poll::Ready(Ok(None))), "more is wanted");
    assert_eq!(case.seen(), [("200".to_owned(), false), ("abc".to_owned(), false)]);
    let passed = case.hold.pass(&mut case.response, b"2\r\nde\r\n0\r\n\r\nmore").unwrap();
    assert_eq!((passed, case.response.framing.is_done()), (Passed { taken: 12, data: 2 }, true));
    let Poll::Ready(Ok(Some(held))) = case.poll() else { panic!("it passes") };
    assert_eq!(held.coded, b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert_eq!(held.response.fields.iter().count(), 2, "the head is whole");
    assert!(!held.response.framing.is_done(), "the inner side reads the framing anew");
    assert_eq!(case.seen().last(), Some(&("de".to_owned(), true)));
}

#[test]
fn a_refused_response_is_a_failure() {
    let mut case =
        Case::new("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", &[Judgement::Wants, Judgement::Refused]);
    case.hold.respond(&mut case.response, b"abc").unwrap();
    assert!(matches!(case.poll(), Poll::Ready(Err(FailureKind::ResponseRefused))));
    assert_eq!(case.seen().last(), Some(&("abc".to_owned(), true)));
}

/// The judge was asked about it, and what another endpoint sent then passed unseen.
#[test]
fn a_malformed_response_was_judged_before_another_endpoint_was_tried() {
    let mut case = Case::new(CHUNKED, &[Judgement::Wants, Judgement::Refused]);
    let refused = case.hold.respond(&mut case.response, b"3\r\nabcdef");
    assert_eq!(
        (refused, case.hold.has_begun(), case.seen().len()),
        (Err(FailureKind::InvalidHead), false, 0)
    );
    case.response.read(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", &Method::GET).unwrap().unwrap();
    case.hold.respond(&mut case.response, b"abc").unwrap();
    assert!(matches!(case.poll(), Poll::Ready(Err(FailureKind::ResponseRefused))));
    assert_eq!(case.seen(), [("200".to_owned(), false), ("abc".to_owned(), true)]);
}

#[test]
fn a_head_without_a_body_is_judged_alone() {
    let mut case = Case::new("HTTP/1.1 204 No Content\r\n\r\n", &[Judgement::Passes]);
    case.hold.respond(&mut case.response, b"").unwrap();
    assert!(matches!(case.poll(), Poll::Ready(Ok(Some(_)))));
    assert_eq!(case.seen(), [("204".to_owned(), true)]);
}

#[test]
fn the_end_of_a_connection_is_an_end() {
    let wants = [Judgement::Wants; 3];
    let mut case = Case::new("HTTP/1.1 200 OK\r\n\r\n", &[&wants[..], &[Judgement::Passes]].concat());
    case.hold.respond(&mut case.response, b"abc").unwrap();
    assert!(matches!(case.poll(), Poll::Ready(Ok(None))));
    case.hold.end(None);
    let Poll::Ready(Ok(Some(held))) = case.poll() else { panic!("it passes") };
    assert_eq!((held.coded.as_slice(), held.end), (&b"abc"[..], Some(None)));
    assert_eq!(case.seen().last(), Some(&(String::new(), true)));
}

#[test]
fn a_response_that_is_too_large_to_be_held_is_decided_on_at_once() {
    let mut case = Case::new("HTTP/1.1 200 OK\r\n\r\n", &[Judgement::Wants]);
    case.hold.respond(&mut case.response, &vec![b'x'; MOST_JUDGED]).unwrap();
    case.hold.pass(&mut case.response, b"x").unwrap();
    assert!(matches!(case.poll(), Poll::Ready(Err(FailureKind::ResponseRefused))));
}
