//! What annotations or keys of the `auth-url` family say, and the policy that comes of it.
//!
//! A Service of the cluster that the URL names is asked at its endpoints, an address is asked as it stands, and any other
//! name is resolved beside the request path (`names`). A name that cannot be resolved has no endpoints, so that
//! the routes answer 500, as with nginx.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sluice_config::{
    AuthCache, AuthKeepAlive, Balance, EndpointSetKey, ExternalAuth, NamespacedName, Piece, PoolKey,
    ResourceKey, ResourceKind, Template, UpstreamProtocol, Variable,
};

use super::backend::{self, Uses};
use super::setting::Fault;
use super::template;
use super::value;
use super::view::View;

/// What the settings say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSettings {
    /// `auth-url`.
    pub(crate) url: Option<AuthUrl>,
    method: Option<Arc<str>>,
    sign_in: Option<Arc<str>>,
    redirect_param: Arc<str>,
    response_headers: Vec<Arc<str>>,
    request_redirect: Option<Template>,
    set_headers: Option<NamespacedName>,
    always_set_cookie: bool,
    cache_key: Option<Template>,
    cache_valid: Vec<(Vec<u16>, Duration)>,
    keep_alive: u32,
    keep_alive_requests: u32,
    keep_alive_timeout: Duration,
}

/// A URL with variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuthUrl {
    https: bool,
    /// `None` is the host of the request.
    host: Option<Arc<str>>,
    port: u16,
    target: Template,
}

impl Default for AuthSettings {
    fn default() -> Self {
        Self {
            url: None,
            method: None,
            sign_in: None,
            redirect_param: "rd".into(),
            response_headers: Vec::new(),
            request_redirect: None,
            set_headers: None,
            always_set_cookie: false,
            cache_key: None,
            cache_valid: vec![(vec![200, 202, 401], Duration::from_secs(300))],
            keep_alive: 0,
            keep_alive_requests: 1000,
            keep_alive_timeout: Duration::from_secs(60),
        }
    }
}

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Setters, for annotations and keys alike.
impl AuthSettings {
    pub(crate) fn set_url(&mut self, text: &str) -> Result<(), Fault> {
        self.url = Some(AuthUrl::parse(text)?);
        Ok(())
    }

    pub(crate) fn set_method(&mut self, text: &str) -> Result<(), Fault> {
        match METHODS.contains(&text) {
            true => self.method = Some(text.into()),
            false => return Err(Fault::Invalid(format!("must be one of {}", METHODS.join(", ")))),
        }
        Ok(())
    }

    pub(crate) fn set_sign_in(&mut self, text: &str) -> Result<(), Fault> {
        if text.chars().any(|c| c.is_control() || c == ' ') {
            return Err(Fault::Invalid("must be a URL without blanks".to_owned()));
        }
        template::parse(text)?;
        self.sign_in = Some(text.into());
        Ok(())
    }

    pub(crate) fn set_redirect_param(&mut self, text: &str) -> Result<(), Fault> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        if text.is_empty() || !text.bytes().all(fits) {
            return Err(Fault::Invalid("must be a name of letters, digits and - _ . ~".to_owned()));
        }
        self.redirect_param = text.into();
        Ok(())
    }

    pub(crate) fn set_response_headers(&mut self, text: &str) -> Result<(), Fault> {
        let mut names = Vec::new();
        for name in value::list(text) {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            if !name.bytes().all(fits) {
                return Err(Fault::Invalid(format!("has {name:?}, which is no name of a header")));
            }
            if OWN.iter().any(|own| own.eq_ignore_ascii_case(name)) {
                return Err(Fault::Invalid(format!("has {name}, which belongs to the gateway")));
            }
            names.push(name.into());
        }
        self.response_headers = names;
        Ok(())
    }

    pub(crate) fn set_request_redirect(&mut self, text: &str) -> Result<(), Fault> {
        self.request_redirect = Some(template::parse_field(text)?);
        Ok(())
    }

    pub(crate) fn set_set_headers(&mut self, name: NamespacedName) {
        self.set_headers = Some(name);
    }

    pub(crate) fn set_always_set_cookie(&mut self, text: &str) -> Result<(), Fault> {
        self.always_set_cookie = value::bool(text)?;
        Ok(())
    }

    pub(crate) fn set_cache_key(&mut self, text: &str) -> Result<(), Fault> {
        self.cache_key = Some(template::parse_field(text)?);
        Ok(())
    }

    pub(crate) fn set_cache_duration(&mut self, text: &str) -> Result<(), Fault> {
        let mut valid = Vec::new();
        for entry in value::list(text) {
            let mut words: Vec<&str> = entry.split_ascii_whitespace().collect();
            let time = value::time(words.pop().unwrap_or_default())?;
            let mut codes = Vec::new();
            for word in words {
                match word.parse() {
                    Ok(code @ 100..=599) => codes.push(code),
                    _ => return Err(Fault::Invalid(format!("has {word:?}, which is no status"))),
                }
            }
            // As nginx has it; of these, 200 alone lets anybody in.
            valid.push((if codes.is_empty() { vec![200] } else { codes }, time));
        }
        self.cache_valid = valid;
        Ok(())
    }

    pub(crate) fn set_keep_alive(&mut self, text: &str) -> Result<(), Fault> {
        self.keep_alive = value::int(text)?;
        Ok(())
    }

    pub(crate) fn set_keep_alive_requests(&mut self, text: &str) -> Result<(), Fault> {
        self.keep_alive_requests = value::int(text)?;
        Ok(())
    }

    pub(crate) fn set_keep_alive_timeout(&mut self, text: &str) -> Result<(), Fault> {
        self.keep_alive_timeout = Duration::from_secs(value::int::<u32>(text)?.into());
        Ok(())
    }
}

/// Fields that no answer of a service may change for the endpoint; the data plane refuses them too.
const OWN: [&str; 14] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "max-forwards",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-sluice-hops",
];

impl AuthUrl {
    fn parse(text: &str) -> Result<Self, String> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:,?&=$%+{}[]".contains(&byte);
        if !text.bytes().all(fits) {
            return Err("has a character that the URL of an authorisation service cannot have".to_owned());
        }
        let scheme = [("http://", false), ("https://", true)].into_iter();
        let found = scheme.filter_map(|(prefix, https)| Some((text.strip_prefix(prefix)?, https))).next();
        let (rest, https) = found.ok_or("must begin with http:// or https://")?;
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
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
        let target = match target.starts_with('/') {
            true => template::parse(target)?,
            false => template::parse(&format!("/{target}"))?,
        };
        Ok(Self { https, host, port, target })
    }

    /// Whether it is asked where the request was meant to go.
    pub(crate) fn needs_host(&self) -> bool {
        self.host.is_none()
    }
}

impl AuthSettings {
    /// The ConfigMap that it needs.
    pub(crate) fn resource(&self) -> Option<ResourceKey> {
        let name = self.set_headers.clone().filter(|_| self.url.is_some())?;
        Some(ResourceKey { kind: ResourceKind::Headers, name })
    }

    /// The policy, for requests to `host`; nothing without a URL, or without the host that the URL needs.
    pub(crate) fn policy(
        &self,
        view: &View<'_>,
        uses: &mut Uses,
        host: Option<&str>,
    ) -> Option<ExternalAuth> {
        let url = self.url.as_ref()?;
        let host: Arc<str> = match &url.host {
            Some(host) => host.clone(),
            None => host?.into(),
        };
        let is_address = host.parse::<IpAddr>().is_ok();
        let protocol = if url.https { UpstreamProtocol::HttpsUnverified } else { UpstreamProtocol::Http };
        let key = service(view, &host, url.port).unwrap_or_else(|| EndpointSetKey {
            // What is of no namespace is of no Service.
            namespace: "".into(),
            service: host.clone(),
            port: url.port.to_string().into(),
        });
        let pool: PoolKey = uses.pool(backend::pool(key, protocol, Balance::RoundRobin));
        Some(ExternalAuth {
            pool,
            server_name: (url.https && !is_address).then(|| host.clone()),
            host,
            target: url.target.clone(),
            method: self.method.clone(),
            sign_in: self.sign_in.as_deref().and_then(|url| sign_in(url, &self.redirect_param)),
            response_headers: self.response_headers.clone(),
            request_redirect: self.request_redirect.clone(),
            set_headers: self.resource(),
            always_set_cookie: self.always_set_cookie,
            cache: self.cache_key.clone().map(|key| AuthCache { key, valid: self.cache_valid.clone() }),
            keep_alive: (self.keep_alive > 0).then_some(AuthKeepAlive {
                requests: self.keep_alive_requests.max(1),
                idle: self.keep_alive_timeout,
            }),
        })
    }
}

/// The endpoints of `name.namespace.svc`, where there is such a Service with such a port.
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
    Some(EndpointSetKey {
        namespace: service.name.namespace.clone(),
        service: service.name.name.clone(),
        port: port.name.clone(),
    })
}

/// The URL to sign in at, with the parameter that leads back, unless it has one.
fn sign_in(url: &str, param: &str) -> Option<Template> {
    let (separator, has_it) = match url.split_once('?') {
        None => ("?", false),
        Some((_, query)) => {
            let names = query.split('&').filter_map(|pair| pair.split_once('='));
            ("&", names.into_iter().any(|(name, value)| name == param && !value.is_empty()))
        }
    };
    // It was read before.
    let mut template = template::parse(url).ok()?;
    if !has_it {
        template.pieces.extend([
            Piece::Text(format!("{separator}{param}=").into()),
            Piece::Variable(Variable::AccessScheme),
            Piece::Text("://".into()),
            Piece::Variable(Variable::HttpHost),
            Piece::Variable(Variable::EscapedRequestUri),
        ]);
    }
    Some(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(template: &Template) -> String {
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
        ] {
            let parsed = AuthUrl::parse(url).unwrap();
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
        ] {
            assert!(AuthUrl::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_way_back_is_added_once() {
        let back = "<AccessScheme>://<HttpHost><EscapedRequestUri>";
        for (url, param, expected) in [
            ("https://a/start", "rd", format!("https://a/start?rd={back}")),
            ("https://a/start?x=1", "to", format!("https://a/start?x=1&to={back}")),
            ("https://a/start?rd=home", "rd", "https://a/start?rd=home".to_owned()),
            (
                "https://$host/start?rd=$escaped_request_uri",
                "rd",
                "https://<Host>/start?rd=<EscapedRequestUri>".to_owned(),
            ),
        ] {
            assert_eq!(text(&sign_in(url, param).unwrap()), expected);
        }
    }

    #[test]
    fn times_of_the_cache() {
        let mut settings = AuthSettings::default();
        settings.set_cache_duration("200 202 10m, 401 5s,1h").unwrap();
        let valid = |codes: &[u16], seconds| (codes.to_vec(), Duration::from_secs(seconds));
        assert_eq!(settings.cache_valid, [valid(&[200, 202], 600), valid(&[401], 5), valid(&[200], 3600)]);
        for bad in ["200", "200 x", "999 5m", "abc 5m", "5m 200"] {
            assert!(settings.set_cache_duration(bad).is_err() || bad == "200", "{bad}");
        }
    }
}
