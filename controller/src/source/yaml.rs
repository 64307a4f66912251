//! The only place that knows the YAML library, so that a successor is this file's change.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};

/// Why a text cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(super) struct YamlError {
    /// Line within the text, from 1.
    pub(super) line: usize,
    /// In the library's words, without the place.
    pub(super) reason: String,
}

impl From<serde_yaml::Error> for YamlError {
    fn from(error: serde_yaml::Error) -> Self {
        let text = error.to_string();
        let line = error.location().map_or(1, |location| location.line());
        let place = text.rfind(" at line ").filter(|_| error.location().is_some());
        Self { line, reason: text[..place.unwrap_or(text.len())].to_owned() }
    }
}

/// Reads one document.
pub(super) fn document<'de, S: DeserializeSeed<'de>>(text: &'de str, seed: S) -> Result<S::Value, YamlError> {
    Ok(seed.deserialize(serde_yaml::Deserializer::from_str(text))?)
}

/// Reads one item that was cut out of a sequence, its dash included.
pub(super) fn item<'de, S: DeserializeSeed<'de>>(text: &'de str, seed: S) -> Result<S::Value, YamlError> {
    Ok(serde_yaml::Deserializer::from_str(text).deserialize_seq(Only(seed))?)
}

/// Reads one document of any type.
pub(super) fn any<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, YamlError> {
    document(text, std::marker::PhantomData)
}

struct Only<S>(S);

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Only<S> {
    type Value = S::Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("one item of a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let first = items.next_element_seed(self.0)?;
        first.ok_or_else(|| serde::de::Error::invalid_length(0, &"one item"))
    }
}
