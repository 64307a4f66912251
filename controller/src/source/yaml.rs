//! The only module that uses the YAML library, so that replacing the library changes one file.
//!
//! For each token the library visits all open flow collections (`[`, `{`), so 200 KB of brackets
//! take 18 s, and its limit on aliases allows 11 KB to expand to gigabytes. Texts for which either
//! could be costly are first checked by an event-based parser against limits on nesting and alias
//! expansion.

use std::collections::HashMap;

use granit_parser::ErrorKind;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};

/// Maximum nesting of collections. The library has the same limit for the values it creates.
const DEPTH: usize = 128;
/// Product of brackets and bytes up to which no check is needed: about 0.1 s. Nearly all regular
/// texts are far below.
const WORK: usize = 1 << 27;

/// Maximum number of bytes that aliases may add to a document.
const EXPANDED: usize = 4 << 20;
/// Size in bytes of a value in addition to its text.
const NODE: usize = 16;

/// Why a text cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct YamlError {
    /// Line within the text, from 1.
    pub line: usize,
    /// The library's message, without the position.
    pub reason: String,
}

impl From<serde_yaml::Error> for YamlError {
    fn from(error: serde_yaml::Error) -> Self {
        let text = error.to_string();
        let line = error.location().map_or(1, |location| location.line());
        let place = text.rfind(" at line ").filter(|_| error.location().is_some());
        Self { line, reason: text[..place.unwrap_or(text.len())].to_owned() }
    }
}

/// Rejects texts that would take the library much time or memory.
fn bounded(text: &str) -> Result<(), YamlError> {
    let (mut brackets, mut anchors, mut aliases) = (0_usize, false, false);
    let mut before = b' ';
    for byte in text.bytes() {
        brackets += usize::from(matches!(byte, b'[' | b'{'));
        let names = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        anchors |= names && before == b'&';
        aliases |= names && before == b'*';
        before = byte;
    }
    if brackets.saturating_mul(text.len()) <= WORK && !(anchors && aliases) {
        return Ok(());
    }
    // These are line breaks in YAML 1.1, which the library implements, but not in 1.2: comments
    // would end differently.
    if let Some(at) = text.find(['\u{85}', '\u{2028}', '\u{2029}']) {
        let line = 1 + text[..at].bytes().filter(|byte| *byte == b'\n').count();
        let reason = "U+0085, U+2028 and U+2029 are not read beside so many brackets, or aliases".to_owned();
        return Err(YamlError { line, reason });
    }
    let options = granit_parser::options! {
        flow_nesting_limit: DEPTH, block_nesting_limit: 8 * DEPTH, emit_comments: false
    };
    let mut expansion = Expansion::default();
    for event in granit_parser::Parser::new_from_str_with_options(text, options) {
        let fault = |line, reason| Err(YamlError { line, reason });
        match event {
            Ok((event, span)) => {
                if !expansion.take(&event) {
                    let most = EXPANDED >> 20;
                    return fault(
                        span.start.line(),
                        format!("aliases repeat more than {most} MiB of the document"),
                    );
                }
            }
            Err(error) => {
                let reason = match error.kind() {
                    ErrorKind::RecursionLimitExceeded => {
                        format!("collections are nested deeper than {DEPTH}")
                    }
                    kind => kind.to_string(),
                };
                return fault(error.marker().line(), reason);
            }
        }
    }
    Ok(())
}

/// The growth of a document by aliases: a few nested ones expand a few kilobytes to gigabytes.
#[derive(Default)]
struct Expansion {
    /// Size of the document so far, with aliases expanded.
    size: usize,
    added: usize,
    /// Open collections: their anchors, and the size before them.
    open: Vec<(usize, usize)>,
    /// Sizes by anchor.
    sizes: HashMap<usize, usize>,
}

impl Expansion {
    /// Processes an event. Returns false if the limit is exceeded.
    fn take(&mut self, event: &granit_parser::Event<'_>) -> bool {
        use granit_parser::Event;
        match event {
            Event::Scalar(text, _, anchor, _) => {
                let size = NODE + text.len();
                self.size += size;
                self.name(*anchor, size);
            }
            Event::SequenceStart(_, anchor, _) | Event::MappingStart(_, anchor, _) => {
                self.open.push((*anchor, self.size));
                self.size += NODE;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some((anchor, before)) = self.open.pop() {
                    self.name(anchor, self.size - before);
                }
            }
            Event::Alias(anchor) => {
                let size = NODE + self.sizes.get(anchor).copied().unwrap_or_default();
                self.size += size;
                self.added += size;
            }
            _ => {}
        }
        self.added <= EXPANDED
    }

    fn name(&mut self, anchor: usize, size: usize) {
        // 0 means no anchor.
        if anchor > 0 {
            self.sizes.insert(anchor, size);
        }
    }
}

/// Reads one document.
pub(super) fn document<'de, S: DeserializeSeed<'de>>(text: &'de str, seed: S) -> Result<S::Value, YamlError> {
    bounded(text)?;
    Ok(seed.deserialize(serde_yaml::Deserializer::from_str(text))?)
}

/// Reads one item that was split off a sequence, with its dash.
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

    use proptest::prelude::{prop_assert, prop_assume, proptest};

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

    #[test]
    fn aliases_repeat_a_little_and_not_gigabytes() {
        assert_eq!(read("a: &x {b: 1}\nc: [*x, *x]\n").unwrap()["c"][1]["b"], 1);
        let comments = "# a\n".repeat(1000);
        assert_eq!(read(&format!("{comments}a: &x 1\n{comments}b: *x\n")).unwrap()["b"], 1);
        let many = |what: &str, times: usize| what.repeat(times);
        let [a, b, c] = [many("x,", 4000), many("*a,", 1000), many("*b,", 90)];
        for text in [
            format!("a: &a [{a}]\nb: &b [{b}]\nc: [{c}]\n"),
            format!("a: &a [{a}]\nb:\n{}", many("- *a\n", 1000)),
            format!("a: &a \"{}\"\nb: [{b}]\n", many("x", 100_000)),
            format!("a: &a {{k: &b [{a}]}}\nb: [{}]\n", many("{<<: *a, l: *b},", 1000)),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.reason.starts_with("aliases repeat more than 4 MiB"), "{error}");
        }
    }

    proptest! {
        /// The check counts at least the nesting that the library finds.
        #[test]
        fn the_bound_is_below_the_depth_of_the_library(
            text in "[\\[\\]{}\"':,\\-|> #&*!?a\n]{0,40}"
        ) {
            fn depth(value: &serde_json::Value) -> usize {
                match value {
                    serde_json::Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
                    serde_json::Value::Object(items) => 1 + items.values().map(depth).max().unwrap_or(0),
                    _ => 0,
                }
            }
            // The parsers disagree on whether a colon belongs to an anchor's name (YAML 1.2 says
            // so): one more level per line, of which the library itself allows no more than 128.
            let ends_name = [' ', '\n', ',', '[', ']', '{', '}'];
            let names_with_a_colon = text
                .split(['&', '*'])
                .skip(1)
                .any(|rest| rest.split(ends_name).next().is_some_and(|name| name.contains(':')));
            prop_assume!(!names_with_a_colon);
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
