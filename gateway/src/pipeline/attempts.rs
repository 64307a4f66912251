//! The attempts of one call, whoever asked for it: how each begins, and whether a failed one is followed by another.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use sluice_config::{GlobalSettings, Retry, Timeouts, UpstreamProtocol};
use smallvec::SmallVec;

use crate::failure::{Failure, FailureKind};
use crate::policy::RetryPolicy;
use crate::policy::retry::Progress;
use crate::policy::timeouts::resolve;
use crate::registry::{Endpoint, InFlight, PickError, PickKey, PickRequest, Pool};
use crate::upstream::attempt::{KeepAlive, Upstream};
use crate::upstream::tls::Session;

/// The attempts of a call.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    pub(super) policy: Option<RetryPolicy>,
    /// In order; the last is the present one.
    pub(super) all: SmallVec<[Attempt; 2]>,
    /// Endpoints that failed, or whose response was dropped.
    pub(super) failed: SmallVec<[Arc<Endpoint>; 2]>,
    /// The present attempt on its way.
    pub(super) in_flight: Option<InFlight>,
    /// The next attempt goes to the same endpoint over a new connection: the pooled one was stale.
    pub(super) retry_same_endpoint: Option<Arc<Endpoint>>,
    /// When the first began.
    pub(super) first: Option<Instant>,
    /// The present one has less than the connect timeout, because the window of the attempts is about to close.
    pub(super) hurried: bool,
}

/// One attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) address: SocketAddr,
    /// Over a new connection, because the pooled one was stale.
    pub(super) retry_same_endpoint: bool,
    pub(super) began: Instant,
    pub(super) connected: Option<Duration>,
    pub(super) header: Option<Duration>,
    pub(super) ended: Option<Duration>,
    pub(super) status: Option<StatusCode>,
}

/// When an attempt of a call begins, and what limits it.
pub(super) struct Rules<'r> {
    pub(super) now: Instant,
    pub(super) policy: RetryPolicy,
    pub(super) timeouts: &'r Timeouts,
    pub(super) settings: &'r GlobalSettings,
    pub(super) keep_alive: KeepAlive,
    /// The name that is asked for in TLS; without one, none is.
    pub(super) server_name: Option<&'r Arc<str>>,
    /// What is spoken.
    pub(super) protocol: UpstreamProtocol,
    /// TLS as the rule wants it.
    pub(super) tls: Option<Arc<Session>>,
}

pub(super) static DEFAULT_RETRY: Retry =
    Retry { on: None, tries: None, timeout: sluice_config::Timeout::Inherit };
pub(super) static DEFAULT_TIMEOUTS: Timeouts = Timeouts {
    connect: sluice_config::Timeout::Inherit,
    read: sluice_config::Timeout::Inherit,
    send: sluice_config::Timeout::Inherit,
};

impl KeepAlive {
    /// As `upstream-keepalive-*` have it.
    pub(super) fn of(settings: &GlobalSettings) -> Self {
        Self {
            idle: settings.upstream_keepalive_timeout,
            age: settings.upstream_keepalive_time,
            requests: settings.upstream_keepalive_requests,
        }
    }
}

impl Attempts {
    /// Begins an attempt at this endpoint. `again` says that the one before it went over a stale connection, which was
    /// no attempt: its place is taken.
    pub(super) fn begin(&mut self, endpoint: &Arc<Endpoint>, again: bool, rules: &Rules<'_>) -> Upstream {
        let Rules { now, policy, timeouts, settings, keep_alive, server_name, protocol, tls } = rules;
        let now = *now;
        let first = *self.first.get_or_insert(now);
        let connect = resolve(timeouts.connect, settings.proxy_connect_timeout);
        // The first attempt always has the whole time, also where the window is no longer: else no attempt would ever
        // find out that a machine is dead. A stale connection was no attempt. What is left must not be nothing.
        let is_first = self.all.len() == usize::from(again);
        let left = (!is_first).then(|| policy.time_left(first)).filter(|left| !left.is_zero());
        let connect_timeout = [connect, left].into_iter().flatten().min();
        self.hurried = connect_timeout != connect;
        let upstream = Upstream {
            endpoint: endpoint.clone(),
            address: endpoint.address(),
            membership: endpoint.membership(),
            protocol: *protocol,
            server_name: server_name.cloned(),
            tls: tls.clone(),
            fresh: again,
            // What goes nowhere a second time should not go over a connection that may be closed.
            repeatable: policy.may_repeat() && policy.after_stale(),
            connect_timeout,
            read_timeout: resolve(timeouts.read, settings.proxy_read_timeout),
            send_timeout: resolve(timeouts.send, settings.proxy_send_timeout),
            keep_alive: *keep_alive,
            in_flight: endpoint.in_flight(),
            began: now,
        };
        if again {
            self.all.pop();
        }
        self.policy = Some(*policy);
        self.all.push(Attempt {
            address: endpoint.address(),
            retry_same_endpoint: again,
            began: now,
            connected: None,
            header: None,
            ended: None,
            status: None,
        });
        self.in_flight = Some(endpoint.enter());
        upstream
    }

    /// The connection of this attempt stands. `reused` when it came from the pool.
    pub(super) fn connected(&mut self, address: SocketAddr, reused: bool) {
        if let Some(attempt) = self.all.last_mut() {
            debug_assert_eq!(attempt.address, address, "connected to another endpoint than was picked");
            attempt.connected = Some(if reused { Default::default() } else { attempt.began.elapsed() });
        }
    }

    /// The attempt failed; `status` is what it comes to. Says whether there is another.
    pub(super) fn failed(&mut self, pool: Option<&Pool>, failure: &Failure, status: StatusCode) -> bool {
        let endpoint = self.in_flight.take().map(|on_its_way| on_its_way.endpoint().clone());
        let was_retry = self.all.last().is_some_and(|attempt| attempt.retry_same_endpoint);
        let harmless = !failure.sent || self.policy.is_some_and(|policy| policy.may_repeat());
        let wanted = self.policy.is_some_and(|policy| policy.after_stale());
        if failure.stale
            && wanted
            && harmless
            && failure.replayable
            && !failure.response_started
            && !was_retry
        {
            self.retry_same_endpoint = endpoint;
            return true;
        }
        self.finish(status);
        if let Some(endpoint) = endpoint {
            if failure.kind.is_timeout() {
                self.measure(pool, &endpoint, Instant::now());
            }
            self.eject(pool, failure, &endpoint);
            self.failed.push(endpoint);
        }
        let progress = self.progress(pool);
        self.policy.is_some_and(|policy| policy.after_failure(failure, &progress))
    }

    /// The endpoint sent a response head (not an interim one). Says whether it is dropped for another attempt, because
    /// its status is one of `proxy-next-upstream`.
    pub(super) fn responded(&mut self, pool: Option<&Pool>, status: StatusCode, replayable: bool) -> bool {
        let Some(attempt) = self.all.last_mut() else { return false };
        let (began, now) = (attempt.began, Instant::now());
        attempt.header = Some(now - began);
        attempt.status = Some(status);
        if let Some(on_its_way) = &self.in_flight {
            on_its_way.endpoint().succeeded(began);
            self.measure(pool, on_its_way.endpoint(), now);
        }
        let wanted = self.policy.filter(|policy| policy.names_status(status));
        let retry =
            wanted.is_some_and(|policy| policy.after_status(status, replayable, &self.progress(pool)));
        if retry {
            self.finish(status);
            if let Some(on_its_way) = self.in_flight.take() {
                self.failed.push(on_its_way.endpoint().clone());
            }
        }
        retry
    }

    fn progress(&self, pool: Option<&Pool>) -> Progress {
        Progress {
            tries: u32::try_from(self.all.len()).unwrap_or(u32::MAX),
            first: self.first.unwrap_or_else(Instant::now),
            endpoints: pool.map_or(0, Pool::len),
        }
    }

    /// Tells how long the endpoint of the present attempt took, up to the head of its response, where its pool is balanced
    /// by that. What it takes after the head may be the client's doing.
    fn measure(&self, pool: Option<&Pool>, endpoint: &Endpoint, now: Instant) {
        if let (Some(pool), Some(attempt)) = (pool, self.all.last()) {
            pool.measure(endpoint, attempt.began, now);
        }
    }

    fn finish(&mut self, status: StatusCode) {
        if let Some(attempt) = self.all.last_mut() {
            attempt.ended = Some(attempt.began.elapsed());
            attempt.status.get_or_insert(status);
        }
    }

    /// Ejects the endpoint, if it does not take connections. Only what no single request can provoke counts, because
    /// a client must not be able to empty a pool: not a slow or malformed answer, nor a connection that breaks once the
    /// endpoint may have seen anything of the request, nor a connect timeout that earlier attempts have cut short. TLS
    /// that fails does not count either: which protocol is spoken is a setting of one route, and the endpoint is
    /// everybody's.
    fn eject(&self, pool: Option<&Pool>, failure: &Failure, endpoint: &Endpoint) {
        let connection = match failure.kind {
            FailureKind::Connect => true,
            FailureKind::ConnectTimeout => !self.hurried,
            FailureKind::Broken => !failure.stale && !failure.sent,
            _ => false,
        };
        if let Some(pool) = pool.filter(|_| connection) {
            pool.failed(endpoint, Instant::now());
        }
    }
}

/// An endpoint that has not failed this call; when all have, any.
pub(super) fn pick(
    pool: &Pool,
    key: Option<PickKey<'_>>,
    failed: &[Arc<Endpoint>],
    now: Instant,
) -> Result<Arc<Endpoint>, PickError> {
    let request = PickRequest { key, tried: failed, now };
    match pool.pick(&request) {
        Err(PickError::Exhausted) => pool.pick(&PickRequest { tried: &[], ..request }),
        other => other,
    }
}
