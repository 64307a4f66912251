//! Reads the keys of one ConfigMap.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_config::{Code, ObjectRef, Problem};

use super::{Draft, Global, Key, TABLE};
use crate::problem::{error, warning};
use crate::store::ConfigMap;
use crate::translate::setting::{NotYet, Support};
use crate::translate::value::{Author, Wrong};

/// The keys of the ConfigMap, with the memory of good values.
#[derive(Clone, Default)]
pub struct Keys {
    last_good: BTreeMap<&'static str, Box<str>>,
}

impl Keys {
    /// Reads the ConfigMap, or its absence.
    pub fn read(&mut self, config_map: Option<&ConfigMap>) -> (Global, Vec<Problem>) {
        let mut reader = KeyReader::default();
        let before = std::mem::take(&mut self.last_good);
        if let Some(config_map) = config_map {
            reader.object = ObjectRef { kind: "ConfigMap".into(), name: config_map.name.clone() };
            for (name, text) in config_map.data.iter().filter(|(_, text)| !text.trim().is_empty()) {
                match TABLE.get(name) {
                    Some(entry) => {
                        let good =
                            reader.known(text.trim(), entry, before.get(entry.name).map(|text| &**text));
                        self.last_good.extend(good.map(|good| (entry.name, good)));
                    }
                    None => reader.unknown(name),
                }
            }
        }
        if let Some(lack) = reader.draft.lacks() {
            reader.error(lack.code, lack.name, lack.reason.to_owned(), lack.remedy);
        }
        (reader.draft.resolved(reader.closed), reader.problems)
    }
}

struct KeyReader {
    object: ObjectRef,
    draft: Draft,
    closed: Option<Arc<str>>,
    problems: Vec<Problem>,
}

impl Default for KeyReader {
    fn default() -> Self {
        Self {
            object: ObjectRef::new("ConfigMap", "", ""),
            draft: Draft::default(),
            closed: None,
            problems: Vec::new(),
        }
    }
}

impl KeyReader {
    /// Returns the text to remember as good.
    fn known(&mut self, text: &str, entry: &'static Key, before: Option<&str>) -> Option<Box<str>> {
        let author = Author { namespace: &self.object.name.namespace, ..Author::OPERATOR };
        match entry.apply(text, &author, &mut self.draft) {
            Ok(()) => {}
            Err(Wrong::Invalid(reason) | Wrong::Forbidden(reason)) => {
                return self.bad(text, &reason, entry, before);
            }
            Err(Wrong::Refused { reason, remedy }) => {
                let message = format!("the value {text:?} {reason}");
                self.error(Code::KeyNotServed, entry.name, message, remedy);
                return None;
            }
            Err(Wrong::NotServed) => {
                let message = format!("{text:?} is not implemented yet: {}", entry.doc);
                self.error(Code::KeyNotServed, entry.name, message, "remove the key");
                return None;
            }
        }
        match entry.support {
            Support::Served => return Some(text.into()),
            _ if entry.is_idle(text) => {}
            Support::NotYet(NotYet::Harmless) => {
                let message = format!("{text:?} is ignored: the key is not implemented yet");
                self.warn(
                    Code::KeyNotServed,
                    entry.name,
                    message,
                    "remove it, or accept that it has no effect for now",
                );
            }
            Support::NotYet(NotYet::Protects) => {
                let message = format!(
                    "{text:?} protects every route, and the key is not implemented yet; all routes answer 503"
                );
                let remedy = "leave it until Sluice serves it, because without it the routes are open to everybody; to \
                              serve them now, protect them by other means first, then remove the key";
                self.error(Code::KeyNotServed, entry.name, message, remedy);
                let reason = format!("{} data[{}] is not implemented yet", self.object, entry.name);
                self.closed.get_or_insert(reason.into());
            }
            Support::NotYet(NotYet::ChangesAnswers) => {
                let message = format!("{text:?} has no effect: the key is not implemented yet");
                let remedy = "remove the key, or accept that answers are other than it asks for";
                self.error(Code::KeyNotServed, entry.name, message, remedy);
            }
            Support::NoEffect(reason) => {
                self.warn(
                    Code::KeyWithoutEffect,
                    entry.name,
                    format!("{text:?} has no effect: {reason}"),
                    "remove the key",
                );
            }
        }
        None
    }

    fn bad(
        &mut self,
        text: &str,
        reason: &str,
        entry: &'static Key,
        before: Option<&str>,
    ) -> Option<Box<str>> {
        let author = Author { namespace: &self.object.name.namespace, ..Author::OPERATOR };
        let kept = before.filter(|before| {
            entry.support == Support::Served && entry.apply(before, &author, &mut self.draft).is_ok()
        });
        let instead = entry.instead.filter(|_| kept.is_none());
        if let Some((_, put)) = instead {
            put(&mut self.draft);
        }
        let stays = match kept {
            Some(kept) => format!("{kept:?} stays in force"),
            None if let Some((words, _)) = instead => words.to_owned(),
            None if entry.default.is_empty() => "the default stays in force".to_owned(),
            None => format!("the default {:?} stays in force", entry.default),
        };
        if kept.is_none() && entry.is_protection() {
            let reason = format!("{} data[{}] cannot be read", self.object, entry.name);
            self.closed.get_or_insert(reason.into());
        }
        self.error(
            Code::KeyInvalid,
            entry.name,
            format!("the value {text:?} {reason}; {stays}"),
            "correct the value",
        );
        kept.map(Into::into)
    }

    fn unknown(&mut self, name: &str) {
        let remedy = match TABLE.nearest(name) {
            Some(near) => format!("did you mean {near}?"),
            None => "remove it, or look its name up in the table of keys".to_owned(),
        };
        self.warn(Code::KeyUnknown, name, "is no key that Sluice knows, and is ignored".to_owned(), &remedy);
    }

    fn error(&mut self, code: Code, key: &str, message: String, remedy: &str) {
        self.problems.push(error(code, &self.object, format!("data[{key}]"), message, remedy));
    }

    fn warn(&mut self, code: Code, key: &str, message: String, remedy: &str) {
        self.problems.push(warning(code, &self.object, format!("data[{key}]"), message, remedy));
    }
}
