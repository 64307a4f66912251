//! What the text of a setting may be, and what it is read as.
//!
//! A [`Type`] is one thing: the words that documentation and messages have for it, and the one parser. Whatever
//! is known of a value once it has been read (that a number is in its range, which object a name means, that a list
//! holds networks) is in the Rust type of the result, so that no setter has to look at the text again.
//!
//! Numbers are as Go's `strconv` reads them, times and sizes as nginx does, because that is what the texts were
//! written for. Beside its parser a type can have the characters that ingress-nginx allows where
//! `--enable-annotation-validation` is on: these are narrower than what can be carried out.

mod network;
mod number;
mod reference;
mod retry;
mod text;
mod tls;

use std::borrow::Cow;

use sluice_config::Moment;

use crate::store::Kind;

pub use network::{addresses, network, networks, trusted_peers};
pub use number::{
    buffers, count, count_or_none, int, kibibytes, positive, ratio, seconds, seconds_or_zero, size,
    some_time, time, time_of, time_within, within,
};
pub use reference::{config_map, config_map_of_any_namespace, secret, service};
pub use retry::next_upstream;
pub use text::{
    any, bool, capture_path, choice, exactly_one_of, field, field_name, is_token, items, list, list_of,
    one_of, partly, switch, text, token, truth, words,
};
pub use tls::{
    NamedGroups, NamedSuites, NamedVersions, named_tls_versions, tls_ciphers, tls_groups, tls_suites,
    tls_versions,
};

/// What a setting accepts, read as `T`.
pub struct Type<T> {
    /// Completes "must be ...".
    words: Cow<'static, str>,
    parser: Box<Parser<T>>,
    /// What ingress-nginx's validator allows.
    is_allowed: Option<fn(&str) -> bool>,
    /// The kind of the object that it names.
    refers: Option<Kind>,
    /// Some of its values are not served yet.
    is_partial: bool,
    /// When its variables are evaluated, if it may have any.
    moment: Option<Moment>,
}

type Parser<T> = dyn Fn(&str, &Author<'_>) -> Result<T, Wrong> + Send + Sync;

/// Who wrote a value.
#[derive(Clone, Copy, Debug)]
pub struct Author<'a> {
    /// The namespace of the object that has it.
    pub namespace: &'a str,
    /// Whether it may name objects of other namespaces (`allow-cross-namespace-resources`).
    pub crosses: bool,
    /// Whether its characters have to be those that ingress-nginx allows (`--enable-annotation-validation`).
    pub is_validated: bool,
}

/// Why a value cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It is none of the values there are; completes "the value ...".
    Invalid(String),
    /// It is a value that is known and not served yet.
    NotServed,
    /// It is a value that cannot be carried out, for this reason (completes "the value ..."), and how to fix it.
    Refused {
        /// Why.
        reason: String,
        /// How to fix it.
        remedy: &'static str,
    },
    /// It is a snippet that is not translated; completes "the snippet is not translated: ...".
    Untranslated {
        /// The line and the directive, with what is wrong.
        reason: String,
        /// How to fix it.
        remedy: String,
    },
    /// It names what its author may not name; completes "the annotation ...".
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
    /// A type with these words for it ("must be ..."). The parser says more closely what is wrong ("the value ...").
    pub fn new<E: Into<Wrong>>(
        words: impl Into<Cow<'static, str>>,
        parse: impl Fn(&str) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self {
        Self::with_author(words, move |text, _| parse(text).map_err(Into::into))
    }

    /// A type whose parser has nothing to say but that the text is none.
    pub fn of(
        words: impl Into<Cow<'static, str>>,
        parse: impl Fn(&str) -> Option<T> + Send + Sync + 'static,
    ) -> Self {
        let words = words.into();
        let wrong = format!("must be {words}");
        Self::new(words, move |text| parse(text).ok_or_else(|| wrong.clone()))
    }

    fn with_author(
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
        }
    }

    /// The same, of which something else is made.
    pub fn map<U: 'static>(self, make: impl Fn(T) -> U + Send + Sync + 'static) -> Type<U> {
        self.and_then(move |value| Ok::<_, Wrong>(make(value)))
    }

    /// The same, of which something else is made that not every value can become.
    pub fn and_then<U: 'static, E: Into<Wrong>>(
        self,
        make: impl Fn(T) -> Result<U, E> + Send + Sync + 'static,
    ) -> Type<U> {
        let Self { words, parser, is_allowed, refers, is_partial, moment } = self;
        let parser =
            Box::new(move |text: &str, author: &Author<'_>| make(parser(text, author)?).map_err(Into::into));
        Type { words, parser, is_allowed, refers, is_partial, moment }
    }

    /// The same, with other words for it.
    pub fn called(mut self, words: impl Into<Cow<'static, str>>) -> Self {
        self.words = words.into();
        self
    }

    /// The same, of which ingress-nginx's validator lets only this through.
    pub fn allowing(mut self, is_allowed: fn(&str) -> bool) -> Self {
        self.is_allowed = Some(is_allowed);
        self
    }

    /// Completes "must be ...".
    pub fn words(&self) -> &str {
        &self.words
    }

    /// The same, of which some values are [not served](Wrong::NotServed) yet, or [cannot be](Wrong::Refused).
    pub fn in_part(mut self) -> Self {
        self.is_partial = true;
        self
    }

    /// Whether some of its values are not served yet.
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

    /// The kind of the object that it names.
    pub fn refers(&self) -> Option<Kind> {
        self.refers
    }

    /// Reads a text.
    ///
    /// # Errors
    /// Why it cannot be used.
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
    /// One who may name anything: whoever writes the program's own ConfigMap.
    pub const OPERATOR: Author<'static> = Author { namespace: "", crosses: true, is_validated: true };
}

#[cfg(test)]
mod tests;
