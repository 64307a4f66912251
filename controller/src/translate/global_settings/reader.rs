//! Reads the keys of a ConfigMap.

use std::sync::Arc;

use sluice_config::{Code, ObjectRef, Problem};

use super::{ConfigMapSettings, Key, SettingsBuilder, TABLE, keys};
use crate::problem::{error, warning};
use crate::store::ConfigMap;
use crate::translate::setting::{NotYet, Support, Unreadable};
use crate::translate::snippet_servers;
use crate::translate::template;
use crate::translate::value::{Author, Wrong};

/// Reads the ConfigMap; `None` if there is none.
pub fn read(config_map: Option<&ConfigMap>) -> (ConfigMapSettings, Vec<Problem>) {
    let mut reader = KeyReader::default();
    if let Some(config_map) = config_map {
        reader.object = ObjectRef { kind: "ConfigMap".into(), name: config_map.name.clone() };
        let data = &config_map.data;
        // Its variables may stand in the values of other keys.
        let (first, others): (Vec<_>, Vec<_>) =
            data.iter().partition(|(name, _)| name.eq_ignore_ascii_case(snippet_servers::KEY));
        for (name, value) in first.into_iter().chain(others) {
            let Some(entry) = keys::entry(name) else {
                reader.unknown(name);
                continue;
            };
            if let Some((preferred, _)) = keys::in_effect(entry, data).filter(|(known, _)| known != name) {
                reader.superseded(name, preferred);
                continue;
            }
            let is_ignored = entry.is_harmless() && value.trim().is_empty();
            let Some(text) = entry.text_of_key(value).filter(|_| !is_ignored) else {
                reader.absent(entry);
                continue;
            };
            let means_something = |main: &Key| {
                let text = keys::in_effect(main, data).and_then(|(_, value)| main.text_of_key(value));
                text.is_some_and(|text| !main.is_idle(text))
            };
            let is_alone =
                |main: &&str| !entry.is_idle(text) && !TABLE.get(main).is_some_and(means_something);
            match entry.beside.filter(is_alone) {
                Some(main) => reader.alone(entry, main),
                None => {
                    if value.is_empty() {
                        reader.empty(text, entry);
                    }
                    reader.known(text, entry);
                }
            }
        }
    }
    for missing in reader.settings.missing() {
        reader.error(missing.code, missing.name, missing.reason.to_owned(), missing.remedy);
    }
    for (family, all) in reader.settings.closed_families() {
        let message = format!(
            "has no {family} address, so the gateway does not listen on {family}; ingress-nginx then listens on all its \
             addresses"
        );
        let remedy = format!("add {all} to listen on all of them, or accept that {family} is closed");
        reader.warn(Code::KeyNotServed, "bind-address", message, &remedy);
    }
    for (key, parts) in reader.settings.all_left_out().to_vec() {
        let message = format!("{parts}: not available, and skipped");
        reader.warn(
            Code::KeyNotServed,
            key,
            message,
            "remove these parts, or accept that they have no effect",
        );
    }
    (reader.settings.resolved(reader.closed, reader.unmatched_closed), reader.problems)
}

struct KeyReader {
    object: ObjectRef,
    settings: SettingsBuilder,
    closed: Option<Arc<str>>,
    unmatched_closed: Option<Arc<str>>,
    problems: Vec<Problem>,
}

impl Default for KeyReader {
    fn default() -> Self {
        Self {
            object: ObjectRef::new("ConfigMap", "", ""),
            settings: SettingsBuilder::default(),
            closed: None,
            unmatched_closed: None,
            problems: Vec::new(),
        }
    }
}

impl KeyReader {
    fn known(&mut self, text: &str, entry: &'static Key) {
        let namespace = self.object.name.namespace.clone();
        let snippets = self.settings.snippets.clone();
        let author = Author {
            namespace: &namespace,
            integers_have_bases: true,
            http: snippets.declarations(),
            ..Author::OPERATOR
        };
        match entry.apply(text, &author, &mut self.settings) {
            Ok(()) => {
                if let Some(reason) = entry.without_value(text) {
                    self.warn(Code::VariableWithoutValue, entry.name, reason, template::REMEDY);
                }
                self.unserved(text, entry);
            }
            Err(Wrong::Invalid(reason) | Wrong::Forbidden(reason)) => {
                self.unreadable(text, &reason, entry, &author);
            }
            Err(Wrong::Refused { reason, remedy }) => {
                let message = format!("the value {text:?} {reason}");
                self.error(Code::KeyNotServed, entry.name, message, remedy);
            }
            Err(Wrong::Untranslated { reason, remedy }) => self.untranslated(text, &reason, &remedy, entry),
            Err(Wrong::NotServed) => {
                let message = format!("{text:?} is not implemented yet: {}", entry.doc);
                self.error(Code::KeyNotServed, entry.name, message, "remove the key");
            }
        }
    }

    /// Reports an untranslated snippet. One that restricts access closes all routes.
    fn untranslated(&mut self, text: &str, reason: &str, remedy: &str, entry: &'static Key) {
        let effect = match entry.meanwhile(text) {
            Some(NotYet::Protects) => {
                self.close_routes(entry, "is not translated");
                "it restricts access, so all routes answer 503"
            }
            _ => "it has no effect",
        };
        let message = format!("the snippet is not translated: {reason}; {effect}");
        self.error(Code::SnippetNotTranslated, entry.name, message, remedy);
    }

    /// Reports a value of a key that is not served.
    fn unserved(&mut self, text: &str, entry: &'static Key) {
        if entry.is_idle(text) || entry.support == Support::Served {
            return;
        }
        match (entry.meanwhile(text), entry.support) {
            (Some(NotYet::Harmless), _) => {
                let message = format!("{text:?} is ignored: the key is not implemented yet");
                self.warn(
                    Code::KeyNotServed,
                    entry.name,
                    message,
                    "remove it, or accept that it has no effect for now",
                );
            }
            (Some(NotYet::Protects), _) => {
                let message = format!(
                    "{text:?} protects every route, and the key is not implemented yet; all routes answer 503"
                );
                let remedy = "leave it until Sluice serves it, because without it the routes are open to all clients; \
                              to serve them now, protect them by other means first, then remove the key";
                self.error(Code::KeyNotServed, entry.name, message, remedy);
                self.close_routes(entry, "is not implemented yet");
            }
            (Some(NotYet::ChangesAnswers), _) => {
                let message = format!("{text:?} has no effect: the key is not implemented yet");
                let remedy = "remove the key, or accept that answers are other than it asks for";
                self.error(Code::KeyNotServed, entry.name, message, remedy);
            }
            (None, Support::NoEffect(reason)) => {
                self.warn(
                    Code::KeyWithoutEffect,
                    entry.name,
                    format!("{text:?} has no effect: {reason}"),
                    "remove the key",
                );
            }
            (None, _) => {}
        }
    }

    /// Applies the effect of an unreadable value, which is the same in a process that has read a
    /// good value before and in a new one.
    fn unreadable(&mut self, text: &str, reason: &str, entry: &'static Key, author: &Author<'_>) {
        let effect = match entry.leniency.here {
            Unreadable::SkipEntries => {
                let (good, bad) = entry.readable_entries(text, author);
                match !good.is_empty() && entry.apply(&good, author, &mut self.settings).is_ok() {
                    true => format!("{bad:?} skipped, {good:?} in force"),
                    false if entry.protects => self.close(entry),
                    false => self.by_default(entry),
                }
            }
            Unreadable::Default => self.by_default(entry),
            Unreadable::Close | Unreadable::Reject => self.close(entry),
        };
        let value = if entry.is_secret { String::new() } else { format!(" {text:?}") };
        let message = format!("the value{value} {reason}; {effect}");
        self.error(Code::KeyInvalid, entry.name, message, "correct the value");
    }

    fn by_default(&mut self, entry: &'static Key) -> String {
        match entry.fallback {
            Some((words, put)) => {
                put(&mut self.settings);
                words.to_owned()
            }
            None if entry.default.is_empty() => "the key is ignored".to_owned(),
            None => format!("the default {:?} is in force", entry.default),
        }
    }

    fn close(&mut self, entry: &'static Key) -> String {
        self.close_routes(entry, "cannot be read");
        "all routes answer 503 until it is corrected".to_owned()
    }

    /// Closes all routes and, if the key applies to them, requests that no rule matches.
    fn close_routes(&mut self, entry: &'static Key, fault: &str) {
        let reason: Arc<str> = format!("{} data[{}] {fault}", self.object, entry.name).into();
        if !entry.is_of_rules_only {
            self.unmatched_closed.get_or_insert_with(|| reason.clone());
        }
        self.closed.get_or_insert(reason);
    }

    /// Reports an empty value that stands for another one than the default.
    fn empty(&mut self, text: &str, entry: &'static Key) {
        if !text.is_empty() && !entry.is_idle(text) {
            let message = format!("is empty, which means {text:?}, as in ingress-nginx");
            self.warn(Code::KeyInvalid, entry.name, message, "give it a value, or remove the key");
        }
    }

    /// Reports an empty value without a meaning.
    fn absent(&mut self, entry: &'static Key) {
        if !entry.default.is_empty() && entry.support == Support::Served {
            let message = format!("is empty; the default {:?} is in force", entry.default);
            self.warn(Code::KeyInvalid, entry.name, message, "give it a value, or remove the key");
        }
    }

    fn superseded(&mut self, name: &str, preferred: &str) {
        let message = format!("is ignored, because {preferred} is given too");
        self.warn(Code::KeyWithoutEffect, name, message, "remove one of the two keys");
    }

    fn alone(&mut self, entry: &'static Key, main: &str) {
        let message = format!("has no effect without {main}, as in ingress-nginx");
        let remedy = format!("set {main}, or remove the key");
        self.warn(Code::KeyWithoutEffect, entry.name, message, &remedy);
    }

    fn unknown(&mut self, name: &str) {
        let remedy = match TABLE.nearest(name) {
            Some(near) => format!("did you mean {near}?"),
            None => "remove it, or look its name up in the table of keys".to_owned(),
        };
        self.warn(Code::KeyUnknown, name, "is unknown to Sluice and is ignored".to_owned(), &remedy);
    }

    fn error(&mut self, code: Code, key: &str, message: String, remedy: &str) {
        self.problems.push(error(code, &self.object, format!("data[{key}]"), message, remedy));
    }

    fn warn(&mut self, code: Code, key: &str, message: String, remedy: &str) {
        self.problems.push(warning(code, &self.object, format!("data[{key}]"), message, remedy));
    }
}
