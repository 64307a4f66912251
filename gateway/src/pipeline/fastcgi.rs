//! The parameters that a request to a FastCGI endpoint gets: those of nginx's `fastcgi_params`,
//! then those of the rule, then the fields of the head.
//!
//! A parameter of the rule replaces one of nginx's, and a field. `SERVER_ADDR` is empty, unless a
//! header of the PROXY protocol states it: the gateway does not look up the local address of each
//! connection.

use std::borrow::Cow;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use sluice_config::{DOCUMENT_ROOT, UpstreamProtocol};

use super::exchange::Exchange;
use super::stages::StageInput;
use crate::message::fastcgi::Params;
use crate::message::fields::Fields;
use crate::message::head::Head;
use crate::message::request;
use crate::message::target;
use crate::policy::fastcgi::FastCgi;
use crate::policy::fastcgi_params::{FastCgiParams, FastCgiRequest};
use crate::policy::template::TemplateContext;
use crate::route::Route;
use crate::router::normal_bytes;
use crate::variable::HeadValues;

impl Exchange {
    /// Keeps the user that the request's credentials name, for endpoints that run programs. To be
    /// called before the first stage.
    pub(super) fn keep_user(&mut self, route: &Route, input: &StageInput<'_>) {
        if fastcgi(route).is_some() {
            let context = self.template_context(Some(route), input);
            let user = (context.head.user)(input.head.headers);
            self.extras.get_or_insert_default().user = user;
        }
    }

    /// Whether the parameters of the rule are absent. Until they are known it is closed.
    pub(super) fn lacks_fastcgi_params(&self, route: &Route) -> bool {
        let params = fastcgi(route).and_then(|fastcgi| fastcgi.params.as_deref());
        params.is_some_and(|slot| slot.load().is_none())
    }

    /// Whether the request goes to a FastCGI endpoint.
    pub(crate) fn speaks_fastcgi(&self) -> bool {
        self.pool().is_some_and(|pool| pool.protocol() == UpstreamProtocol::FastCgi)
    }

    /// Whether a connection to a FastCGI endpoint serves only one request.
    pub(super) fn closes_fastcgi(&self) -> bool {
        let keeps = || self.route.as_deref().and_then(fastcgi).is_some_and(|own| own.keeps_connections);
        self.speaks_fastcgi() && !keeps()
    }

    /// The parameters of a request whose head is prepared for the endpoint.
    pub(super) fn params_of(&self, head: &Head) -> Params {
        let own = self.route.as_deref().and_then(fastcgi);
        let target = head.outgoing_target();
        let (path, query) = target::split(target);
        // A rewrite may make a path that leaves the root, and `OPTIONS *` has none. Neither may
        // name a script.
        let uri = normal_bytes(path).unwrap_or(Cow::Borrowed(b"/"));
        let script = own.map_or(Cow::Borrowed(&*uri), |own| own.script_name(&uri));
        let user = self.extras.as_ref().and_then(|extras| extras.user.as_deref()).unwrap_or_default();
        let request = FastCgiRequest { script_name: &script, query, user };
        let slot = own.and_then(|own| own.params.as_deref()).map(|slot| slot.load());
        let rule = slot.as_ref().and_then(|guard| guard.as_deref());
        let mut params = Params::default();
        self.push_defaults(head, &request, &uri, |name, value| {
            if !rule.is_some_and(|rule| rule.has(name)) {
                params.push(name, value);
            }
        });
        if let Some(rule) = rule {
            self.push_of_rule(rule, head, &uri, &request, &mut params);
        }
        params.push_fields(&head.fields, |name| rule.is_some_and(|rule| rule.has(name)));
        params
    }

    /// The parameters of nginx's `fastcgi_params`.
    fn push_defaults(
        &self,
        head: &Head,
        request: &FastCgiRequest<'_>,
        uri: &[u8],
        mut push: impl FnMut(&[u8], &[u8]),
    ) {
        let field = |name| head.fields.first(name).unwrap_or_default();
        let (connection, record) = (&*self.connection, self.facts_of_line(&[]));
        let proxied = connection.proxied.as_deref();
        let source = proxied.map_or(connection.peer, |proxied| proxied.source);
        // Behind a trusted proxy, the port is that of the proxy's connection.
        let is_nearest = source.ip().to_canonical() == self.client.address;
        let remote_port = if is_nearest { source.port().to_string() } else { String::new() };
        let server_address =
            proxied.map_or_else(String::new, |proxied| proxied.destination.ip().to_canonical().to_string());
        let protocol = format!("{:?}", self.version);
        let (address, port) = (self.client.address.to_string(), connection.declared_port.to_string());
        for (name, value) in [
            ("QUERY_STRING", request.query.unwrap_or_default().as_bytes()),
            ("REQUEST_METHOD", head.outgoing_method().as_str().as_bytes()),
            ("CONTENT_TYPE", field(&CONTENT_TYPE)),
            ("CONTENT_LENGTH", field(&CONTENT_LENGTH)),
            ("SCRIPT_NAME", request.script_name),
            ("REQUEST_URI", head.target().as_bytes()),
            ("DOCUMENT_URI", uri),
            ("DOCUMENT_ROOT", DOCUMENT_ROOT.as_bytes()),
            ("SERVER_PROTOCOL", protocol.as_bytes()),
            ("REQUEST_SCHEME", connection.scheme().as_bytes()),
            ("GATEWAY_INTERFACE", b"CGI/1.1"),
            ("SERVER_SOFTWARE", b"sluice"),
            ("REMOTE_ADDR", address.as_bytes()),
            ("REMOTE_PORT", remote_port.as_bytes()),
            ("REMOTE_USER", request.user),
            ("SERVER_ADDR", server_address.as_bytes()),
            ("SERVER_PORT", port.as_bytes()),
            ("SERVER_NAME", record.server_name.as_bytes()),
            ("REDIRECT_STATUS", b"200"),
        ] {
            push(name.as_bytes(), value);
        }
        if connection.is_https() {
            push(b"HTTPS", b"on");
        }
    }

    /// The parameters of the rule, for the path and query that the endpoint gets.
    fn push_of_rule(
        &self,
        rule: &FastCgiParams,
        head: &Head,
        uri: &[u8],
        request: &FastCgiRequest<'_>,
        params: &mut Params,
    ) {
        let (view, path) = (request::view(head), String::from_utf8_lossy(uri));
        let input =
            StageInput { head: &view, path: &path, compiled_settings: &self.snapshot.compiled_settings };
        let route = self.route.as_deref();
        // The path is that of the endpoint, whatever a program has rewritten.
        let context = self.template_context(route, &input);
        let head = HeadValues { path: Some(uri), query: view.query(), ..context.head };
        let context = TemplateContext { head, ..context };
        for (name, value) in rule.fill(&context, request) {
            params.push(name, &value);
        }
    }
}

fn fastcgi(route: &Route) -> Option<&FastCgi> {
    route.compiled.as_deref()?.fastcgi.as_ref()
}
