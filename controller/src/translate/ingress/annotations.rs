//! Annotations of an Ingress: the table, and what the annotations of one Ingress amount to.
//!
//! One file per family, each with its entries and the types it fills in. Each entry says what is
//! done with a value that cannot be read (`Leniency`): nearly always it is ignored with a warning,
//! as in ingress-nginx. A value that protects, or without which requests would go elsewhere,
//! rejects the Ingress: it keeps its hosts and paths, which are closed, so that what it was to
//! protect is not served by a broader rule. That holds also when an earlier version of it was
//! served: what is served is then a function of the objects alone, and does not depend on which
//! versions of them were seen.

mod access;
mod affinity;
mod annotation_limits;
mod authentication;
mod backend_protocol;
mod balancing;
mod buffering;
mod canary;
mod cors;
pub(crate) mod errors;
mod external_auth;
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

use crate::translate::nginx_text;
use crate::translate::setting::{self, Family, Setting, Table};

pub use annotation_limits::AnnotationLimits;
pub use backend_protocol::BackendProtocol;
pub(crate) use backend_protocol::{HTTP_VERSION, HTTP_VERSIONS};
pub(crate) use balancing::BALANCES;
pub use balancing::Balancing;
pub use cors::CorsSettings;
pub use errors::Errors;
pub use headers::HeaderSettings;
pub use health_check::HealthChecking;
pub use limits::Limiting;
pub use password_auth::Auth;
pub(crate) use reader::field;
pub use reader::{Parsed, Treatment, parse};
pub use redirect::Redirection;
pub use settings::Settings;
pub use upstream_tls::EndpointTls;

/// An entry of the table.
type Annotation = Setting<Settings>;

/// The table, family by family.
pub static TABLE: LazyLock<Table<Settings>> = LazyLock::new(|| {
    Table::new([
        Family { title: "Client addresses", settings: access::settings() },
        Family { title: "Sticky sessions", settings: affinity::settings() },
        Family { title: "Client certificates", settings: authentication::settings() },
        Family { title: "Passwords", settings: password_auth::settings() },
        Family { title: "Protocol of endpoints", settings: backend_protocol::settings() },
        Family { title: "Bodies", settings: buffering::settings() },
        Family { title: "Canaries", settings: canary::settings() },
        Family { title: "Other origins (CORS)", settings: cors::settings() },
        Family { title: "Choice of endpoints", settings: balancing::settings() },
        Family { title: "Error pages", settings: errors::settings() },
        Family { title: "Authorisation by another service", settings: external_auth::settings() },
        Family { title: "Fields for endpoints and clients", settings: headers::settings() },
        Family { title: "Health checks of endpoints", settings: health_check::settings() },
        Family { title: "Hosts", settings: hosts::settings() },
        Family { title: "Redirect to https", settings: https_redirect::settings() },
        Family { title: "Client limits", settings: limits::settings() },
        Family { title: "Logs and traces", settings: logging::settings() },
        Family { title: "Mirrors", settings: mirror::settings() },
        Family { title: "Redirects", settings: redirect::settings() },
        Family { title: "Cookies and redirects of endpoints", settings: replacements::settings() },
        Family { title: "Retries", settings: retry::settings() },
        Family { title: "Paths and header fields", settings: rewrite::settings() },
        Family { title: "Snippets", settings: snippets::settings() },
        Family { title: "Timeouts", settings: timeouts::settings() },
        Family { title: "TLS to endpoints", settings: upstream_tls::settings() },
    ])
});

/// The table as Markdown, for the reference documentation.
pub fn markdown_table() -> String {
    setting::markdown(&TABLE)
}

/// How much of the table is served, as Markdown.
pub fn markdown_support(file: &str) -> String {
    setting::support(&TABLE, file)
}
