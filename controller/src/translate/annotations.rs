//! Annotations of an Ingress: the table, and what the annotations of one Ingress amount to.
//!
//! One file per family, each with its entries and the types it fills in. An invalid value rejects the Ingress:
//! it keeps its hosts and paths, which answer 404, so that what it was to protect is not served by a broader
//! rule. That holds also when an earlier version of it was served: what is served is then a function of the
//! objects alone, and does not depend on which versions of them were seen. The exceptions are settings whose
//! default is safe (`OnInvalid::Default`) and settings without effect on requests.

mod access;
mod affinity;
mod authentication;
mod backend_protocol;
mod buffering;
mod canary;
mod cors;
mod endpoints;
pub(crate) mod errors;
mod external_auth;
mod gates;
mod headers;
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

use super::setting::{self, Setting, Table};

pub use affinity::Affinity;
pub use canary::Canary;
pub use cors::Sharing;
pub use errors::Errors;
pub use gates::Gates;
pub use headers::Heads;
pub use limits::Limiting;
pub use password_auth::Auth;
pub use reader::{Parsed, Treatment, parse};
pub(crate) use reader::{REJECTED, UNABLE, field};
pub use redirect::Redirection;
pub use rewrite::{RewriteError, Rewriting};
pub use settings::Settings;

/// An entry of the table.
type Annotation = Setting<Settings>;

/// The table, family by family.
pub static TABLE: LazyLock<Table<Settings>> = LazyLock::new(|| {
    Table::new([
        access::settings(),
        affinity::settings(),
        authentication::settings(),
        password_auth::settings(),
        backend_protocol::settings(),
        buffering::settings(),
        canary::settings(),
        cors::settings(),
        endpoints::settings(),
        errors::settings(),
        external_auth::settings(),
        headers::settings(),
        hosts::settings(),
        https_redirect::settings(),
        limits::settings(),
        logging::settings(),
        mirror::settings(),
        redirect::settings(),
        replacements::settings(),
        retry::settings(),
        rewrite::settings(),
        snippets::settings(),
        timeouts::settings(),
        upstream_tls::settings(),
    ])
});

/// The table as Markdown, for the reference documentation.
pub fn markdown_table() -> String {
    setting::markdown(&TABLE)
}
