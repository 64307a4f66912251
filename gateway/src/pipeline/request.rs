//! The first step: the verdict on a request from its head.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use http::StatusCode;
use http::header::HeaderValue;
use sluice_config::{HostKey, HostPattern};

use super::exchange::{Exchange, Verdict};
use super::own_path::OwnPath;
use super::question::Reply;
use super::stages::{AFTER_CLIENT_CERTIFICATE, StageInput};
use crate::connection::info::ConnectionInfo;
use crate::expression::{is_limit_reached, within_steps};
use crate::message::answer::Answer;
use crate::message::fields::Fields;
use crate::message::head::PLAIN_HTTP;
use crate::message::request_head::RequestHead;
use crate::message::target;
use crate::policy::forwarded::{self, Client};
use crate::policy::{early_data, hops};
use crate::route::{Route, RouteBackend};
use crate::router::{RequestView, host_of, normal_bytes, normalise};
use crate::state::compiled_settings::UnmatchedRule;
use crate::state::snapshot::{PublishedSnapshot, SnapshotPart};
use crate::state::step_limits::StepLimitReport;
use crate::telemetry::LogFormat;

/// The result of the route lookup.
enum Found {
    Route(SnapshotPart<Route>),
    /// The host is known, but no rule matches the request.
    NoRule,
    /// No object names the host, and no catch-all rule of an object matches the request. With the
    /// rule that the catch-all has for such requests, if there is one.
    UnknownHost(Option<SnapshotPart<Route>>),
}

impl Exchange {
    /// Begins an exchange: finds the rule and runs its stages.
    pub fn begin(
        snapshot: PublishedSnapshot,
        connection: &Arc<ConnectionInfo>,
        head: &RequestHead<'_>,
    ) -> (Box<Self>, Verdict) {
        let settings = &snapshot.compiled_settings.settings;
        let client = snapshot.compiled_settings.forwarded.client(connection, head.headers);
        let request_id = forwarded::request_id(head.headers, settings);
        let mut exchange = Box::new(Self::new(snapshot, connection, client));
        exchange.head_was_read = true;
        exchange.method = head.method.clone();
        exchange.version = head.version;
        exchange.head_length = head.length;
        exchange.hops = hops::count(head.headers);
        exchange.authority = authority(head);
        exchange.request_id = request_id;
        exchange.observe(Some(head));
        let verdict = exchange.within_step_limit(head, |exchange| exchange.decide(head, 0));
        (exchange, verdict)
    }

    /// Begins anew with `head`, the request for the error page that replaces the refusal of the
    /// client's certificate. Everything is chosen and checked for that request, apart from the
    /// certificate.
    pub(crate) fn begin_certificate_page(&mut self, head: &RequestHead<'_>) -> Verdict {
        self.method = head.method.clone();
        self.leave_route();
        (self.line, self.trace) = (None, None);
        self.note_page(head.target);
        self.within_step_limit(head, |exchange| exchange.decide(head, AFTER_CLIENT_CERTIFICATE))
    }

    /// Continues with the reply to the question of a stage. `head` is the one that the exchange
    /// began with, or that for the error page.
    pub fn resume(&mut self, reply: Reply, head: &RequestHead<'_>) -> Verdict {
        let (Some(route), Ok(path)) = (self.route.clone(), normalise(head.path())) else {
            return self.refused(StatusCode::INTERNAL_SERVER_ERROR);
        };
        let snapshot = self.snapshot.clone();
        let input = StageInput { head, path: &path, compiled_settings: &snapshot.compiled_settings };
        self.within_step_limit(head, |exchange| exchange.run_on(reply, &route, &input))
    }

    /// Decides with the steps that the request has left. Answers 500 if its expressions reach the
    /// limit, because neither a match nor its absence is known then.
    fn within_step_limit(
        &mut self,
        head: &RequestHead<'_>,
        decide: impl FnOnce(&mut Self) -> Verdict,
    ) -> Verdict {
        let mut steps = *self.steps.get_mut();
        let verdict = within_steps(&mut steps, || decide(self));
        *self.steps.get_mut() = steps;
        if steps > 0 {
            return verdict;
        }
        let state = self.state();
        state.telemetry.step_limit_reached();
        let object = self.route.as_ref().map(|route| route.origin.object.clone());
        state.step_limits.count(StepLimitReport { object, host: host_of(head.authority).into_owned() });
        self.refused(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Runs `work` apart from the verdict. Its expressions draw on the steps that the request has
    /// left.
    pub(super) fn with_own_steps<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut steps = self.steps.load(Relaxed);
        let result = within_steps(&mut steps, work);
        self.steps.store(steps, Relaxed);
        result
    }

    /// Begins an exchange whose request could not be read: malformed (400), too slow (408), request
    /// line too long (414), head too large (431, answered with 400 and nginx's page).
    /// `request_line` is the part of the first line that was read, for the log.
    pub fn refuse(
        snapshot: PublishedSnapshot,
        connection: &Arc<ConnectionInfo>,
        request_line: &[u8],
        length: usize,
        status: StatusCode,
    ) -> (Self, Answer) {
        let client = Client { address: connection.nearest(), believed: false };
        let mut exchange = Self::new(snapshot, connection, client);
        exchange.head_length = length;
        exchange.open_line(|_, format| format.refused(request_line));
        exchange.observe(None);
        let answer = match status {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
                exchange.with_response_headers(Answer::head_too_large())
            }
            PLAIN_HTTP => exchange.with_response_headers(Answer::plain_http()),
            status => exchange.answer(status),
        };
        exchange.state().telemetry.request_refused(answer.status);
        (exchange, Answer { close: true, ..answer })
    }

    /// Finds the rule of a request and runs its stages from this one on.
    fn decide(&mut self, head: &RequestHead<'_>, from: usize) -> Verdict {
        let Ok(path) = normalise(head.path()) else {
            self.log(head, None);
            self.state().telemetry.request_refused(StatusCode::BAD_REQUEST);
            return self.refused(StatusCode::BAD_REQUEST);
        };
        self.keep_exact_path(head, is_lossy(&path));
        if early_data::is_too_early(head, &self.connection) {
            self.log(head, Some(&path));
            return self.refused(StatusCode::TOO_EARLY);
        }
        let host = host_of(head.authority);
        let view = RequestView {
            path: &path,
            method: head.method.as_str(),
            headers: head.headers,
            query: head.query(),
        };
        let found = self.find(&host, &view);
        self.is_without_rule = !matches!(found, Found::Route(_));
        match found {
            Found::Route(route) => {
                self.route = Some(route.clone());
                if !route.policies.unlogged {
                    self.log(head, Some(&path));
                }
                self.begin_trace(head, &path, Some(&route));
                let snapshot = self.snapshot.clone();
                let input = StageInput { head, path: &path, compiled_settings: &snapshot.compiled_settings };
                self.fill_headers(Some(&route), &input);
                self.keep_user(&route, &input);
                self.run_from(from, &route, &input)
            }
            Found::NoRule => {
                self.log(head, Some(&path));
                self.begin_trace(head, &path, None);
                self.fill_without_rule(head, &path);
                self.forward_without_rule(head, &path, from, None)
            }
            Found::UnknownHost(rule) => {
                let own = OwnPath::of(&path, self.state());
                if own.is_none() {
                    let meters = self.state().telemetry.requests();
                    self.undefined_host = meters.and_then(|meters| meters.undefined_host(&host));
                    self.begin_trace(head, &path, None);
                }
                self.fill_without_rule(head, &path);
                if let Some(own) = own {
                    return self.answer_own_path(own, head);
                }
                if self.compiled_settings().log.default_backend {
                    self.log(head, Some(&path));
                }
                self.forward_without_rule(head, &path, from, rule)
            }
        }
    }

    /// Returns the rule of a request.
    pub(super) fn rule(
        &self,
        host: &str,
        view: &RequestView<'_, impl Fields>,
    ) -> Option<SnapshotPart<Route>> {
        match self.find(host, view) {
            Found::Route(route) => Some(route),
            Found::NoRule | Found::UnknownHost(_) => None,
        }
    }

    /// Returns the rule of the same host for the path that a program has set. Requests for a host
    /// without rules have one location.
    pub(super) fn find_relocated(&self, input: &StageInput<'_>) -> Option<SnapshotPart<Route>> {
        let (target, path) = self.uri(input);
        let view = RequestView {
            path,
            method: input.head.method.as_str(),
            headers: input.head.headers,
            query: target::split(target).1,
        };
        match self.find(&host_of(input.head.authority), &view) {
            Found::Route(route) | Found::UnknownHost(Some(route)) => Some(route),
            Found::NoRule | Found::UnknownHost(None) => {
                self.route.clone().filter(|route| route.is_for_unmatched)
            }
        }
    }

    /// Removes the rule of the request, and what it prepared.
    fn leave_route(&mut self) {
        self.route = None;
        if let Some(extras) = &mut self.extras {
            (extras.origin, extras.headers, extras.user) = (None, None, None);
        }
    }

    /// Replaces the rule of the request. What the other one prepared does not apply.
    pub(super) fn enter_route(&mut self, route: &SnapshotPart<Route>, input: &StageInput<'_>) {
        self.leave_route();
        if route.policies.unlogged {
            self.line = None;
        }
        self.route = Some(route.clone());
        self.fill_headers(Some(route), input);
        self.keep_user(route, input);
    }

    fn find(&self, host: &str, view: &RequestView<'_, impl Fields>) -> Found {
        let (group, state) = (&self.connection.group, self.state());
        let found = self.snapshot.hold(|published| {
            let table = &published.routes;
            let Some(hosts) = table.find_host(group, host) else { return Err(Found::UnknownHost(None)) };
            // Rules for any host do not name the host of a request.
            let is_unknown = || {
                let listener = hosts.listener().clone();
                let any = HostKey { group: group.clone(), listener, pattern: HostPattern::Any };
                table.host(&any).is_some_and(|any| Arc::ptr_eq(any, hosts.host()))
            };
            match hosts.find(view) {
                Some(route)
                    if OwnPath::of(view.path, state).is_some_and(|own| !own.is_named_by(route, state))
                        && is_unknown() =>
                {
                    Err(Found::UnknownHost(None))
                }
                Some(route) => Ok(&**route),
                None if is_unknown() => Err(Found::UnknownHost(None)),
                None => Err(Found::NoRule),
            }
        });
        match found {
            Ok(route) if route.is_for_unmatched => Found::UnknownHost(Some(route)),
            Ok(route) => Found::Route(route),
            Err(nothing) => nothing,
        }
    }

    fn fill_without_rule(&mut self, head: &RequestHead<'_>, path: &str) {
        let snapshot = self.snapshot.clone();
        self.fill_headers(None, &StageInput { head, path, compiled_settings: &snapshot.compiled_settings });
    }

    /// Runs the stages, from this one on, of the rule that the catch-all has for such requests, or
    /// of what applies to all servers.
    fn forward_without_rule(
        &mut self,
        head: &RequestHead<'_>,
        path: &str,
        from: usize,
        of_catch_all: Option<SnapshotPart<Route>>,
    ) -> Verdict {
        let unmatched = || {
            self.snapshot.hold(|published| match &published.compiled_settings.unmatched {
                UnmatchedRule::Applies(route) => Ok(&**route),
                UnmatchedRule::Closed => Err(true),
                UnmatchedRule::None => Err(false),
            })
        };
        let is_closed = match of_catch_all.map_or_else(unmatched, Ok) {
            Ok(route) => {
                let snapshot = self.snapshot.clone();
                let input = StageInput { head, path, compiled_settings: &snapshot.compiled_settings };
                self.enter_route(&route, &input);
                return self.run_from(from, &route, &input);
            }
            Err(is_closed) => is_closed,
        };
        let blocked = self.check_blocked(head, self.compiled_settings()).break_value();
        blocked.unwrap_or_else(|| match is_closed {
            true => self.refused(StatusCode::SERVICE_UNAVAILABLE),
            false => self.forward_to_default(),
        })
    }

    /// Forwards to the default backend of the gateway; without one the answer is 404.
    fn forward_to_default(&mut self) -> Verdict {
        match self.default_backend() {
            Some(backend) => {
                self.backend = Some(backend);
                self.check_loop().break_value().unwrap_or(Verdict::Forward)
            }
            None => self.refused(StatusCode::NOT_FOUND),
        }
    }

    pub(super) fn default_backend(&self) -> Option<SnapshotPart<RouteBackend>> {
        self.snapshot.hold(|published| published.compiled_settings.default_backend.as_ref().ok_or(())).ok()
    }

    pub(super) fn refused(&self, status: StatusCode) -> Verdict {
        Verdict::Answer(self.answer(status))
    }

    /// The format of the log line; `None` if there is no log.
    pub(super) fn log_format(&self) -> Option<&LogFormat> {
        let format = self.snapshot.compiled_settings.log.format.as_ref();
        format.filter(|_| self.state().telemetry.access_log.is_on())
    }

    /// Begins the log line of this request, unless it is not logged.
    fn log(&mut self, head: &RequestHead<'_>, path: Option<&str>) {
        if self.compiled_settings().log.skips(head.received_target()) && !is_limit_reached() {
            return;
        }
        self.open_line(|exchange, format| {
            let exact = exchange.extras.as_ref().and_then(|extras| extras.exact_path.as_deref());
            exchange.begin_line(format, head, exact.or(path.map(str::as_bytes)))
        });
    }

    /// Keeps the bytes of a normalised path that is not UTF-8, for variables.
    pub(super) fn keep_exact_path(&mut self, head: &RequestHead<'_>, is_lossy: bool) {
        if is_lossy || self.extras.is_some() {
            let exact = normal_bytes(head.path()).ok().filter(|_| is_lossy);
            self.extras.get_or_insert_default().exact_path = exact.map(|bytes| bytes.into());
        }
    }
}

/// Returns whether a normalised path may have replaced bytes that are not UTF-8. A path that was
/// not changed has none.
#[expect(clippy::ptr_arg, reason = "whether it was changed is the question")]
pub(super) fn is_lossy(path: &Cow<'_, str>) -> bool {
    matches!(path, Cow::Owned(text) if text.contains(char::REPLACEMENT_CHARACTER))
}

/// The authority as a field value.
pub(super) fn authority(head: &RequestHead<'_>) -> HeaderValue {
    // The text comes from a head that was checked.
    HeaderValue::from_str(head.authority).unwrap_or(HeaderValue::from_static(""))
}
