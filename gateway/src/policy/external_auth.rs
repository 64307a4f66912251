//! External authorisation (`auth-url`): the subrequest and the meaning of its response.
//!
//! The rules are those of nginx's `auth_request`: 2xx admits the request, 401 and 403 are passed
//! on, and any other result, including no response, is answered with 500. No failure admits a
//! request.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::{HeaderValue, SET_COOKIE, VARY, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, StatusCode};
use sluice_config::AuthKeepAlive;

use super::auth_reply::AuthReply;
use super::call_destination::CallDestination;
use super::directives::FieldChanges;
use super::error::PolicyError;
use super::header_set::HeaderSet;
use super::resources::{ResourceSlot, Resources};
use super::template::Template;
use crate::message::edit::{EditableName, NameError};
use crate::message::fields::Fields;
use crate::registry::Registry;

mod cache;
mod lifetime;

pub use cache::{CacheKey, keep, kept};

/// Compiled settings of an authorisation service.
#[derive(Debug)]
pub struct ExternalAuth {
    /// The service.
    pub to: CallDestination,
    /// Path and query of the subrequest.
    pub target: Template,
    /// Method of the subrequest.
    pub method: Method,
    /// Whether the rule sets the method. The service then receives more details of the original
    /// request.
    pub has_method: bool,
    /// URL to which a client with a 401 is redirected.
    pub sign_in: Option<Template>,
    /// Response fields of the service that are passed to the endpoint.
    response_headers: Box<[EditableName]>,
    /// `X-Auth-Request-Redirect`.
    pub request_redirect: Option<Template>,
    /// Fields that are added to the subrequest.
    pub set_headers: Option<Arc<ResourceSlot<HeaderSet>>>,
    /// Response fields that variables of directives refer to.
    kept: Box<[EditableName]>,
    /// Changes of the authorisation request.
    pub fields: FieldChanges,
    /// Whether the cookies of the service are added to every response, whatever its status.
    pub always_set_cookie: bool,
    /// Caching of replies.
    pub cache: Option<AuthCache>,
    /// Keep-alive of connections to the service.
    pub keep_alive: Option<AuthKeepAlive>,
    /// Reply for a client that is admitted without a subrequest. It removes the fields that the
    /// service would set, so that a client cannot forge them.
    pub not_queried: Arc<AuthReply>,
    /// Hash of the whole policy; policies that differ have different values.
    pub identity: u64,
}

/// Caching of the service's replies.
#[derive(Debug)]
pub struct AuthCache {
    /// Requests with the same key share a reply.
    pub key: Template,
    valid: Option<Vec<(Vec<u16>, Duration)>>,
}

impl ExternalAuth {
    /// Compiles the policy.
    ///
    /// # Errors
    /// A name, value or method is invalid, or a pool or resource is missing.
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
            not_queried: Arc::new(AuthReply {
                status: StatusCode::OK,
                fields: response_headers.iter().map(|name| (name.clone(), None)).collect(),
                cookies: Vec::new(),
                challenges: Vec::new(),
                kept: Vec::new(),
                holds: None,
                always_set_cookie: false,
            }),
            to: CallDestination::compile(&auth.to, registry)?,
            target: Template::compile(&auth.target)?,
            method,
            has_method: auth.method.is_some(),
            sign_in: template(&auth.sign_in)?,
            response_headers,
            request_redirect: template(&auth.request_redirect)?,
            set_headers: auth.set_headers.as_ref().map(|key| resources.headers(key)).transpose()?,
            kept: auth.kept.iter().map(name).collect::<Result<_, _>>()?,
            fields: FieldChanges::compile(&auth.fields)?,
            always_set_cookie: auth.always_set_cookie,
            cache: match &auth.cache {
                Some(cache) => {
                    Some(AuthCache { key: Template::compile(&cache.key)?, valid: cache.valid.clone() })
                }
                None => None,
            },
            keep_alive: auth.keep_alive,
            identity: hasher.finish(),
        })
    }

    /// Returns the reply that a response stands for; `None` if its status is not 2xx, 401 or 403.
    pub fn reply(&self, status: StatusCode, fields: &HeaderMap) -> Option<AuthReply> {
        let means = status.is_success() || matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if !means {
            return None;
        }
        let all = |name| fields.get_all(name).iter().cloned().collect();
        let value = |name: &EditableName| Some((Arc::from(name.get().as_str()), joined(fields, name)?));
        let kept = self.kept.iter().filter_map(value).collect();
        let mut taken = Vec::new();
        if status.is_success() {
            for name in &self.response_headers {
                taken.push((name.clone(), joined(fields, name)));
            }
        }
        Some(AuthReply {
            status,
            fields: taken,
            kept,
            cookies: all(SET_COOKIE),
            challenges: if status == StatusCode::UNAUTHORIZED { all(WWW_AUTHENTICATE) } else { Vec::new() },
            holds: self.cache.as_ref().and_then(|cache| cache.holds(status, fields)),
            always_set_cookie: self.always_set_cookie,
        })
    }
}

/// Parses the method of a subrequest. `CONNECT` and `TRACE` are ordinary methods here, as in nginx:
/// the target is a path, and the response ends as its framing says.
fn method(text: &str) -> Result<Method, PolicyError> {
    Method::from_bytes(text.as_bytes()).map_err(|_| PolicyError::Method(text.to_owned()))
}

/// Returns all lines of a field as one value; `None` if it is empty, as in nginx.
fn joined(fields: &HeaderMap, name: &EditableName) -> Option<HeaderValue> {
    HeaderValue::from_bytes(&fields.joined(name.get())?).ok().filter(|value| !value.is_empty())
}

impl AuthCache {
    /// Returns how long a reply may be cached. Like nginx, excludes replies that set a cookie, vary
    /// by request fields, forbid caching, or have expired. The service can shorten the time of the
    /// rule, and determines it if the rule has no times.
    fn holds(&self, status: StatusCode, fields: &HeaderMap) -> Option<Duration> {
        let lists = |statuses: &[u16]| statuses.is_empty() || statuses.contains(&status.as_u16());
        let most = match &self.valid {
            Some(valid) => Some(valid.iter().find(|(statuses, _)| lists(statuses))?.1),
            None => None,
        };
        if fields.contains_key(SET_COOKIE) || fields.contains_key(VARY) {
            return None;
        }
        let stated = lifetime::stated(fields, SystemTime::now());
        let holds = [stated, most].into_iter().flatten().min()?;
        (!holds.is_zero()).then_some(holds)
    }
}

#[cfg(test)]
mod tests;
