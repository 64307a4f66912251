//! Deadlines for both sides of a request. A deadline is set when a side has to be waited for and
//! ends with its next byte. The connection's timer is set to the earliest one.

use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::io::alarm::Alarm;
use crate::io::budget::{self, WaitTicket};
use crate::io::failure::FailureKind;

/// Time for which the client may leave output unread (nginx's `send_timeout`).
pub(crate) const STALL: Duration = Duration::from_secs(60);

/// The deadlines of one request.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// For the next bytes of the response.
    pub(crate) read: Deadline,
    /// For the endpoint to take more of the request.
    pub(crate) send: Deadline,
    /// For the next bytes of the request body.
    pub(crate) body: Deadline,
    /// For the client to take more of the response.
    pub(crate) stall: Deadline,
    /// For memory of the budget.
    pub(crate) room: Deadline,
    /// Bytes that the client has taken since its last progress.
    taken: usize,
}

/// One deadline. `None` while it does not run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// Starts the deadline unless it already runs. `None` is no limit.
    pub(crate) fn begin(&mut self, limit: Option<Duration>) {
        self.begin_at(Instant::now, limit);
    }

    /// Like [`begin`](Self::begin), with a clock that is read only if needed.
    pub(crate) fn begin_at(&mut self, now: impl FnOnce() -> Instant, limit: Option<Duration>) {
        if self.0.is_none()
            && let Some(limit) = limit
        {
            self.0 = now().checked_add(limit);
        }
    }

    /// Begins the deadline anew if it runs.
    fn restart(&mut self, limit: Option<Duration>) {
        if self.0.is_some() {
            self.end();
            self.begin(limit);
        }
    }

    /// Returns whether the deadline runs.
    #[cfg(test)]
    pub(crate) fn runs(&self) -> bool {
        self.0.is_some()
    }

    /// Stops the deadline.
    pub(crate) fn end(&mut self) {
        self.0 = None;
    }

    /// Ready when the deadline has passed.
    pub(crate) fn poll(&self, cx: &mut Context<'_>, alarm: &mut Alarm) -> Poll<()> {
        self.0.map_or(Poll::Pending, |deadline| alarm.poll(cx, deadline))
    }
}

impl Deadlines {
    /// Ready when there is memory to read more of the request. While there is none, the deadline
    /// for memory runs and the one for the client's body does not, because its bytes are not being
    /// read.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>, ticket: &mut WaitTicket) -> Poll<()> {
        let room = self.wait_for(budget::poll_room(cx, ticket));
        if room.is_pending() {
            self.body.end();
        }
        room
    }

    /// Ready when there is memory to read more of a response.
    pub(crate) fn poll_room_to_respond(&mut self, cx: &mut Context<'_>, ticket: &mut WaitTicket) -> Poll<()> {
        self.wait_for(budget::poll_room_to_respond(cx, ticket))
    }

    /// Records that a part of the response has arrived. If the client has not sent all of its
    /// request, its time of `client` begins anew: in a call with messages both ways, it may only
    /// listen. nginx looks for more of the request at every event of the endpoint, and restarts its
    /// timer.
    pub(crate) fn endpoint_sent(&mut self, client: Option<Duration>) {
        self.read.end();
        self.body.restart(client);
    }

    /// Records that the endpoint lives without sending a part of the response: the times of both
    /// sides that run begin anew.
    pub(crate) fn endpoint_lives(&mut self, endpoint: Option<Duration>, client: Option<Duration>) {
        self.read.restart(endpoint);
        self.body.restart(client);
    }

    /// Records that the client has taken `bytes` while more are waiting. They extend its deadline
    /// only if they amount to [`budget::progress`]: one byte now and then must not hold memory
    /// forever.
    pub(crate) fn taken(&mut self, bytes: usize) {
        self.taken += bytes;
        if bytes > 0 && self.taken >= budget::progress() {
            self.taken = 0;
            self.stall.end();
        }
    }

    fn wait_for(&mut self, room: Poll<()>) -> Poll<()> {
        match room {
            Poll::Ready(()) => self.room.end(),
            Poll::Pending => self.room.begin(Some(budget::WAIT_TIMEOUT)),
        }
        room
    }

    /// Ready with the failure of the earliest deadline that has passed.
    pub(crate) fn poll(&self, cx: &mut Context<'_>, alarm: &mut Alarm) -> Poll<FailureKind> {
        let all = [
            (self.read, FailureKind::ReadTimeout),
            (self.send, FailureKind::SendTimeout),
            (self.body, FailureKind::ClientTimeout),
            (self.stall, FailureKind::Client),
            (self.room, FailureKind::Memory),
        ];
        let running = all.into_iter().filter_map(|(deadline, kind)| Some((deadline.0?, kind)));
        match running.min_by_key(|(deadline, _)| *deadline) {
            Some((deadline, kind)) => alarm.poll(cx, deadline).map(|()| kind),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::budget::{Budget, Reservation};

    #[test]
    fn a_byte_now_and_then_kept_memory_that_others_wait_for() {
        let stalls = |held: usize, bytes: usize| {
            let run = move || {
                budget::serve(Budget::new(1 << 20));
                let mut share = Reservation::default();
                share.hold(held);
                let mut deadlines = Deadlines::default();
                deadlines.stall.begin(Some(STALL));
                deadlines.taken(bytes);
                deadlines.stall.runs()
            };
            std::thread::spawn(run).join().unwrap()
        };
        assert!(!stalls(100 * 1024, 1), "there is plenty");
        assert!(stalls(600 * 1024, 1) && stalls(600 * 1024, 4095));
        assert!(!stalls(600 * 1024, 4096));
    }

    #[test]
    fn the_time_of_a_client_that_is_not_read_from_does_not_run() {
        let run = || {
            budget::serve(Budget::new(1 << 20));
            let (mut share, mut ticket) = (Reservation::default(), WaitTicket::default());
            let mut deadlines = Deadlines::default();
            deadlines.body.begin(Some(Duration::from_secs(1)));
            share.hold(2 << 20);
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert!(deadlines.poll_room(&mut cx, &mut ticket).is_pending());
            assert!(deadlines.room.runs() && !deadlines.body.runs(), "503 after its own time, never 408");
        };
        std::thread::spawn(run).join().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_only_listens_ran_out_of_time() {
        let second = Duration::from_secs(1);
        let mut deadlines = Deadlines::default();
        deadlines.endpoint_sent(Some(second));
        assert!(!deadlines.body.runs(), "all of the request has arrived");
        deadlines.body.begin(Some(second));
        let first = deadlines.body.0;
        tokio::time::advance(second / 2).await;
        deadlines.endpoint_sent(Some(second));
        assert_eq!(deadlines.body.0, first.map(|first| first + second / 2));
    }

    #[test]
    fn little_and_often_is_progress_too() {
        let run = || {
            budget::serve(Budget::new(1 << 20));
            let mut share = Reservation::default();
            share.hold(900 * 1024);
            let mut deadlines = Deadlines::default();
            deadlines.stall.begin(Some(STALL));
            (0..4).for_each(|_| deadlines.taken(1024));
            assert!(!deadlines.stall.runs());
        };
        std::thread::spawn(run).join().unwrap();
    }
}
