//! The first step: what becomes of a request, from nothing but its head.

use std::sync::Arc;
use std::time::Instant;

use http::header::HeaderValue;
use http::{Method, StatusCode, Version};
use sluice_config::{HostKey, HostPattern};

use super::answer::Answer;
use super::exchange::{Exchange, Tries, Verdict};
use super::session::BoundSession;
use crate::connection_info::ConnectionInfo;
use crate::message::fields::Fields;
use crate::message::request_head::RequestHead;
use crate::policy::redirect::Source;
use crate::policy::{RedirectTo, forwarded, hops, https_redirect};
use crate::route::{Backends, Destination, Route, RouteAction};
use crate::router::{RequestView, host_of, normalise};
use crate::state::{Globals, State};
use crate::telemetry::LogLine;

/// Answered by every gateway for hosts it does not know, because load balancers in front of it ask for it.
const HEALTH_PATH: &str = "/healthz";

/// What the lookup found.
enum Found {
    Route(Arc<Route>),
    /// The host is known, but no rule takes the request.
    NoRule,
    /// Nobody named the host, and no rule for any host takes the request.
    UnknownHost,
}

impl Exchange {
    /// Takes a request in: finds its rule and runs every check that needs nothing but the head.
    pub fn begin<F: Fields>(
        state: &Arc<State>,
        connection: &Arc<ConnectionInfo>,
        head: &RequestHead<'_, F>,
    ) -> (Self, Verdict) {
        state.telemetry.request_began();
        let globals = state.globals.load();
        let client = forwarded::client_address(connection, head.headers, &globals.tuning);
        let mut exchange = Self {
            state: state.clone(),
            connection: connection.clone(),
            began: Instant::now(),
            method: head.method.clone(),
            version: head.version,
            head_length: head.length,
            client,
            hops: hops::count(head.headers),
            authority: authority(head),
            request_id: forwarded::request_id(head.headers, &globals.tuning),
            line: None,
            route: None,
            target: None,
            undefined_host: None,
            session: None,
            set_cookie: None,
            tries: Tries::default(),
            ended: false,
        };
        let verdict = match exchange.decide(head, &globals) {
            // Sent on, it would come back for ever, or until nobody has a connection left.
            Verdict::Forward if exchange.hops >= hops::MAX => exchange.refused(StatusCode::LOOP_DETECTED),
            verdict => verdict,
        };
        (exchange, verdict)
    }

    /// Takes a request in that could not be read: malformed (400), too slow (408), too long a request line
    /// (414), too large a head (431, answered with 400 and nginx's words). `request_line` is what was read of the first line, for the log.
    pub fn refuse(
        state: &Arc<State>,
        connection: &Arc<ConnectionInfo>,
        request_line: &[u8],
        length: usize,
        status: StatusCode,
    ) -> (Self, Answer) {
        state.telemetry.request_began();
        let client = connection.peer.ip().to_canonical();
        let exchange = Self {
            state: state.clone(),
            connection: connection.clone(),
            began: Instant::now(),
            method: Method::GET,
            version: Version::HTTP_11,
            head_length: length,
            client,
            hops: 0,
            authority: HeaderValue::from_static(""),
            request_id: None,
            line: logs(state, &state.globals.load()).then(|| LogLine::refused(client, request_line)),
            route: None,
            target: None,
            undefined_host: None,
            session: None,
            set_cookie: None,
            tries: Tries::default(),
            ended: false,
        };
        let answer = match status {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
                Answer::head_too_large(exchange.hsts(&exchange.globals()))
            }
            status => exchange.answer(status),
        };
        exchange.state.telemetry.request_refused(answer.status);
        (exchange, Answer { close: true, ..answer })
    }

    fn decide<F: Fields>(&mut self, head: &RequestHead<'_, F>, globals: &Globals) -> Verdict {
        let (raw_path, query) = match head.target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (head.target, None),
        };
        let Ok(path) = normalise(raw_path) else {
            self.log(head, globals);
            self.state.telemetry.request_refused(StatusCode::BAD_REQUEST);
            return self.refused(StatusCode::BAD_REQUEST);
        };
        let host = host_of(head.authority);
        let view = RequestView { path: &path, method: head.method.as_str(), headers: head.headers, query };
        match self.find(&host, &view) {
            Found::Route(route) => {
                self.log(head, globals);
                self.route = Some(route.clone());
                self.run(&route, head, &path, globals)
            }
            Found::NoRule => {
                self.log(head, globals);
                self.forward_to_default(globals)
            }
            Found::UnknownHost => {
                if let Some(meters) = self.state.telemetry.requests() {
                    self.undefined_host = meters.undefined_host(&host);
                }
                if path == HEALTH_PATH {
                    return Verdict::Answer(Answer::empty(StatusCode::OK, self.hsts(globals)));
                }
                self.forward_to_default(globals)
            }
        }
    }

    fn find(&self, host: &str, view: &RequestView<'_, impl Fields>) -> Found {
        let table = self.state.routes.load();
        let group = &self.connection.group;
        let Some(hosts) = table.find_host(group, host) else { return Found::UnknownHost };
        if let Some(route) = hosts.find(view) {
            return Found::Route(route.clone());
        }
        // Rules for any host leave the names of nobody as unknown as they were.
        let any =
            HostKey { group: group.clone(), listener: hosts.listener().clone(), pattern: HostPattern::Any };
        match table.host(&any) {
            Some(any) if Arc::ptr_eq(any, hosts.host()) => Found::UnknownHost,
            _ => Found::NoRule,
        }
    }

    /// The rule's checks, in the order that the module's prose explains.
    fn run<F: Fields>(
        &mut self,
        route: &Arc<Route>,
        head: &RequestHead<'_, F>,
        path: &str,
        globals: &Globals,
    ) -> Verdict {
        if let Some(status) = route.deny {
            return self.refused(status);
        }
        let tuning = &globals.tuning;
        if let RouteAction::Redirect(redirect) = &route.action {
            return self.redirect(redirect, head, globals);
        }
        let facts = https_redirect::Facts {
            https: self.connection.is_https(),
            access_scheme: forwarded::access_scheme(&self.connection, head.headers, tuning),
            host_has_tls: route.host_has_tls,
            path,
        };
        if https_redirect::applies(&route.policies.https_redirect, tuning, &facts) {
            let host = host_of_url(forwarded::access_host(head.authority, head.headers, tuning));
            let status = StatusCode::from_u16(tuning.http_redirect_code);
            let status = status.unwrap_or(StatusCode::PERMANENT_REDIRECT);
            let location = https_redirect::location(host, head.target);
            return self.redirect_to(status, host, location, globals);
        }
        match &route.action {
            RouteAction::Forward(backends) => self.forward(route, backends, head, globals),
            RouteAction::Answer(status) => self.refused(*status),
            RouteAction::Redirect(redirect) => self.redirect(redirect, head, globals),
        }
    }

    fn forward<F: Fields>(
        &mut self,
        route: &Route,
        backends: &Backends,
        head: &RequestHead<'_, F>,
        globals: &Globals,
    ) -> Verdict {
        let session = route.affinity.as_ref().and_then(|affinity| affinity.session(head.headers));
        let target = match session.and_then(|session| backends.of_session(session.backend)) {
            Some(target) => Some(target),
            None => backends.draw(),
        };
        let Some(target) = target else {
            return self.refused(StatusCode::INTERNAL_SERVER_ERROR);
        };
        self.target = Some(target.clone());
        match target.to {
            Destination::Pool(_) => {
                self.session = session.map(BoundSession::new);
                Verdict::Forward
            }
            Destination::Invalid(status) => self.refused(status),
            Destination::Default => self.forward_to_default(globals),
        }
    }

    /// To the program's default backend; without one the answer is 404.
    fn forward_to_default(&mut self, globals: &Globals) -> Verdict {
        match &globals.default_backend {
            Some(target) => {
                self.target = Some(target.clone());
                Verdict::Forward
            }
            None => self.refused(StatusCode::NOT_FOUND),
        }
    }

    fn redirect<F: Fields>(
        &self,
        redirect: &RedirectTo,
        head: &RequestHead<'_, F>,
        globals: &Globals,
    ) -> Verdict {
        let source = Source {
            scheme: self.connection.scheme(),
            host: host_of_url(head.authority),
            declared_port: self.connection.declared_port,
            target: head.target,
        };
        let location = redirect.location(&source);
        self.redirect_to(redirect.status, redirect.host(&source), location, globals)
    }

    /// A request of HTTP/1.0 may have no host. There is no URL to send its client to then, and what a redirect is to
    /// keep from being answered must not be answered either.
    fn redirect_to(&self, status: StatusCode, host: &str, location: String, globals: &Globals) -> Verdict {
        match HeaderValue::try_from(location) {
            Ok(location) if !host.is_empty() => {
                Verdict::Answer(Answer::redirect(status, location, self.hsts(globals)))
            }
            _ => {
                self.state.telemetry.request_refused(StatusCode::BAD_REQUEST);
                self.refused(StatusCode::BAD_REQUEST)
            }
        }
    }

    fn refused(&self, status: StatusCode) -> Verdict {
        Verdict::Answer(self.answer(status))
    }

    fn log<F: Fields>(&mut self, head: &RequestHead<'_, F>, globals: &Globals) {
        if logs(&self.state, globals) {
            let (method, target) = (head.method, head.target);
            self.line = Some(LogLine::request(self.client, method, target, head.version, head.headers));
        }
    }
}

fn logs(state: &State, globals: &Globals) -> bool {
    globals.tuning.access_log && state.telemetry.access_log.is_on()
}

/// The authority as a field value.
fn authority<F>(head: &RequestHead<'_, F>) -> HeaderValue {
    // Drivers hand over text from a head that they have checked.
    HeaderValue::from_str(head.authority).unwrap_or(HeaderValue::from_static(""))
}

/// The host of an authority as it stands, without its port: what a Location names.
fn host_of_url(authority: &str) -> &str {
    match authority.rfind(':') {
        Some(colon) if !authority[colon..].contains(']') => &authority[..colon],
        _ => authority,
    }
}
