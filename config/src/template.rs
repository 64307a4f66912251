//! Templates: text with request variables in nginx's syntax, such as
//! `https://login.example/start?rd=$escaped_request_uri`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::variable::Variable;

/// Text with variables, parsed once by translation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Template {
    /// Pieces, in order.
    pub pieces: Vec<TemplatePiece>,
}

impl Template {
    /// Creates a template without variables.
    pub fn plain(text: &str) -> Self {
        let pieces = if text.is_empty() { Vec::new() } else { vec![TemplatePiece::Text(text.into())] };
        Self { pieces }
    }
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TemplatePiece {
    /// Literal text.
    Text(Arc<str>),
    /// A variable.
    Variable(Variable),
}
