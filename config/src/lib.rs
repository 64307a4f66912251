//! The contract between the control plane and the data plane of Sluice: plain data, and the tables
//! and parsers of its values that both planes need.
//!
//! The control plane sends [`Delta`]s and the data plane returns [`Report`]s; no other data crosses
//! the boundary. Every type is serialisable and independent of Kubernetes and Pingora, so both
//! planes can run in one process or in two Pods.
//!
//! Modules:
//!
//! - [`listener`]: listener groups and sockets
//! - [`host`], [`rule`], [`policy`]: hosts, matches, and actions
//! - [`cache`]: stored responses
//! - [`pool`], [`endpoint`]: backends
//! - [`stream`]: TCP connections and UDP datagrams
//! - [`certificate`], [`resource`]: certificates, and other data that rules refer to
//! - [`client_certificates`]: requirements of a host on client certificates
//! - [`global_settings`]: global settings
//! - [`problem`]: problems of the input
//! - [`by_key`]: the map that both planes use for this data
//! - [`local_address`]: addresses that no user may make the gateway connect to
//! - [`text`]: safe printing of untrusted text; [`redaction`]: hiding credentials
//! - [`trace`]: traces of requests
//! - [`firewall`]: the web application firewall
//! - [`variable`]: the table of nginx's variables; [`location`]: those of GeoIP2 databases;
//!   [`computed`]: those that `map` and `geo` declare

pub mod access;
pub mod access_log;
pub mod backend_headers;
pub mod by_key;
pub mod cache;
pub mod call_destination;
pub mod canary;
pub mod certificate;
pub mod client_certificates;
pub mod computed;
pub mod cors;
pub mod country;
pub mod delta;
mod digest;
pub mod directives;
pub mod dns_name;
pub mod downstream_tls;
pub mod endpoint;
pub mod error_pages;
pub mod expression;
pub mod external_auth;
pub mod fastcgi;
pub mod fastcgi_params;
pub mod firewall;
pub mod forwarded;
pub mod global_settings;
pub mod health_check;
pub mod host;
pub mod host_pattern;
pub mod listener;
pub mod local_address;
pub mod location;
pub mod log_format;
pub mod mirror;
#[cfg(test)]
mod module_cycles;
pub mod name;
pub mod own_fields;
pub mod policy;
pub mod pool;
pub mod problem;
pub mod redaction;
pub mod replacement;
pub mod replicas;
pub mod report;
pub mod resource;
pub mod response_buffering;
pub mod rewrite;
pub mod rule;
pub mod same_site;
pub mod server_field;
pub mod snapshot;
pub mod stream;
pub mod stream_log;
pub mod template;
pub mod text;
pub mod trace;
pub mod uid;
pub mod upstream_tls;
pub mod variable;

pub use access::{Blocked, Blocks, InvalidNetwork, Limits, Network, Satisfy, Sources};
pub use access_log::{AccessLog, ErrorLog, LogFilter, LogLevel, LogOutput};
pub use backend_headers::{BackendHeaders, ConnectionHeader};
pub use by_key::{ByKey, Keyed};
pub use cache::{Cache, CacheKeyPart};
pub use call_destination::CallDestination;
pub use canary::{Canary, CanaryHeader, CanaryValue};
pub use certificate::{Certificate, CertificateId, PrivateKey};
pub use client_certificates::{
    CertificateErrorPage, ClientCertificateMode, ClientCertificates, ClientVerification,
};
pub use computed::{AddressRange, AddressTable, ComputedVariable, TextTable, ValueTable};
pub use cors::{AllowedOrigin, AllowedOrigins, Cors};
pub use country::{Countries, CountryCode, InvalidCountry};
pub use delta::{Change, Delta, Generation};
pub use digest::{DigestCredentials, DigestRealm};
pub use directives::{Directives, Location, LocationBlock};
pub use downstream_tls::{CipherSuites, DownstreamTls, TicketKey, TlsSessions};
pub use endpoint::{Endpoint, EndpointSet, EndpointSetKey};
pub use error_pages::{ErrorBackend, ErrorPages};
pub use expression::{Expression, ExtendedRegex, LookAhead};
pub use external_auth::{AuthCache, AuthKeepAlive, Authorisation, ExternalAuth};
pub use fastcgi::{DOCUMENT_ROOT, FastCgi};
pub use fastcgi_params::FastCgiParams;
pub use firewall::{Firewall, FirewallSource};
pub use forwarded::{Forwarded, TrustedPeers};
pub use global_settings::{Compression, GlobalSettings, HeaderBuffers, Hsts};
pub use health_check::{CheckKind, HealthCheck, StatusRange};
pub use host::{Host, HostKey, HostTls};
pub use host_pattern::HostPattern;
pub use listener::{Bind, BindProtocol, GroupId, Listener, ListenerGroup, ListenerId};
pub use location::{LocationDatabase, LocationSource, LocationStep, LocationVariable};
pub use log_format::{LogEscape, LogFormat};
pub use mirror::Mirror;
pub use name::{HostName, NamespacedName, ObjectRef, Origin, ServiceRef};
pub use own_fields::{OWN_FIELDS, is_own_field};
pub use policy::{
    AffinityMode, BasicAuth, Bodies, CookieAffinity, Deny, DigestAuth, HttpsRedirect, Locations,
    NextUpstream, Policies, Retry, Timeout, Timeouts,
};
pub use pool::{Balance, HashBy, Pool, PoolKey, UpstreamProtocol};
pub use problem::{Class, Code, Problem, Severity};
pub use replacement::{CookieFlags, CookieName, Override, Pattern, Replacement, Replacements};
pub use replicas::Replicas;
pub use report::{BindError, BindResult, Refusal, Report, Subject};
pub use resource::{
    CaBundle, ClientAuthorities, Credentials, EndpointIdentity, HeaderSet, PasswordHash, Resource,
    ResourceKey, ResourceKind,
};
pub use response_buffering::{ResponseBuffering, ResponseBufferingOverrides};
pub use rewrite::{Rewrite, RewritePart, RewriteQuery, RewriteTemplate};
pub use rule::{
    Action, Backend, FieldMatch, Match, PathMatch, Redirect, RedirectPath, Rule, TextMatch, WeightedBackend,
};
pub use same_site::SameSite;
pub use server_field::ServerField;
pub use snapshot::Snapshot;
pub use stream::{Stream, StreamKey, StreamSettings, TransportProtocol};
pub use stream_log::{StreamLog, StreamLogPiece, StreamLogVariable};
pub use template::{Template, TemplatePiece};
pub use trace::{
    Collector, CollectorProtocol, RootSampler, RuleTracing, SampledShare, Sampler, TraceSettings,
};
pub use uid::Uid;
pub use upstream_tls::{TlsVersions, UpstreamTls};
pub use variable::{Moment, Variable, VariableRow};
