//! Policies of a rule. A setting with a global default is optional and resolved against the current
//! [`GlobalSettings`](crate::GlobalSettings) per request, so a change of the default changes no
//! host.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::access::{Limits, Satisfy, Sources};
use crate::backend_headers::BackendHeaders;
use crate::cache::Cache;
use crate::canary::Canary;
use crate::cors::Cors;
use crate::country::Countries;
use crate::directives::Directives;
use crate::error_pages::ErrorPages;
use crate::external_auth::Authorisation;
use crate::fastcgi::FastCgi;
use crate::firewall::Firewall;
use crate::mirror::Mirror;
use crate::name::ObjectRef;
use crate::pool::HashBy;
use crate::replacement::Replacements;
use crate::resource::ResourceKey;
use crate::response_buffering::ResponseBufferingOverrides;
use crate::rewrite::Rewrite;
use crate::same_site::SameSite;
use crate::trace::RuleTracing;
use crate::upstream_tls::UpstreamTls;

/// All policies of one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Policies {
    /// Set if the rule is closed because a policy that protects it could not be built.
    pub deny: Option<Deny>,
    /// Whether the rule takes requests that no rule of an object matches. Variables, metrics and
    /// the access log do not name its origin, and lists of the ConfigMap for rules do not apply.
    pub is_for_unmatched: bool,
    /// Excludes requests from the access log (`enable-access-log`, negated).
    pub unlogged: bool,
    /// Writes each rewrite of a path to the program's log (`enable-rewrite-log`).
    pub logs_rewrites: bool,
    /// Traces of requests.
    pub tracing: RuleTracing,
    /// Redirect from http to https.
    pub https_redirect: HttpsRedirect,
    /// Form of redirect URLs.
    pub locations: Locations,
    /// Timeouts of the upstream side.
    pub timeouts: Timeouts,
    /// Retries on other endpoints.
    pub retry: Retry,
    /// Sticky sessions by cookie.
    pub affinity: Option<CookieAffinity>,
    /// Key for consistent hashing, for requests without a session.
    pub hash_by: Option<Arc<HashBy>>,
    /// Canaries in order of priority. Only for rules that forward.
    pub canaries: Vec<Canary>,
    /// Objects of canaries that take no requests, because their Service or its port does not exist.
    pub canaries_without_service: Vec<ObjectRef>,
    /// Rewrite of the request path.
    pub rewrite: Option<Rewrite>,
    /// Limits and buffering of bodies.
    pub bodies: Bodies,
    /// Basic authentication.
    pub basic_auth: Option<BasicAuth>,
    /// Digest authentication.
    pub digest_auth: Option<DigestAuth>,
    /// External authorisation.
    pub authorisation: Authorisation,
    /// Error pages.
    pub error_pages: ErrorPages,
    /// Mirror of the requests.
    pub mirror: Option<Arc<Mirror>>,
    /// Address lists.
    pub sources: Sources,
    /// Access control by the client's country.
    pub countries: Countries,
    /// Whether all access checks must pass, or any one.
    pub satisfy: Satisfy,
    /// Rate and connection limits per client.
    pub limits: Option<Arc<Limits>>,
    /// Stored responses; `None` stores none.
    pub cache: Option<Arc<Cache>>,
    /// CORS settings.
    pub cors: Option<Arc<Cors>>,
    /// Header fields for the endpoint and the client.
    pub headers: Option<Arc<BackendHeaders>>,
    /// Directives of snippets.
    pub directives: Option<Arc<Directives>>,
    /// Replacements in cookies and redirects of endpoints.
    pub replacements: Option<Arc<Replacements>>,
    /// TLS to endpoints; `None` verifies nothing.
    pub upstream_tls: Option<Arc<UpstreamTls>>,
    /// The web application firewall.
    pub firewall: Option<Arc<Firewall>>,
    /// Settings for FastCGI endpoints; `None` where the rule has none of that protocol.
    pub fastcgi: Option<Arc<FastCgi>>,
    /// Whether endpoints that do not use HTTP/2 get HTTP/1.0; `None` is the GlobalSettings's value
    /// (`proxy-http-version`).
    pub http_1_0: Option<bool>,
    /// Uses plain HTTP to HTTPS endpoints if the client uses plain HTTP
    /// (`backend-protocol: AUTO_HTTP`).
    pub follows_scheme: bool,
}

/// Closes a rule: every request is refused (fail closed).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Deny {
    /// Status: 503, as in ingress-nginx for a denied location.
    pub status: u16,
    /// Object, field and reason, for messages.
    pub reason: Arc<str>,
}

/// HTTP basic authentication (RFC 7617): ingress-nginx `auth-type: basic`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BasicAuth {
    /// Users: a resource of kind `PasswordFile` or `PasswordMap`. Every request is refused while
    /// that resource is absent.
    pub credentials: ResourceKey,
    /// Realm of the challenge (`auth-realm`), without control characters.
    pub realm: Arc<str>,
}

/// HTTP digest authentication (RFC 7616): ingress-nginx `auth-type: digest`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DigestAuth {
    /// Users: a resource of kind `DigestFile` or `DigestMap`. Every request is refused while that
    /// resource is absent.
    pub credentials: ResourceKey,
    /// Realm that the digests include (`auth-realm`), without control characters.
    pub realm: Arc<str>,
}

/// ingress-nginx `ssl-redirect` and `force-ssl-redirect`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HttpsRedirect {
    /// Redirects if a certificate is configured for the host; `None` is the GlobalSettings's
    /// `ssl_redirect`.
    pub ssl: Option<bool>,
    /// Redirects always; `None` is the GlobalSettings's `force_ssl_redirect`.
    pub force: Option<bool>,
}

/// The form of redirect URLs. A field that is `None` inherits the GlobalSettings's value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Locations {
    /// Omits scheme and host where nginx adds them to a path (`relative-redirects`).
    pub relative: Option<bool>,
    /// Includes the port of the socket, or of https (`use-port-in-redirects`).
    pub port: Option<bool>,
    /// Keeps a trailing slash in redirects to https (`preserve-trailing-slash`).
    pub trailing_slash: Option<bool>,
}

/// A timeout: the global default, none, or a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timeout {
    /// The GlobalSettings's value.
    #[default]
    Inherit,
    /// No limit.
    Off,
    /// This duration.
    After(Duration),
}

/// Timeouts of the upstream side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Timeouts {
    /// For a connection to an endpoint, TLS included (`proxy-connect-timeout`).
    pub connect: Timeout,
    /// Between two reads from the endpoint (`proxy-read-timeout`).
    pub read: Timeout,
    /// Between two writes to the endpoint (`proxy-send-timeout`).
    pub send: Timeout,
}

/// ingress-nginx `proxy-next-upstream`, `-tries` and `-timeout`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Retry {
    /// Conditions for a retry; `None` is the GlobalSettings's.
    pub on: Option<NextUpstream>,
    /// Maximum number of attempts, including the first; 0 is one per endpoint. `None` is the
    /// GlobalSettings's.
    pub tries: Option<u32>,
    /// Time after the start of the first attempt in which new attempts may start.
    pub timeout: Timeout,
}

/// Conditions for a retry on another endpoint (nginx `proxy_next_upstream`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NextUpstream {
    /// The connection failed, or broke before the response head.
    pub error: bool,
    /// Connecting, or waiting for the response head, timed out.
    pub timeout: bool,
    /// The response head was malformed.
    pub invalid_header: bool,
    /// The response has status 403.
    pub http_403: bool,
    /// The response has status 404.
    pub http_404: bool,
    /// The response has status 429.
    pub http_429: bool,
    /// The response has status 500.
    pub http_500: bool,
    /// The response has status 502.
    pub http_502: bool,
    /// The response has status 503.
    pub http_503: bool,
    /// The response has status 504.
    pub http_504: bool,
    /// Also retries requests that were already sent and whose method is not idempotent.
    pub non_idempotent: bool,
}

impl NextUpstream {
    /// nginx's default: `error timeout`.
    pub const DEFAULT: Self = Self {
        error: true,
        timeout: true,
        invalid_header: false,
        http_403: false,
        http_404: false,
        http_429: false,
        http_500: false,
        http_502: false,
        http_503: false,
        http_504: false,
        non_idempotent: false,
    };
}

/// Limits and buffering of bodies. A field that is `None` inherits the GlobalSettings's value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bodies {
    /// Maximum size of a request body in bytes; 0 is no limit (`proxy-body-size`).
    pub limit: Option<u64>,
    /// Bytes of a request body that are held in memory (`client-body-buffer-size`).
    pub memory: Option<u64>,
    /// Whether the body is buffered completely before the request is forwarded
    /// (`proxy-request-buffering`).
    pub request_buffering: Option<bool>,
    /// Buffering of responses, where an annotation sets a part of it.
    pub response_buffering: Option<Box<ResponseBufferingOverrides>>,
    /// Response rate limit in bytes per second; 0 is no limit (`limit-rate`).
    pub rate: Option<u64>,
    /// Bytes of a response that are sent before the rate limit applies (`limit-rate-after`).
    pub rate_after: Option<u64>,
}

/// ingress-nginx `affinity: cookie` and `session-cookie-*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CookieAffinity {
    /// Mapping of cookies to endpoints.
    pub mode: AffinityMode,
    /// `session-cookie-name`.
    pub name: Arc<str>,
    /// `session-cookie-path`, or the rule's path; always resolved.
    pub path: Arc<str>,
    /// `session-cookie-domain`.
    pub domain: Option<Arc<str>>,
    /// `session-cookie-secure`: sets the attribute over http too. Over https it is always set.
    pub secure: bool,
    /// `session-cookie-samesite`.
    pub same_site: Option<SameSite>,
    /// `session-cookie-conditional-samesite-none`: omits `SameSite=None` for clients that are known
    /// to misinterpret it.
    pub conditional_same_site_none: bool,
    /// `session-cookie-expires`, seconds from now.
    pub expires: Option<i64>,
    /// `session-cookie-max-age`, seconds.
    pub max_age: Option<i64>,
    /// `session-cookie-change-on-failure`: selects another endpoint and sets a new cookie after a
    /// failed attempt.
    pub change_on_failure: bool,
}

/// ingress-nginx's defaults, with path `/`.
impl Default for CookieAffinity {
    fn default() -> Self {
        Self {
            mode: AffinityMode::Balanced,
            name: "INGRESSCOOKIE".into(),
            path: "/".into(),
            domain: None,
            secure: false,
            same_site: None,
            conditional_same_site_none: false,
            expires: None,
            max_age: None,
            change_on_failure: false,
        }
    }
}

/// ingress-nginx `affinity-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AffinityMode {
    /// The cookie maps to an endpoint through the hash ring. Some sessions move when endpoints
    /// change.
    Balanced,
    /// The cookie names an endpoint. A session moves only if its endpoint is gone.
    Persistent,
}
