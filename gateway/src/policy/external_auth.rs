//! Authorisation by a service of its own (`auth-url`): the question, and what its answer means.
//!
//! nginx's `auth_request` has the rules: 2xx lets the request pass, 401 and 403 are passed on, and everything else,
//! silence included, is 500. It never opens.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CACHE_CONTROL, HeaderValue, SET_COOKIE, VARY, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, StatusCode};
use sluice_config::{AuthKeepAlive, PoolKey};

use super::error::PolicyError;
use super::header_set::HeaderSet;
use super::resources::{Resources, Slot};
use super::template::Template;
use crate::message::edit::{EditableName, NameError};
use crate::message::fields::Fields;
use crate::registry::{Pool, Registry};

mod cache;

pub use cache::{CacheKey, keep, kept};

/// An authorisation service, compiled.
#[derive(Debug)]
pub struct ExternalAuth {
    /// Whom to ask.
    pub pool: Arc<Pool>,
    /// The `Host` field of the question.
    pub host: HeaderValue,
    /// The name that is asked for in TLS.
    pub server_name: Option<Arc<str>>,
    /// Path and query of the question.
    pub target: Template,
    /// Its method.
    pub method: Method,
    /// The method was asked for, so that the service is told more of the request.
    pub has_method: bool,
    /// Where a client goes that gets 401.
    pub sign_in: Option<Template>,
    /// Fields of the answer that go to the endpoint.
    response_headers: Box<[EditableName]>,
    /// `X-Auth-Request-Redirect`.
    pub request_redirect: Option<Template>,
    /// Fields of the question.
    pub set_headers: Option<Arc<Slot<HeaderSet>>>,
    /// Its cookies go to the client with every response.
    pub always_set_cookie: bool,
    /// How long its word is kept.
    pub cache: Option<Cache>,
    /// How long connections to it are kept.
    pub keep_alive: Option<AuthKeepAlive>,
    /// The word that lets a client in who need not be asked about: what the service says to endpoints nobody says then.
    pub unasked: Arc<AuthReply>,
    /// Differs wherever anything of the policy does.
    pub identity: u64,
}

/// How long the word of the service is kept.
#[derive(Debug)]
pub struct Cache {
    /// Requests with the same key are the same.
    pub key: Template,
    valid: Vec<(Vec<u16>, Duration)>,
}

/// The authorisation service's reply to a request.
#[derive(Debug)]
pub struct AuthReply {
    /// 2xx, 401 or 403.
    pub status: StatusCode,
    /// Header fields for the endpoint; `None` removes the request's field of that name.
    pub fields: Vec<(EditableName, Option<HeaderValue>)>,
    /// `Set-Cookie`.
    pub cookies: Vec<HeaderValue>,
    /// `WWW-Authenticate` of a 401.
    pub challenges: Vec<HeaderValue>,
    /// How long it holds, if it is kept.
    pub holds: Option<Duration>,
    /// Cookies go with every response.
    pub always_set_cookie: bool,
}

impl ExternalAuth {
    /// Compiles the policy.
    ///
    /// # Errors
    /// It cannot be carried out.
    pub fn compile(
        auth: &sluice_config::ExternalAuth,
        registry: &Registry,
        resources: &Resources,
    ) -> Result<Self, PolicyError> {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        auth.hash(&mut hasher);
        let method = match auth.method.as_deref() {
            None => Method::GET,
            Some(text) => method(text)?,
        };
        let name = |text: &Arc<str>| {
            EditableName::new(text).map_err(|error| match error {
                NameError::Malformed => PolicyError::HeaderName(text.to_string()),
                NameError::Own => PolicyError::OwnHeader(text.to_string()),
            })
        };
        let template =
            |template: &Option<sluice_config::Template>| template.as_ref().map(Template::compile).transpose();
        let response_headers: Box<[EditableName]> =
            auth.response_headers.iter().map(name).collect::<Result<_, _>>()?;
        Ok(Self {
            unasked: Arc::new(AuthReply {
                status: StatusCode::OK,
                fields: response_headers.iter().map(|name| (name.clone(), None)).collect(),
                cookies: Vec::new(),
                challenges: Vec::new(),
                holds: None,
                always_set_cookie: false,
            }),
            pool: pool(&auth.pool, registry)?,
            host: HeaderValue::from_str(&auth.host)
                .map_err(|_| PolicyError::HeaderValue("Host".to_owned()))?,
            server_name: auth.server_name.clone(),
            target: Template::compile(&auth.target)?,
            method,
            has_method: auth.method.is_some(),
            sign_in: template(&auth.sign_in)?,
            response_headers,
            request_redirect: template(&auth.request_redirect)?,
            set_headers: auth.set_headers.as_ref().map(|key| resources.headers(key)).transpose()?,
            always_set_cookie: auth.always_set_cookie,
            cache: match &auth.cache {
                Some(cache) => {
                    Some(Cache { key: Template::compile(&cache.key)?, valid: cache.valid.clone() })
                }
                None => None,
            },
            keep_alive: auth.keep_alive,
            identity: hasher.finish(),
        })
    }

    /// What the answer says; `None` where it is none that means anything.
    pub fn word(&self, status: StatusCode, fields: &HeaderMap) -> Option<AuthReply> {
        let means = status.is_success() || matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if !means {
            return None;
        }
        let all = |name| fields.get_all(name).iter().cloned().collect();
        let mut taken = Vec::new();
        if status.is_success() {
            for name in &self.response_headers {
                taken.push((name.clone(), joined(fields, name)));
            }
        }
        Some(AuthReply {
            status,
            fields: taken,
            cookies: all(SET_COOKIE),
            challenges: if status == StatusCode::UNAUTHORIZED { all(WWW_AUTHENTICATE) } else { Vec::new() },
            holds: self.cache.as_ref().and_then(|cache| cache.holds(status, fields)),
            always_set_cookie: self.always_set_cookie,
        })
    }
}

/// The pool of this key. Translation sends pools before what names them.
pub fn pool(key: &PoolKey, registry: &Registry) -> Result<Arc<Pool>, PolicyError> {
    registry.pool(key).ok_or_else(|| PolicyError::Pool(key.to_string()))
}

/// A method of a question that has an answer like any other.
fn method(text: &str) -> Result<Method, PolicyError> {
    let method = Method::from_bytes(text.as_bytes()).ok();
    method
        .filter(|method| ![Method::CONNECT, Method::TRACE].contains(method))
        .ok_or_else(|| PolicyError::Method(text.to_owned()))
}

/// All values of a field as one (RFC 9110 §5.3); nothing where it is empty, as with nginx.
fn joined(fields: &HeaderMap, name: &EditableName) -> Option<HeaderValue> {
    let mut lines = fields.lines(name.get());
    let mut joined = lines.next()?.to_vec();
    for line in lines {
        joined.extend_from_slice(b", ");
        joined.extend_from_slice(line);
    }
    HeaderValue::try_from(joined).ok().filter(|value| !value.is_empty())
}

impl AuthReply {
    /// The cookies for the client with a response of this status, as nginx's `add_header` has it.
    pub fn cookies(&self, status: StatusCode) -> &[HeaderValue] {
        let usual = matches!(status.as_u16(), 200 | 201 | 204 | 206 | 301..=304 | 307 | 308);
        if usual || self.always_set_cookie { &self.cookies } else { &[] }
    }
}

impl Cache {
    /// How long an answer holds. One that sets a cookie or depends on fields of the request is for one client alone, and
    /// the service may forbid it, as with nginx; it may also ask for less than the rule.
    fn holds(&self, status: StatusCode, fields: &HeaderMap) -> Option<Duration> {
        let (_, most) = self.valid.iter().find(|(statuses, _)| statuses.contains(&status.as_u16()))?;
        if fields.contains_key(SET_COOKIE) || fields.contains_key(VARY) {
            return None;
        }
        let mut holds = *most;
        let directives =
            fields.get_all(CACHE_CONTROL).iter().flat_map(|line| line.as_bytes().split(|b| *b == b','));
        for directive in directives {
            let directive = directive.trim_ascii().to_ascii_lowercase();
            match &directive[..] {
                b"no-cache" | b"no-store" | b"private" => return None,
                other => {
                    let age = other.strip_prefix(b"max-age=").or_else(|| other.strip_prefix(b"s-maxage="));
                    if let Some(age) = age {
                        let seconds = str::from_utf8(age).ok()?.parse().ok()?;
                        holds = holds.min(Duration::from_secs(seconds));
                    }
                }
            }
        }
        (!holds.is_zero()).then_some(holds)
    }
}

#[cfg(test)]
mod tests;
