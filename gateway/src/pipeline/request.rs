//! The first step: what becomes of a request, from nothing but its head.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use http::header::HeaderValue;
use http::{Method, StatusCode, Version};
use sluice_config::{HostKey, HostPattern};

use super::call::Call;
use super::exchange::{Exchange, Verdict};
use super::question::Reply;
use super::stages::StageInput;
use crate::connection_info::ConnectionInfo;
use crate::message::answer::Answer;
use crate::message::fields::Fields;
use crate::message::request_head::RequestHead;
use crate::policy::forwarded::{self, Client};
use crate::policy::hops;
use crate::route::{Route, Target};
use crate::router::{RequestView, host_of, normalise};
use crate::snapshot::{Held, Snapshot};
use crate::telemetry::{LogFormat, LoggedHead};

/// Answered with 200 for every host that no Ingress names, because load balancers send health
/// checks to addresses.
const HEALTH_PATH: &str = "/healthz";

/// The result of the route lookup.
enum Found {
    Route(Held<Route>),
    /// The host is known, but no rule matches the request.
    NoRule,
    /// No object names the host, and no catch-all rule matches the request.
    UnknownHost,
}

impl Exchange {
    /// Takes a request in: finds its rule and runs every check that needs nothing but the head.
    pub fn begin<F: Fields>(
        snapshot: Snapshot,
        connection: &Arc<ConnectionInfo>,
        head: &RequestHead<'_, F>,
    ) -> (Box<Self>, Verdict) {
        snapshot.state().telemetry.request_began();
        let settings = &snapshot.compiled_settings.settings;
        let client = snapshot.compiled_settings.forwarded.client(connection, head.headers);
        let request_id = forwarded::request_id(head.headers, settings);
        let mut exchange = Box::new(Self {
            snapshot,
            connection: connection.clone(),
            began: Instant::now(),
            head_was_read: true,
            method: head.method.clone(),
            version: head.version,
            head_length: head.length,
            client,
            ordinal: ordinal(connection),
            hops: hops::count(head.headers),
            authority: authority(head),
            request_id,
            line: None,
            route: None,
            target: None,
            undefined_host: None,
            outgoing: None,
            session: None,
            asked: None,
            authorised: None,
            fallback: None,
            extras: None,
            set_cookie: None,
            call: Call::default(),
            ended: false,
        });
        let verdict = exchange.decide(head);
        (exchange, verdict)
    }

    /// Goes on with the reply to what a stage has asked. `head` is the one that the exchange began with.
    pub fn resume<F: Fields>(&mut self, reply: Reply, head: &RequestHead<'_, F>) -> Verdict {
        let (Some(route), Ok(path)) = (self.route.clone(), normalise(path_of(head.target))) else {
            return self.refused(StatusCode::INTERNAL_SERVER_ERROR);
        };
        let snapshot = self.snapshot.clone();
        self.run_on(
            reply,
            &route,
            &StageInput { head, path: &path, compiled_settings: &snapshot.compiled_settings },
        )
    }

    /// Takes a request in that could not be read: malformed (400), too slow (408), too long a request line
    /// (414), too large a head (431, answered with 400 and nginx's words). `request_line` is what was read of the first line, for the log.
    pub fn refuse(
        snapshot: Snapshot,
        connection: &Arc<ConnectionInfo>,
        request_line: &[u8],
        length: usize,
        status: StatusCode,
    ) -> (Self, Answer) {
        snapshot.state().telemetry.request_began();
        let client = Client { address: connection.nearest(), believed: false };
        let mut exchange = Self {
            snapshot,
            connection: connection.clone(),
            began: Instant::now(),
            head_was_read: false,
            method: Method::GET,
            version: Version::HTTP_11,
            head_length: length,
            client,
            ordinal: ordinal(connection),
            hops: 0,
            authority: HeaderValue::from_static(""),
            request_id: None,
            line: None,
            route: None,
            target: None,
            undefined_host: None,
            outgoing: None,
            session: None,
            asked: None,
            authorised: None,
            fallback: None,
            extras: None,
            set_cookie: None,
            call: Call::default(),
            ended: false,
        };
        let format = exchange.log_format();
        exchange.line = format.map(|format| format.refused(request_line));
        let answer = match status {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
                exchange.with_response_headers(Answer::head_too_large(exchange.hsts()))
            }
            status => exchange.answer(status),
        };
        exchange.state().telemetry.request_refused(answer.status);
        (exchange, Answer { close: true, ..answer })
    }

    fn decide<F: Fields>(&mut self, head: &RequestHead<'_, F>) -> Verdict {
        let query = head.target.split_once('?').map(|(_, query)| query);
        let Ok(path) = normalise(path_of(head.target)) else {
            self.log(head, None);
            self.state().telemetry.request_refused(StatusCode::BAD_REQUEST);
            return self.refused(StatusCode::BAD_REQUEST);
        };
        let host = host_of(head.authority);
        let view = RequestView { path: &path, method: head.method.as_str(), headers: head.headers, query };
        match self.find(&host, &view) {
            Found::Route(route) => {
                if !route.policies.unlogged {
                    self.log(head, Some(&path));
                }
                self.route = Some(route.clone());
                let snapshot = self.snapshot.clone();
                let input = StageInput { head, path: &path, compiled_settings: &snapshot.compiled_settings };
                self.fill_headers(Some(&route), &input);
                self.run(&route, &input)
            }
            Found::NoRule => {
                self.log(head, Some(&path));
                self.fill_without_rule(head, &path);
                self.forward_without_rule(head)
            }
            Found::UnknownHost => {
                if let Some(meters) = self.state().telemetry.requests() {
                    self.undefined_host = meters.undefined_host(&host);
                }
                self.fill_without_rule(head, &path);
                if path == HEALTH_PATH {
                    let health = self.with_response_headers(Answer::empty(StatusCode::OK, self.hsts()));
                    let blocked = self.check_blocked(head, self.compiled_settings()).break_value();
                    return blocked.unwrap_or(Verdict::Answer(health));
                }
                if self.compiled_settings().log.default_backend {
                    self.log(head, Some(&path));
                }
                self.forward_without_rule(head)
            }
        }
    }

    fn find(&self, host: &str, view: &RequestView<'_, impl Fields>) -> Found {
        let group = &self.connection.group;
        let found = self.snapshot.hold(|published| {
            let table = &published.routes;
            let Some(hosts) = table.find_host(group, host) else { return Err(Found::UnknownHost) };
            // Rules for any host do not name the host of a request.
            let is_unknown = || {
                let listener = hosts.listener().clone();
                let any = HostKey { group: group.clone(), listener, pattern: HostPattern::Any };
                table.host(&any).is_some_and(|any| Arc::ptr_eq(any, hosts.host()))
            };
            match hosts.find(view) {
                Some(route) if view.path == HEALTH_PATH && !names_health(route) && is_unknown() => {
                    Err(Found::UnknownHost)
                }
                Some(route) => Ok(&**route),
                None if is_unknown() => Err(Found::UnknownHost),
                None => Err(Found::NoRule),
            }
        });
        found.map_or_else(|nothing| nothing, Found::Route)
    }

    fn fill_without_rule<F: Fields>(&mut self, head: &RequestHead<'_, F>, path: &str) {
        let snapshot = self.snapshot.clone();
        self.fill_headers(None, &StageInput { head, path, compiled_settings: &snapshot.compiled_settings });
    }

    fn forward_without_rule<F: Fields>(&mut self, head: &RequestHead<'_, F>) -> Verdict {
        let blocked = self.check_blocked(head, self.compiled_settings()).break_value();
        blocked.unwrap_or_else(|| self.forward_to_default())
    }

    /// To the program's default backend; without one the answer is 404.
    pub(super) fn forward_to_default(&mut self) -> Verdict {
        match self.default_backend() {
            Some(target) => {
                self.target = Some(target);
                self.check_loop().break_value().unwrap_or(Verdict::Forward)
            }
            None => self.refused(StatusCode::NOT_FOUND),
        }
    }

    pub(super) fn default_backend(&self) -> Option<Held<Target>> {
        self.snapshot.hold(|published| published.compiled_settings.default_backend.as_ref().ok_or(())).ok()
    }

    pub(super) fn refused(&self, status: StatusCode) -> Verdict {
        Verdict::Answer(self.answer(status))
    }

    /// What the line of this request says; `None` where there is no log.
    pub(super) fn log_format(&self) -> Option<&LogFormat> {
        let format = self.snapshot.compiled_settings.log.format.as_ref();
        format.filter(|_| self.state().telemetry.access_log.is_on())
    }

    /// Begins the line of this request, unless it gets none.
    fn log<F: Fields>(&mut self, head: &RequestHead<'_, F>, path: Option<&str>) {
        if self.compiled_settings().log.skips(head.target) {
            return;
        }
        let access_scheme = forwarded::access_scheme(&self.connection, head.headers, self.client);
        let logged = LoggedHead { head, path, access_scheme };
        self.line = self.log_format().map(|format| format.request(&logged));
    }
}

/// Whether the path of a rule names the health path, so that the rule takes it over from the
/// gateway.
fn names_health(route: &Route) -> bool {
    route.origin.path.to_ascii_lowercase().contains(&HEALTH_PATH[1..])
}

/// The number of a request on its connection.
fn ordinal(connection: &ConnectionInfo) -> u32 {
    connection.requests.fetch_add(1, Relaxed).wrapping_add(1)
}

/// The authority as a field value.
fn authority<F>(head: &RequestHead<'_, F>) -> HeaderValue {
    // Drivers hand over text from a head that they have checked.
    HeaderValue::from_str(head.authority).unwrap_or(HeaderValue::from_static(""))
}

/// The target without its query.
fn path_of(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}
