//! Redirects that a rule asks for, of Ingress and Gateway API alike.

use std::sync::Arc;

use http::StatusCode;
use sluice_config::{Redirect, RedirectPath};

use super::error::PolicyError;

/// A redirect, checked.
#[derive(Clone, Debug)]
pub struct RedirectTo {
    /// The status of the answer.
    pub status: StatusCode,
    scheme: Option<Arc<str>>,
    host: Option<Arc<str>>,
    port: Option<u16>,
    path: RedirectPath,
}

/// What of the request goes into a Location.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The scheme of the connection.
    pub scheme: &'a str,
    /// The host without port.
    pub host: &'a str,
    /// Host and port as the client wrote them.
    pub authority: &'a str,
    /// The port that clients of the listener know.
    pub declared_port: u16,
    /// Path and query as sent.
    pub target: &'a str,
}

impl RedirectTo {
    /// Checks the status.
    pub fn compile(redirect: &Redirect) -> Result<Self, PolicyError> {
        let Redirect { status, scheme, host, port, path } = redirect;
        match status {
            301 | 302 | 303 | 307 | 308 => (),
            other => return Err(PolicyError::Status(*other)),
        }
        Ok(Self {
            status: StatusCode::from_u16(*status).map_err(|_| PolicyError::Status(*status))?,
            scheme: scheme.clone(),
            host: host.clone(),
            port: *port,
            path: path.clone(),
        })
    }

    /// The host that the Location names; empty where neither the redirect nor the request has one.
    pub fn host<'a>(&'a self, source: &Source<'a>) -> &'a str {
        self.host.as_deref().unwrap_or(source.host)
    }

    /// The absolute Location. Without a port of its own it names the well-known one of its own scheme, else
    /// the listener's; 80 of http and 443 of https are left out (Gateway API, `HTTPRequestRedirectFilter`).
    /// The slash that nginx appends comes without a port (`port_in_redirect off`).
    pub fn location(&self, source: &Source<'_>) -> String {
        let scheme = self.scheme.as_deref().unwrap_or(source.scheme);
        let host = self.host(source);
        let well_known = if scheme == "https" { 443 } else { 80 };
        let inherited = match (&self.scheme, &self.path) {
            (Some(_), _) | (_, RedirectPath::AppendSlash) => well_known,
            (None, _) => source.declared_port,
        };
        let port = self.port.unwrap_or(inherited);
        let (path, query) = match source.target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (source.target, None),
        };
        if let RedirectPath::ReplaceAll(path) = &self.path {
            return [scheme, "://", source.authority, path].concat();
        }
        let mut location = [scheme, "://", host].concat();
        if port != well_known {
            location.push(':');
            location.push_str(itoa::Buffer::new().format(port));
        }
        match &self.path {
            RedirectPath::Keep => location.push_str(path),
            RedirectPath::AppendSlash => {
                location.push_str(path);
                location.push('/');
            }
            RedirectPath::Replace(path) | RedirectPath::ReplaceAll(path) => location.push_str(path),
        }
        if let Some(query) = query {
            location.push('?');
            location.push_str(query);
        }
        location
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Source<'_> = Source {
        scheme: "http",
        host: "a.example",
        authority: "a.example:8081",
        declared_port: 8080,
        target: "/foo?x=1",
    };

    fn redirect(path: RedirectPath) -> Redirect {
        Redirect { status: 301, scheme: None, host: None, port: None, path }
    }

    #[test]
    fn a_slash_is_appended_before_the_query_and_without_a_port() {
        let slash = RedirectTo::compile(&redirect(RedirectPath::AppendSlash)).unwrap();
        assert_eq!(slash.location(&SOURCE), "http://a.example/foo/?x=1");
        let https = Source { scheme: "https", declared_port: 443, target: "/foo", ..SOURCE };
        assert_eq!(slash.location(&https), "https://a.example/foo/");
    }

    #[test]
    fn the_port_comes_from_the_filter_its_scheme_or_the_listener() {
        let location = |change: fn(&mut Redirect)| {
            let mut redirect = redirect(RedirectPath::Keep);
            change(&mut redirect);
            RedirectTo::compile(&redirect).unwrap().location(&SOURCE)
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
    fn an_app_root_stays_where_the_client_is_and_drops_the_query() {
        let root = RedirectTo::compile(&redirect(RedirectPath::ReplaceAll("/app?x=2".into()))).unwrap();
        assert_eq!(root.location(&SOURCE), "http://a.example:8081/app?x=2");
    }

    #[test]
    fn a_status_that_is_no_redirect_is_refused() {
        let wrong = Redirect { status: 200, ..redirect(RedirectPath::Keep) };
        assert_eq!(RedirectTo::compile(&wrong).unwrap_err(), PolicyError::Status(200));
    }
}
