//! Lists of countries that a rule serves or refuses.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The code of a country: two letters in upper case (ISO 3166-1 alpha-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CountryCode([u8; 2]);

/// The text is not the code of a country.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidCountry;

/// The lists of a rule. With lists, a client whose country cannot be determined for lack of a
/// database is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Countries {
    /// Serves only clients in these countries (`sluice.dev/allow-countries`).
    pub allow: Option<Arc<[CountryCode]>>,
    /// Refuses clients in these countries (`sluice.dev/deny-countries`).
    pub deny: Option<Arc<[CountryCode]>>,
}

impl Countries {
    /// Returns whether there is no list.
    pub fn is_empty(&self) -> bool {
        self.allow.is_none() && self.deny.is_none()
    }
}

impl FromStr for CountryCode {
    type Err = InvalidCountry;

    fn from_str(text: &str) -> Result<Self, InvalidCountry> {
        match text.as_bytes() {
            &[first, second] if first.is_ascii_alphabetic() && second.is_ascii_alphabetic() => {
                Ok(Self([first.to_ascii_uppercase(), second.to_ascii_uppercase()]))
            }
            _ => Err(InvalidCountry),
        }
    }
}

impl fmt::Display for CountryCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|letter| write!(f, "{}", char::from(*letter)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_two_letters_of_either_case() {
        assert_eq!("de".parse::<CountryCode>().unwrap().to_string(), "DE");
        for bad in ["", "D", "DEU", "D1", "Ö"] {
            assert_eq!(bad.parse::<CountryCode>(), Err(InvalidCountry), "{bad}");
        }
    }
}
