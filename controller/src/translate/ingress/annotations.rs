//! Annotations of an Ingress: the table, and the settings computed from one Ingress.
//!
//! Each family has a file with its entries and the types that they set. Each entry defines the
//! treatment of an unreadable value (`Leniency`): nearly always it is ignored with a warning, as in
//! ingress-nginx. A value that protects, or without which requests would go elsewhere, rejects the
//! Ingress. A rejected Ingress keeps its hosts and paths, which are closed, so that no broader rule
//! serves what it was meant to protect. This also applies if an earlier version of it was served:
//! the result depends on the current objects alone.

mod access;
mod affinity;
mod backend_protocol;
mod balancing;
mod buffering;
mod cache;
mod canary;
mod cipher_suites;
mod client_certificates;
mod cors;
mod direct;
mod errors;
mod external_auth;
mod firewall;
mod headers;
mod health_check;
mod hosts;
mod https_redirect;
mod limits;
mod logging;
mod mirror;
mod password_auth;
mod reader;
mod redirect;
mod replacements;
mod retry;
mod rewrite;
mod settings;
mod snippets;
#[cfg(test)]
mod tests;
mod timeouts;
mod upstream_tls;

use std::sync::LazyLock;

use sluice_config::Moment;

use crate::translate::nginx_text;
use crate::translate::setting::{self, Family, Setting, Table};

pub use balancing::Hashing;
pub use cache::CacheAnnotations;
pub use cipher_suites::CipherSettings;
pub use client_certificates::ClientCertificateSettings;
pub use cors::CorsSettings;
pub use health_check::HealthChecking;
pub use limits::Limiting;
pub use password_auth::Auth;
pub use reader::{Parsed, Treatment, parse};
pub use redirect::Redirection;
pub use settings::Settings;
pub use upstream_tls::EndpointTls;

/// An entry of the table.
type Annotation = Setting<Settings>;

/// The table, family by family.
pub static TABLE: LazyLock<Table<Settings>> = LazyLock::new(|| {
    Table::new([
        Family::new("Client addresses", access::settings()),
        Family::new("Sticky sessions", affinity::settings()).finished_by(affinity::finish),
        Family::new("Client certificates", client_certificates::settings())
            .finished_by(client_certificates::finish),
        Family::new("Cipher suites", cipher_suites::settings()).finished_by(cipher_suites::finish),
        Family::new("Passwords", password_auth::settings()).finished_by(password_auth::finish),
        Family::new("Protocol of endpoints", backend_protocol::settings())
            .finished_by(backend_protocol::finish),
        Family::new("Bodies", buffering::settings()),
        Family::new("Stored responses", cache::settings()).finished_by(cache::finish),
        Family::new("Canaries", canary::settings()),
        Family::new("Other origins (CORS)", cors::settings()).finished_by(cors::finish),
        Family::new("Choice of endpoints", balancing::settings()).finished_by(balancing::finish),
        Family::new("Fields and responses of Sluice", direct::settings()),
        Family::new("Error pages", errors::settings()),
        Family::new("Authorisation by another service", external_auth::settings())
            .finished_by(external_auth::finish),
        Family::new("Fields for endpoints and clients", headers::settings()).finished_by(headers::finish),
        Family::new("Web application firewall", firewall::settings()).finished_by(firewall::finish),
        Family::new("Health checks of endpoints", health_check::settings()).finished_by(health_check::finish),
        Family::new("Hosts", hosts::settings()).finished_by(hosts::finish),
        Family::new("Redirect to https", https_redirect::settings()),
        Family::new("Client limits", limits::settings()).finished_by(limits::finish),
        Family::new("Logs and traces", logging::settings()).finished_by(logging::finish),
        Family::new("Mirrors", mirror::settings()).finished_by(mirror::finish),
        Family::new("Redirects", redirect::settings()).finished_by(redirect::finish),
        Family::new("Cookies and redirects of endpoints", replacements::settings())
            .finished_by(replacements::finish),
        Family::new("Retries", retry::settings()),
        Family::new("Paths and header fields", rewrite::settings()),
        Family::new("Snippets", snippets::settings()),
        Family::new("Timeouts", timeouts::settings()),
        Family::new("TLS to endpoints", upstream_tls::settings()).finished_by(upstream_tls::finish),
    ])
});

/// Returns the table as Markdown, for the reference documentation.
pub fn markdown_table() -> String {
    setting::markdown(&TABLE)
}

/// The annotations whose values may have variables that are known at this moment, as Markdown.
pub fn markdown_accepting(moment: Moment, file: &str) -> String {
    setting::accepting(&TABLE, moment, file)
}

/// How much of the table is served, as Markdown.
pub fn markdown_support(file: &str) -> String {
    setting::support(&TABLE, file)
}
