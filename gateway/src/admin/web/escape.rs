//! The escaper of the templates ([`askama.toml`](../../../askama.toml)).

use std::fmt::{self, Write};

use sluice_config::text::HtmlText;

/// Escapes text for elements and quoted attributes, and replaces characters that hide or reorder
/// the text around them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Html;

impl askama::filters::Escaper for Html {
    fn write_escaped_str<W: Write>(&self, mut out: W, text: &str) -> fmt::Result {
        write!(out, "{}", HtmlText(text))
    }
}
