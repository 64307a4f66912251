//! One request from its head to its log line.

use std::net::SocketAddr;
use std::sync::Arc;

use http::{HeaderMap, StatusCode};

use super::answer::Answer;
use super::fields::Fields;
use super::head::RequestHead;
use super::outcome::{Failure, Next, Outcome, Upstream};
use crate::connection::ConnectionInfo;
use crate::state::State;

/// The state of one request. Plain data; a driver keeps it next to the stream.
#[derive(Debug)]
pub struct Exchange {
    _state: Arc<State>,
    _connection: Arc<ConnectionInfo>,
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Verdict {
    /// It is answered at once.
    Answer(Answer),
    /// It goes to an endpoint.
    Forward,
}

impl Exchange {
    /// Takes a request in: finds its rule and runs every check that needs nothing but the head.
    pub fn begin(
        state: &Arc<State>,
        connection: &Arc<ConnectionInfo>,
        head: &RequestHead<'_>,
    ) -> (Self, Verdict) {
        unimplemented!("{state:?} {connection:?} {head:?}")
    }

    /// Takes a request in that could not be read: malformed (400), too slow (408), too long a request line
    /// (414), too large a head (400). `request_line` is what was read of the first line, for the log.
    pub fn refuse(
        state: &Arc<State>,
        connection: &Arc<ConnectionInfo>,
        request_line: &[u8],
        length: usize,
        status: StatusCode,
    ) -> (Self, Answer) {
        unimplemented!("{state:?} {connection:?} {request_line:?} {length} {status}")
    }

    /// The endpoint for the next try, or the answer when there is none (503).
    pub fn pick(&mut self) -> Result<Upstream, Answer> {
        unimplemented!()
    }

    /// Changes the request head for the endpoint: hop-by-hop fields out (RFC 9110 §7.6.1, an upgrade kept),
    /// forwarding fields in. The same for every try.
    pub fn upstream_request(&mut self, head: &mut impl Fields) {
        unimplemented!("{}", head.map().len())
    }

    /// The connection of this try stands. `reused` when it came from the pool.
    pub fn connected(&mut self, address: SocketAddr, reused: bool) {
        unimplemented!("{address} {reused}")
    }

    /// The try failed.
    pub fn failed(&mut self, failure: Failure) -> Next {
        unimplemented!("{failure:?}")
    }

    /// The endpoint sent a response head (not an interim one): relay it, or try another endpoint because its
    /// status is one of `proxy-next-upstream`. `replayable` as in [`Failure::replayable`].
    pub fn upstream_response(&mut self, status: StatusCode, headers: &HeaderMap, replayable: bool) -> Next {
        unimplemented!("{status} {headers:?} {replayable}")
    }

    /// Changes the response head for the client: hop-by-hop fields out, HSTS, session cookie, `Server`.
    pub fn response(&mut self, status: StatusCode, head: &mut impl Fields) {
        unimplemented!("{status} {}", head.map().len())
    }

    /// Ends the exchange: access log, metrics. Call once, whatever happened.
    pub fn end(&mut self, outcome: Outcome) {
        unimplemented!("{outcome:?}")
    }
}
