//! A client's request on its way to an endpoint: endpoints, attempts, failures.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::{StatusCode, Version};
use sluice_config::{GlobalSettings, UpstreamProtocol};

use super::auth_service::is_exempt;
use super::call::{Call, Rules, pick};
use super::exchange::Exchange;
use super::header_sets::backend_headers;
use super::originator::Originator;
use super::outcome::{ExchangeOutcome, Next};
use super::session::{self, AffinityChoice};
use crate::io::failure::{Failure, FailureKind};
use crate::message::answer::Answer;
use crate::message::edit::{Edit, EditableName, HeadMut, RequestMut, ResponseMut};
use crate::message::fastcgi::Params;
use crate::message::fields::{Fields, FieldsMut};
use crate::message::head::Head;
use crate::message::hop_by_hop;
use crate::policy::BackendHeaders;
use crate::policy::Forwarding;
use crate::policy::{early_data, forwarded, hops};
use crate::registry::{Endpoint, PickError, PickKey, Pool};
use crate::route::{Route, RouteBackend};
use crate::upstream::attempt::{KeepAlive, Upstream};

static AUTHORIZATION: EditableName = EditableName::from_static("authorization");

impl Originator for Exchange {
    type Answer = Answer;

    fn call(&mut self) -> &mut Call {
        &mut self.call
    }

    fn settings(&self) -> &GlobalSettings {
        self.settings()
    }

    fn protocol(&self) -> Option<UpstreamProtocol> {
        self.pool().map(|pool| self.protocol_of(pool))
    }

    fn speaks_http_1_0(&self) -> bool {
        let own = self.route.as_deref().and_then(|route| route.policies.http_1_0);
        let wanted = own.unwrap_or(self.settings().http_1_0);
        wanted && !self.speaks_fastcgi() && self.pool().is_some_and(|pool| !pool.protocol().is_http2())
    }

    fn may_wait(&self) -> bool {
        true
    }

    fn body_timeout(&self) -> Option<Duration> {
        Some(self.settings().client_body_timeout)
    }

    /// An answer of 503 if there is no endpoint.
    fn pick(&mut self) -> Result<Upstream, Answer> {
        let backend = self.backend.clone();
        let Some(pool) = backend.as_deref().and_then(RouteBackend::pool) else {
            return Err(self.answer(StatusCode::SERVICE_UNAVAILABLE));
        };
        let tls = match backend.as_deref().and_then(|backend| backend.tls.as_ref()) {
            None => None,
            // While its Secret cannot be used, no endpoint can be trusted.
            Some(tls) => match tls.config() {
                Some(config) => Some(config),
                None => return Err(self.answer(StatusCode::SERVICE_UNAVAILABLE)),
            },
        };
        let per_request = backend.as_deref().and_then(|backend| backend.tls.as_ref()?.name_per_request());
        let name = per_request.and_then(|_| self.extras.as_ref()?.endpoint_name.clone());
        if per_request.is_some() && name.is_none() && self.protocol_of(pool).has_tls() {
            return Err(self.answer(StatusCode::BAD_GATEWAY));
        }
        let now = Instant::now();
        let same = self.call.take_same_endpoint();
        let again = same.is_some();
        let endpoint = match same {
            Some(endpoint) => endpoint,
            None => match self.choose(pool, now) {
                Ok(endpoint) => endpoint,
                Err(_) => return Err(self.answer(StatusCode::SERVICE_UNAVAILABLE)),
            },
        };
        if !again && !self.call.attempts.is_empty() {
            self.state().telemetry.retried();
        }
        let settings = &*self.snapshot.compiled_settings.settings;
        let (route, protocol) = (self.route.as_deref(), self.protocol_of(pool));
        let rules = Rules {
            keep_alive: self.keep_alive(route, settings),
            tls: tls.filter(|_| protocol.has_tls()),
            server_name: name.as_ref().filter(|_| protocol.has_tls()),
            ..Rules::of(now, route, settings, &self.method, protocol)
        };
        let upstream = self.call.begin(&endpoint, again, &rules);
        self.begin_attempt_span();
        Ok(upstream)
    }

    /// Removes hop-by-hop fields (RFC 9110 §7.6.1; an upgrade stays), adds forwarding fields and
    /// the count of gateways, then applies the rule's changes.
    fn upstream_request(&self, head: &mut impl RequestMut) {
        let fields = head.fields();
        // HTTP/1.0 has no upgrade (RFC 9110 §7.8).
        hop_by_hop::request(fields, if self.speaks_http_1_0() { Version::HTTP_10 } else { self.version });
        let mut edit = Edit::new(head);
        self.change_client_fields(&mut edit);
        let fields = head.fields();
        self.set_forwarding_headers(fields);
        self.set_context_of_attempt(fields);
        for (name, value) in self.fallback.iter().flatten() {
            fields.set(name, value);
        }
        let mut edit = Edit::new(head);
        if let Some(outgoing) = &self.outgoing {
            outgoing.apply(&mut edit);
        }
        self.set_request_headers(&mut edit);
        let asks = |route: &Route| {
            let has_users = route.basic_auth().is_some() || route.digest_auth().is_some();
            has_users && !is_exempt(route, self.compiled_settings())
        };
        if self.route.as_ref().is_some_and(|route| asks(route)) {
            // The password is for the gateway, as in ingress-nginx. A value set by an authorisation
            // service or a rule stays.
            edit.remove(&AUTHORIZATION);
        }
        for (name, value) in self.authorised_fields() {
            match value {
                Some(value) => edit.set(name, value),
                // The gateway's own value stays, as in nginx.
                None if forwarded::is_set_by_gateway(name.get()) => {}
                None => edit.remove(name),
            }
        }
        self.change_request_fields(&mut edit);
        self.set_backend_headers(head);
        self.note_sent(head);
    }

    fn fastcgi_params(&self, head: &Head) -> Params {
        self.params_of(head)
    }

    fn interim(&self, head: &mut impl HeadMut) {
        self.change_interim(head);
    }

    fn failed(&mut self, failure: Failure) -> Next {
        self.call.note_failure(failure.kind);
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
                self.call.in_flight = None;
                return Next::Abort;
            }
            FailureKind::ResponseRefused => {
                self.call.in_flight = None;
                // The engine replaces it with the answer of the rule.
                return Next::Answer(self.answer(StatusCode::SERVICE_UNAVAILABLE));
            }
        };
        if failure.kind.is_of_the_request() {
            self.call.in_flight = None;
            if failure.kind == FailureKind::ClientMalformed {
                self.state().telemetry.request_refused(status);
            }
            return match self.give_up(&failure, status) {
                // A client that was too slow would be again, and no request can be located behind a
                // malformed body.
                Next::Answer(answer) => Next::Answer(Answer { close: true, ..answer }),
                next => next,
            };
        }
        if failure.kind == FailureKind::Handshake
            && let Some(tls) = self.backend.as_deref().and_then(|backend| backend.tls.as_ref())
        {
            tls.log_failed_handshake();
        }
        let pool = self.backend.as_deref().and_then(RouteBackend::pool);
        match self.call.failed(pool.map(|pool| &**pool), &failure, status) {
            true => Next::Retry,
            false => self.give_up(&failure, status),
        }
    }

    /// The response is relayed, or another attempt follows because its status is listed in
    /// `proxy-next-upstream`, or an error page replaces it.
    fn upstream_response(
        &mut self,
        status: StatusCode,
        fields: &impl Fields,
        replayable: bool,
    ) -> Option<Next> {
        let pool = self.backend.as_deref().and_then(RouteBackend::pool);
        if self.call.responded(pool.map(|pool| &**pool), status, replayable) {
            return Some(Next::Retry);
        }
        self.intercept(status, fields).map(Next::Answer)
    }

    fn response(&mut self, head: &mut impl ResponseMut) {
        self.change_response(head);
    }

    fn cut_off(&mut self, outcome: ExchangeOutcome) {
        self.end(outcome);
    }
}

impl Exchange {
    fn keep_alive(&self, route: Option<&Route>, settings: &GlobalSettings) -> KeepAlive {
        let closes = route.and_then(backend_headers).is_some_and(BackendHeaders::closes);
        let closes = closes || self.speaks_http_1_0() || self.closes_fastcgi();
        let usual = KeepAlive::of(settings);
        if closes { KeepAlive { requests: 1, ..usual } } else { usual }
    }

    /// Adds forwarding fields and the count of gateways, which every endpoint gets, also in the
    /// gateway's own calls.
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
        early_data::apply(fields, &self.connection);
        self.set_client_certificate(fields);
    }

    /// The protocol of the pool; with `AUTO_HTTP`, TLS only if the client uses TLS.
    pub(super) fn protocol_of(&self, pool: &Pool) -> UpstreamProtocol {
        let follows = || self.route.as_ref().is_some_and(|route| route.policies.follows_scheme);
        match pool.protocol() {
            UpstreamProtocol::HttpsUnverified if !self.connection.is_https() && follows() => {
                UpstreamProtocol::Http
            }
            protocol => protocol,
        }
    }

    pub(super) fn pool(&self) -> Option<&Arc<Pool>> {
        self.backend.as_deref().and_then(RouteBackend::pool)
    }

    fn choose(&mut self, pool: &Pool, now: Instant) -> Result<Arc<Endpoint>, PickError> {
        // Sessions are with endpoints of the rule's own Service.
        let bound = self.route.as_ref().filter(|_| self.fallback.is_none());
        let affinity = bound.and_then(|route| route.affinity());
        let sticky = self.backend.as_ref().and_then(|backend| backend.sticky.as_deref());
        let (Some(affinity), Some(sticky)) = (affinity, sticky) else {
            let key = self.extras.as_ref().and_then(|extras| extras.hash_key.as_ref());
            let key = key.map(|key| PickKey { bytes: &key.bytes, subset: key.subset });
            return pick(pool, key, &self.call.failed, now);
        };
        let AffinityChoice { endpoint, new_key } =
            session::choose(affinity, pool, sticky, self.session.as_ref(), &self.call.failed, now)?;
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
