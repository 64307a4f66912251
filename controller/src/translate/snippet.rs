//! Snippets of ingress-nginx (`configuration-snippet`, `server-snippet`, `location-snippet`) as
//! typed directives.
//!
//! A snippet is parsed by a strict parser of nginx's grammar ([`grammar`]), and each directive
//! becomes a value of the contract ([`reader`]). A directive, argument or variable outside the
//! supported subset refuses the whole snippet, so no directive is ignored. The blocks of several
//! snippets are combined by nginx's rules of inheritance ([`block`]). No text is executed.

mod access;
mod addresses;
pub(crate) mod annotation;
mod arguments;
mod block;
mod computed;
mod condition;
mod context;
mod endpoint_tls;
mod fault;
pub(super) mod grammar;
mod headers;
mod http_level;
mod input;
mod limits;
mod maps;
mod object;
mod program;
mod reader;
mod request_fields;
mod rewrite;
mod servers;
mod settings;
mod shared;
mod substitution;
mod timeouts;
mod variables;

use std::sync::Arc;

use super::value::{Type, Wrong};

pub(crate) use block::{Block, TemplateDirectives, apply, resolve};
pub(crate) use context::SnippetContext;
use fault::Untranslated;
pub(crate) use http_level::{HttpSnippet, http_snippet};
pub(crate) use object::{AUTHORISATION, CONFIGURATION, ObjectSnippets, SERVER};
use reader::read;
pub(crate) use shared::assigned_variables;

/// The typed directives of a snippet that is pasted into `place`.
pub(crate) fn directives(place: SnippetContext) -> Type<Arc<Block>> {
    Type::with_author("directives of nginx", move |text, author| match read(text, place, author) {
        Ok(block) => Ok(Arc::new(block)),
        Err(Untranslated { reason, remedy }) => Err(Wrong::Untranslated { reason, remedy }),
    })
}

#[cfg(test)]
mod tests;
