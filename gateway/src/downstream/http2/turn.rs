//! A connection and its streams in one task, each polled only if it was woken.
//!
//! The task is woken for either of them, and they wake each other all the time: the connection
//! sends what a stream has written, and a stream receives what the connection has read. Each
//! therefore has a waker of its own, which marks it and wakes the task only if the task is not
//! already running.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use futures::task::AtomicWaker;

/// Number of rounds before the task yields to other connections.
const ROUNDS: usize = 16;

/// The scheduler of one connection.
pub(super) struct Turn {
    task: Arc<Task>,
    connection: TaskWaker,
    streams: TaskWaker,
}

/// What was woken since the last round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Woken {
    pub(super) connection: bool,
    pub(super) streams: bool,
}

/// The contexts with which the two are polled.
pub(super) struct Wakers<'w> {
    pub(super) connection: Context<'w>,
    pub(super) streams: Context<'w>,
}

#[derive(Debug, Default)]
struct Task {
    waker: AtomicWaker,
    /// The task is running and will check the flags before it waits.
    at_work: AtomicBool,
}

/// The waker of one of the two, and its flag.
struct TaskWaker {
    flag: Arc<Flag>,
    waker: Waker,
}

/// A flag that the waker sets.
struct Flag {
    set: AtomicBool,
    task: Arc<Task>,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set.store(true, SeqCst);
        if !self.task.at_work.load(SeqCst) {
            self.task.waker.wake();
        }
    }
}

impl TaskWaker {
    /// Creates a waker that is already marked, because nothing was polled yet.
    fn new(task: &Arc<Task>) -> Self {
        let flag = Arc::new(Flag { set: AtomicBool::new(true), task: task.clone() });
        Self { waker: Waker::from(flag.clone()), flag }
    }

    fn is_woken(&self) -> bool {
        self.flag.set.load(SeqCst)
    }

    fn take(&self) -> bool {
        self.is_woken() && self.flag.set.swap(false, SeqCst)
    }
}

impl Turn {
    pub(super) fn new() -> Self {
        let task = Arc::default();
        Self { connection: TaskWaker::new(&task), streams: TaskWaker::new(&task), task }
    }

    /// Calls `round` until neither is woken.
    pub(super) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        mut round: impl FnMut(&mut Wakers<'_>, Woken) -> Poll<T>,
    ) -> Poll<T> {
        self.task.waker.register(cx.waker());
        self.task.at_work.store(true, SeqCst);
        let mut polled = Poll::Pending;
        for _ in 0..ROUNDS {
            let woken = Woken { connection: self.connection.take(), streams: self.streams.take() };
            let mut wakers = Wakers {
                connection: Context::from_waker(&self.connection.waker),
                streams: Context::from_waker(&self.streams.waker),
            };
            polled = round(&mut wakers, woken);
            if polled.is_ready() || !self.is_woken() {
                break;
            }
        }
        self.task.at_work.store(false, SeqCst);
        // Woken by another thread before it could see that the task waits, or still woken after all
        // rounds.
        if polled.is_pending() && self.is_woken() {
            cx.waker().wake_by_ref();
        }
        polled
    }

    fn is_woken(&self) -> bool {
        self.connection.is_woken() || self.streams.is_woken()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    /// Returns what was woken in each round of one poll. `then` runs in each round.
    fn rounds(turn: &Turn, count: &Arc<Count>, then: impl Fn(usize, &mut Wakers<'_>)) -> Vec<Woken> {
        let waker = Waker::from(count.clone());
        let mut rounds = Vec::new();
        let polled = turn.poll(&mut Context::from_waker(&waker), |wakers, woken| {
            rounds.push(woken);
            then(rounds.len(), wakers);
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        rounds
    }

    const BOTH: Woken = Woken { connection: true, streams: true };
    const CONNECTION: Woken = Woken { connection: true, streams: false };
    const STREAMS: Woken = Woken { connection: false, streams: true };

    #[test]
    fn a_stream_woken_in_a_turn_is_polled_in_it_without_another_wakeup() {
        let (turn, count) = (Turn::new(), Arc::<Count>::default());
        let seen = rounds(&turn, &count, |round, wakers| match round {
            1 => wakers.streams.waker().wake_by_ref(),
            2 => wakers.connection.waker().wake_by_ref(),
            _ => {}
        });
        assert_eq!(seen, [BOTH, STREAMS, CONNECTION]);
        assert_eq!(count.0.load(SeqCst), 0);
    }

    #[test]
    fn a_stream_woken_between_turns_wakes_the_task_and_is_polled_alone() {
        let (turn, count) = (Turn::new(), Arc::<Count>::default());
        rounds(&turn, &count, |_, _| ());
        turn.streams.waker.wake_by_ref();
        assert_eq!(count.0.load(SeqCst), 1);
        assert_eq!(rounds(&turn, &count, |_, _| ()), [STREAMS]);
    }

    #[test]
    fn a_turn_ends_and_the_task_comes_back() {
        let (turn, count) = (Turn::new(), Arc::<Count>::default());
        let seen = rounds(&turn, &count, |_, wakers| wakers.streams.waker().wake_by_ref());
        assert_eq!((seen.len(), count.0.load(SeqCst)), (ROUNDS, 1));
        assert_eq!(rounds(&turn, &count, |_, _| ()), [STREAMS]);
    }
}
