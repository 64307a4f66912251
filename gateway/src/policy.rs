//! Policies, one file each. A policy is compiled from the contract when its host is compiled, and
//! acts on the **head** of a request or response. It has no access to sessions, sockets or bodies,
//! so that both engines can use it.
//!
//! Settings with a global default remain optional in the rule. They are resolved against the
//! current [`GlobalSettings`](sluice_config::GlobalSettings) when a request needs them.

pub(crate) mod access_log;
pub mod affinity;
pub mod assigned;
pub mod auth_reply;
pub mod backend_headers;
pub mod basic_auth;
pub(crate) mod blocks;
pub(crate) mod bounds;
pub mod cache;
pub mod call_destination;
pub mod canary;
pub mod client_certificates;
mod cookie_flags;
pub mod cors;
pub mod countries;
pub mod digest_auth;
pub mod directives;
pub mod early_data;
pub mod error;
mod expression;
pub mod external_auth;
pub mod fastcgi;
pub mod fastcgi_params;
pub mod forwarded;
pub mod hash_by;
pub mod header_set;
pub mod hops;
pub mod hsts;
pub mod https_redirect;
pub mod limits;
pub mod mirror;
pub mod networks;
pub mod outgoing;
pub mod redirect;
pub mod replacements;
pub mod resources;
pub mod retry;
pub mod rewrite;
pub mod same_site;
pub mod sources;
pub mod template;
pub mod timeouts;
pub(crate) mod tracing;
pub mod traffic_split;

pub use affinity::Affinity;
pub use backend_headers::BackendHeaders;
pub use basic_auth::BasicAuth;
pub use cache::CachePolicy;
pub use client_certificates::ClientCertificates;
pub use cors::Cors;
pub use digest_auth::DigestAuth;
pub use error::PolicyError;
pub use external_auth::ExternalAuth;
pub use fastcgi::FastCgi;
pub use forwarded::Forwarding;
pub use hash_by::HashBy;
pub use limits::Limits;
pub use mirror::Mirror;
pub use redirect::RedirectTo;
pub use retry::RetryPolicy;
pub use rewrite::{Rewrite, Rewritten};
pub use sources::Sources;
pub use template::ComputedVariables;
