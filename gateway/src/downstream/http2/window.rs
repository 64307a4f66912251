//! The flow-control window of a client's connection: the bytes of request bodies that the client
//! may send before they are read.
//!
//! A connection starts with 65,535 bytes (RFC 9113 §6.9.2), which a server cannot revoke. More is
//! opened only while a stream reads a body that needs it, and at most the rest of that body. The
//! client may use an opened window at any later time, so it stays reserved in the memory budget
//! until the bytes are read; cancelling uploads gains a client nothing. Other bytes that `h2` holds
//! are reserved too, but for no connection's account: they must not stop the connection from
//! reading them. Together these reservations take at most three quarters of the budget, so that
//! memory to read the bytes into is always left.
//!
//! Streams whose bodies are not being read yet (they wait for an authorisation service or an
//! endpoint) hold a part of the window. The window grows by that part while another stream reads.
//! If memory is too short for that, waiting streams may use up the window; after
//! [`budget::WAIT_TIMEOUT`] the one that holds most is reset.

use std::task::Context;

use tokio::time::Instant;

use super::Connection;
use super::body_flow::{BodySum, SMALL, STREAM_WINDOW};
use super::streams::Streams;
use crate::io::alarm::Alarm;
use crate::io::budget::{self, Reservation};

/// Initial window of a connection in bytes.
pub(super) const INITIAL: usize = 65_535;
/// Maximum bytes that a connection opens for streams that read their bodies.
const MOST_READ: usize = 1024 * 1024;
/// Below this number of bytes the window counts as used up.
const LEAST: usize = 4 * 1024;

/// The window of one connection.
#[derive(Debug)]
pub(super) struct Window {
    /// Bytes that `h2` may hold, including those that the client has not sent.
    target: usize,
    /// The window of each stream, as last sent to the client.
    of_stream: u32,
    /// Reservation for the window opened beyond [`INITIAL`] and not read since.
    opened: Reservation,
    /// Reservation for other bytes that `h2` holds.
    held: Reservation,
    /// Since when waiting streams have used up the window of reading ones.
    blocked: Option<Instant>,
    alarm: Alarm,
}

impl Window {
    /// Creates the initial window. `of_stream` is sent in the first SETTINGS.
    pub(super) fn new(of_stream: u32) -> Self {
        Self {
            target: INITIAL,
            of_stream,
            opened: Reservation::unowned(),
            held: Reservation::unowned(),
            blocked: None,
            alarm: Alarm::default(),
        }
    }

    /// Adapts the window to the needs of the streams and to the memory budget. Returns whether it
    /// has grown.
    pub(super) fn adapt(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
        streams: &Streams,
    ) -> bool {
        let wanted = stream_window();
        // Fails until the client has acknowledged the previous change.
        let mut grown = false;
        if wanted != self.of_stream && connection.set_initial_window_size(wanted).is_ok() {
            self.of_stream = wanted;
            grown = true;
        }
        if self.is_initial() && !streams.have_bodies() {
            return grown;
        }
        let sum = streams.sum_bodies();
        let target = self.reserve(&sum, streams.take_released());
        if target != self.target {
            grown |= target > self.target;
            self.target = target;
            connection.set_target_window_size(u32::try_from(target).unwrap_or(i32::MAX as u32));
        }
        self.watch(cx, &sum, streams);
        grown
    }

    /// Returns the window of each stream.
    pub(super) fn of_stream(&self) -> u32 {
        self.of_stream
    }

    fn is_initial(&self) -> bool {
        self.target == INITIAL && self.opened.is_empty() && self.held.is_empty()
    }

    /// Reserves the bytes that `h2` holds and may receive. Returns the size of the window.
    fn reserve(&mut self, sum: &BodySum, released: usize) -> usize {
        let before = self.opened.bytes();
        let wanted = sum.target() - INITIAL;
        let opened = wanted.min(before.saturating_add(budget::ahead()));
        self.opened.hold(opened.max(before.saturating_sub(released)));
        let others = sum.all.saturating_sub(self.opened.bytes());
        let most = self.held.bytes().saturating_add(budget::left_beyond_quarter());
        self.held.hold(others.min(most));
        INITIAL + opened
    }

    /// Resets the waiting stream that holds most if waiting streams have blocked reading ones for
    /// too long.
    fn watch(&mut self, cx: &mut Context<'_>, sum: &BodySum, streams: &Streams) {
        if !sum.is_reading || sum.waiting + LEAST <= self.target {
            self.blocked = None;
            return;
        }
        let since = *self.blocked.get_or_insert_with(Instant::now);
        if self.alarm.poll(cx, since + budget::WAIT_TIMEOUT).is_ready() {
            self.blocked = None;
            streams.shed_body();
            cx.waker().wake_by_ref();
        }
    }
}

/// Returns the window of each stream that the memory budget allows.
pub(super) fn stream_window() -> u32 {
    u32::try_from(budget::window(STREAM_WINDOW as usize)).unwrap_or(STREAM_WINDOW)
}

impl BodySum {
    /// Returns the window that these bodies need.
    fn target(&self) -> usize {
        let needed = self.needed.min(MOST_READ).max(if self.is_reading { SMALL } else { 0 });
        match needed > INITIAL / 2 || needed + self.waiting > INITIAL && self.is_reading {
            true => INITIAL.max(needed + self.waiting),
            false => INITIAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use bytes::Bytes;

    use super::*;
    use crate::io::budget::Budget;

    fn sum(needed: usize, waiting: usize) -> BodySum {
        BodySum { is_reading: needed > 0, needed: needed - needed % 2, waiting, all: waiting }
    }

    #[test]
    fn the_window_opens_only_for_bodies_that_are_read() {
        assert_eq!(sum(0, 60_000).target(), INITIAL, "all of them wait");
        assert_eq!(sum(1, 1000).target(), INITIAL, "small ones");
        assert_eq!(sum(1, 65_000).target(), 65_000 + SMALL, "beside those that wait");
        assert_eq!(sum(256 * 1024, 1000).target(), 256 * 1024 + 1000);
        assert_eq!(sum(8 << 20, 0).target(), MOST_READ);
    }

    #[test]
    fn opened_window_stays_reserved_until_it_is_read() {
        let mut window = Window::new(STREAM_WINDOW);
        assert_eq!(window.reserve(&sum(256 * 1024, 0), 0), 256 * 1024);
        let opened = 256 * 1024 - INITIAL;
        assert_eq!(window.opened.bytes(), opened);
        assert_eq!(window.reserve(&sum(0, 0), 1000), INITIAL, "it has ended early");
        assert_eq!(window.opened.bytes(), opened - 1000);
        assert_eq!(window.reserve(&sum(0, opened + 500), opened), INITIAL);
        assert_eq!((window.opened.bytes(), window.held.bytes()), (0, opened + 500));
    }

    #[tokio::test(start_paused = true)]
    async fn the_stream_that_holds_the_window_is_reset_when_memory_is_short() {
        budget::serve(Budget::new(1 << 20));
        let mut others = Reservation::unowned();
        others.hold(600 * 1024);
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (served, made) = tokio::join!(h2::server::handshake(ours), h2::client::handshake(theirs));
        let (mut served, (mut client, driver)) = (served.unwrap(), made.unwrap());
        let _driver = tokio::spawn(driver);
        let streams = Arc::<Streams>::default();
        let (mut open, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let request = http::Request::post("http://a.example/").body(()).unwrap();
            ends.push(client.send_request(request, false).unwrap());
            let (mut request, reply) = served.accept().await.unwrap().unwrap();
            let mut stream = streams.open();
            stream.begin_body(request.body_mut().flow_control().clone());
            open.push((stream, request, reply));
        }
        ends[0].1.send_data(Bytes::from(vec![0; INITIAL]), false).unwrap();
        let _served = tokio::spawn(async move { while served.accept().await.is_some() {} });
        while streams.sum_bodies().waiting < INITIAL {
            tokio::task::yield_now().await;
        }
        open[1].0.reads(Some(1 << 20));
        let (mut window, cx) = (Window::new(STREAM_WINDOW), &mut Context::from_waker(Waker::noop()));
        let mut look = |shed: bool| {
            let sum = streams.sum_bodies();
            assert_eq!(window.reserve(&sum, 0), INITIAL, "there is no memory for more");
            window.watch(cx, &sum, &streams);
            assert_eq!([open[0].0.is_shed(cx), open[1].0.is_shed(cx)], [shed, false]);
        };
        look(false);
        tokio::time::advance(budget::WAIT_TIMEOUT * 2).await;
        look(true);
    }
}
