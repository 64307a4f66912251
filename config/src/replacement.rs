//! Replacement of text in cookies and redirects of responses: ingress-nginx `proxy-cookie-domain`,
//! `proxy-cookie-path`, `proxy-redirect-from` and `proxy-redirect-to`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::same_site::SameSite;
use crate::template::Template;

/// Replacements of a rule or, in the [`GlobalSettings`](crate::GlobalSettings), of all rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replacements {
    /// The domain of cookies.
    pub cookie_domain: Override<Replacement>,
    /// The path of cookies.
    pub cookie_path: Override<Replacement>,
    /// Pattern for `Location` and `Refresh`. It has an effect only together with `redirect_to`.
    pub redirect_from: Override<Pattern>,
    /// Replacement in `Location` and `Refresh`.
    pub redirect_to: Override<Template>,
    /// Attributes of cookies; the first entry that names a cookie counts (`proxy_cookie_flags`).
    pub cookie_flags: Override<Vec<CookieFlags>>,
}

/// Attributes of cookies. `None` leaves an attribute as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CookieFlags {
    /// The cookies.
    pub cookie: CookieName,
    /// Whether they have `Secure`.
    pub secure: Option<bool>,
    /// Whether they have `HttpOnly`.
    pub http_only: Option<bool>,
    /// Their `SameSite`; `Some(None)` removes it.
    pub same_site: Option<Option<SameSite>>,
}

/// Names of cookies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CookieName {
    /// This name, in any case.
    Text(Arc<str>),
    /// A linear-time regular expression. Flags are part of the text.
    Regex(Arc<str>),
}

/// A setting of a rule that can override the global one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Override<T> {
    /// Uses the global setting.
    #[default]
    Inherit,
    /// Disables the replacement.
    Off,
    /// Uses this value.
    To(T),
}

/// A pattern and its replacement.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replacement {
    /// Pattern to replace.
    pub from: Pattern,
    /// Replacement text, which may refer to groups of the expression.
    pub to: Template,
}

/// The text that is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pattern {
    /// Literal text: the whole domain, or a prefix of a path or URL.
    Text(Template),
    /// A linear-time regular expression. If it matches anywhere, the whole value is replaced. Flags
    /// are part of the text.
    Regex(Arc<str>),
}

impl Replacements {
    /// Replaces nothing.
    pub const OFF: Self = Self {
        cookie_domain: Override::Off,
        cookie_path: Override::Off,
        redirect_from: Override::Off,
        redirect_to: Override::Off,
        cookie_flags: Override::Off,
    };
}

impl<T> Override<T> {
    /// Returns the effective value, given the global setting `of_all`.
    pub fn or<'o>(&'o self, of_all: &'o Self) -> Option<&'o T> {
        match (self, of_all) {
            (Self::To(own), _) => Some(own),
            (Self::Inherit, Self::To(of_all)) => Some(of_all),
            (Self::Inherit | Self::Off, _) => None,
        }
    }

    /// Converts the value with `make`.
    ///
    /// # Errors
    /// Returns the error of `make`.
    pub fn try_map<U, E>(&self, make: impl FnOnce(&T) -> Result<U, E>) -> Result<Override<U>, E> {
        Ok(match self {
            Self::Inherit => Override::Inherit,
            Self::Off => Override::Off,
            Self::To(value) => Override::To(make(value)?),
        })
    }

    /// Returns the value, if one is set.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::To(value) => Some(value),
            Self::Inherit | Self::Off => None,
        }
    }
}
