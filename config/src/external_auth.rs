//! External authorisation: ingress-nginx `auth-url` and related annotations.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::call_destination::CallDestination;
use crate::directives::FieldChange;
use crate::resource::ResourceKey;
use crate::template::Template;

/// The authorisation service of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Authorisation {
    /// The global service, if configured
    /// ([`GlobalSettings::global_auth`](crate::GlobalSettings::global_auth)).
    #[default]
    Global,
    /// None (`enable-global-auth: false`).
    Off,
    /// A service of the rule's own.
    Own(Arc<ExternalAuth>),
}

/// An authorisation service: request, response and cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExternalAuth {
    /// The service.
    pub to: CallDestination,
    /// Path and query of the authorisation request.
    pub target: Template,
    /// `auth-method`; `None` is GET.
    pub method: Option<Arc<str>>,
    /// Redirect of clients that get 401 (`auth-signin`, with the parameter for the return URL).
    pub sign_in: Option<Template>,
    /// Response fields that are copied to the request for the endpoint (`auth-response-headers`).
    pub response_headers: Vec<Arc<str>>,
    /// `X-Auth-Request-Redirect`, if it is not path and query (`auth-request-redirect`).
    pub request_redirect: Option<Template>,
    /// Fields set in the authorisation request (`auth-proxy-set-headers`).
    pub set_headers: Option<ResourceKey>,
    /// Changes of the authorisation request (`auth-snippet`).
    pub fields: Vec<FieldChange>,
    /// Response fields that variables of directives refer to, in lower case.
    pub kept: Vec<Arc<str>>,
    /// Sends the service's cookies to the client with every response (`auth-always-set-cookie`).
    pub always_set_cookie: bool,
    /// Cache of the service's responses (`auth-cache-key`).
    pub cache: Option<AuthCache>,
    /// Keep-alive of connections to the service (`auth-keepalive`); `None` is that of other
    /// endpoints.
    pub keep_alive: Option<AuthKeepAlive>,
}

/// Cache settings for responses of an authorisation service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuthCache {
    /// Cache key. Requests with equal keys share a response.
    pub key: Template,
    /// Lifetime of responses by status; the first entry that lists the status, or none, applies.
    /// Responses can state a shorter one. `None`: the one that a response states.
    pub valid: Option<Vec<(Vec<u16>, Duration)>>,
}

/// Keep-alive of connections to an authorisation service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuthKeepAlive {
    /// Requests per connection (`auth-keepalive-requests`).
    pub requests: u32,
    /// Idle time (`auth-keepalive-timeout`).
    pub idle: Duration,
}
