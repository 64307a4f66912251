//! Parsing of one manifest file into objects.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer};
use serde_json::value::RawValue;
use sluice_config::text::one_line;

use super::pieces::{self, Piece};
use super::unknown_fields::{self, Decoded, InexactObject};
use crate::source::yaml;
use crate::store::{Kind, Object, ObjectSeed, Prune};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    /// `.yaml`, `.yml`.
    Yaml,
    /// `.json`.
    Json,
}

/// The content of a file.
pub(super) struct Contents {
    /// The text.
    pub(super) text: String,
    /// The format, by the file's extension.
    pub(super) language: Language,
}

/// The result for one piece of a file. Two words in size, because there is one per object; rare
/// variants are boxed twice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::box_collection, reason = "keeps an outcome two words long")]
pub(super) enum PieceOutcome {
    /// A served object.
    Object(Object),
    /// A served object with fields that its kind does not have.
    Inexact(Box<InexactObject>),
    /// An object of a kind that is not served.
    Skipped(Box<String>),
    /// An object of which nothing is needed.
    Nothing,
    /// An unreadable piece.
    Bad(Box<Unreadable>),
    /// The items of a list that was parsed as a whole.
    Many(Box<Vec<PieceOutcome>>),
}

/// Why a piece cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    /// Line within the piece, from 1.
    pub(super) line: usize,
    /// The reason in words.
    pub(super) reason: Box<str>,
}

/// A piece and its result.
#[derive(Debug)]
pub(super) struct Parsed {
    hash: u64,
    /// Number of lines of the file before the piece.
    pub(super) lines_before: u32,
    /// The result.
    pub(super) outcome: PieceOutcome,
}

impl PieceOutcome {
    /// Calls `see` with every single outcome, including those in [`Many`](Self::Many).
    pub(super) fn each<'a>(&'a self, see: &mut impl FnMut(&'a PieceOutcome)) {
        match self {
            Self::Many(many) => many.iter().for_each(|one| one.each(see)),
            one => see(one),
        }
    }

    /// Returns the object, if this is a single one.
    pub(super) fn object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            Self::Inexact(inexact) => Some(&inexact.object),
            Self::Skipped(_) | Self::Nothing | Self::Bad(_) | Self::Many(_) => None,
        }
    }

    /// Returns whether the objects were kept with the fields that are needed now.
    fn has_what_is_needed(&self, prune: &Prune) -> bool {
        let mut has = true;
        self.each(&mut |one| {
            if let Some(object) = one.object()
                && let Some(kept) = object.fields()
            {
                has &= prune.needs_of(object.kind(), object.name()).as_ref() == Some(kept);
            }
        });
        has
    }

    fn is_bad(&self) -> bool {
        let mut bad = false;
        self.each(&mut |one| bad |= matches!(one, Self::Bad(_)));
        bad
    }
}

/// Parses a file. Results of pieces with unchanged text are taken from `before`.
pub(super) fn parse(contents: &Contents, prune: &Prune, before: Box<[Parsed]>) -> Box<[Parsed]> {
    let text = contents.text.as_str();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut known: HashMap<u64, PieceOutcome> =
        before.into_iter().map(|piece| (piece.hash, piece.outcome)).collect();
    let mut parser = Parser { prune, known: &mut known };
    match contents.language {
        Language::Json => parser.json(text).into(),
        Language::Yaml => pieces::documents(text).iter().flat_map(|piece| parser.yaml(piece)).collect(),
    }
}

struct Parser<'a> {
    prune: &'a Prune,
    known: &'a mut HashMap<u64, PieceOutcome>,
}

/// The type of an object. Items of a list of one kind may omit it.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a Kubernetes object")]
struct Head {
    api_version: Option<String>,
    kind: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "a Kubernetes object")]
struct JsonList<'a> {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default, borrow)]
    items: Option<Vec<&'a RawValue>>,
}

impl Parser<'_> {
    fn remember(&mut self, text: &str, lines_before: usize, parse: impl FnOnce() -> PieceOutcome) -> Parsed {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(text);
        let known = self.known.get(&hash).filter(|known| known.has_what_is_needed(self.prune));
        let outcome = known.cloned().unwrap_or_else(parse);
        Parsed { hash, lines_before: u32::try_from(lines_before).unwrap_or(u32::MAX), outcome }
    }

    fn yaml(&mut self, document: &Piece<'_>) -> Vec<Parsed> {
        let prune = self.prune;
        let list = document.scalar("kind").filter(|kind| kind.ends_with("List"));
        if let (Some(kind), Some(items)) = (list, pieces::items(document)) {
            let of_list = Head {
                api_version: document.scalar("apiVersion").map(str::to_owned),
                kind: kind.strip_suffix("List").filter(|kind| !kind.is_empty()).map(str::to_owned),
            };
            let parsed: Vec<Parsed> = items
                .iter()
                .map(|item| self.remember(item.text, item.lines_before, || yaml_piece(item, &of_list, prune)))
                .collect();
            if !parsed.iter().any(|piece| piece.outcome.is_bad()) {
                return parsed;
            }
            // The list may have been split wrongly, or an alias refers to another item: the whole
            // document is parsed.
            let whole =
                self.remember(document.text, document.lines_before, || yaml_whole(document.text, prune));
            return if whole.outcome.is_bad() { parsed } else { vec![whole] };
        }
        let parse = || yaml_piece(document, &Head::default(), prune);
        vec![self.remember(document.text, document.lines_before, parse)]
    }

    fn json(&mut self, text: &str) -> Vec<Parsed> {
        let prune = self.prune;
        if text.trim().is_empty() {
            return Vec::new();
        }
        let list: JsonList<'_> = match serde_json::from_str(text) {
            Ok(list) => list,
            Err(error) => {
                let outcome = json_bad(&error);
                return vec![self.remember(text, 0, || outcome)];
            }
        };
        let head = Head { api_version: list.api_version, kind: list.kind };
        let Some((items, of_list)) = list.items.zip(head.of_list()) else {
            return vec![self.remember(text, 0, || json_object(text, &head, prune))];
        };
        // Counted incrementally: counting from the start each time would take quadratic time.
        let (mut counted, mut lines_before) = (0, 0);
        items
            .into_iter()
            .map(|item| {
                let start = item.get().as_ptr() as usize - text.as_ptr() as usize;
                lines_before += text[counted..start].bytes().filter(|b| *b == b'\n').count();
                counted = start;
                self.remember(item.get(), lines_before, || json_object(item.get(), &of_list, prune))
            })
            .collect()
    }
}

impl Head {
    /// Returns the type of the items, as far as a list specifies it. `None` if this is not a list.
    fn of_list(&self) -> Option<Self> {
        let kind = self.kind.as_deref()?.strip_suffix("List")?;
        let kind = (!kind.is_empty()).then(|| kind.to_owned());
        let api_version = kind.as_ref().and(self.api_version.clone());
        Some(Self { api_version, kind })
    }

    fn or(self, other: &Self) -> Self {
        Self {
            api_version: self.api_version.or_else(|| other.api_version.clone()),
            kind: self.kind.or_else(|| other.kind.clone()),
        }
    }

    /// Returns the served kind, or the result for any other.
    fn served(&self) -> Result<Kind, PieceOutcome> {
        let Some(kind) = self.kind.as_deref() else {
            return Err(bad(1, "kind is missing: this is not a Kubernetes object"));
        };
        let version = self.api_version.as_deref().unwrap_or_default();
        Kind::of(version, kind).ok_or_else(|| {
            if !is_kind(kind) {
                return bad(1, &format!("kind {:?} is not a kind of object", one_line(kind, 100)));
            }
            let group = version.rsplit_once('/').map_or("", |(group, _)| group);
            let group = one_line(group, 253);
            let separator = if group.is_empty() { "" } else { "." };
            PieceOutcome::Skipped(Box::new(format!("{kind}{separator}{group}")))
        })
    }
}

/// Returns whether the text is a valid kind. It appears in metric labels and summaries.
fn is_kind(text: &str) -> bool {
    (1..=63).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

fn bad(line: usize, reason: &str) -> PieceOutcome {
    PieceOutcome::Bad(Box::new(Unreadable { line, reason: reason.into() }))
}

/// Decodes an object of a served kind, from any format.
struct OutcomeSeed<'a>(ObjectSeed<'a>);

impl<'de> DeserializeSeed<'de> for OutcomeSeed<'_> {
    type Value = PieceOutcome;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<PieceOutcome, D::Error> {
        let Decoded { object, unknown } = unknown_fields::decode(input, self.0)?;
        Ok(match object {
            None => PieceOutcome::Nothing,
            Some(object) if unknown.is_empty() => PieceOutcome::Object(object),
            Some(object) => PieceOutcome::Inexact(Box::new(InexactObject { object, unknown })),
        })
    }
}

fn yaml_piece(piece: &Piece<'_>, of_list: &Head, prune: &Prune) -> PieceOutcome {
    let guess = Head {
        api_version: piece.scalar("apiVersion").map(str::to_owned),
        kind: piece.scalar("kind").map(str::to_owned),
    };
    // Scanning lines for the kind is cheap and nearly always right. Objects that are not served are
    // parsed for their type, so that a broken file is reported whatever it contains.
    let head = match guess.clone().or(of_list).served() {
        Ok(kind) if guess.kind.is_some() => return yaml_object(piece, kind, prune),
        _ => match yaml_read(piece, PhantomData::<Head>) {
            Ok(head) => head.or(of_list),
            Err(fault) => return PieceOutcome::Bad(Box::new(fault)),
        },
    };
    if head.of_list().is_some() {
        return yaml_whole(piece.text, prune);
    }
    match head.served() {
        Ok(kind) => yaml_object(piece, kind, prune),
        Err(outcome) => outcome,
    }
}

fn yaml_object(piece: &Piece<'_>, kind: Kind, prune: &Prune) -> PieceOutcome {
    let seed = OutcomeSeed(ObjectSeed { kind, prune });
    yaml_read(piece, seed).unwrap_or_else(|fault| PieceOutcome::Bad(Box::new(fault)))
}

fn yaml_read<'de, S: DeserializeSeed<'de>>(piece: &Piece<'de>, seed: S) -> Result<S::Value, Unreadable> {
    let read = match piece.item {
        Some(_) => yaml::item(piece.text, seed),
        None => yaml::document(piece.text, seed),
    };
    read.map_err(|error| Unreadable { line: error.line, reason: error.reason.into() })
}

/// Parses a document as a whole, list or not.
fn yaml_whole(text: &str, prune: &Prune) -> PieceOutcome {
    match yaml::any::<serde_json::Value>(text) {
        Ok(value) => json_value(value, &Head::default(), prune),
        Err(error) => bad(error.line, &error.reason),
    }
}

fn json_value(mut value: serde_json::Value, of_list: &Head, prune: &Prune) -> PieceOutcome {
    let head = match Head::deserialize(&value) {
        Ok(head) => head.or(of_list),
        Err(error) => return json_bad(&error),
    };
    if let Some(of_list) = head.of_list() {
        let items = match value.get_mut("items").map(serde_json::Value::take) {
            Some(serde_json::Value::Array(items)) => items,
            _ => Vec::new(),
        };
        return PieceOutcome::Many(Box::new(
            items.into_iter().map(|item| json_value(item, &of_list, prune)).collect(),
        ));
    }
    match head.served() {
        Ok(kind) => {
            let seed = OutcomeSeed(ObjectSeed { kind, prune });
            seed.deserialize(value).unwrap_or_else(|error| json_bad(&error))
        }
        Err(outcome) => outcome,
    }
}

fn json_object(text: &str, of_list: &Head, prune: &Prune) -> PieceOutcome {
    let head = match serde_json::from_str::<Head>(text) {
        Ok(head) => head.or(of_list),
        Err(error) => return json_bad(&error),
    };
    match head.served() {
        Ok(kind) => {
            let seed = OutcomeSeed(ObjectSeed { kind, prune });
            let read = seed.deserialize(&mut serde_json::Deserializer::from_str(text));
            read.unwrap_or_else(|error| json_bad(&error))
        }
        Err(outcome) => outcome,
    }
}

fn json_bad(error: &serde_json::Error) -> PieceOutcome {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    bad(error.line().max(1), &text[..end])
}
