//! A call: one conversation with a pool, made of attempts.
//!
//! It holds how each attempt begins, whether another follows a failed one, and the consequences for
//! the health of endpoints. An [`Exchange`](super::Exchange) owns one for its client's request, an
//! [`OwnCall`](super::OwnCall) one for a request of the gateway's own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use sluice_config::{GlobalSettings, Retry, Timeouts, UpstreamProtocol};
use smallvec::SmallVec;

use crate::io::failure::{Failure, FailureKind};
use crate::otel::SpanId;
use crate::policy::RetryPolicy;
use crate::policy::retry::RetryProgress;
use crate::policy::timeouts::resolve;
use crate::registry::{Endpoint, EndpointAdmission, InFlight, PickError, PickKey, PickRequest, Pool};
use crate::route::Route;
use crate::upstream::attempt::{KeepAlive, Upstream};
use crate::upstream::tls::EndpointTlsConfig;

/// One conversation with a pool.
#[derive(Debug, Default)]
pub struct Call {
    /// The retry rule of the last attempt.
    policy: Option<RetryPolicy>,
    /// In order; the last is the current one.
    pub(super) attempts: SmallVec<[Attempt; 2]>,
    /// Endpoints that failed, or whose response was dropped.
    pub(super) failed: SmallVec<[Arc<Endpoint>; 2]>,
    /// The current attempt's place at its endpoint.
    pub(super) in_flight: Option<InFlight>,
    /// The next attempt goes to this endpoint over a new connection: the pooled one was stale.
    same_endpoint: Option<Arc<Endpoint>>,
    /// When the first attempt began.
    first: Option<Instant>,
    /// The current attempt has less than the connect timeout, because the retry window is about to
    /// close.
    hurried: bool,
}

/// One attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) address: SocketAddr,
    /// It replaces an attempt over a stale connection.
    is_repeated: bool,
    pub(super) began: Instant,
    pub(super) connected: Option<Duration>,
    pub(super) header: Option<Duration>,
    pub(super) ended: Option<Duration>,
    pub(super) status: Option<StatusCode>,
    /// How it failed, or was ended.
    pub(super) failure: Option<FailureKind>,
    /// Its span, if spans are sent.
    pub(super) span: Option<SpanId>,
}

/// The rules for one attempt.
pub(super) struct Rules<'r> {
    pub(super) now: Instant,
    pub(super) policy: RetryPolicy,
    pub(super) timeouts: &'r Timeouts,
    pub(super) settings: &'r GlobalSettings,
    pub(super) keep_alive: KeepAlive,
    /// The server name sent in TLS; `None` sends none.
    pub(super) server_name: Option<&'r Arc<str>>,
    /// The protocol of the endpoint.
    pub(super) protocol: UpstreamProtocol,
    /// TLS settings of the rule.
    pub(super) tls: Option<Arc<EndpointTlsConfig>>,
}

static DEFAULT_RETRY: Retry = Retry { on: None, tries: None, timeout: sluice_config::Timeout::Inherit };
static DEFAULT_TIMEOUTS: Timeouts = Timeouts {
    connect: sluice_config::Timeout::Inherit,
    read: sluice_config::Timeout::Inherit,
    send: sluice_config::Timeout::Inherit,
};

impl<'r> Rules<'r> {
    /// The rules of a route for an attempt that begins now, without TLS to the endpoint; without a
    /// route, the global ones.
    pub(super) fn of(
        now: Instant,
        route: Option<&'r Route>,
        settings: &'r GlobalSettings,
        method: &Method,
        protocol: UpstreamProtocol,
    ) -> Self {
        let (retry, timeouts) = match route {
            Some(route) => (&route.policies.retry, &route.policies.timeouts),
            None => (&DEFAULT_RETRY, &DEFAULT_TIMEOUTS),
        };
        let (policy, keep_alive) = (RetryPolicy::new(retry, settings, method), KeepAlive::of(settings));
        Self { now, policy, timeouts, settings, keep_alive, server_name: None, protocol, tls: None }
    }
}

impl KeepAlive {
    /// The values of `upstream-keepalive-*`.
    pub(super) fn of(settings: &GlobalSettings) -> Self {
        Self {
            idle: settings.upstream_keepalive_timeout,
            age: settings.upstream_keepalive_time,
            requests: settings.upstream_keepalive_requests,
        }
    }
}

impl Call {
    /// The endpoint whose pooled connection was stale, which gets the next attempt too.
    pub(super) fn take_same_endpoint(&mut self) -> Option<Arc<Endpoint>> {
        self.same_endpoint.take()
    }

    /// Begins an attempt at this endpoint. `again`: it replaces the last one, which used a stale
    /// connection and does not count.
    pub(super) fn begin(&mut self, endpoint: &Arc<Endpoint>, again: bool, rules: &Rules<'_>) -> Upstream {
        let Rules { now, policy, timeouts, settings, keep_alive, server_name, protocol, tls } = rules;
        let now = *now;
        let first = *self.first.get_or_insert(now);
        let connect = resolve(timeouts.connect, settings.proxy_connect_timeout);
        // The first attempt always has the whole timeout, even if the window is shorter: otherwise
        // no attempt could detect a dead machine. The time left must not be zero.
        let is_first = self.attempts.len() == usize::from(again);
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
            // A request that cannot be sent twice should not use a connection that may be closed.
            repeatable: policy.may_repeat() && policy.after_stale(),
            connect_timeout,
            read_timeout: resolve(timeouts.read, settings.proxy_read_timeout),
            send_timeout: resolve(timeouts.send, settings.proxy_send_timeout),
            keep_alive: *keep_alive,
            in_flight: endpoint.in_flight(),
            began: now,
        };
        if again {
            self.attempts.pop();
        }
        self.policy = Some(*policy);
        self.attempts.push(Attempt {
            address: endpoint.address(),
            is_repeated: again,
            began: now,
            connected: None,
            header: None,
            ended: None,
            status: None,
            failure: None,
            span: None,
        });
        self.in_flight = Some(endpoint.enter());
        upstream
    }

    /// The current attempt's place at its endpoint, which admits new connections.
    pub(crate) fn in_flight(&mut self) -> Option<&mut InFlight> {
        self.in_flight.as_mut()
    }

    /// Requests the endpoint's permission for a connection of the current attempt.
    pub(crate) fn admit_connection(&mut self) -> EndpointAdmission {
        self.in_flight().map_or(EndpointAdmission::Given, InFlight::admit)
    }

    /// Records how the current attempt failed.
    pub(super) fn note_failure(&mut self, kind: FailureKind) {
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.failure = Some(kind);
        }
    }

    /// Whether the current attempt has a connection.
    pub(super) fn is_connected(&self) -> bool {
        self.attempts.last().is_some_and(|attempt| attempt.connected.is_some())
    }

    /// The current attempt has a connection; `reused`: from the pool.
    pub fn connected(&mut self, address: SocketAddr, reused: bool) {
        if let Some(attempt) = self.attempts.last_mut() {
            debug_assert_eq!(attempt.address, address, "connected to another endpoint than was picked");
            attempt.connected = Some(if reused { Default::default() } else { attempt.began.elapsed() });
        }
    }

    /// The current attempt failed; `status` is logged for it. Returns whether another follows.
    pub(super) fn failed(&mut self, pool: Option<&Pool>, failure: &Failure, status: StatusCode) -> bool {
        let endpoint = self.in_flight.take().map(|in_flight| in_flight.endpoint().clone());
        let was_retry = self.attempts.last().is_some_and(|attempt| attempt.is_repeated);
        let harmless = !failure.sent || self.policy.is_some_and(|policy| policy.may_repeat());
        let wanted = self.policy.is_some_and(|policy| policy.after_stale());
        if failure.stale
            && wanted
            && harmless
            && failure.replayable
            && !failure.response_started
            && !was_retry
        {
            self.same_endpoint = endpoint;
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

    /// The endpoint sent a final response head. Returns whether it is dropped for another attempt,
    /// because its status is listed in `proxy-next-upstream`.
    pub(super) fn responded(&mut self, pool: Option<&Pool>, status: StatusCode, replayable: bool) -> bool {
        let Some(attempt) = self.attempts.last_mut() else { return false };
        let (began, now) = (attempt.began, Instant::now());
        attempt.header = Some(now - began);
        attempt.status = Some(status);
        if let Some(in_flight) = &self.in_flight {
            in_flight.endpoint().succeeded(began);
            self.measure(pool, in_flight.endpoint(), now);
        }
        let wanted = self.policy.filter(|policy| policy.names_status(status));
        let retry =
            wanted.is_some_and(|policy| policy.after_status(status, replayable, &self.progress(pool)));
        if retry {
            self.finish(status);
            if let Some(in_flight) = self.in_flight.take() {
                self.failed.push(in_flight.endpoint().clone());
            }
        }
        retry
    }

    /// The endpoint has sent its whole response, of which the client has not received all. Another
    /// request may take the place at the endpoint.
    pub(crate) fn completed(&mut self, at: Instant) {
        self.in_flight = None;
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.ended = Some(at.saturating_duration_since(attempt.began));
        }
    }

    /// Whether the current attempt failed because of the endpoint after its response had begun.
    pub(crate) fn was_broken_off(&self) -> bool {
        let failure = self.attempts.last().and_then(|attempt| attempt.failure);
        matches!(failure, Some(FailureKind::Broken | FailureKind::ReadTimeout | FailureKind::InvalidHead))
    }

    fn progress(&self, pool: Option<&Pool>) -> RetryProgress {
        RetryProgress {
            tries: u32::try_from(self.attempts.len()).unwrap_or(u32::MAX),
            first: self.first.unwrap_or_else(Instant::now),
            endpoints: pool.map_or(0, Pool::len),
        }
    }

    /// Records how long the endpoint took up to the response head, for pools that are balanced by
    /// latency. The time after the head may be due to the client.
    fn measure(&self, pool: Option<&Pool>, endpoint: &Endpoint, now: Instant) {
        if let (Some(pool), Some(attempt)) = (pool, self.attempts.last()) {
            pool.measure(endpoint, attempt.began, now);
        }
    }

    fn finish(&mut self, status: StatusCode) {
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.ended = Some(attempt.began.elapsed());
            attempt.status.get_or_insert(status);
        }
    }

    /// Ejects the endpoint if it does not accept connections. Failures that a request can provoke
    /// do not count, because a client must not be able to empty a pool: slow or malformed
    /// responses, connections that break once the endpoint may have seen part of the request,
    /// connect timeouts shortened by earlier attempts. Failed TLS handshakes do not count either:
    /// TLS is a setting of one route, and other routes share the endpoint.
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

/// An endpoint that has not failed in this call, or any if all have.
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
