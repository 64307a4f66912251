//! URLs of the gateway's own requests (`auth-url`, `mirror-target`), and their pools.
//!
//! A URL that names a Service of the cluster is requested at its endpoints, an address directly,
//! and any other name is resolved outside the request path (`names`). A name that cannot be
//! resolved has no endpoints.

use std::net::IpAddr;
use std::sync::Arc;

use sluice_config::{EndpointSetKey, Moment, NamespacedName, PoolKey, Template, UpstreamProtocol};

use super::routes::backend::{self, Usage, Uses};
use super::template;
use super::value::Type;
use super::view::View;

/// A URL with variables after its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    https: bool,
    /// `None` is the host of the request.
    host: Option<Arc<str>>,
    port: u16,
    /// Path and query.
    pub(crate) target: Template,
}

/// The resolved target of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteTarget {
    pub(crate) pool: PoolKey,
    /// The server name for TLS.
    pub(crate) server_name: Option<Arc<str>>,
    /// The host of the URL.
    pub(crate) host: Arc<str>,
}

/// A URL with variables after its host.
pub(crate) fn url() -> Type<Remote> {
    Type::new("URL with variables", Remote::read).evaluated_at(Moment::Request)
}

/// Variables whose values begin with a slash, which may start a path.
const PATHS: [&str; 8] = [
    "$request_uri",
    "${request_uri}",
    "$uri",
    "${uri}",
    "$document_uri",
    "${document_uri}",
    "$location_path",
    "${location_path}",
];

impl Remote {
    /// Parses a URL. The error completes "the value ...".
    fn read(text: &str) -> Result<Self, String> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:,?&=$%+{}[]".contains(&byte);
        if !text.bytes().all(fits) {
            return Err("has a character that a URL with variables cannot have".to_owned());
        }
        let scheme = [("http://", false), ("https://", true)].into_iter();
        let found = scheme.filter_map(|(prefix, https)| Some((text.strip_prefix(prefix)?, https))).next();
        let (rest, https) = found.ok_or("must begin with http:// or https://")?;
        let (authority, target) = rest.split_at(end_of_authority(rest));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                (host, port.parse().map_err(|_| format!("has {port:?}, which is no port"))?)
            }
            _ => (authority, if https { 443 } else { 80 }),
        };
        let host = match host {
            "$host" | "${host}" | "$http_host" | "$best_http_host" => None,
            host => {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
                if host.is_empty() || !host.bytes().all(plain) {
                    return Err(
                        "must have a host without variables, or $host alone, because it is looked up before any request"
                            .to_owned(),
                    );
                }
                Some(host.trim_matches(['[', ']']).to_ascii_lowercase().into())
            }
        };
        let target = match target.starts_with(['/', '$']) {
            true => template::parse(target, Moment::Request)?,
            false => template::parse(&format!("/{target}"), Moment::Request)?,
        };
        Ok(Self { https, host, port, target })
    }

    /// Returns whether the target depends on the host of the request.
    pub(crate) fn needs_host(&self) -> bool {
        self.host.is_none()
    }

    /// Returns the target for requests to `host`; `None` without a host that the URL needs.
    pub(crate) fn resolve(
        &self,
        view: &View<'_>,
        uses: &mut Uses,
        host: Option<&str>,
    ) -> Option<RemoteTarget> {
        let host: Arc<str> = match &self.host {
            Some(host) => host.clone(),
            None => host?.into(),
        };
        let is_address = host.parse::<IpAddr>().is_ok();
        let protocol = if self.https { UpstreamProtocol::HttpsUnverified } else { UpstreamProtocol::Http };
        let key = service(view, &host, self.port).unwrap_or_else(|| EndpointSetKey {
            // An empty namespace marks a target that is not a Service.
            namespace: "".into(),
            service: host.clone(),
            port: self.port.to_string().into(),
        });
        Some(RemoteTarget {
            pool: uses.pool(backend::pool(key, protocol, &Usage::default())),
            server_name: (self.https && !is_address).then(|| host.clone()),
            host,
        })
    }
}

/// Returns the end of host and port: at the path, the query, or a variable that is a path.
fn end_of_authority(rest: &str) -> usize {
    let path = PATHS.iter().filter_map(|variable| {
        let at = rest.find(variable)?;
        let behind = &rest[at + variable.len()..];
        let is_whole = variable.ends_with('}')
            || !behind.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_');
        is_whole.then_some(at)
    });
    path.chain(rest.find(['/', '?'])).min().unwrap_or(rest.len())
}

/// Returns the endpoints of `name.namespace.svc`, if the Service exists with this port.
fn service(view: &View<'_>, host: &str, port: u16) -> Option<EndpointSetKey> {
    let mut labels = host.split('.');
    let (name, namespace) = (labels.next()?, labels.next()?);
    if labels.next() != Some("svc") {
        return None;
    }
    let service = view.service(&NamespacedName::new(namespace, name))?;
    if service.external_name.is_some() {
        return None;
    }
    let port = service.ports.iter().find(|known| known.number == i32::from(port))?;
    Some(backend::endpoints(service, port))
}

#[cfg(test)]
pub(super) mod tests {
    use sluice_config::Piece;

    use super::*;

    /// Returns a template as text, with its variables in angle brackets.
    pub(in crate::translate) fn text(template: &Template) -> String {
        template
            .pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.to_string(),
                Piece::Variable(variable) => format!("<{variable:?}>"),
            })
            .collect()
    }

    #[test]
    fn a_url_is_taken_apart() {
        for (url, https, host, port, target) in [
            ("http://auth.example", false, Some("auth.example"), 80, "/"),
            ("https://Auth.example:8443/a?b=c", true, Some("auth.example"), 8443, "/a?b=c"),
            ("http://10.0.0.1:9/x$request_uri", false, Some("10.0.0.1"), 9, "/x<RequestUri>"),
            ("http://[::1]:9/", false, Some("::1"), 9, "/"),
            ("http://[::1]", false, Some("::1"), 80, "/"),
            ("https://$host/oauth2/auth", true, None, 443, "/oauth2/auth"),
            ("http://a?b", false, Some("a"), 80, "/?b"),
            ("https://1.2.3.4$request_uri", true, Some("1.2.3.4"), 443, "<RequestUri>"),
            ("http://a:9${request_uri}", false, Some("a"), 9, "<RequestUri>"),
            ("http://a$uri$is_args$args", false, Some("a"), 80, "<Uri><IsArgs><Args>"),
            ("http://$host$request_uri", false, None, 80, "<RequestUri>"),
            ("http://a/b$uri", false, Some("a"), 80, "/b<Uri>"),
        ] {
            let parsed = Remote::read(url).unwrap();
            assert_eq!((parsed.https, parsed.host.as_deref(), parsed.port), (https, host, port), "{url}");
            assert_eq!(text(&parsed.target), target, "{url}");
        }
        for bad in [
            "auth.example",
            "ftp://a",
            "http://",
            "http://a:x",
            "http://a b",
            "http://a$arg_x/",
            "http://a/$x",
            "http://a/\"",
            "http://a:99999",
            "http://a$uri_x",
            "http://$http_x/",
            "http://a$is_args$args",
        ] {
            assert!(Remote::read(bad).is_err(), "{bad}");
        }
    }
}
