//! Global settings: the table of ConfigMap keys and the reader of a ConfigMap.
//!
//! The result depends only on the text of the ConfigMap, not on earlier values: an unreadable value
//! has the effect that the table defines (`Leniency`), in a running process and after a restart.

mod authentication;
mod blocking;
mod builder;
mod compression;
mod errors;
mod firewall;
mod headers;
mod in_effect;
mod keys;
mod leftovers;
mod limits;
mod log_filter;
mod log_format;
mod logging;
mod process;
mod reader;
mod safety;
mod snippets;
mod status;
#[cfg(test)]
mod tests;
mod timeouts;
mod tls;
mod traces;
mod upstream;

use std::sync::LazyLock;

use sluice_config::Moment;

use super::nginx_text;
use super::setting::{self, Family, Setting, Table};

pub use builder::{ConfigMapSettings, SettingsBuilder};
pub use in_effect::{KeyValue, in_effect, text_in_effect};
pub use reader::read;
pub use snippets::GlobalSnippets;

/// The key for limits that apply to all replicas together.
pub(crate) const LIMIT_ACROSS_REPLICAS: &str = "limit-across-replicas";

/// An entry of the table.
type Key = Setting<SettingsBuilder>;

/// The table, family by family.
pub static TABLE: LazyLock<Table<SettingsBuilder>> = LazyLock::new(|| {
    Table::new([
        Family::new("Authorisation by another service", authentication::settings()),
        Family::new("Access", blocking::settings()),
        Family::new("Compression", compression::settings()),
        Family::new("Error pages", errors::settings()),
        Family::new("Header fields", headers::settings()),
        Family::new("Removed from ingress-nginx", leftovers::settings()),
        Family::new("Limits", limits::settings()),
        Family::new("Logs", logging::settings()),
        Family::new("The process and its listeners", process::settings()),
        Family::new("Safety of annotations", safety::settings()),
        Family::new("Snippets and modules", snippets::settings()),
        Family::new("Traces", traces::settings()),
        Family::new("Web application firewall", firewall::settings()),
        Family::new("Status page", status::settings()),
        Family::new("Timeouts", timeouts::settings()),
        Family::new("TLS", tls::settings()),
        Family::new("Endpoints", upstream::settings()),
    ])
});

/// Returns the table as Markdown, for the reference documentation.
pub fn markdown_table() -> String {
    setting::markdown(&TABLE)
}

/// The keys whose values may have variables that are known at this moment, as Markdown.
pub fn markdown_accepting(moment: Moment, file: &str) -> String {
    setting::accepting(&TABLE, moment, file)
}

/// How much of the table is served, as Markdown.
pub fn markdown_support(file: &str) -> String {
    setting::support(&TABLE, file)
}
