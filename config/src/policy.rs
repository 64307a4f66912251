//! What objects may ask for per rule. Every setting with a global default is optional here and resolved
//! against the current [`Tuning`](crate::Tuning) when a request needs it, so that a change of the default
//! touches no host.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::access::{Limits, Satisfy, Sources};
use crate::backend_headers::BackendHeaders;
use crate::canary::Canary;
use crate::cors::Cors;
use crate::error_pages::ErrorPages;
use crate::external_auth::Authorisation;
use crate::mirror::Mirror;
use crate::pool::HashBy;
use crate::replacement::Replacements;
use crate::resource::ResourceKey;
use crate::rewrite::Rewrite;
use crate::upstream_tls::UpstreamTls;

/// All policies of one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Policies {
    /// The rule is closed: a policy that protects it could not be built.
    pub deny: Option<Deny>,
    /// Its requests get no line in the access log (`enable-access-log` negated).
    pub unlogged: bool,
    /// Redirect from http to https.
    pub https_redirect: HttpsRedirect,
    /// How redirects are written.
    pub locations: Locations,
    /// Limits on the time of the upstream side.
    pub timeouts: Timeouts,
    /// When another endpoint is tried.
    pub retry: Retry,
    /// Sticky sessions by cookie.
    pub affinity: Option<CookieAffinity>,
    /// Requests with the same key go to the same endpoint, where no session says to which.
    pub hash_by: Option<Arc<HashBy>>,
    /// Other backends for some of the requests, who comes first first; the rule forwards.
    pub canaries: Vec<Canary>,
    /// Another path for the endpoint.
    pub rewrite: Option<Rewrite>,
    /// How much of a request body is taken, and where it waits.
    pub bodies: Bodies,
    /// Who gets in by name and password.
    pub basic_auth: Option<BasicAuth>,
    /// Who gets in by a digest of name and password.
    pub digest_auth: Option<DigestAuth>,
    /// Whether somebody else says who gets in.
    pub authorisation: Authorisation,
    /// What is answered in place of errors.
    pub error_pages: ErrorPages,
    /// Where requests are copied to.
    pub mirror: Option<Arc<Mirror>>,
    /// Which clients are served.
    pub sources: Sources,
    /// Whether all checks of who gets in count, or any one of them.
    pub satisfy: Satisfy,
    /// How much one client may ask for.
    pub limits: Option<Arc<Limits>>,
    /// Which pages of other origins may read the responses.
    pub cors: Option<Arc<Cors>>,
    /// Fields of heads for the endpoint and the client.
    pub headers: Option<Arc<BackendHeaders>>,
    /// What is replaced in cookies and redirects of endpoints.
    pub replacements: Option<Arc<Replacements>>,
    /// TLS towards endpoints; `None` trusts whoever answers.
    pub upstream_tls: Option<Arc<UpstreamTls>>,
    /// Whether HTTP/1.0 is spoken to endpoints that are not spoken to in HTTP/2; `None` is the Tuning's
    /// (`proxy-http-version`).
    pub http_1_0: Option<bool>,
    /// Endpoints of HTTPS get plain HTTP for clients that speak it (`backend-protocol: AUTO_HTTP`).
    pub follows_scheme: bool,
}

/// Why every request of a rule is refused (rule of the house: fail closed).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Deny {
    /// 503 as ingress-nginx has it for a denied location.
    pub status: u16,
    /// For people: which object and field, and what is wrong.
    pub reason: Arc<str>,
}

/// HTTP basic authentication (RFC 7617): ingress-nginx `auth-type: basic`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BasicAuth {
    /// The users, a resource of kind `PasswordFile` or `PasswordMap`. Nobody gets in while there is none of that key.
    pub credentials: ResourceKey,
    /// What the client is asked for (`auth-realm`): text without control characters.
    pub realm: Arc<str>,
}

/// HTTP digest authentication (RFC 7616): ingress-nginx `auth-type: digest`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DigestAuth {
    /// The users, a resource of kind `DigestFile` or `DigestMap`. Nobody gets in while there is none of that key.
    pub credentials: ResourceKey,
    /// What the users' digests were made for (`auth-realm`): text without control characters.
    pub realm: Arc<str>,
}

/// ingress-nginx `ssl-redirect` and `force-ssl-redirect`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HttpsRedirect {
    /// Redirect when the host has TLS; `None` is the Tuning's `ssl_redirect`.
    pub ssl: Option<bool>,
    /// Redirect always; `None` is the Tuning's `force_ssl_redirect`.
    pub force: Option<bool>,
}

/// How redirects of our own are written. Each is the Tuning's where it is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Locations {
    /// Without scheme and host, where nginx adds them to a path (`relative-redirects`).
    pub relative: Option<bool>,
    /// With the port of the socket, or of https (`use-port-in-redirects`).
    pub port: Option<bool>,
    /// A final slash stays in the redirect to https (`preserve-trailing-slash`).
    pub trailing_slash: Option<bool>,
}

/// A limit in one of three states: global default, none, or a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timeout {
    /// The Tuning's.
    #[default]
    Inherit,
    /// No limit.
    Off,
    /// This long.
    After(Duration),
}

/// Limits on the upstream side.
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
    /// On what; `None` is the Tuning's.
    pub on: Option<NextUpstream>,
    /// How many tries in all, the first included; 0 is one per endpoint. `None` is the Tuning's.
    pub tries: Option<u32>,
    /// No new try later than this after the first began.
    pub timeout: Timeout,
}

/// Conditions under which a request goes to another endpoint (nginx `proxy_next_upstream`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NextUpstream {
    /// The connection failed, or broke before a response head came.
    pub error: bool,
    /// Connecting or waiting for the response head took too long.
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
    /// Also requests whose method is not idempotent and that were already sent.
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

/// Bodies. Each is the Tuning's where it is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bodies {
    /// Bytes of a request body; 0 is no limit (`proxy-body-size`).
    pub limit: Option<u64>,
    /// Bytes of it that wait in memory (`client-body-buffer-size`).
    pub memory: Option<u64>,
    /// Whether the whole of it is there before an endpoint is asked (`proxy-request-buffering`).
    pub request_buffering: Option<bool>,
    /// Bytes of a response that go out in a second; 0 is no limit (`limit-rate`).
    pub rate: Option<u64>,
    /// Bytes of it that are free (`limit-rate-after`).
    pub rate_after: Option<u64>,
}

/// ingress-nginx `affinity: cookie` and `session-cookie-*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CookieAffinity {
    /// What a cookie's value maps to.
    pub mode: AffinityMode,
    /// `session-cookie-name`.
    pub name: Arc<str>,
    /// `session-cookie-path`, else the rule's path: always resolved.
    pub path: Arc<str>,
    /// `session-cookie-domain`.
    pub domain: Option<Arc<str>>,
    /// `session-cookie-secure`: the attribute is set on answers over http too; over https it always is.
    pub secure: bool,
    /// `session-cookie-samesite`.
    pub same_site: Option<SameSite>,
    /// `session-cookie-conditional-samesite-none`: `SameSite=None` is left out for clients that are known to misread it.
    pub conditional_same_site_none: bool,
    /// `session-cookie-expires`, seconds from now.
    pub expires: Option<i64>,
    /// `session-cookie-max-age`, seconds.
    pub max_age: Option<i64>,
    /// `session-cookie-change-on-failure`: pick another endpoint and set a new cookie after a failed try.
    pub change_on_failure: bool,
}

/// ingress-nginx `affinity-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AffinityMode {
    /// Any cookie maps to an endpoint through the ring; some sessions move when endpoints change.
    Balanced,
    /// The cookie names an endpoint; the session moves only when that endpoint is gone.
    Persistent,
}

/// The cookie attribute of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SameSite {
    /// `SameSite=None`.
    None,
    /// `SameSite=Lax`.
    Lax,
    /// `SameSite=Strict`.
    Strict,
}
