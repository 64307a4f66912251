//! Redirects of rules, for both Ingress and Gateway API.

use std::sync::Arc;

use http::StatusCode;
use sluice_config::{PathMatch, Redirect, RedirectPath};

use super::error::PolicyError;
use super::rewrite::escape_path;
use super::template::Template;
use crate::message::target;

/// A validated redirect.
#[derive(Clone, Debug)]
pub struct RedirectTo {
    /// The status of the response.
    pub status: StatusCode,
    scheme: Option<Arc<str>>,
    host: Option<Arc<str>>,
    port: Option<u16>,
    path: RedirectPath,
    /// The escaped path of the rule with the appended slash; otherwise empty.
    with_slash: Box<str>,
    /// The URL, if it has variables of the request.
    pub template: Option<Template>,
}

/// Inputs of a Location.
#[derive(Clone, Copy, Debug)]
pub struct LocationInput<'a> {
    /// The scheme of the connection.
    pub scheme: &'a str,
    /// The host without port.
    pub host: &'a str,
    /// Host and port as the client wrote them.
    pub authority: &'a str,
    /// The port of the listener as clients address it.
    pub declared_port: u16,
    /// The port of the socket.
    pub port: u16,
    /// Path and query in effect: those of the client, or those of a program.
    pub target: &'a str,
    /// Omits scheme and host where nginx would add them (`relative-redirects`).
    pub relative: bool,
    /// Includes the port of the socket there (`use-port-in-redirects`).
    pub names_port: bool,
}

impl RedirectTo {
    /// Validates the redirect of the rule with this path.
    ///
    /// # Errors
    /// The status is not 300 to 303, 307 or 308, or a slash is appended to an expression.
    pub fn compile(redirect: &Redirect, rule: &PathMatch) -> Result<Self, PolicyError> {
        let Redirect { status, scheme, host, port, path } = redirect;
        match status {
            300 | 301 | 302 | 303 | 307 | 308 => (),
            other => return Err(PolicyError::Status(*other)),
        }
        Ok(Self {
            status: StatusCode::from_u16(*status).map_err(|_| PolicyError::Status(*status))?,
            scheme: scheme.clone(),
            host: host.clone(),
            port: *port,
            path: path.clone(),
            with_slash: match path {
                RedirectPath::AppendSlash => with_slash(rule)?,
                _ => "".into(),
            },
            template: match path {
                RedirectPath::UrlTemplate(template) => Some(Template::compile(template)?),
                _ => None,
            },
        })
    }

    /// Returns whether ingress-nginx has the redirect in the server, before it chooses a location.
    pub fn is_of_server(&self) -> bool {
        matches!(self.path, RedirectPath::ReplaceAll(_))
    }

    /// Returns whether the redirect appends a slash to the path.
    pub fn appends_slash(&self) -> bool {
        self.path == RedirectPath::AppendSlash
    }

    /// Returns the host of the Location; empty if neither the redirect nor the request has one.
    pub fn host<'a>(&'a self, source: &LocationInput<'a>) -> &'a str {
        if let RedirectPath::Url(url) = &self.path {
            return url;
        }
        self.host.as_deref().unwrap_or(source.host)
    }

    /// Returns the Location.
    pub fn location(&self, source: &LocationInput<'_>) -> String {
        let (path, query) = target::split(source.target);
        let query = query.map_or([""; 2], |query| ["?", query]);
        match &self.path {
            RedirectPath::Url(url) => url.to_string(),
            // Evaluated by the pipeline.
            RedirectPath::UrlTemplate(_) => String::new(),
            RedirectPath::ReplaceAll(path) => [source.scheme, "://", source.authority, path].concat(),
            RedirectPath::Root(path) => as_nginx(source, &[path]),
            // As in nginx, an empty query is left out.
            RedirectPath::AppendSlash if query[1].is_empty() => as_nginx(source, &[&self.with_slash]),
            RedirectPath::AppendSlash => as_nginx(source, &[&self.with_slash, query[0], query[1]]),
            RedirectPath::Keep => self.absolute(source, &[path, query[0], query[1]]),
            RedirectPath::Replace(path) => self.absolute(source, &[path, query[0], query[1]]),
        }
    }

    /// Builds an absolute URL. Without an explicit port, uses the well-known port of the redirect's
    /// scheme, else the port of the listener. Omits port 80 for http and 443 for https (Gateway
    /// API, `HTTPRequestRedirectFilter`).
    fn absolute(&self, source: &LocationInput<'_>, rest: &[&str]) -> String {
        let scheme = self.scheme.as_deref().unwrap_or(source.scheme);
        let inherited = match &self.scheme {
            Some(_) => well_known(scheme),
            None => source.declared_port,
        };
        let port = self.port.unwrap_or(inherited);
        url(scheme, self.host(source), (port != well_known(scheme)).then_some(port), rest)
    }
}

/// Returns the escaped path of a rule with a slash. As in nginx, it is not the path of the request,
/// which may begin with two slashes: a relative Location would then name another host.
fn with_slash(rule: &PathMatch) -> Result<Box<str>, PolicyError> {
    let path = match rule {
        PathMatch::Exact(path) | PathMatch::Prefix(path) => path,
        PathMatch::Regex(text) => return Err(no_slash(text)),
        PathMatch::Extended(regex) => return Err(no_slash(&regex.text)),
    };
    let mut escaped = String::with_capacity(path.len() + 1);
    escape_path(path.trim_end_matches('/'), &mut escaped);
    escaped.push('/');
    Ok(escaped.into())
}

fn no_slash(expression: &str) -> PolicyError {
    PolicyError::Rewrite(format!("no slash can be appended to expression `{expression}`"))
}

/// Builds a Location as nginx does: an absolute URL without a port, unless settings change that.
/// The host is in lower case and without a final dot, as nginx stores it.
pub(crate) fn as_nginx(source: &LocationInput<'_>, rest: &[&str]) -> String {
    if source.relative {
        return rest.concat();
    }
    let port = source.names_port && source.port != well_known(source.scheme);
    let host = source.host.strip_suffix('.').unwrap_or(source.host).to_ascii_lowercase();
    url(source.scheme, &host, port.then_some(source.port), rest)
}

/// Builds a URL for the same target on another host as ingress-nginx does: always with a port, and
/// without a final slash.
pub fn to_host(scheme: &str, host: &str, port: u16, target: &str) -> String {
    url(scheme, host, Some(port), &[target.strip_suffix('/').unwrap_or(target)])
}

fn url(scheme: &str, host: &str, port: Option<u16>, rest: &[&str]) -> String {
    let mut url = [scheme, "://", host].concat();
    if let Some(port) = port {
        url.push(':');
        url.push_str(itoa::Buffer::new().format(port));
    }
    url.extend(rest.iter().copied());
    url
}

fn well_known(scheme: &str) -> u16 {
    if scheme == "https" { 443 } else { 80 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: LocationInput<'_> = LocationInput {
        scheme: "http",
        host: "a.example",
        authority: "a.example:8081",
        declared_port: 8080,
        port: 8081,
        target: "/foo?x=1",
        relative: false,
        names_port: false,
    };

    fn compile(redirect: &Redirect) -> Result<RedirectTo, PolicyError> {
        RedirectTo::compile(redirect, &PathMatch::Exact("/foo".into()))
    }

    fn redirect(path: RedirectPath) -> Redirect {
        Redirect { status: 301, scheme: None, host: None, port: None, path }
    }

    #[test]
    fn a_slash_is_appended_before_the_query_and_without_a_port() {
        let slash = compile(&redirect(RedirectPath::AppendSlash)).unwrap();
        assert_eq!(slash.location(&SOURCE), "http://a.example/foo/?x=1");
        let https = LocationInput { scheme: "https", declared_port: 443, target: "/foo", ..SOURCE };
        assert_eq!(slash.location(&https), "https://a.example/foo/");
    }

    #[test]
    fn a_slash_is_appended_to_the_path_of_the_rule() {
        let to_slash = redirect(RedirectPath::AppendSlash);
        let slash = compile(&to_slash).unwrap();
        for target in ["//evil.example/%2e%2e/foo", "//foo", "/foo?", "/old"] {
            let source = LocationInput { target, relative: true, ..SOURCE };
            assert_eq!(slash.location(&source), "/foo/", "{target}");
            let absolute = LocationInput { relative: false, ..source };
            assert_eq!(slash.location(&absolute), "http://a.example/foo/", "{target}");
        }
        let location = |path: PathMatch| {
            let source = LocationInput { target: "/", relative: true, ..SOURCE };
            RedirectTo::compile(&to_slash, &path).map(|slash| slash.location(&source))
        };
        assert_eq!(location(PathMatch::Exact("/Aé b%20?#\"".into())).unwrap(), "/A%C3%A9%20b%2520%3F%23%22/");
        assert_eq!(location(PathMatch::Prefix("/".into())).unwrap(), "/");
        assert!(location(PathMatch::Regex("^/a".into())).is_err());
    }

    #[test]
    fn a_path_is_made_a_url_as_nginx_does() {
        let slash = compile(&redirect(RedirectPath::AppendSlash)).unwrap();
        let root = compile(&redirect(RedirectPath::Root("/new".into()))).unwrap();
        assert_eq!(root.location(&SOURCE), "http://a.example/new");
        let with_port = LocationInput { names_port: true, ..SOURCE };
        assert_eq!(slash.location(&with_port), "http://a.example:8081/foo/?x=1");
        assert_eq!(root.location(&with_port), "http://a.example:8081/new");
        assert_eq!(root.location(&LocationInput { port: 80, ..with_port }), "http://a.example/new");
        let relative = LocationInput { relative: true, ..with_port };
        assert_eq!(slash.location(&relative), "/foo/?x=1");
        assert_eq!(root.location(&relative), "/new");
    }

    #[test]
    fn a_url_is_the_location_for_every_target() {
        let there = compile(&redirect(RedirectPath::Url("https://b.example/x?y=1".into()))).unwrap();
        let source = LocationInput { host: "", relative: true, ..SOURCE };
        assert_eq!(there.location(&source), "https://b.example/x?y=1");
        assert!(!there.host(&source).is_empty(), "it needs no host of the request");
    }

    #[test]
    fn another_host_gets_the_target_less_its_slash_and_always_a_port() {
        assert_eq!(to_host("http", "www.a.example", 80, "/x/?y=1"), "http://www.a.example:80/x/?y=1");
        assert_eq!(to_host("https", "a.example", 8443, "/x/"), "https://a.example:8443/x");
        assert_eq!(to_host("http", "a.example", 80, "/"), "http://a.example:80");
    }

    #[test]
    fn the_port_comes_from_the_filter_its_scheme_or_the_listener() {
        let location = |change: fn(&mut Redirect)| {
            let mut redirect = redirect(RedirectPath::Keep);
            change(&mut redirect);
            compile(&redirect).unwrap().location(&SOURCE)
        };
        assert_eq!(location(|_| ()), "http://a.example:8080/foo?x=1");
        assert_eq!(location(|redirect| redirect.scheme = Some("https".into())), "https://a.example/foo?x=1");
        assert_eq!(location(|redirect| redirect.port = Some(80)), "http://a.example/foo?x=1");
        assert_eq!(location(|redirect| redirect.port = Some(81)), "http://a.example:81/foo?x=1");
        assert_eq!(
            location(|redirect| {
                redirect.host = Some("b.example".into());
                redirect.port = Some(80);
                redirect.path = RedirectPath::Replace("/new".into());
            }),
            "http://b.example/new?x=1"
        );
    }

    #[test]
    fn a_redirect_to_a_path_names_the_host_as_nginx_does() {
        let source = LocationInput { host: "A.Example.", authority: "A.Example.:8081", ..SOURCE };
        let location = |path| compile(&redirect(path)).unwrap().location(&source);
        assert_eq!(location(RedirectPath::Root("/new".into())), "http://a.example/new");
        assert_eq!(location(RedirectPath::AppendSlash), "http://a.example/foo/?x=1");
        // `app-root` has the field as the client sent it.
        let root = RedirectPath::ReplaceAll("/app".into());
        assert_eq!(location(root), "http://A.Example.:8081/app");
    }

    #[test]
    fn an_app_root_stays_where_the_client_is_and_drops_the_query() {
        let root = compile(&redirect(RedirectPath::ReplaceAll("/app?x=2".into()))).unwrap();
        assert_eq!(root.location(&SOURCE), "http://a.example:8081/app?x=2");
    }

    #[test]
    fn a_status_that_is_no_redirect_is_refused() {
        let wrong = Redirect { status: 200, ..redirect(RedirectPath::Keep) };
        assert_eq!(compile(&wrong).unwrap_err(), PolicyError::Status(200));
    }
}
