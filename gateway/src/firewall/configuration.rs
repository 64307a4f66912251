//! The directives in use, and whether the agent has them.
//!
//! Compiled rules hold their configuration. Rules with the same directives and the same source
//! share one, and it is forgotten with the last rule.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use aws_lc_rs::digest::{SHA256, digest};
use http::HeaderValue;
use sluice_config::{Firewall, FirewallSource};
use tokio::sync::Notify;

use crate::message::hex::hex;

/// The directives of rules.
#[derive(Debug)]
pub(crate) struct FirewallConfiguration {
    /// The text for the agent.
    pub(crate) directives: Arc<str>,
    /// The SHA-256 of the text in hexadecimal digits, which names it to the agent.
    pub(crate) hash: HeaderValue,
    /// Whether the rules refuse requests.
    pub(crate) enforces: bool,
    /// The object that requests it.
    pub(crate) source: FirewallSource,
    state: AtomicU8,
    changed: Notify,
}

/// Whether the agent has a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ConfigurationState {
    /// It was not sent yet.
    Pending = 0,
    /// It has it.
    Ready = 1,
    /// It cannot compile it.
    Refused = 2,
    /// It does not answer.
    Unavailable = 3,
}

/// Why a configuration is not in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigurationFault {
    /// The object that requests it.
    pub(crate) source: FirewallSource,
    /// Whether its rules are closed.
    pub(crate) enforces: bool,
    /// The message of the agent.
    pub(crate) reason: String,
}

/// All configurations in use.
#[derive(Debug, Default)]
pub(crate) struct Configurations {
    all: Mutex<HashMap<ConfigurationKey, Weak<FirewallConfiguration>>>,
    /// Signals a new configuration, or one that the agent has lost.
    pub(super) incomplete: Notify,
}

type ConfigurationKey = (Arc<str>, bool, FirewallSource);

impl Configurations {
    /// Returns the configuration of a rule.
    pub(crate) fn obtain(&self, firewall: &Firewall) -> Arc<FirewallConfiguration> {
        let Firewall { directives, enforces, source, transaction_id: _ } = firewall;
        let key = (directives.clone(), *enforces, source.clone());
        let mut all = self.all();
        if let Some(known) = all.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        all.retain(|_, configuration| configuration.strong_count() > 0);
        let configuration = Arc::new(FirewallConfiguration {
            directives: directives.clone(),
            hash: hash(directives),
            enforces: *enforces,
            source: source.clone(),
            state: AtomicU8::new(ConfigurationState::Pending as u8),
            changed: Notify::new(),
        });
        all.insert(key, Arc::downgrade(&configuration));
        self.incomplete.notify_one();
        configuration
    }

    /// Records that the agent does not have a configuration any more.
    pub(super) fn lost(&self, configuration: &FirewallConfiguration) {
        configuration.set(ConfigurationState::Pending);
        self.incomplete.notify_one();
    }

    /// Returns those in use.
    pub(super) fn in_use(&self) -> Vec<Arc<FirewallConfiguration>> {
        self.all().values().filter_map(Weak::upgrade).collect()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ConfigurationKey, Weak<FirewallConfiguration>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FirewallConfiguration {
    /// Returns whether the agent has it.
    pub(super) fn state(&self) -> ConfigurationState {
        match self.state.load(Ordering::Acquire) {
            0 => ConfigurationState::Pending,
            1 => ConfigurationState::Ready,
            2 => ConfigurationState::Refused,
            _ => ConfigurationState::Unavailable,
        }
    }

    pub(super) fn set(&self, state: ConfigurationState) {
        self.state.store(state as u8, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Waits until it is no longer pending.
    pub(super) async fn settled(&self) -> ConfigurationState {
        loop {
            let changed = self.changed.notified();
            match self.state() {
                ConfigurationState::Pending => changed.await,
                state => return state,
            }
        }
    }
}

fn hash(text: &str) -> HeaderValue {
    // Digits are a valid value.
    HeaderValue::try_from(hex(digest(&SHA256, text.as_bytes()).as_ref()))
        .unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use sluice_config::ObjectRef;

    use super::*;

    fn firewall(directives: &str, name: &str) -> Firewall {
        let object = ObjectRef::new("Ingress", "shop", name);
        let source = FirewallSource { object, field: "modsecurity-snippet".into() };
        Firewall { directives: directives.into(), enforces: true, source, transaction_id: None }
    }

    #[tokio::test]
    async fn rules_share_a_configuration_until_the_last_one_is_gone() {
        let configurations = Configurations::default();
        let one = configurations.obtain(&firewall("SecRuleEngine On", "a"));
        assert_eq!(
            one.hash, "1851f97594a22fba272fd635256f6bc81356dc37049b4d7f754da49e91644ee4",
            "the name that the agent computes"
        );
        let same = configurations.obtain(&firewall("SecRuleEngine On", "a"));
        assert!(Arc::ptr_eq(&one, &same));
        let other = configurations.obtain(&firewall("SecRuleEngine On", "b"));
        assert!(!Arc::ptr_eq(&one, &other), "a problem concerns its own object");
        assert_eq!(configurations.in_use().len(), 2);
        drop((one, same));
        assert_eq!(configurations.in_use().len(), 1);
        assert_eq!(other.state(), ConfigurationState::Pending);
        other.set(ConfigurationState::Ready);
        assert_eq!(other.settled().await, ConfigurationState::Ready);
    }
}
