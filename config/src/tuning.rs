//! Settings with one value for the whole data plane: what flags and the ConfigMap say. A change of any of
//! them is one swap.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::access::{Blocks, Sources};
use crate::access_log::{AccessLog, ErrorLog};
use crate::certificate::CertificateId;
use crate::external_auth::ExternalAuth;
use crate::forwarded::Forwarded;
use crate::name::ServiceRef;
use crate::policy::NextUpstream;
use crate::pool::{Balance, PoolKey};
use crate::replacement::Replacements;
use crate::resource::ResourceKey;
use crate::server_field::ServerField;
use crate::template::{Piece, Template, Variable};

/// All global settings, resolved. [`Tuning::default`] is ingress-nginx's default of each key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuning {
    /// Time for a whole request head, and for a TLS handshake; then 408 (`client-header-timeout`).
    pub client_header_timeout: Duration,
    /// Time between two reads of a request body; then 408 (`client-body-timeout`).
    pub client_body_timeout: Duration,
    /// Idle time of a client connection; zero closes after each answer (`keep-alive`).
    pub keep_alive: Duration,
    /// Requests on one client connection (`keep-alive-requests`).
    pub keep_alive_requests: u32,
    /// Client connections that are open at once, for each worker; all workers share the sum. 0 is
    /// no limit but the file limit (`max-worker-connections`).
    pub max_connections: usize,
    /// How long a request head and each line of it may be (`large-client-header-buffers`).
    pub large_client_header_buffers: HeaderBuffers,
    /// Field names with `_` are as good as others (`enable-underscores-in-headers`); without it they count as
    /// odd ones, for which the next field says what happens.
    pub underscores_in_headers: bool,
    /// Fields with odd names (other than letters, digits and `-`) are dropped; without it they are passed on
    /// (`ignore-invalid-headers`).
    pub ignore_invalid_headers: bool,
    /// HTTP/2 on the TLS ports (`use-http2`).
    pub use_http2: bool,
    /// Streams of one HTTP/2 connection (`http2-max-concurrent-streams`).
    pub http2_max_concurrent_streams: u32,

    /// Bytes of a request body; 0 is no limit (`proxy-body-size`).
    pub body_limit: u64,
    /// Bytes of a buffered request body that wait in memory (`client-body-buffer-size`).
    pub body_buffer: u64,
    /// Request bodies are there whole before an endpoint is asked (`proxy-request-buffering`).
    pub request_buffering: bool,
    /// Bytes of a response that go out in a second (`limit-rate`); 0 is no limit.
    pub response_rate: u64,
    /// Bytes of it that are free (`limit-rate-after`).
    pub response_rate_after: u64,
    /// Bytes of memory for bodies and heads in flight, over all connections (`body-memory-budget`).
    pub body_memory: u64,
    /// Bytes of disk for buffered request bodies, over all connections (`body-temp-max-size`).
    pub body_disk: u64,
    /// `use-gzip` and `gzip-*`.
    pub gzip: Compression,
    /// `gzip-disable`: a regular expression for the User-Agents that get no gzip; empty for none.
    pub gzip_disable: Arc<str>,
    /// `enable-brotli` and `brotli-*`.
    pub brotli: Compression,
    /// `enable-zstd` and `zstd-*`.
    pub zstd: Compression,

    /// `proxy-connect-timeout`.
    pub proxy_connect_timeout: Duration,
    /// `proxy-read-timeout`.
    pub proxy_read_timeout: Duration,
    /// `proxy-send-timeout`.
    pub proxy_send_timeout: Duration,
    /// HTTP/1.0 is spoken to endpoints that are not spoken to in HTTP/2 (`proxy-http-version`).
    pub http_1_0: bool,
    /// How an endpoint is chosen where a pool leaves that open (`load-balance`); never `Inherit` or `Ring`.
    pub balance: Balance,
    /// `proxy-next-upstream`, with `retry-non-idempotent` in it.
    pub next_upstream: NextUpstream,
    /// `proxy-next-upstream-tries`; 0 is one per endpoint.
    pub next_upstream_tries: u32,
    /// `proxy-next-upstream-timeout`; `None` is no limit.
    pub next_upstream_timeout: Option<Duration>,
    /// Idle upstream connections kept by one worker (`upstream-keepalive-connections`).
    pub upstream_keepalive_connections: usize,
    /// Idle time of an upstream connection (`upstream-keepalive-timeout`).
    pub upstream_keepalive_timeout: Duration,
    /// Age of an upstream connection (`upstream-keepalive-time`).
    pub upstream_keepalive_time: Duration,
    /// Requests on one upstream connection (`upstream-keepalive-requests`).
    pub upstream_keepalive_requests: u32,

    /// `ssl-redirect`.
    pub ssl_redirect: bool,
    /// `force-ssl-redirect`.
    pub force_ssl_redirect: bool,
    /// `http-redirect-code`: 301, 302, 307 or 308.
    pub http_redirect_code: u16,
    /// `relative-redirects`.
    pub relative_redirects: bool,
    /// `use-port-in-redirects`.
    pub port_in_redirects: bool,
    /// `preserve-trailing-slash`.
    pub preserve_trailing_slash: bool,
    /// `--https-port`: the port of redirects to https that name one.
    pub https_port: u16,
    /// Path prefixes that are never redirected to https (`no-tls-redirect-locations`).
    pub no_tls_redirect_locations: Vec<Arc<str>>,
    /// `hsts*`; `None` when `hsts` is false.
    pub hsts: Option<Hsts>,

    /// What is believed of what others say about a client.
    pub forwarded: Forwarded,
    /// Make an X-Request-ID where the client sent none (`generate-request-id`).
    pub generate_request_id: bool,
    /// Tell endpoints path and query as the client sent them, in `X-Original-URI` (`proxy-add-original-uri-header`).
    pub adds_original_uri: bool,
    /// Fields of all requests to endpoints, a resource of kind `GlobalHeaders` (`proxy-set-headers`).
    pub request_headers: Option<ResourceKey>,
    /// Fields of all responses, a resource of kind `GlobalHeaders` (`add-headers`).
    pub response_headers: Option<ResourceKey>,
    /// What becomes of `Server` in responses (`server-tokens`, `allow-backend-server-header`).
    pub server_field: ServerField,
    /// Fields that no response of an endpoint keeps (`hide-headers`).
    pub hidden_headers: Arc<[Arc<str>]>,
    /// What is replaced in cookies and redirects of endpoints (`proxy-cookie-domain`, `proxy-cookie-path`,
    /// `proxy-redirect-from`, `proxy-redirect-to`); a rule replaces each.
    pub replacements: Replacements,
    /// What is written down about requests.
    pub access_log: AccessLog,
    /// What is written down about the program itself.
    pub error_log: ErrorLog,

    /// Who is kept out everywhere.
    pub blocks: Blocks,
    /// Which clients are served (`whitelist-source-range`, `denylist-source-range`); a rule replaces each of the two.
    pub sources: Sources,
    /// Answer to a request that comes too early (`limit-req-status-code`).
    pub limit_rate_status: u16,
    /// Answer to one that is one too many at a time (`limit-conn-status-code`).
    pub limit_connections_status: u16,
    /// What makes two requests those of one client for limits (`limit-conn-zone-variable`).
    pub limit_key: Template,

    /// How long running requests may take after the listeners are closed (`worker-shutdown-timeout`).
    pub worker_shutdown_timeout: Duration,

    /// `--default-ssl-certificate`; `None` is the self-signed one made at start.
    pub default_certificate: Option<CertificateId>,
    /// `--default-backend-service`; `None` is the built-in 404.
    pub default_backend: Option<(PoolKey, ServiceRef)>,

    /// Who says for all rules which requests get in (`global-auth-url`).
    pub global_auth: Option<Arc<ExternalAuth>>,
    /// Prefixes of rules' paths for which it is not asked (`no-auth-locations`).
    pub no_auth_locations: Vec<Arc<str>>,
    /// Responses with these statuses are replaced (`custom-http-errors`).
    pub custom_http_errors: Arc<[u16]>,
    /// Responses of endpoints are left alone (`disable-proxy-intercept-errors`).
    pub keeps_error_responses: bool,
}

/// Buffers for a request head as nginx counts them: a line fits in one buffer, the whole head in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderBuffers {
    /// How many.
    pub count: usize,
    /// Bytes of one: a longer request line is 414, a longer field line is 400.
    pub size: usize,
}

impl HeaderBuffers {
    /// Bytes of all together: a longer head is 400.
    pub fn total(self) -> usize {
        self.count.saturating_mul(self.size)
    }
}

/// When responses are compressed with one coding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compression {
    /// Whether they are.
    pub enabled: bool,
    /// How hard.
    pub level: u8,
    /// Bytes from which a response is; one of unknown length always is.
    pub min_length: u64,
    /// Media types in lower case, beside `text/html`, which always is; `*` is all.
    pub types: Vec<Arc<str>>,
}

impl Compression {
    /// The media types that are compressed where nothing else is said.
    pub const TYPES: &str = "application/atom+xml application/javascript application/x-javascript application/json \
        application/rss+xml application/vnd.ms-fontobject application/x-font-ttf \
        application/x-web-app-manifest+json application/xhtml+xml application/xml font/opentype image/svg+xml \
        image/x-icon text/css text/javascript text/plain text/x-component";

    /// Off, with the usual types.
    pub fn off(level: u8, min_length: u64) -> Self {
        let types = Self::TYPES.split_whitespace().map(Into::into).collect();
        Self { enabled: false, level, min_length, types }
    }
}

/// HTTP Strict Transport Security (RFC 6797).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hsts {
    /// Seconds.
    pub max_age: u64,
    /// `includeSubDomains`.
    pub include_subdomains: bool,
    /// `preload`.
    pub preload: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            client_header_timeout: Duration::from_secs(60),
            client_body_timeout: Duration::from_secs(60),
            keep_alive: Duration::from_secs(75),
            keep_alive_requests: 1000,
            max_connections: 16384,
            large_client_header_buffers: HeaderBuffers { count: 4, size: 8 * 1024 },
            underscores_in_headers: false,
            ignore_invalid_headers: true,
            use_http2: true,
            http2_max_concurrent_streams: 128,
            body_limit: 1 << 20,
            body_buffer: 8 << 10,
            request_buffering: true,
            response_rate: 0,
            response_rate_after: 0,
            body_memory: 128 << 20,
            body_disk: 4 << 30,
            gzip: Compression::off(1, 256),
            gzip_disable: "".into(),
            brotli: Compression::off(4, 20),
            zstd: Compression::off(3, 256),
            proxy_connect_timeout: Duration::from_secs(5),
            proxy_read_timeout: Duration::from_secs(60),
            proxy_send_timeout: Duration::from_secs(60),
            http_1_0: false,
            balance: Balance::RoundRobin,
            next_upstream: NextUpstream::DEFAULT,
            next_upstream_tries: 3,
            next_upstream_timeout: None,
            upstream_keepalive_connections: 320,
            upstream_keepalive_timeout: Duration::from_secs(60),
            upstream_keepalive_time: Duration::from_secs(3600),
            upstream_keepalive_requests: 10000,
            ssl_redirect: true,
            force_ssl_redirect: false,
            http_redirect_code: 308,
            relative_redirects: false,
            port_in_redirects: false,
            preserve_trailing_slash: false,
            https_port: 443,
            no_tls_redirect_locations: vec!["/.well-known/acme-challenge".into()],
            hsts: Some(Hsts { max_age: 31_536_000, include_subdomains: true, preload: false }),
            forwarded: Forwarded::default(),
            generate_request_id: true,
            adds_original_uri: false,
            request_headers: None,
            response_headers: None,
            server_field: ServerField::default(),
            hidden_headers: Arc::default(),
            replacements: Replacements::OFF,
            access_log: AccessLog::default(),
            error_log: ErrorLog::default(),
            blocks: Blocks::default(),
            sources: Sources::default(),
            limit_rate_status: 503,
            limit_connections_status: 503,
            limit_key: Template { pieces: vec![Piece::Variable(Variable::ClientAddress)] },
            worker_shutdown_timeout: Duration::from_secs(240),
            default_certificate: None,
            default_backend: None,
            global_auth: None,
            no_auth_locations: vec!["/.well-known/acme-challenge".into()],
            custom_http_errors: Arc::default(),
            keeps_error_responses: false,
        }
    }
}
