//! Texts of endpoints' responses that are replaced on their way to the client: ingress-nginx `proxy-cookie-domain`,
//! `proxy-cookie-path`, `proxy-redirect-from` and `proxy-redirect-to`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::template::Template;

/// What is replaced. The same type says it for a rule and, in the [`Tuning`](crate::Tuning), for all rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replacements {
    /// The domain of cookies.
    pub cookie_domain: Override<Replacement>,
    /// The path of cookies.
    pub cookie_path: Override<Replacement>,
    /// What of `Location` and `Refresh` is replaced, if `redirect_to` says by what.
    pub redirect_from: Override<Pattern>,
    /// What stands there then.
    pub redirect_to: Override<Template>,
}

/// A setting of a rule that replaces the one for all rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Override<T> {
    /// That one holds.
    #[default]
    Inherit,
    /// Nothing.
    Off,
    /// This.
    To(T),
}

/// A text and what replaces it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replacement {
    /// What is replaced.
    pub from: Pattern,
    /// By what. It may name groups of an expression.
    pub to: Template,
}

/// What is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pattern {
    /// This text: the whole domain, or the beginning of a path or URL.
    Text(Template),
    /// Whatever this linear-time regular expression is found in, as a whole; flags are part of the text.
    Regex(Arc<str>),
}

impl Replacements {
    /// Nothing is replaced.
    pub const OFF: Self = Self {
        cookie_domain: Override::Off,
        cookie_path: Override::Off,
        redirect_from: Override::Off,
        redirect_to: Override::Off,
    };
}

impl<T> Override<T> {
    /// What holds, where `of_all` holds for all rules.
    pub fn or<'o>(&'o self, of_all: &'o Self) -> Option<&'o T> {
        match (self, of_all) {
            (Self::To(own), _) => Some(own),
            (Self::Inherit, Self::To(of_all)) => Some(of_all),
            (Self::Inherit | Self::Off, _) => None,
        }
    }

    /// The same of something else.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn try_map<U, E>(&self, make: impl FnOnce(&T) -> Result<U, E>) -> Result<Override<U>, E> {
        Ok(match self {
            Self::Inherit => Override::Inherit,
            Self::Off => Override::Off,
            Self::To(value) => Override::To(make(value)?),
        })
    }

    /// What it says, if it says anything.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::To(value) => Some(value),
            Self::Inherit | Self::Off => None,
        }
    }
}
