//! Answers of our own on their way to the client.

use std::future::poll_fn;
use std::mem;
use std::task::Poll;

use crate::body::downstream::Downstream;
use crate::io::alarm::Alarm;
use crate::io::deadlines::Deadlines;
use crate::pipeline::{Answer, FailureKind};

/// Sends an answer; `bare` is one without its body.
pub(super) async fn send(
    answer: &Answer,
    bare: bool,
    downstream: &mut impl Downstream,
    alarm: &mut Alarm,
) -> Result<(), FailureKind> {
    let (mut deadlines, mut begun) = (Deadlines::default(), false);
    poll_fn(|cx| {
        if !mem::replace(&mut begun, true) {
            downstream.answer(cx, answer, bare)?;
        }
        let flushed = downstream.poll_flush(cx, &mut deadlines);
        if flushed.is_pending() && deadlines.poll(cx, alarm).is_ready() {
            return Poll::Ready(Err(FailureKind::Client));
        }
        flushed
    })
    .await
}
