//! The name of a lab. It is part of namespace names and paths, so its alphabet is restricted. It
//! contains no dot, the separator within namespace names, so lab `a` never matches the Pods of lab
//! `a-b`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A lab's name: 1 to 24 of `a-z`, `0-9` and `-`, starting with a letter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LabName(String);

/// The text is not a valid name of a lab.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} cannot name a lab: use 1 to 24 of a-z, 0-9 and -, beginning with a letter")]
pub struct BadName(String);

impl LabName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for LabName {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for LabName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let good = (1..=24).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        if good { Ok(Self(text.to_owned())) } else { Err(BadName(text.to_owned())) }
    }
}

impl TryFrom<String> for LabName {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        text.parse()
    }
}

impl From<LabName> for String {
    fn from(name: LabName) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_safe_in_a_path_and_a_namespace() {
        for good in ["default", "a", "t-1234-2"] {
            assert_eq!(good.parse::<LabName>().unwrap().as_str(), good);
        }
        for bad in ["", "A", "1a", "a.b", "a/b", "..", "a b", "a-name-of-more-than-24-letters"] {
            assert!(bad.parse::<LabName>().is_err(), "{bad}");
        }
    }
}
