//! The steps between a request that is to be forwarded and a response that is to be relayed: endpoints, tries,
//! failures.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http::StatusCode;
use sluice_config::{Retry, Timeouts};

use super::answer::Answer;
use super::exchange::{Attempt, Exchange};
use super::outcome::{Failure, FailureKind, KeepAlive, Next, Upstream};
use super::session::{self, Choice};
use crate::message::edit::{Edit, RequestMut};
use crate::message::hop_by_hop;
use crate::policy::Forwarding;
use crate::policy::RetryPolicy;
use crate::policy::hops;
use crate::policy::retry::Progress;
use crate::policy::timeouts::resolve;
use crate::registry::{Admission, Endpoint, PickError, PickRequest, Pool};
use crate::route::Destination;

impl Exchange {
    /// The endpoint for the next try, or the answer when there is none (503).
    pub fn pick(&mut self) -> Result<Upstream, Answer> {
        let Some(pool) = self.pool().cloned() else {
            return Err(self.answer(StatusCode::SERVICE_UNAVAILABLE));
        };
        let afresh = self.tries.afresh.take();
        let again = afresh.is_some();
        let now = Instant::now();
        let endpoint = match afresh {
            Some(endpoint) => endpoint,
            None => match self.choose(&pool, now) {
                Ok(endpoint) => endpoint,
                Err(_) => return Err(self.answer(StatusCode::SERVICE_UNAVAILABLE)),
            },
        };
        let globals = self.globals();
        let tuning = &globals.tuning;
        let first = *self.tries.first.get_or_insert(now);
        let route = self.route.as_deref();
        let retry = route.map_or(&DEFAULT_RETRY, |route| &route.policies.retry);
        let policy = RetryPolicy::new(retry, tuning, &self.method);
        let timeouts = route.map_or(&DEFAULT_TIMEOUTS, |route| &route.policies.timeouts);
        let connect = resolve(timeouts.connect, tuning.proxy_connect_timeout);
        // The first attempt always has the whole time, also where the window is no longer: else no attempt would ever
        // find out that a machine is dead. A stale connection was no attempt. What is left must not be nothing.
        let is_first = self.tries.all.len() == usize::from(again);
        let left = Some(policy.time_left(first)).filter(|left| !is_first && !left.is_zero());
        let connect_timeout = [connect, left].into_iter().flatten().min();
        self.tries.hurried = connect_timeout != connect;
        let upstream = Upstream {
            address: endpoint.address(),
            protocol: pool.protocol(),
            fresh: again,
            // What goes nowhere a second time should not go over a connection that may be closed.
            repeatable: policy.may_repeat() && policy.after_stale(),
            connect_timeout,
            read_timeout: resolve(timeouts.read, tuning.proxy_read_timeout),
            send_timeout: resolve(timeouts.send, tuning.proxy_send_timeout),
            keep_alive: KeepAlive {
                idle: tuning.upstream_keepalive_timeout,
                age: tuning.upstream_keepalive_time,
                requests: tuning.upstream_keepalive_requests,
            },
            in_flight: endpoint.in_flight(),
            began: now,
        };
        drop(globals);
        if !again && !self.tries.all.is_empty() {
            self.state.telemetry.retried();
        }
        if again {
            // The stale connection was no try: its place is taken.
            self.tries.all.pop();
        }
        self.tries.policy = Some(policy);
        self.tries.all.push(Attempt {
            address: endpoint.address(),
            afresh: again,
            began: now,
            connected: None,
            header: None,
            ended: None,
            status: None,
        });
        self.tries.in_flight = Some(endpoint.enter());
        Ok(upstream)
    }

    /// Asks the endpoint of this attempt for room for a connection.
    pub fn ask_for_room(&mut self) -> Admission {
        self.tries.in_flight.as_mut().map_or(Admission::Given, |on_its_way| on_its_way.ask())
    }

    /// This attempt has got a connection without room for a new one.
    pub fn needs_no_room(&mut self) {
        if let Some(on_its_way) = &mut self.tries.in_flight {
            on_its_way.go();
        }
    }

    /// Changes the request head for the endpoint: hop-by-hop fields out (RFC 9110 §7.6.1, an upgrade kept),
    /// forwarding fields and the count of gateways in, then the rule's changes. `head` is as the client sent it for
    /// every attempt: what an earlier one was given is no part of it.
    pub fn upstream_request(&mut self, head: &mut impl RequestMut) {
        let fields = head.fields();
        hop_by_hop::request(fields, self.version);
        let forwarding = Forwarding {
            connection: &self.connection,
            client: self.client,
            authority: &self.authority,
            request_id: self.request_id.as_ref(),
            tuning: &self.globals().tuning,
        };
        forwarding.apply(fields);
        hops::apply(fields, self.hops);
        let mut head = Edit::new(head);
        for edits in self.edits() {
            edits.request(&mut head);
        }
    }

    /// The connection of this try stands. `reused` when it came from the pool.
    pub fn connected(&mut self, address: SocketAddr, reused: bool) {
        if let Some(attempt) = self.tries.all.last_mut() {
            debug_assert_eq!(attempt.address, address, "connected to another endpoint than was picked");
            attempt.connected = Some(if reused { Default::default() } else { attempt.began.elapsed() });
        }
    }

    /// The try failed.
    pub fn failed(&mut self, failure: Failure) -> Next {
        let status = match failure.kind {
            FailureKind::Connect
            | FailureKind::Handshake
            | FailureKind::Broken
            | FailureKind::InvalidHead => StatusCode::BAD_GATEWAY,
            FailureKind::ConnectTimeout
            | FailureKind::HandshakeTimeout
            | FailureKind::ReadTimeout
            | FailureKind::SendTimeout => StatusCode::GATEWAY_TIMEOUT,
            FailureKind::Shortage => StatusCode::SERVICE_UNAVAILABLE,
            FailureKind::ClientTimeout => StatusCode::REQUEST_TIMEOUT,
            FailureKind::ClientMalformed => StatusCode::BAD_REQUEST,
            FailureKind::Client => {
                self.tries.in_flight = None;
                return Next::Abort;
            }
        };
        let endpoint = self.tries.in_flight.take().map(|on_its_way| on_its_way.endpoint().clone());
        if matches!(failure.kind, FailureKind::ClientTimeout | FailureKind::ClientMalformed) {
            if failure.kind == FailureKind::ClientMalformed {
                self.state.telemetry.request_refused(status);
            }
            return match self.give_up(&failure, status) {
                // Who let us wait would do so again, and behind what cannot be read no request can be found.
                Next::Answer(answer) => Next::Answer(Answer { close: true, ..answer }),
                next => next,
            };
        }
        let was_afresh = self.tries.all.last().is_some_and(|attempt| attempt.afresh);
        let harmless = !failure.sent || self.tries.policy.is_some_and(|policy| policy.may_repeat());
        let wanted = self.tries.policy.is_some_and(|policy| policy.after_stale());
        if failure.stale
            && wanted
            && harmless
            && failure.replayable
            && !failure.response_started
            && !was_afresh
        {
            self.tries.afresh = endpoint;
            return Next::Retry;
        }
        self.finish_try(status);
        if let Some(endpoint) = endpoint {
            self.blame(&failure, &endpoint);
            self.tries.failed.push(endpoint);
        }
        let progress = self.progress();
        if self.tries.policy.is_some_and(|policy| policy.after_failure(&failure, &progress)) {
            return Next::Retry;
        }
        self.give_up(&failure, status)
    }

    /// The endpoint sent a response head (not an interim one): relay it, or try another endpoint because its
    /// status is one of `proxy-next-upstream`. `replayable` as in [`Failure::replayable`].
    pub fn upstream_response(&mut self, status: StatusCode, replayable: bool) -> Next {
        let Some(attempt) = self.tries.all.last_mut() else { return Next::Relay };
        attempt.header = Some(attempt.began.elapsed());
        attempt.status = Some(status);
        let began = attempt.began;
        if let Some(on_its_way) = &self.tries.in_flight {
            on_its_way.endpoint().succeeded(began);
        }
        let wanted = self.tries.policy.filter(|policy| policy.names_status(status));
        if wanted.is_some_and(|policy| policy.after_status(status, replayable, &self.progress())) {
            self.finish_try(status);
            if let Some(on_its_way) = self.tries.in_flight.take() {
                self.tries.failed.push(on_its_way.endpoint().clone());
            }
            return Next::Retry;
        }
        Next::Relay
    }

    fn pool(&self) -> Option<&Arc<Pool>> {
        match &self.target.as_ref()?.to {
            Destination::Pool(pool) => Some(pool),
            Destination::Default | Destination::Invalid(_) => None,
        }
    }

    fn choose(&mut self, pool: &Pool, now: Instant) -> Result<Arc<Endpoint>, PickError> {
        let affinity = self.route.as_ref().and_then(|route| route.affinity());
        let (Some(affinity), Some(target)) = (affinity, &self.target) else {
            return pick(pool, &self.tries.failed, now);
        };
        let Choice { endpoint, new_key } =
            session::choose(affinity, pool, target, self.session.as_ref(), &self.tries.failed, now)?;
        if let Some(key) = new_key {
            let https = self.connection.is_https();
            self.set_cookie = affinity.set_cookie(&key, &target.digits, https, SystemTime::now());
        }
        Ok(endpoint)
    }

    fn progress(&self) -> Progress {
        Progress {
            tries: u32::try_from(self.tries.all.len()).unwrap_or(u32::MAX),
            first: self.tries.first.unwrap_or(self.began),
            endpoints: self.pool().map_or(0, |pool| pool.len()),
        }
    }

    fn finish_try(&mut self, status: StatusCode) {
        if let Some(attempt) = self.tries.all.last_mut() {
            attempt.ended = Some(attempt.began.elapsed());
            attempt.status.get_or_insert(status);
        }
    }

    /// Ejects the endpoint, if it does not take connections. Only what no single request can provoke counts, because
    /// a client must not be able to empty a pool: not a slow or malformed answer, nor a connection that breaks once the
    /// endpoint may have seen anything of the request, nor a connect timeout that earlier attempts have cut short. TLS
    /// that fails does not count either: which protocol is spoken is a setting of one route, and the endpoint is
    /// everybody's.
    fn blame(&self, failure: &Failure, endpoint: &Endpoint) {
        let connection = match failure.kind {
            FailureKind::Connect => true,
            FailureKind::ConnectTimeout => !self.tries.hurried,
            FailureKind::Broken => !failure.stale && !failure.sent,
            _ => false,
        };
        if let Some(pool) = self.pool().filter(|_| connection) {
            pool.failed(endpoint, Instant::now());
        }
    }

    fn give_up(&self, failure: &Failure, status: StatusCode) -> Next {
        match failure.response_started {
            true => Next::Abort,
            false => Next::Answer(self.answer(status)),
        }
    }
}

static DEFAULT_RETRY: Retry = Retry { on: None, tries: None, timeout: sluice_config::Timeout::Inherit };
static DEFAULT_TIMEOUTS: Timeouts = Timeouts {
    connect: sluice_config::Timeout::Inherit,
    read: sluice_config::Timeout::Inherit,
    send: sluice_config::Timeout::Inherit,
};

/// An endpoint that has not failed this request; when all have, any.
pub(super) fn pick(pool: &Pool, failed: &[Arc<Endpoint>], now: Instant) -> Result<Arc<Endpoint>, PickError> {
    let request = PickRequest { key: None, sticky: None, tried: failed, now };
    match pool.pick(&request) {
        Err(PickError::Exhausted) => pool.pick(&PickRequest { tried: &[], ..request }),
        other => other,
    }
}
