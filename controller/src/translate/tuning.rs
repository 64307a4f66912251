//! Global settings: the table of ConfigMap keys, and what one ConfigMap amounts to.
//!
//! A key with a bad value keeps the last good one it had, which is the only memory in the whole translation:
//! [`Keys`] remembers, per key, the last text that was good. A key that is taken out of the ConfigMap is
//! forgotten with it, and so is everything when the ConfigMap goes. After a restart a bad value means the
//! default, since nothing better is known.

mod authentication;
mod blocking;
mod compression;
mod draft;
mod errors;
mod headers;
mod leftovers;
mod limits;
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

use super::setting::{self, Setting, Table};

pub use draft::{Draft, Global};
pub use reader::Keys;

/// An entry of the table.
type Key = Setting<Draft>;

/// The table, family by family.
pub static TABLE: LazyLock<Table<Draft>> = LazyLock::new(|| {
    Table::new([
        authentication::settings(),
        blocking::settings(),
        compression::settings(),
        errors::settings(),
        headers::settings(),
        leftovers::settings(),
        limits::settings(),
        logging::settings(),
        process::settings(),
        safety::settings(),
        snippets::settings(),
        telemetry::settings(),
        timeouts::settings(),
        tls::settings(),
        upstream::settings(),
    ])
});

/// The table as Markdown, for the reference documentation.
pub fn markdown_table() -> String {
    setting::markdown(&TABLE)
}
