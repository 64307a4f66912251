//! Global settings: the table of ConfigMap keys, and what one ConfigMap amounts to.
//!
//! A key with a bad value keeps the last good one it had, which is the only memory in the whole translation:
//! [`Keys`] remembers, per key, the last text that was good. A key that is taken out of the ConfigMap is
//! forgotten with it, and so is everything when the ConfigMap goes. After a restart a bad value means the
//! default, since nothing better is known.

mod authentication;
mod blocking;
mod compression;
mod errors;
mod headers;
mod leftovers;
mod limits;
mod logging;
mod process;
mod safety;
mod snippets;
mod telemetry;
#[cfg(test)]
mod tests;
mod timeouts;
mod tls;
mod upstream;

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, LazyLock};

use sluice_config::{Code, Hsts, ObjectRef, Problem, Tuning};

use super::annotations::Gates;
use super::external_auth::AuthSettings;
use super::setting::{self, Fault, NotYet, Setting, Support};
use crate::problem::{error, warning};
use crate::store::ConfigMap;

/// What keys fill in.
#[derive(Clone, Debug)]
pub struct Settings {
    tuning: Tuning,
    hsts_enabled: bool,
    hsts: Hsts,
    retry_non_idempotent: bool,
    trusted_peers_named: bool,
    bind_addresses: Vec<IpAddr>,
    disable_ipv6: bool,
    gates: Gates,
    global_auth: AuthSettings,
}

impl Default for Settings {
    fn default() -> Self {
        let tuning = Tuning::default();
        Self {
            hsts_enabled: tuning.hsts.is_some(),
            hsts: tuning.hsts.clone().unwrap_or(Hsts {
                max_age: 31_536_000,
                include_subdomains: true,
                preload: false,
            }),
            tuning,
            retry_non_idempotent: false,
            trusted_peers_named: false,
            bind_addresses: Vec::new(),
            disable_ipv6: false,
            gates: Gates::default(),
            global_auth: AuthSettings::default(),
        }
    }
}

/// The families, whose concatenation is the table.
pub static FAMILIES: &[&[Setting<Settings>]] = &[
    authentication::SETTINGS,
    blocking::SETTINGS,
    compression::SETTINGS,
    errors::SETTINGS,
    headers::SETTINGS,
    leftovers::SETTINGS,
    limits::SETTINGS,
    logging::SETTINGS,
    process::SETTINGS,
    safety::SETTINGS,
    snippets::SETTINGS,
    telemetry::SETTINGS,
    timeouts::SETTINGS,
    tls::SETTINGS,
    upstream::SETTINGS,
];

static BY_NAME: LazyLock<HashMap<&'static str, &'static Setting<Settings>>> =
    LazyLock::new(|| setting::entries(FAMILIES).map(|entry| (entry.name, entry)).collect());

/// The table as Markdown, for the reference documentation.
pub fn markdown_table() -> String {
    setting::markdown(FAMILIES)
}

/// What the keys of a ConfigMap amount to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// Everything but what flags say.
    pub tuning: Tuning,
    /// Where to listen.
    pub addresses: Vec<IpAddr>,
    /// What annotations may do.
    pub gates: Gates,
    /// Who is asked for all rules.
    pub global_auth: Box<AuthSettings>,
    /// Why every route is closed: a key that protects all of them is not implemented yet.
    pub closed: Option<Arc<str>>,
}

/// The keys of the ConfigMap, with the memory of good values.
#[derive(Clone, Default)]
pub struct Keys {
    last_good: BTreeMap<&'static str, Box<str>>,
}

impl Keys {
    /// Reads the ConfigMap, or its absence.
    pub fn read(&mut self, config_map: Option<&ConfigMap>) -> (Global, Vec<Problem>) {
        let mut reader = Reader::default();
        let before = std::mem::take(&mut self.last_good);
        if let Some(config_map) = config_map {
            reader.object = ObjectRef { kind: "ConfigMap".into(), name: config_map.name.clone() };
            for (name, text) in config_map.data.iter().filter(|(_, text)| !text.trim().is_empty()) {
                match BY_NAME.get(&**name) {
                    Some(entry) => {
                        let good =
                            reader.known(text.trim(), entry, before.get(entry.name).map(|text| &**text));
                        self.last_good.extend(good.map(|good| (entry.name, good)));
                    }
                    None => reader.unknown(name),
                }
            }
        }
        (reader.settings.resolved(reader.closed), reader.problems)
    }
}

impl Settings {
    fn resolved(mut self, closed: Option<Arc<str>>) -> Global {
        self.tuning.hsts = self.hsts_enabled.then_some(self.hsts);
        self.tuning.next_upstream.non_idempotent |= self.retry_non_idempotent;
        self.tuning.use_forwarded_headers &= !self.trusted_peers_named;
        let mut addresses = self.bind_addresses;
        if addresses.is_empty() {
            addresses = vec![Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
        }
        // Not where that would leave nothing to listen on.
        if self.disable_ipv6 && addresses.iter().any(IpAddr::is_ipv4) {
            addresses.retain(IpAddr::is_ipv4);
        }
        Global {
            tuning: self.tuning,
            addresses,
            gates: self.gates,
            global_auth: Box::new(self.global_auth),
            closed,
        }
    }
}

struct Reader {
    object: ObjectRef,
    settings: Settings,
    closed: Option<Arc<str>>,
    problems: Vec<Problem>,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            object: ObjectRef::new("ConfigMap", "", ""),
            settings: Settings::default(),
            closed: None,
            problems: Vec::new(),
        }
    }
}

impl Reader {
    /// Returns the text to remember as good.
    fn known(
        &mut self,
        text: &str,
        entry: &'static Setting<Settings>,
        before: Option<&str>,
    ) -> Option<Box<str>> {
        if let Err(reason) = entry.value.check(text) {
            return self.bad(text, &reason, entry, before);
        }
        match &entry.support {
            Support::Served(apply) => match apply(text, &mut self.settings) {
                Ok(()) => return Some(text.into()),
                Err(Fault::Invalid(reason)) => return self.bad(text, &reason, entry, before),
                Err(Fault::NotYet) => {
                    let message = format!("{text:?} is not implemented yet: {}", entry.doc);
                    self.error(Code::KeyNotServed, entry.name, message, "remove the key");
                }
            },
            Support::NotYet(_) | Support::NoEffect(_) if entry.is_idle(text) => {}
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
        entry: &'static Setting<Settings>,
        before: Option<&str>,
    ) -> Option<Box<str>> {
        let kept = before.filter(|before| match &entry.support {
            Support::Served(apply) => apply(before, &mut self.settings).is_ok(),
            _ => false,
        });
        let stays = match kept {
            Some(kept) => format!("{kept:?} stays in force"),
            None if entry.default.is_empty() => "the default stays in force".to_owned(),
            None => format!("the default {:?} stays in force", entry.default),
        };
        if kept.is_none() && (entry.protects || matches!(entry.support, Support::NotYet(NotYet::Protects))) {
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
        let remedy = match setting::nearest(FAMILIES, name) {
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
