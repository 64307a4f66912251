//! Authorisation by a service of its own: ingress-nginx `auth-url` and its relatives.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::pool::PoolKey;
use crate::resource::ResourceKey;
use crate::template::Template;

/// Whether a rule asks an authorisation service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Authorisation {
    /// The one for all rules, if there is one ([`Tuning::global_auth`](crate::Tuning::global_auth)).
    #[default]
    Global,
    /// None (`enable-global-auth: false`).
    Off,
    /// One of its own.
    Own(Arc<ExternalAuth>),
}

/// An authorisation service, and what its word means.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExternalAuth {
    /// Whom to ask.
    pub pool: PoolKey,
    /// The `Host` field of the question.
    pub host: Arc<str>,
    /// The name that is asked for in TLS, where it is no address.
    pub server_name: Option<Arc<str>>,
    /// Path and query of the question.
    pub target: Template,
    /// `auth-method`; `None` is GET.
    pub method: Option<Arc<str>>,
    /// Where a client goes that gets 401 (`auth-signin`, with the parameter that leads back).
    pub sign_in: Option<Template>,
    /// Fields of its answer that go to the endpoint (`auth-response-headers`).
    pub response_headers: Vec<Arc<str>>,
    /// `X-Auth-Request-Redirect`, where it is not path and query (`auth-request-redirect`).
    pub request_redirect: Option<Template>,
    /// Fields of the question (`auth-proxy-set-headers`).
    pub set_headers: Option<ResourceKey>,
    /// Its cookies go to the client with every response (`auth-always-set-cookie`).
    pub always_set_cookie: bool,
    /// How long its word is kept (`auth-cache-key`).
    pub cache: Option<AuthCache>,
    /// How long connections to it are kept (`auth-keepalive`); `None` is as for any endpoint.
    pub keep_alive: Option<AuthKeepAlive>,
}

/// How long the word of an authorisation service is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuthCache {
    /// Requests with the same key are the same.
    pub key: Template,
    /// How long answers with these statuses hold; the first that names a status counts.
    pub valid: Vec<(Vec<u16>, Duration)>,
}

/// How long connections to an authorisation service are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuthKeepAlive {
    /// Requests of one connection (`auth-keepalive-requests`).
    pub requests: u32,
    /// Idle time (`auth-keepalive-timeout`).
    pub idle: Duration,
}
