//! The values of all settings with their origins, for the admin listener. The control plane
//! supplies them without secrets; requests do not use them.

use std::sync::Arc;

use arc_swap::ArcSwap;

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    /// A flag of the command line.
    Flag,
    /// A key of the ConfigMap.
    ConfigMap,
    /// Neither: the default.
    Default,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingValue {
    /// The name of the flag, with its dashes, or of the key.
    pub name: String,
    /// The value as text; never a secret.
    pub value: String,
    /// Where it comes from.
    pub origin: SettingOrigin,
}

/// The values of flags and of keys.
#[derive(Debug, Default)]
pub struct SettingValues {
    flags: ArcSwap<Vec<SettingValue>>,
    keys: ArcSwap<Vec<SettingValue>>,
}

impl SettingOrigin {
    /// Returns its name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::ConfigMap => "ConfigMap",
            Self::Default => "default",
        }
    }
}

impl SettingValues {
    /// Sets the values of flags.
    pub fn set_flags(&self, values: Vec<SettingValue>) {
        self.flags.store(Arc::new(values));
    }

    /// Sets the values of ConfigMap keys.
    pub fn set_keys(&self, values: Vec<SettingValue>) {
        self.keys.store(Arc::new(values));
    }

    /// Returns the values of flags.
    pub(crate) fn flags(&self) -> Arc<Vec<SettingValue>> {
        self.flags.load_full()
    }

    /// Returns the values of ConfigMap keys.
    pub(crate) fn keys(&self) -> Arc<Vec<SettingValue>> {
        self.keys.load_full()
    }
}
