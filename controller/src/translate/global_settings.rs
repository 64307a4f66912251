//! Global settings: the table of ConfigMap keys, and what one ConfigMap amounts to.
//!
//! What a ConfigMap amounts to depends on its text alone, never on values that were seen before: a
//! value that cannot be read has the effect that the table says (`Leniency`), in a running process
//! as after a restart.

mod authentication;
mod blocking;
mod builder;
mod compression;
mod errors;
mod headers;
mod leftovers;
mod limits;
mod log_format;
mod logging;
mod process;
mod reader;
mod safety;
mod snippets;
mod telemetry;
#[cfg(test)]
mod tests;
mod timeouts;
mod tls;
mod upstream;

use std::sync::LazyLock;

use super::nginx_text;
use super::setting::{self, Family, Setting, Table};

pub use builder::{ConfigMapSettings, SettingsBuilder};
pub use reader::read;

/// An entry of the table.
type Key = Setting<SettingsBuilder>;

/// The table, family by family.
pub static TABLE: LazyLock<Table<SettingsBuilder>> = LazyLock::new(|| {
    Table::new([
        Family { title: "Authorisation by another service", settings: authentication::settings() },
        Family { title: "Access", settings: blocking::settings() },
        Family { title: "Compression", settings: compression::settings() },
        Family { title: "Error pages", settings: errors::settings() },
        Family { title: "Header fields", settings: headers::settings() },
        Family { title: "Removed from ingress-nginx", settings: leftovers::settings() },
        Family { title: "Limits", settings: limits::settings() },
        Family { title: "Logs", settings: logging::settings() },
        Family { title: "The process and its listeners", settings: process::settings() },
        Family { title: "Safety of annotations", settings: safety::settings() },
        Family { title: "Snippets and modules", settings: snippets::settings() },
        Family { title: "Traces and status", settings: telemetry::settings() },
        Family { title: "Timeouts", settings: timeouts::settings() },
        Family { title: "TLS", settings: tls::settings() },
        Family { title: "Endpoints", settings: upstream::settings() },
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
