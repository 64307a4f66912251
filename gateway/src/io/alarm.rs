//! One timer for all deadlines of a connection.
//!
//! Registering and deregistering a timer for every wait costs more than the wait itself. This timer
//! is set once and stays while deadlines move on: it fires early, finds that time is left, and is
//! set again. A busy connection therefore touches it once per timeout and not several times per
//! request. Objects that live for one request, such as HTTP/2 streams, reuse a registered timer of
//! an ended one.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, Sleep, sleep_until};

/// Number of idle timers that a thread keeps.
const KEPT: usize = 256;

thread_local! {
    static SPARE: RefCell<Vec<Timer>> = const { RefCell::new(Vec::new()) };
}

/// A timer that is created or reused at its first use.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    timer: Option<Timer>,
}

#[derive(Debug)]
struct Timer {
    sleep: Pin<Box<Sleep>>,
    /// The runtime in which the timer is registered; no other can use it.
    runtime: Id,
}

impl Timer {
    fn get(deadline: Instant) -> Self {
        let runtime = Handle::current().id();
        let spare = SPARE.with_borrow_mut(Vec::pop).filter(|spare| spare.runtime == runtime);
        spare.unwrap_or_else(|| Self { sleep: Box::pin(sleep_until(deadline)), runtime })
    }
}

impl Alarm {
    /// Ready when `deadline` has passed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let sleep = &mut self.timer.get_or_insert_with(|| Timer::get(deadline)).sleep;
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

    /// Leaves the timer to others before a long wait without a deadline.
    pub(crate) fn rest(&mut self) {
        let Some(timer) = self.timer.take() else { return };
        // The access fails only while the thread ends; the timer is then dropped.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < KEPT {
                spare.push(timer);
            }
        });
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.rest();
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
