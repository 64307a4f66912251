//! The only place that knows the YAML library, so that a successor is this file's change.
//!
//! For each token it looks at every flow collection (`[`, `{`) that is open, so that 200 KB of brackets cost it 18 s. A
//! text for which that could be much is first looked through by a parser that ends at a bound on nesting.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};

/// Collections within each other, which is also the bound that the library has for the objects it makes of them.
const DEPTH: usize = 128;
/// Brackets times bytes up to which no further look is needed: some 0.1 s. Nearly all that is no mistake or attack is
/// far below.
const WORK: usize = 1 << 27;

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

/// Refuses what would take the library long.
fn bounded(text: &str) -> Result<(), YamlError> {
    let brackets = text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count();
    if brackets.saturating_mul(text.len()) <= WORK {
        return Ok(());
    }
    // Line breaks to YAML 1.1, which the library reads, and not to 1.2: a comment would end elsewhere.
    if let Some(at) = text.find(['\u{85}', '\u{2028}', '\u{2029}']) {
        let line = 1 + text[..at].bytes().filter(|byte| *byte == b'\n').count();
        let reason =
            "a document with so many brackets may not have U+0085, U+2028 or U+2029 in it".to_owned();
        return Err(YamlError { line, reason });
    }
    let options = granit_parser::options! { flow_nesting_limit: DEPTH, block_nesting_limit: 8 * DEPTH };
    for event in granit_parser::Parser::new_from_str_with_options(text, options) {
        if let Err(error) = event {
            let reason = format!("{}; collections may be nested {DEPTH} deep", error.kind());
            return Err(YamlError { line: error.marker().line(), reason });
        }
    }
    Ok(())
}

/// Reads one document.
pub(super) fn document<'de, S: DeserializeSeed<'de>>(text: &'de str, seed: S) -> Result<S::Value, YamlError> {
    bounded(text)?;
    Ok(seed.deserialize(serde_yaml::Deserializer::from_str(text))?)
}

/// Reads one item that was cut out of a sequence, its dash included.
pub(super) fn item<'de, S: DeserializeSeed<'de>>(text: &'de str, seed: S) -> Result<S::Value, YamlError> {
    bounded(text)?;
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::{prop_assert, proptest};

    use super::*;

    fn read(text: &str) -> Result<serde_json::Value, YamlError> {
        super::any(text)
    }

    #[test]
    fn brackets_upon_brackets_are_refused_soon() {
        const MANY: usize = 400_000;
        let begin = Instant::now();
        for text in ["[", "{", "{a: ", "- [", "[[]", "[ ']' ", "[ \"]\" ", "\n[", "a: [", "? [", "[ # ]\n"] {
            assert!(read(&text.repeat(MANY)).is_err(), "{text}");
            let late = format!("data: |\n  {}\nb: {}", "[".repeat(1000), text.repeat(MANY));
            assert!(read(&late).is_err(), "{text}");
        }
        let odd = format!("# {}\u{2028}{}", "[".repeat(1000), "[".repeat(MANY));
        assert!(read(&odd).is_err());
        // Each of them would take the library minutes.
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    }

    #[test]
    fn many_brackets_that_are_not_nested_are_read() {
        let list = format!("[{}]", "{a: [1]},".repeat(20_000));
        assert_eq!(read(&list).unwrap().as_array().unwrap().len(), 20_000);
        let dashboard = format!("data:\n  dashboard: |\n    {}\n", "[[{{ text".repeat(20_000));
        assert_eq!(read(&dashboard).unwrap()["data"]["dashboard"].as_str().unwrap().len(), 180_001);
    }

    proptest! {
        /// The bound sees at least the nesting that the library makes of a text.
        #[test]
        fn what_is_deep_to_the_library_is_deep_to_the_bound(
            text in "[\\[\\]{}\"':,\\-|> #&*!?a\n]{0,40}"
        ) {
            fn depth(value: &serde_json::Value) -> usize {
                match value {
                    serde_json::Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
                    serde_json::Value::Object(items) => 1 + items.values().map(depth).max().unwrap_or(0),
                    _ => 0,
                }
            }
            if let Ok(value) = read(&text) {
                let options = granit_parser::options! { flow_nesting_limit: 1000, block_nesting_limit: 1000 };
                let (mut open, mut deepest, mut failed) = (0_usize, 0_usize, false);
                for event in granit_parser::Parser::new_from_str_with_options(&text, options) {
                    use granit_parser::Event;
                    match event {
                        Ok((Event::SequenceStart(..) | Event::MappingStart(..), _)) => {
                            open += 1;
                            deepest = deepest.max(open);
                        }
                        Ok((Event::SequenceEnd | Event::MappingEnd, _)) => open -= 1,
                        Ok(_) => {}
                        Err(_) => failed = true,
                    }
                }
                prop_assert!(failed || depth(&value) <= deepest, "{text:?}: {} > {deepest}", depth(&value));
            }
        }
    }
}
