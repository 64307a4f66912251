//! The steps between a request that is to be forwarded and a response that is to be relayed: endpoints, attempts,
//! failures.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http::{StatusCode, Version};
use sluice_config::{GlobalSettings, UpstreamProtocol};

use super::admission::is_exempt;
use super::attempts::{DEFAULT_RETRY, DEFAULT_TIMEOUTS, Rules, pick};
use super::exchange::Exchange;
use super::header_sets::backend_headers;
use super::outcome::Next;
use super::session::{self, Choice};
use crate::failure::{Failure, FailureKind};
use crate::message::answer::Answer;
use crate::message::edit::{Edit, EditableName, RequestMut};
use crate::message::fields::{Fields, FieldsMut};
use crate::message::hop_by_hop;
use crate::policy::BackendHeaders;
use crate::policy::Forwarding;
use crate::policy::RetryPolicy;
use crate::policy::hops;
use crate::registry::{Admission, Endpoint, PickError, PickKey, Pool};
use crate::route::{Route, Target};
use crate::upstream::attempt::{KeepAlive, Upstream};

static AUTHORIZATION: EditableName = EditableName::from_static("authorization");

impl Exchange {
    /// The endpoint for the next attempt, or the answer when there is none (503).
    pub fn pick(&mut self) -> Result<Upstream, Answer> {
        let target = self.target.clone();
        let Some(pool) = target.as_deref().and_then(Target::pool) else {
            return Err(self.answer(StatusCode::SERVICE_UNAVAILABLE));
        };
        let tls = match target.as_deref().and_then(|target| target.tls.as_ref()) {
            None => None,
            // While its Secret cannot be used nobody can be trusted.
            Some(tls) => match tls.session() {
                Some(session) => Some(session),
                None => return Err(self.answer(StatusCode::SERVICE_UNAVAILABLE)),
            },
        };
        let protocol = self.spoken_to(pool);
        let retry_same_endpoint = self.attempts.retry_same_endpoint.take();
        let again = retry_same_endpoint.is_some();
        let now = Instant::now();
        let endpoint = match retry_same_endpoint {
            Some(endpoint) => endpoint,
            None => match self.choose(pool, now) {
                Ok(endpoint) => endpoint,
                Err(_) => return Err(self.answer(StatusCode::SERVICE_UNAVAILABLE)),
            },
        };
        if !again && !self.attempts.all.is_empty() {
            self.state().telemetry.retried();
        }
        let settings = &*self.snapshot.compiled_settings.settings;
        let route = self.route.as_deref();
        let retry = route.map_or(&DEFAULT_RETRY, |route| &route.policies.retry);
        let rules = Rules {
            now,
            policy: RetryPolicy::new(retry, settings, &self.method),
            timeouts: route.map_or(&DEFAULT_TIMEOUTS, |route| &route.policies.timeouts),
            settings,
            keep_alive: self.keep_alive(route, settings),
            server_name: None,
            protocol,
            tls: tls.filter(|_| protocol.has_tls()),
        };
        Ok(self.attempts.begin(&endpoint, again, &rules))
    }

    fn keep_alive(&self, route: Option<&Route>, settings: &GlobalSettings) -> KeepAlive {
        let closes = route.and_then(backend_headers).is_some_and(BackendHeaders::closes);
        let closes = closes && self.fallback.is_none() || self.speaks_http_1_0();
        let usual = KeepAlive::of(settings);
        if closes { KeepAlive { requests: 1, ..usual } } else { usual }
    }

    /// Asks the endpoint of this attempt for room for a connection.
    pub fn ask_for_room(&mut self) -> Admission {
        self.attempts.in_flight.as_mut().map_or(Admission::Given, |on_its_way| on_its_way.ask())
    }

    /// This attempt has got a connection without room for a new one.
    pub fn needs_no_room(&mut self) {
        if let Some(on_its_way) = &mut self.attempts.in_flight {
            on_its_way.go();
        }
    }

    /// Changes the request head for the endpoint: hop-by-hop fields out (RFC 9110 §7.6.1, an upgrade kept),
    /// forwarding fields and the count of gateways in, then the rule's changes. `head` is as the client sent it for
    /// every attempt: what an earlier one was given is no part of it.
    pub fn upstream_request(&self, head: &mut impl RequestMut) {
        let fields = head.fields();
        // HTTP/1.0 has no other protocol to go on with (RFC 9110 §7.8).
        hop_by_hop::request(fields, if self.speaks_http_1_0() { Version::HTTP_10 } else { self.version });
        self.set_forwarding_headers(fields);
        for (name, value) in self.fallback.iter().flatten() {
            fields.set(name, value);
        }
        let mut edit = Edit::new(head);
        if let Some(outgoing) = self.outgoing.as_ref().filter(|_| self.fallback.is_none()) {
            outgoing.apply(&mut edit);
        }
        self.set_request_headers(&mut edit);
        let asks = |route: &Route| {
            let has_users = route.basic_auth().is_some() || route.digest_auth().is_some();
            has_users && !is_exempt(route, self.compiled_settings())
        };
        if self.route.as_ref().is_some_and(|route| asks(route)) {
            // The password is ours, as in ingress-nginx; what an authorisation or a rule sets stays.
            edit.remove(&AUTHORIZATION);
        }
        for (name, value) in self.authorised_fields() {
            match value {
                Some(value) => edit.set(name, value),
                None => edit.remove(name),
            }
        }
        for edits in self.edits() {
            edits.request(&mut edit);
        }
        self.set_backend_headers(head);
    }

    /// Forwarding fields and the count of gateways: what every endpoint is told, also in questions of our own.
    pub(super) fn set_forwarding_headers(&self, fields: &mut impl FieldsMut) {
        let forwarding = Forwarding {
            connection: &self.connection,
            client: self.client,
            authority: &self.authority,
            request_id: self.request_id.as_ref(),
            rules: &self.compiled_settings().forwarded,
        };
        forwarding.apply(fields);
        hops::apply(fields, self.hops);
    }

    /// The connection of this attempt stands. `reused` when it came from the pool.
    pub fn connected(&mut self, address: SocketAddr, reused: bool) {
        self.attempts.connected(address, reused);
    }

    /// The attempt failed.
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
            FailureKind::Shortage | FailureKind::Memory => StatusCode::SERVICE_UNAVAILABLE,
            FailureKind::ClientTimeout => StatusCode::REQUEST_TIMEOUT,
            FailureKind::ClientMalformed => StatusCode::BAD_REQUEST,
            FailureKind::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            FailureKind::Storage => StatusCode::INSUFFICIENT_STORAGE,
            FailureKind::Client => {
                self.attempts.in_flight = None;
                return Next::Abort;
            }
        };
        if failure.kind.is_of_the_request() {
            self.attempts.in_flight = None;
            if failure.kind == FailureKind::ClientMalformed {
                self.state().telemetry.request_refused(status);
            }
            return match self.give_up(&failure, status) {
                // Who let us wait would do so again, and behind what cannot be read no request can be found.
                Next::Answer(answer) => Next::Answer(Answer { close: true, ..answer }),
                next => next,
            };
        }
        if failure.kind == FailureKind::Handshake
            && let Some(tls) = self.target.as_deref().and_then(|target| target.tls.as_ref())
        {
            tls.tell(
                &"an endpoint's certificate is not trusted, or the two have no version or cipher in common",
            );
        }
        let pool = self.target.as_deref().and_then(Target::pool);
        match self.attempts.failed(pool.map(|pool| &**pool), &failure, status) {
            true => Next::Retry,
            false => self.give_up(&failure, status),
        }
    }

    /// The endpoint sent a response head (not an interim one). It is relayed, or there is another attempt because its
    /// status is one of `proxy-next-upstream`, or an error page takes its place. `replayable` as in
    /// [`Failure::replayable`].
    pub fn upstream_response(
        &mut self,
        status: StatusCode,
        fields: &impl Fields,
        replayable: bool,
    ) -> Option<Next> {
        let pool = self.target.as_deref().and_then(Target::pool);
        if self.attempts.responded(pool.map(|pool| &**pool), status, replayable) {
            return Some(Next::Retry);
        }
        self.intercept(status, fields).map(Next::Answer)
    }

    /// What the endpoints of this request speak, once it is to be forwarded.
    pub fn protocol(&self) -> Option<UpstreamProtocol> {
        self.pool().map(|pool| self.spoken_to(pool))
    }

    /// Whether the endpoint gets HTTP/1.0 (`proxy-http-version`), which knows neither chunks nor another request on the
    /// connection. To be asked once it is known where the request goes.
    pub(crate) fn speaks_http_1_0(&self) -> bool {
        // What stands in for the rule's backend is not its backend.
        let own = self.route.as_deref().filter(|_| self.fallback.is_none());
        let wanted = own.and_then(|route| route.policies.http_1_0).unwrap_or(self.settings().http_1_0);
        wanted && self.pool().is_some_and(|pool| !pool.protocol().is_http2())
    }

    /// With `AUTO_HTTP` the endpoint is spoken to as the client speaks to us.
    fn spoken_to(&self, pool: &Pool) -> UpstreamProtocol {
        let follows = || self.route.as_ref().is_some_and(|route| route.policies.follows_scheme);
        match pool.protocol() {
            UpstreamProtocol::HttpsUnverified if !self.connection.is_https() && follows() => {
                UpstreamProtocol::Http
            }
            protocol => protocol,
        }
    }

    pub(super) fn pool(&self) -> Option<&Arc<Pool>> {
        self.target.as_deref().and_then(Target::pool)
    }

    fn choose(&mut self, pool: &Pool, now: Instant) -> Result<Arc<Endpoint>, PickError> {
        let bound = self.route.as_ref().filter(|_| self.fallback.is_none());
        let affinity = bound.and_then(|route| route.affinity());
        let sticky = self.target.as_ref().and_then(|target| target.sticky.as_deref());
        let (Some(affinity), Some(sticky)) = (affinity, sticky) else {
            let noted = self.extras.as_ref().and_then(|extras| extras.hash_key.as_ref());
            let key = noted.filter(|_| bound.is_some());
            let key = key.map(|key| PickKey { bytes: &key.bytes, subset: key.subset });
            return pick(pool, key, &self.attempts.failed, now);
        };
        let Choice { endpoint, new_key } =
            session::choose(affinity, pool, sticky, self.session.as_ref(), &self.attempts.failed, now)?;
        if let Some(key) = new_key {
            let https = self.connection.is_https();
            let misreads_none = self.extras.as_ref().is_some_and(|extras| extras.misreads_none);
            self.set_cookie =
                affinity.set_cookie(&key, &sticky.digits, https, misreads_none, SystemTime::now());
        }
        Ok(endpoint)
    }

    fn give_up(&self, failure: &Failure, status: StatusCode) -> Next {
        match failure.response_started {
            true => Next::Abort,
            false => Next::Answer(self.answer(status)),
        }
    }
}
