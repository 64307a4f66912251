//! URLs of the gateway's own requests (`auth-url`, `mirror-target`), and their pools.
//!
//! A URL that names a Service of the cluster is requested at its endpoints, an address directly,
//! and any other name is resolved outside the request path (`names`). A name that cannot be
//! resolved has no endpoints. A host with variables is known per request and resolved then.

use std::net::IpAddr;
use std::sync::Arc;

use sluice_config::{
    CallDestination, EndpointSetKey, Moment, NamespacedName, Template, TemplatePiece, UpstreamProtocol,
    Variable,
};

use super::backend::{self, BackendUsage, Uses};
use super::template;
use super::value::Type;
use super::view::View;

/// A URL with variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    https: bool,
    host: Template,
    port: u16,
    /// Path and query.
    pub(crate) target: Template,
}

/// A URL with variables.
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
                (host, port.parse().map_err(|_| format!("has {port:?}, which is not a port"))?)
            }
            _ => (authority, if https { 443 } else { 80 }),
        };
        let host = read_host(host)?;
        let target = match target.starts_with(['/', '$']) {
            true => template::parse(target, Moment::Request)?,
            false => template::parse(&format!("/{target}"), Moment::Request)?,
        };
        Ok(Self { https, host, port, target })
    }

    /// Returns whether the host of the URL depends on the host of the request.
    pub(crate) fn needs_host(&self) -> bool {
        self.host.pieces.contains(&TemplatePiece::Variable(Variable::Host))
    }

    /// Returns whether the host has no variables.
    pub(crate) fn has_fixed_host(&self) -> bool {
        is_plain(&self.host)
    }

    /// Returns whether the URL has no variables.
    pub(crate) fn is_fixed(&self) -> bool {
        is_plain(&self.host) && is_plain(&self.target)
    }

    /// Returns the destination of calls for requests to `host`, or to any host if that is `None`.
    pub(crate) fn resolve(&self, view: &View<'_>, uses: &mut Uses, host: Option<&str>) -> CallDestination {
        let protocol = if self.https { UpstreamProtocol::HttpsUnverified } else { UpstreamProtocol::Http };
        let Some(host) = self.known_host(host) else {
            return CallDestination::PerRequest { host: self.host.clone(), port: self.port, protocol };
        };
        let is_address = host.parse::<IpAddr>().is_ok();
        let key = service(view, &host, self.port).unwrap_or_else(|| EndpointSetKey {
            // An empty namespace marks a target that is not a Service.
            namespace: "".into(),
            service: host.clone(),
            port: self.port.to_string().into(),
        });
        CallDestination::Fixed {
            pool: uses.pool(backend::pool(key, protocol, &BackendUsage::default())),
            server_name: (self.https && !is_address).then(|| host.clone()),
            host,
        }
    }

    /// Returns the host of the URL for requests to `host`; `None` if requests determine it.
    fn known_host(&self, host: Option<&str>) -> Option<Arc<str>> {
        let pieces = self.host.pieces.iter().map(|piece| match piece {
            TemplatePiece::Text(text) => Some(&**text),
            TemplatePiece::Variable(Variable::Host) => host,
            TemplatePiece::Variable(_) => None,
        });
        Some(pieces.collect::<Option<String>>()?.trim_matches(['[', ']']).into())
    }
}

fn is_plain(template: &Template) -> bool {
    template.pieces.iter().all(|piece| matches!(piece, TemplatePiece::Text(_)))
}

/// Reads the host of a URL. It may have variables, except those that a client chooses freely:
/// a client must not choose the service that admits it.
fn read_host(text: &str) -> Result<Template, String> {
    if text.starts_with('.') || text.contains("..") {
        return Err("has a host with an empty label".to_owned());
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let pieces = template::segments(text)?.into_iter().map(|segment| match segment {
        template::Segment::Text(text) if text.bytes().all(plain) => {
            Ok(TemplatePiece::Text(text.to_ascii_lowercase().into()))
        }
        template::Segment::Text(_) => Err("has a character that no host can have".to_owned()),
        template::Segment::Name(name) => match template::variable(name, Moment::Request)? {
            Variable::Host | Variable::HttpHost | Variable::BestHttpHost => {
                Ok(TemplatePiece::Variable(Variable::Host))
            }
            variable @ (Variable::Namespace | Variable::IngressName | Variable::ServiceName) => {
                Ok(TemplatePiece::Variable(variable))
            }
            _ => Err(format!(
                "has ${name} in its host, where only $host, $namespace, $ingress_name and $service_name can be: \
                 a client must not choose the host freely"
            )),
        },
    });
    let pieces = pieces.collect::<Result<Vec<_>, String>>()?;
    if pieces.is_empty() { Err("has no host".to_owned()) } else { Ok(Template { pieces }) }
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
    use sluice_config::TemplatePiece;

    use super::*;

    /// Returns a template as text, with its variables in angle brackets.
    pub(in crate::translate) fn text(template: &Template) -> String {
        template
            .pieces
            .iter()
            .map(|piece| match piece {
                TemplatePiece::Text(text) => text.to_string(),
                TemplatePiece::Variable(variable) => format!("<{variable:?}>"),
            })
            .collect()
    }

    #[test]
    fn a_url_is_taken_apart() {
        for (url, https, host, port, target) in [
            ("http://auth.example", false, "auth.example", 80, "/"),
            ("https://Auth.example:8443/a?b=c", true, "auth.example", 8443, "/a?b=c"),
            ("http://10.0.0.1:9/x$request_uri", false, "10.0.0.1", 9, "/x<RequestUri>"),
            ("http://[::1]:9/", false, "[::1]", 9, "/"),
            ("http://[::1]", false, "[::1]", 80, "/"),
            ("https://$host/oauth2/auth", true, "<Host>", 443, "/oauth2/auth"),
            ("http://a?b", false, "a", 80, "/?b"),
            ("https://1.2.3.4$request_uri", true, "1.2.3.4", 443, "<RequestUri>"),
            ("http://a:9${request_uri}", false, "a", 9, "<RequestUri>"),
            ("http://a$uri$is_args$args", false, "a", 80, "<Uri><IsArgs><Args>"),
            ("http://$host$request_uri", false, "<Host>", 80, "<RequestUri>"),
            ("http://${http_host}:9/", false, "<Host>", 9, "/"),
            ("http://auth.$best_http_host:9/", false, "auth.<Host>", 9, "/"),
            ("http://auth.$namespace.svc/", false, "auth.<Namespace>.svc", 80, "/"),
            ("http://a/b$uri", false, "a", 80, "/b<Uri>"),
        ] {
            let parsed = Remote::read(url).unwrap();
            let expected = (https, host.to_owned(), port);
            assert_eq!((parsed.https, text(&parsed.host), parsed.port), expected, "{url}");
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

    #[test]
    fn a_host_with_an_empty_label_is_unreadable() {
        for url in ["https://a..b/x", "http://a..:8080/x", "http://.a/", "http://..", "http://$host..a/"] {
            assert_eq!(Remote::read(url).unwrap_err(), "has a host with an empty label", "{url}");
        }
        assert!(Remote::read("http://auth.example./x").is_ok());
    }
}
