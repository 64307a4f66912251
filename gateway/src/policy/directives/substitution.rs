//! `sub_filter`: the texts of a location, and their replacements for a request.

use std::sync::Arc;

use sluice_config::directives as contract;

use crate::body::substitution::{Substitution, SubstitutionRules};
use crate::policy::error::PolicyError;
use crate::policy::template::{Template, TemplateContext};

/// The texts of a location that are replaced.
#[derive(Debug)]
pub struct SubstitutedTexts {
    /// With the replacements, as far as they are the same for all requests.
    fixed: Substitution,
    values: Box<[Template]>,
}

impl SubstitutedTexts {
    /// Compiles the texts.
    ///
    /// # Errors
    /// A text is too large, or a template has an invalid field.
    pub(super) fn compile(substitution: &contract::Substitution) -> Result<Self, PolicyError> {
        let contract::Substitution { texts, once, types, keeps_last_modified } = substitution;
        let searched = texts.iter().map(|(text, _)| &**text);
        let rules = SubstitutionRules::compile(searched, *once, types, *keeps_last_modified)
            .map_err(|error| PolicyError::Expression(error.to_string()))?;
        let values: Box<[Template]> =
            texts.iter().map(|(_, value)| Template::compile(value)).collect::<Result<_, _>>()?;
        let fixed = values.iter().map(Template::text).collect();
        Ok(Self { fixed: Substitution { rules: Arc::new(rules), values: fixed }, values })
    }

    /// Whether a replacement depends on the request.
    pub(super) fn has_variables(&self) -> bool {
        self.values.iter().any(|value| !value.is_plain())
    }

    /// The texts with their replacements for a request; `None` if none depends on it.
    pub(crate) fn fill(&self, context: &TemplateContext<'_>) -> Option<Substitution> {
        self.has_variables().then(|| Substitution {
            rules: self.fixed.rules.clone(),
            values: self.values.iter().map(|value| value.fill(context)).collect(),
        })
    }

    /// The texts with replacements that do not depend on the request.
    pub(crate) fn fixed(&self) -> &Substitution {
        &self.fixed
    }
}
