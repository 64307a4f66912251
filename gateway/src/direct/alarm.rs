//! One timer for all the limits of a connection.
//!
//! To register a timer and take it out again for every wait costs more than the wait itself. This one is set
//! once and left alone while deadlines move on: it rings early, sees that there is time left, and is set again.
//! A busy connection so touches it once in a timeout and not several times in a request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer that is made when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    /// Ready when the deadline has passed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn it_rings_at_the_deadline_whether_that_came_nearer_or_moved_on() {
        let began = Instant::now();
        let mut alarm = Alarm::default();
        let far = began + Duration::from_secs(3600);
        assert!(poll_fn(|cx| Poll::Ready(alarm.poll(cx, far).is_pending())).await);
        let near = began + Duration::from_millis(20);
        poll_fn(|cx| alarm.poll(cx, near)).await;
        assert!(Instant::now() >= near);
        let next = Instant::now() + Duration::from_millis(20);
        poll_fn(|cx| alarm.poll(cx, next)).await;
        assert!(Instant::now() >= next);
    }
}
