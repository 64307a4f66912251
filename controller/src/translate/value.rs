//! Types of setting values: their description and their parser.
//!
//! A [`Type`] combines the words for documentation and messages with the one parser. The properties
//! that parsing establishes (a number is in its range, a name refers to a kind of object, a list
//! contains networks) are in the Rust type of the result, so no setter parses text.
//!
//! Numbers are parsed like Go's `strconv`, those of annotations in decimal. Times and sizes are
//! parsed like nginx, for which the texts were written. A type can also have the characters that
//! ingress-nginx permits with `--enable-annotation-validation`, which are narrower than what is
//! supported.

mod network;
mod number;
mod reference;
mod retry;
mod text;
mod tls;
mod upstream;

use std::borrow::Cow;

use sluice_config::Moment;

use super::declarations::{HttpDeclarations, NO_DECLARATIONS, NO_VARIABLES, SnippetVariables};
use crate::store::Kind;

pub use network::{addresses, countries, networks, networks_if_any, trusted_peers};
pub use number::{
    buffer, buffers, chain_depth, count, count_or_none, int, kibibytes, none_or_up_to, percentage, positive,
    ratio, seconds, seconds_or_zero, size, some_time, status_range, statuses, time, time_of, time_within,
    within, workers,
};
pub use reference::{config_map, config_map_of_any_namespace, secret, service};
pub use retry::next_upstream;
pub use text::{
    any, bool, capture_path, choice, exactly_one_of, field, field_name, is_token, items, list, list_of,
    one_of, partly, paths, switch, text, token, truth, words,
};
pub use tls::{
    NamedGroups, NamedSuites, NamedVersions, named_tls_versions, tls_ciphers, tls_groups, tls_suites,
    tls_versions,
};
pub use upstream::{HTTP_VERSION, balance, http_1_0};

/// The type of a setting, with values of `T`.
pub struct Type<T> {
    /// Completes "must be ...".
    words: Cow<'static, str>,
    parser: Box<Parser<T>>,
    /// Characters that ingress-nginx's validator permits.
    is_allowed: Option<fn(&str) -> bool>,
    /// The kind of the object that it names.
    refers: Option<Kind>,
    /// Some of its values are not served.
    is_partial: bool,
    /// When its variables are evaluated, if it may have any.
    moment: Option<Moment>,
    /// The text that an empty value of a ConfigMap key stands for, if it has a meaning.
    empty: Option<&'static str>,
    /// Removes what surrounds the value of a ConfigMap key.
    trim: fn(&str) -> &str,
}

type Parser<T> = dyn Fn(&str, &Author<'_>) -> Result<T, Wrong> + Send + Sync;

/// The author of a value.
#[derive(Clone, Copy, Debug)]
pub struct Author<'a> {
    /// Namespace of the object with the value.
    pub namespace: &'a str,
    /// Whether it may name objects of other namespaces (`allow-cross-namespace-resources`).
    pub crosses: bool,
    /// Whether its characters are restricted as in ingress-nginx
    /// (`--enable-annotation-validation`).
    pub is_validated: bool,
    /// Whether its integers have a base, as in a ConfigMap, which ingress-nginx reads with
    /// mapstructure: `010` is 8, and `0x10` is 16. Others are decimal.
    pub integers_have_bases: bool,
    /// The names that `http-snippet` declares.
    pub http: &'a HttpDeclarations,
    /// The variables that the snippets of the object assign.
    pub variables: &'a SnippetVariables,
}

/// Why a value is unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It is invalid; completes "the value ...".
    Invalid(String),
    /// It is known and not served.
    NotServed,
    /// It is not supported, for this reason (completes "the value ..."), with the remedy.
    Refused {
        /// The reason.
        reason: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// It is a snippet that is not translated; completes "the snippet is not translated: ...".
    Untranslated {
        /// The line, the directive and the reason.
        reason: String,
        /// The remedy.
        remedy: String,
    },
    /// It names an object that its author may not use; completes "the annotation ...".
    Forbidden(String),
}

impl From<String> for Wrong {
    fn from(reason: String) -> Self {
        Self::Invalid(reason)
    }
}

impl From<&str> for Wrong {
    fn from(reason: &str) -> Self {
        Self::Invalid(reason.to_owned())
    }
}

impl<T: 'static> Type<T> {
    /// Creates a type with a description ("must be ..."). The parser's error has the details ("the
    /// value ...").
    pub fn new<E: Into<Wrong>>(
        words: impl Into<Cow<'static, str>>,
        parse: impl Fn(&str) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self {
        Self::with_author(words, move |text, _| parse(text).map_err(Into::into))
    }

    /// Creates a type whose parser has no detailed errors.
    pub fn of(
        words: impl Into<Cow<'static, str>>,
        parse: impl Fn(&str) -> Option<T> + Send + Sync + 'static,
    ) -> Self {
        let words = words.into();
        let wrong = format!("must be {words}");
        Self::new(words, move |text| parse(text).ok_or_else(|| wrong.clone()))
    }

    /// Creates a type whose values depend on their author.
    pub fn with_author(
        words: impl Into<Cow<'static, str>>,
        parse: impl Fn(&str, &Author<'_>) -> Result<T, Wrong> + Send + Sync + 'static,
    ) -> Self {
        Self {
            words: words.into(),
            parser: Box::new(parse),
            is_allowed: None,
            refers: None,
            is_partial: false,
            moment: None,
            empty: None,
            trim: str::trim,
        }
    }

    /// Converts the values.
    pub fn map<U: 'static>(self, make: impl Fn(T) -> U + Send + Sync + 'static) -> Type<U> {
        self.and_then(move |value| Ok::<_, Wrong>(make(value)))
    }

    /// Converts the values with a function that can fail.
    pub fn and_then<U: 'static, E: Into<Wrong>>(
        self,
        make: impl Fn(T) -> Result<U, E> + Send + Sync + 'static,
    ) -> Type<U> {
        self.and_then_for(move |value, _| make(value))
    }

    /// The same with a function that depends on the author.
    pub fn and_then_for<U: 'static, E: Into<Wrong>>(
        self,
        make: impl Fn(T, &Author<'_>) -> Result<U, E> + Send + Sync + 'static,
    ) -> Type<U> {
        let Self { words, parser, is_allowed, refers, is_partial, moment, empty, trim } = self;
        let parser = Box::new(move |text: &str, author: &Author<'_>| {
            make(parser(text, author)?, author).map_err(Into::into)
        });
        Type { words, parser, is_allowed, refers, is_partial, moment, empty, trim }
    }

    /// Replaces the description.
    pub fn called(mut self, words: impl Into<Cow<'static, str>>) -> Self {
        self.words = words.into();
        self
    }

    /// Parses integers in decimal, also those of a ConfigMap key.
    pub fn decimal(self) -> Self {
        let parser = self.parser;
        let parser = Box::new(move |text: &str, author: &Author<'_>| {
            parser(text, &Author { integers_have_bases: false, ..*author })
        });
        Self { parser, ..self }
    }

    /// Sets the values that ingress-nginx's validator permits.
    pub fn allowing(mut self, is_allowed: fn(&str) -> bool) -> Self {
        self.is_allowed = Some(is_allowed);
        self
    }

    /// Returns the description, which completes "must be ...".
    pub fn words(&self) -> &str {
        &self.words
    }

    /// Marks that some values are [not served](Wrong::NotServed) or [not
    /// supported](Wrong::Refused).
    pub fn in_part(mut self) -> Self {
        self.is_partial = true;
        self
    }

    /// Returns whether some values are not served.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// The same, whose variables are evaluated at this moment.
    pub fn evaluated_at(mut self, moment: Moment) -> Self {
        self.moment = Some(moment);
        self
    }

    /// When its variables are evaluated; `None` if it has none.
    pub fn moment(&self) -> Option<Moment> {
        self.moment
    }

    /// Gives an empty value of a ConfigMap key the meaning of this text, as in ingress-nginx.
    /// Without it, the key counts as absent.
    pub fn empty_as(mut self, text: &'static str) -> Self {
        self.empty = Some(text);
        self
    }

    /// The text that an empty value of a ConfigMap key stands for.
    pub fn empty(&self) -> Option<&'static str> {
        self.empty
    }

    /// Sets what surrounds the value of a ConfigMap key without being part of it, in place of any
    /// white space.
    pub fn trimmed_by(mut self, trim: fn(&str) -> &str) -> Self {
        self.trim = trim;
        self
    }

    /// Removes what surrounds the value of a ConfigMap key.
    pub fn trim(&self) -> fn(&str) -> &str {
        self.trim
    }

    /// The kind of the object that it names.
    pub fn refers(&self) -> Option<Kind> {
        self.refers
    }

    /// Parses a text.
    ///
    /// # Errors
    /// The value is unusable.
    pub fn parse(&self, text: &str, author: &Author<'_>) -> Result<T, Wrong> {
        match self.is_allowed {
            Some(is_allowed) if author.is_validated && !is_allowed(text) => {
                Err(Wrong::Invalid(format!("must be {}", self.words)))
            }
            _ => (self.parser)(text, author),
        }
    }
}

impl Author<'_> {
    /// The author of the program's own ConfigMap, who may name any object.
    pub const OPERATOR: Author<'static> = Author {
        namespace: "",
        crosses: true,
        is_validated: true,
        integers_have_bases: false,
        http: &NO_DECLARATIONS,
        variables: &NO_VARIABLES,
    };
}

#[cfg(test)]
mod tests;
