//! The checks that stages run. Their order is defined in [`stages`](super::stages).

use http::header::HeaderValue;
use http::{Method, StatusCode};
use rustls_pki_types::ServerName;
use sluice_config::HostName;

use super::exchange::{Exchange, UpstreamHashKey, Verdict};
use super::session::BoundSession;
use super::stages::{StageInput, Step};
use crate::message::answer::Answer;
use crate::message::request_head::RequestHead;
use crate::policy::affinity::SessionCookie;
use crate::policy::outgoing::Outgoing;
use crate::policy::redirect::LocationInput;
use crate::policy::template::Template;
use crate::policy::{Affinity, RedirectTo, Rewritten, forwarded, hops, https_redirect, redirect, same_site};
use crate::route::{Backends, Destination, Route, RouteAction, RouteBackend};
use crate::router::host_of;
use crate::state::compiled_settings::{Blocking, CompiledSettings};
use crate::state::distrusted_proxies::DistrustedProxy;
use crate::state::snapshot::SnapshotPart;

impl Exchange {
    pub(super) fn check_blocked(&self, head: &RequestHead<'_>, compiled_settings: &CompiledSettings) -> Step {
        match &compiled_settings.blocks {
            Blocking::None => Step::Continue(()),
            Blocking::These(blocks) if !blocks.blocks(self.client.address, head.headers) => {
                Step::Continue(())
            }
            Blocking::These(_) => Step::Break(self.refused(StatusCode::FORBIDDEN)),
            Blocking::Closed => Step::Break(self.refused(StatusCode::SERVICE_UNAVAILABLE)),
        }
    }

    pub(super) fn check_denied(&self, route: &Route) -> Step {
        match route.deny {
            Some(status) => Step::Break(self.refused(status)),
            None if self.lacks_headers(route) || self.lacks_fastcgi_params(route) => {
                Step::Break(self.refused(StatusCode::SERVICE_UNAVAILABLE))
            }
            None => Step::Continue(()),
        }
    }

    pub(super) fn check_origin(&mut self, route: &Route, input: &StageInput<'_>) -> Step {
        if !self.accept_origin(route, input) || *input.head.method != Method::OPTIONS {
            return Step::Continue(());
        }
        self.enter_without_program(route, input);
        let answer = Answer::empty(StatusCode::NO_CONTENT);
        Step::Break(Verdict::Answer(self.with_response_headers(answer)))
    }

    /// Notes the origin of the request for the response, if the rule accepts it. Returns whether it
    /// does.
    pub(super) fn accept_origin(&mut self, route: &Route, input: &StageInput<'_>) -> bool {
        let cors = route.compiled.as_ref().and_then(|compiled| compiled.cors.as_ref());
        let origin = cors.and_then(|cors| cors.accepts(input.head.headers));
        let is_accepted = origin.is_some();
        if is_accepted {
            self.extras.get_or_insert_default().origin = origin;
        }
        is_accepted
    }

    pub(super) fn check_redirect(&self, route: &Route, input: &StageInput<'_>) -> Step {
        match &route.action {
            RouteAction::Redirect(redirect) => Step::Break(self.redirect(redirect, route, input)),
            RouteAction::RedirectToHost(host) => Step::Break(self.redirect_to_host(host, input)),
            RouteAction::Forward(_) | RouteAction::Answer(_) => Step::Continue(()),
        }
    }

    pub(super) fn rewrite(&mut self, route: &Route, input: &StageInput<'_>) -> Step {
        let rewrite = route.compiled.as_ref().and_then(|compiled| compiled.rewrite.as_ref());
        let Some(rewrite) = rewrite.filter(|_| !self.skips_rewriting()) else { return Step::Continue(()) };
        let fill = |template: &Template| template.fill(&self.template_context(Some(route), input));
        let (target, path) = self.uri(input);
        let found = rewrite.find(target, path);
        let rewritten = match &found {
            Ok(None) => return Step::Continue(()),
            Ok(Some(found)) => rewrite.expand(target, found, &fill),
            Err(error) => Err(*error),
        };
        match rewritten {
            Ok(Rewritten::Outgoing(outgoing)) => {
                self.log_rewrite(route, path, &outgoing);
                if self.assigned().is_some() {
                    let groups = found.ok().flatten().map(|found| found.groups());
                    self.fill_rewritten(groups.unwrap_or_default(), &outgoing, route, input);
                }
                self.outgoing = Some(Box::new(outgoing));
                Step::Continue(())
            }
            Ok(Rewritten::Location(location)) => {
                let host = host_of_url(input.head.authority);
                Step::Break(self.redirect_to(StatusCode::FOUND, host, location))
            }
            Err(_) => {
                self.state().telemetry.request_refused(StatusCode::BAD_REQUEST);
                Step::Break(self.refused(StatusCode::BAD_REQUEST))
            }
        }
    }

    /// Writes a rewrite to the program's log, if the rule asks for it.
    pub(super) fn log_rewrite(&self, route: &Route, from: &str, outgoing: &Outgoing) {
        if route.policies.logs_rewrites {
            let (client, to) = (self.client.address, outgoing.target());
            tracing::info!(%client, host = route.host(), ?from, ?to, "a path was rewritten");
        }
    }

    pub(super) fn check_https(&self, route: &Route, input: &StageInput<'_>) -> Step {
        let StageInput { head, compiled_settings, .. } = input;
        let settings = &compiled_settings.settings;
        if !self.redirects_to_https(route, input) {
            return Step::Continue(());
        }
        if compiled_settings.forwarded.distrusts_https(head.headers, self.client) {
            self.state().distrusted.count(DistrustedProxy(self.connection.nearest()));
        }
        let host = host_of_url(forwarded::access_host(head.authority, head.headers, self.client));
        let status = https_redirect::status(settings);
        let target = head.received_target();
        let location = https_redirect::location(&route.policies.locations, settings, host, target);
        Step::Break(self.redirect_to(status, host, location))
    }

    /// Whether the request is redirected to https, unless an earlier stage answers it.
    pub(super) fn redirects_to_https(&self, route: &Route, input: &StageInput<'_>) -> bool {
        let StageInput { head, compiled_settings, .. } = input;
        let redirect = https_redirect::RedirectInput {
            access_scheme: forwarded::access_scheme(&self.connection, head.headers, self.client),
            host_has_https: route.host_has_https,
            rule_path: &route.origin.path,
        };
        https_redirect::applies(&route.policies.https_redirect, &compiled_settings.settings, &redirect)
    }

    pub(super) fn draw_backend(&mut self, route: &Route, input: &StageInput<'_>) -> Step {
        match &route.action {
            RouteAction::Forward(_) => self.forward(route, input),
            RouteAction::Answer(status) => Step::Break(self.refused(*status)),
            RouteAction::Redirect(redirect) => Step::Break(self.redirect(redirect, route, input)),
            RouteAction::RedirectToHost(host) => Step::Break(self.redirect_to_host(host, input)),
        }
    }

    fn forward(&mut self, route: &Route, input: &StageInput<'_>) -> Step {
        let session = route.affinity().and_then(|affinity| affinity.session(input.head.headers));
        let digits = session.map(|session| session.backend);
        let has_fallback = || route.fallback().is_some();
        let backend = self.backend(|backends| backends.draw(input.head.headers, digits, has_fallback));
        self.forward_to(backend, session, route, input)
    }

    /// Prepares the request for the backend that it gets without a draw: one for an explanation
    /// would change the shares of requests.
    pub(super) fn forward_without_draw(&mut self, route: &Route, input: &StageInput<'_>) -> Step {
        let has_fallback = || route.fallback().is_some();
        let backend = self.backend(|backends| backends.without_draw(input.head.headers, has_fallback));
        self.forward_to(backend, None, route, input)
    }

    /// Returns a backend of the rule; `None` also for a rule that forwards no request.
    fn backend(
        &self,
        choose: impl FnOnce(&Backends) -> Option<&RouteBackend>,
    ) -> Option<SnapshotPart<RouteBackend>> {
        self.route.as_ref()?.part(|route| match &route.action {
            RouteAction::Forward(backends) => choose(backends),
            RouteAction::Redirect(_) | RouteAction::RedirectToHost(_) | RouteAction::Answer(_) => None,
        })
    }

    fn forward_to(
        &mut self,
        backend: Option<SnapshotPart<RouteBackend>>,
        session: Option<SessionCookie<'_>>,
        route: &Route,
        input: &StageInput<'_>,
    ) -> Step {
        let Some(backend) = backend else {
            return Step::Break(self.refused(StatusCode::INTERNAL_SERVER_ERROR));
        };
        self.backend = Some(backend.clone());
        match backend.to {
            Destination::Pool(ref pool) => {
                // 503 comes before authentication, as in nginx.
                let compiled_settings = input.compiled_settings;
                let is_plain = route.compiled.is_none()
                    && compiled_settings.auth.is_none()
                    && compiled_settings.sources.is_none();
                // A stored response needs no endpoint.
                let has_cache = route.cache().is_some();
                if !is_plain && pool.is_empty() && !self.fall_back(input) && !has_cache {
                    return Step::Break(self.refused(StatusCode::SERVICE_UNAVAILABLE));
                }
                self.session = session.map(BoundSession::new);
                self.note_endpoint_name(route, input);
                self.note_for_pick(route, input);
                Step::Continue(())
            }
            Destination::Invalid(_) if self.fall_back(input) => {
                self.note_endpoint_name(route, input);
                Step::Continue(())
            }
            Destination::Invalid(status) => Step::Break(self.refused(status)),
            Destination::Default => match self.default_backend() {
                Some(backend) => {
                    self.backend = Some(backend);
                    Step::Continue(())
                }
                // No other stage checks the request.
                None if route.is_plain() && input.compiled_settings.ask_nothing() => {
                    self.check_default_backend()
                }
                None => Step::Continue(()),
            },
        }
    }

    pub(super) fn check_default_backend(&self) -> Step {
        match self.backend.as_ref().is_some_and(|backend| matches!(backend.to, Destination::Default)) {
            true => Step::Break(self.refused(StatusCode::NOT_FOUND)),
            false => Step::Continue(()),
        }
    }

    /// Stores the name of the certificate of the chosen backend's endpoint, if the request
    /// determines it. Values that make no name leave it out, and no endpoint is chosen.
    fn note_endpoint_name(&mut self, route: &Route, input: &StageInput<'_>) {
        let tls = self.backend.as_deref().and_then(|backend| backend.tls.as_ref());
        let Some(template) = tls.and_then(|tls| tls.name_per_request()) else { return };
        let name = String::from_utf8(template.fill(&self.template_context(Some(route), input)));
        // As in nginx, a port is no part of the name.
        let name = name.ok().map(|name| host_of(&name).trim_matches(['[', ']']).to_owned());
        let name = name.filter(|name| ServerName::try_from(&**name).is_ok());
        self.extras.get_or_insert_default().endpoint_name = name.map(Into::into);
    }

    /// Stores what the choice of an endpoint needs from the head.
    fn note_for_pick(&mut self, route: &Route, input: &StageInput<'_>) {
        if let Some(hash_by) = self.backend.as_ref().and_then(|backend| backend.hash_by.as_ref())
            && let Some(bytes) = hash_by.key(&self.template_context(Some(route), input))
        {
            let key = UpstreamHashKey { bytes, subset: hash_by.subset };
            self.extras.get_or_insert_default().hash_key = Some(key);
        }
        let conditional = route.affinity().is_some_and(Affinity::asks_for_client);
        if conditional && same_site::misreads_none(input.head.headers) {
            self.extras.get_or_insert_default().misreads_none = true;
        }
    }

    /// Refuses a request that has passed too many gateways: in a loop it would use up connections.
    pub(super) fn check_loop(&self) -> Step {
        match self.hops >= hops::MAX {
            true => Step::Break(self.refused(StatusCode::LOOP_DETECTED)),
            false => Step::Continue(()),
        }
    }

    fn redirect(&self, redirect: &RedirectTo, route: &Route, input: &StageInput<'_>) -> Verdict {
        let StageInput { head, compiled_settings, .. } = input;
        if let Some(template) = &redirect.template {
            let url = String::from_utf8(template.fill(&self.template_context(Some(route), input)));
            return match url {
                Ok(url) => self.redirect_to_url(redirect.status, url, input),
                Err(_) => self.refused(StatusCode::BAD_REQUEST),
            };
        }
        let (own, settings) = (&route.policies.locations, &compiled_settings.settings);
        let source = LocationInput {
            scheme: self.connection.scheme(),
            host: host_of_url(head.authority),
            authority: head.authority,
            declared_port: self.connection.declared_port,
            port: self.connection.port,
            target: self.uri(input).0,
            relative: own.relative.unwrap_or(settings.relative_redirects),
            names_port: own.port.unwrap_or(settings.port_in_redirects),
        };
        let location = redirect.location(&source);
        self.redirect_to(redirect.status, redirect.host(&source), location)
    }

    fn redirect_to_host(&self, host: &HostName, input: &StageInput<'_>) -> Verdict {
        let StageInput { head, compiled_settings, .. } = input;
        let scheme = match forwarded::access_scheme(&self.connection, head.headers, self.client) {
            b"https" => "https",
            b"http" => "http",
            _ => self.connection.scheme(),
        };
        let port = forwarded::access_port(&self.connection, head.headers, self.client);
        let location = redirect::to_host(scheme, host.as_str(), port, head.received_target());
        self.redirect_to(https_redirect::status(&compiled_settings.settings), host.as_str(), location)
    }

    /// Returns the redirect, or 400 for an HTTP/1.0 request without a host: no URL can be made, and
    /// the request must not be served in place of the redirect.
    pub(super) fn redirect_to(&self, status: StatusCode, host: &str, location: String) -> Verdict {
        match HeaderValue::try_from(location) {
            Ok(location) if !host.is_empty() => {
                Verdict::Answer(self.with_response_headers(Answer::redirect(status, location)))
            }
            _ => {
                self.state().telemetry.request_refused(StatusCode::BAD_REQUEST);
                self.refused(StatusCode::BAD_REQUEST)
            }
        }
    }
}

/// Returns the host of an authority without its port, as used in `Location`.
pub(super) fn host_of_url(authority: &str) -> &str {
    match authority.rfind(':') {
        Some(colon) if !authority[colon..].contains(']') => &authority[..colon],
        _ => authority,
    }
}
