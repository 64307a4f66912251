//! Global settings of the data plane, from flags and the ConfigMap. Any change swaps all of them at
//! once.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::access::{Blocks, Network, Sources};
use crate::access_log::{AccessLog, ErrorLog};
use crate::certificate::CertificateId;
use crate::computed::ComputedVariable;
use crate::downstream_tls::DownstreamTls;
use crate::external_auth::ExternalAuth;
use crate::forwarded::Forwarded;
use crate::name::ServiceRef;
use crate::policy::NextUpstream;
use crate::pool::{Balance, PoolKey};
use crate::replacement::Replacements;
use crate::replicas::Replicas;
use crate::resource::ResourceKey;
use crate::response_buffering::ResponseBuffering;
use crate::rule::Rule;
use crate::server_field::ServerField;
use crate::stream::StreamSettings;
use crate::template::{Template, TemplatePiece};
use crate::trace::TraceSettings;
use crate::variable::Variable;

/// All global settings, resolved. [`GlobalSettings::default`] has the defaults of ingress-nginx.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GlobalSettings {
    /// Time limit for a request head and for a TLS handshake, then 408 (`client-header-timeout`).
    pub client_header_timeout: Duration,
    /// Time limit between two reads of a request body, then 408 (`client-body-timeout`).
    pub client_body_timeout: Duration,
    /// Idle time of a client connection; zero closes after each response (`keep-alive`).
    pub keep_alive: Duration,
    /// Maximum number of requests per client connection (`keep-alive-requests`).
    pub keep_alive_requests: u32,
    /// Maximum number of open client connections per worker; all workers share the sum. 0 is no
    /// limit other than that of open files (`max-worker-connections`).
    pub max_connections: usize,
    /// Number of workers that serve new connections; `None` is all (`worker-processes`).
    pub workers: Option<NonZeroUsize>,
    /// Bytes at the beginning of a head of HTTP/1 to which `large_client_header_buffers` does not
    /// apply (`client-header-buffer-size`).
    pub client_header_buffer: usize,
    /// Size limits for a request head and each of its lines (`large-client-header-buffers`).
    pub large_client_header_buffers: HeaderBuffers,
    /// Whether field names with `_` are valid (`enable-underscores-in-headers`). If not,
    /// `ignore_invalid_headers` applies to them.
    pub underscores_in_headers: bool,
    /// Drops fields with invalid names (characters other than letters, digits and `-`) instead of
    /// passing them on (`ignore-invalid-headers`).
    pub ignore_invalid_headers: bool,
    /// Enables HTTP/2 on the TLS ports (`use-http2`).
    pub use_http2: bool,
    /// TLS to clients (`ssl-*`).
    pub tls: DownstreamTls,
    /// Staples OCSP responses to certificates that name a responder (`enable-ocsp`).
    pub staple_ocsp: bool,
    /// Whether OCSP responders at local addresses are asked
    /// ([`is_local`](crate::local_address::is_local)).
    pub ask_local_responders: bool,
    /// Maximum number of streams per HTTP/2 connection (`http2-max-concurrent-streams`).
    pub http2_max_concurrent_streams: u32,

    /// Maximum size of a request body in bytes; 0 is no limit (`proxy-body-size`).
    pub body_limit: u64,
    /// Bytes of a buffered request body that are held in memory (`client-body-buffer-size`).
    pub body_buffer: u64,
    /// Buffers request bodies completely before a request is forwarded (`proxy-request-buffering`).
    pub request_buffering: bool,
    /// Buffering of responses.
    pub response_buffering: ResponseBuffering,
    /// Response rate limit in bytes per second; 0 is no limit (`limit-rate`).
    pub response_rate: u64,
    /// Bytes of a response that are sent before the rate limit applies (`limit-rate-after`).
    pub response_rate_after: u64,
    /// Reads GeoIP2 databases (`use-geoip2`).
    pub use_geoip2: bool,
    /// Bytes of memory for bodies and heads in flight, over all connections (`body-memory-budget`).
    pub body_memory: u64,
    /// Maximum bytes of stored responses, over all rules; at most a quarter of `body_memory` is
    /// used, and 0 stores none (`cache-size`).
    pub cache_size: u64,
    /// Maximum bytes of bodies of stored responses in the folder of `--cache-path`; 0 stores none
    /// there (`cache-file-size`).
    pub cache_file_size: u64,
    /// Bytes of disk for buffered request bodies, over all connections (`body-temp-max-size`).
    pub body_disk: u64,
    /// `use-gzip` and `gzip-*`.
    pub gzip: Compression,
    /// `gzip-disable`: a regular expression for User-Agents without gzip; empty for none.
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
    /// Uses HTTP/1.0 for endpoints that do not use HTTP/2 (`proxy-http-version`).
    pub http_1_0: bool,
    /// Load balancing of pools that inherit it (`load-balance`); never `Inherit` or `Ring`.
    pub balance: Balance,
    /// `proxy-next-upstream`, for rules without conditions of their own.
    pub next_upstream: NextUpstream,
    /// Adds `non_idempotent` to the conditions of all rules (`retry-non-idempotent`).
    pub retry_non_idempotent: bool,
    /// `proxy-next-upstream-tries`; 0 is one attempt per endpoint.
    pub next_upstream_tries: u32,
    /// `proxy-next-upstream-timeout`; `None` is no limit.
    pub next_upstream_timeout: Option<Duration>,
    /// Maximum number of idle upstream connections per worker (`upstream-keepalive-connections`).
    pub upstream_keepalive_connections: usize,
    /// Maximum idle time of an upstream connection (`upstream-keepalive-timeout`).
    pub upstream_keepalive_timeout: Duration,
    /// Maximum age of an upstream connection (`upstream-keepalive-time`).
    pub upstream_keepalive_time: Duration,
    /// Maximum number of requests per upstream connection (`upstream-keepalive-requests`).
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
    /// `--https-port`: the port in redirects to https that include one.
    pub https_port: u16,
    /// Path prefixes of rules that are never redirected to https (`no-tls-redirect-locations`).
    pub no_tls_redirect_locations: Vec<Arc<str>>,
    /// `hsts*`; `None` when `hsts` is false.
    pub hsts: Option<Hsts>,

    /// Trust in forwarding headers and the PROXY protocol.
    pub forwarded: Forwarded,
    /// Generates an X-Request-ID if the request has none (`generate-request-id`).
    pub generate_request_id: bool,
    /// Sends the original path and query to endpoints as `X-Original-URI`
    /// (`proxy-add-original-uri-header`).
    pub adds_original_uri: bool,
    /// Fields for all requests to endpoints: a resource of kind `GlobalHeaders`
    /// (`proxy-set-headers`).
    pub request_headers: Option<ResourceKey>,
    /// Fields for all responses: a resource of kind `GlobalResponseHeaders` (`add-headers`).
    pub response_headers: Option<ResourceKey>,
    /// Settings of the `Server` response field (`server-tokens`, `allow-backend-server-header`).
    pub server_field: ServerField,
    /// Fields that are removed from all responses of endpoints (`hide-headers`).
    pub hidden_headers: Arc<[Arc<str>]>,
    /// Replacements in cookies and redirects of endpoints (`proxy-cookie-domain`,
    /// `proxy-cookie-path`, `proxy-redirect-from`, `proxy-redirect-to`). A rule can override each.
    pub replacements: Replacements,
    /// Settings of the access log.
    pub access_log: AccessLog,
    /// Settings of the error log.
    pub error_log: ErrorLog,
    /// Settings of traces.
    pub trace: TraceSettings,
    /// Settings of TCP and UDP services and of TLS that is passed through.
    pub stream: StreamSettings,

    /// Clients that are blocked on every host.
    pub blocks: Blocks,
    /// Address lists (`whitelist-source-range`, `denylist-source-range`). A rule can override each.
    pub sources: Sources,
    /// IPv4 and IPv6 clients that may read `/nginx_status` (`nginx-status-ipv4-whitelist`,
    /// `nginx-status-ipv6-whitelist`).
    pub status_readers: [Arc<[Network]>; 2],
    /// Status for requests over the rate limit (`limit-req-status-code`).
    pub limit_rate_status: u16,
    /// Status for requests over the limit of concurrent requests (`limit-conn-status-code`).
    pub limit_connections_status: u16,
    /// Identity of a client for limits (`limit-conn-zone-variable`).
    pub limit_key: Template,
    /// The replicas that limits apply to together (`limit-across-replicas`); `None`: each replica
    /// applies them by itself.
    pub replicas: Option<Arc<Replicas>>,
    /// Variables of `map` and `geo` (`http-snippet`); each refers only to those before it.
    pub computed: Arc<[ComputedVariable]>,

    /// Time for running requests after the listeners are closed (`worker-shutdown-timeout`).
    pub worker_shutdown_timeout: Duration,

    /// `--default-ssl-certificate`; `None` is the self-signed certificate made at start.
    pub default_certificate: Option<CertificateId>,
    /// `--default-backend-service`; `None` is the built-in 404.
    pub default_backend: Option<(PoolKey, ServiceRef)>,
    /// Rule of requests that no rule of a host matches, with what the ConfigMap applies to all
    /// servers; it forwards to the default backend. `None` if nothing applies.
    pub unmatched: Option<Arc<Rule>>,

    /// Authorisation service for all rules (`global-auth-url`).
    pub global_auth: Option<Arc<ExternalAuth>>,
    /// Path prefixes of rules without global authorisation (`no-auth-locations`).
    pub no_auth_locations: Vec<Arc<str>>,
    /// Statuses whose responses are replaced by error pages (`custom-http-errors`).
    pub custom_http_errors: Arc<[u16]>,
    /// Keeps error responses of endpoints (`disable-proxy-intercept-errors`).
    pub keeps_error_responses: bool,
}

/// Buffers for a request head as in nginx: a line must fit in one buffer, the head in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeaderBuffers {
    /// Number of buffers.
    pub count: usize,
    /// Bytes per buffer. A longer request line gets 414, a longer field line 400.
    pub size: usize,
}

impl HeaderBuffers {
    /// Returns the size of all buffers in bytes. A head that does not fit gets 400.
    pub fn total(self) -> usize {
        self.count.saturating_mul(self.size)
    }
}

/// Compression with one content coding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Compression {
    /// Whether the coding is enabled.
    pub enabled: bool,
    /// Compression level.
    pub level: u8,
    /// Minimum response size in bytes. Responses of unknown length are always compressed.
    pub min_length: u64,
    /// Media types in lower case, in addition to `text/html`; `*` is all.
    pub types: Vec<Arc<str>>,
}

impl Compression {
    /// The default media types.
    pub const TYPES: &str = "application/atom+xml application/javascript application/x-javascript application/json \
        application/rss+xml application/vnd.ms-fontobject application/x-font-ttf \
        application/x-web-app-manifest+json application/xhtml+xml application/xml font/opentype image/svg+xml \
        image/x-icon text/css text/javascript text/plain text/x-component";

    /// Returns disabled compression with the default media types.
    pub fn off(level: u8, min_length: u64) -> Self {
        let types = Self::TYPES.split_whitespace().map(Into::into).collect();
        Self { enabled: false, level, min_length, types }
    }
}

/// HTTP Strict Transport Security (RFC 6797).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hsts {
    /// `max-age` in seconds.
    pub max_age: u64,
    /// `includeSubDomains`.
    pub include_subdomains: bool,
    /// `preload`.
    pub preload: bool,
}

impl Default for GlobalSettings {
    fn default() -> Self {
        Self {
            client_header_timeout: Duration::from_secs(60),
            client_body_timeout: Duration::from_secs(60),
            keep_alive: Duration::from_secs(75),
            keep_alive_requests: 1000,
            max_connections: 16384,
            workers: None,
            client_header_buffer: 1024,
            large_client_header_buffers: HeaderBuffers { count: 4, size: 8 * 1024 },
            underscores_in_headers: false,
            ignore_invalid_headers: true,
            use_http2: true,
            tls: DownstreamTls::default(),
            staple_ocsp: false,
            ask_local_responders: false,
            http2_max_concurrent_streams: 128,
            body_limit: 1 << 20,
            body_buffer: 8 << 10,
            request_buffering: true,
            response_buffering: ResponseBuffering::default(),
            response_rate: 0,
            response_rate_after: 0,
            body_memory: 128 << 20,
            cache_size: 32 << 20,
            cache_file_size: 1 << 30,
            use_geoip2: false,
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
            retry_non_idempotent: false,
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
            trace: TraceSettings::default(),
            stream: StreamSettings::default(),
            blocks: Blocks::default(),
            sources: Sources::default(),
            status_readers: [
                [Network { address: Ipv4Addr::LOCALHOST.into(), prefix: 32 }].into(),
                [Network { address: Ipv6Addr::LOCALHOST.into(), prefix: 128 }].into(),
            ],
            limit_rate_status: 503,
            limit_connections_status: 503,
            limit_key: Template { pieces: vec![TemplatePiece::Variable(Variable::RemoteAddr)] },
            replicas: None,
            computed: Arc::default(),
            worker_shutdown_timeout: Duration::from_secs(240),
            default_certificate: None,
            default_backend: None,
            unmatched: None,
            global_auth: None,
            no_auth_locations: vec!["/.well-known/acme-challenge".into()],
            custom_http_errors: Arc::default(),
            keeps_error_responses: false,
        }
    }
}
