//! `sub_filter` and the directives beside it.

use std::sync::Arc;

use sluice_config::directives::Substitution;
use sluice_config::{Moment, Template};

use super::arguments::{put, word};
use super::context::DirectiveContext;
use super::fault::Fault;
use super::variables::Declared;

/// Texts that a location may replace.
const MOST_TEXTS: usize = 32;
/// Bytes of such a text.
const MOST_BYTES: usize = 256;
/// Bytes of a replacement, variables apart.
const MOST_VALUE_BYTES: usize = 8 << 10;

/// Directives about replaced texts of one level; `None` inherits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SubstitutionDirectives {
    texts: Vec<(Arc<str>, Template)>,
    once: Option<bool>,
    types: Option<Vec<Arc<str>>>,
    keeps_last_modified: Option<bool>,
}

/// Whether a directive is one of these.
pub(super) fn is_known(name: &str) -> bool {
    matches!(name, "sub_filter" | "sub_filter_once" | "sub_filter_types" | "sub_filter_last_modified")
}

/// Reads one of these directives. Returns the translation in words.
pub(super) fn read(
    name: &str,
    arguments: &[String],
    declared: &Declared,
    context: DirectiveContext,
    substitution: &mut SubstitutionDirectives,
) -> Result<String, Fault> {
    context.must_forward("it has no response of an endpoint to change")?;
    let switches = [("on", true), ("off", false)];
    let is_new = match name {
        "sub_filter" => return text(arguments, declared, &mut substitution.texts),
        "sub_filter_once" => put(&mut substitution.once, word(arguments, &switches)?),
        "sub_filter_last_modified" => put(&mut substitution.keeps_last_modified, word(arguments, &switches)?),
        _ if arguments.is_empty() => return Err("takes at least one media type".into()),
        _ => put(&mut substitution.types, arguments.iter().map(|name| Arc::from(name.as_str())).collect()),
    };
    match is_new {
        true => Ok(format!("{} for the texts that are replaced", arguments.join(" "))),
        false => Err("it stands twice".into()),
    }
}

fn text(
    arguments: &[String],
    declared: &Declared,
    texts: &mut Vec<(Arc<str>, Template)>,
) -> Result<String, Fault> {
    let [text, value] = arguments else { return Err("takes a text and its replacement".into()) };
    if text.is_empty() || text.len() > MOST_BYTES || value.len() > MOST_VALUE_BYTES {
        return Err(format!(
            "the text must have 1 to {MOST_BYTES} bytes, and the replacement at most {MOST_VALUE_BYTES}"
        )
        .into());
    }
    if text.contains('$') {
        return Err("variables in the replaced text are not translated".into());
    }
    if texts.len() == MOST_TEXTS {
        return Err(format!("there are more than {MOST_TEXTS} texts").into());
    }
    texts.push((text.as_str().into(), declared.template(value, Moment::Request)?));
    Ok(format!("replaces {text:?} in responses of endpoints without compression"))
}

impl SubstitutionDirectives {
    /// Takes over the directives of a text of the same level.
    pub(super) fn extend(&mut self, other: &Self) {
        let Self { texts, once, types, keeps_last_modified } = other;
        self.texts.extend_from_slice(texts);
        self.once = self.once.or(*once);
        self.types = self.types.take().or_else(|| types.clone());
        self.keeps_last_modified = self.keeps_last_modified.or(*keeps_last_modified);
    }

    /// Combines them with those of the outer level; `None` if no text is replaced.
    pub(super) fn combined(&self, outer: &Self) -> Option<Substitution> {
        let texts = if self.texts.is_empty() { &outer.texts } else { &self.texts };
        (!texts.is_empty()).then(|| Substitution {
            texts: texts.clone(),
            once: self.once.or(outer.once).unwrap_or(true),
            types: self.types.clone().or_else(|| outer.types.clone()).unwrap_or_default(),
            keeps_last_modified: self.keeps_last_modified.or(outer.keeps_last_modified).unwrap_or(false),
        })
    }
}
