//! The names of request fields that are served: letters, digits and hyphens, as in nginx.
//!
//! Many applications (CGI, WSGI, PHP, Ruby's Rack) do not distinguish `X_Forwarded_For` from
//! `X-Forwarded-For`. A client could use such a name to contradict a field that the gateway sets.
//! Fields with such names are therefore dropped before routing, policies, logs and endpoints see
//! them, unless `enable-underscores-in-headers` or `ignore-invalid-headers: "false"` allows them.
//! Names that are not a token (RFC 9110 §5.1) are always rejected, by the parsers of heads.

use sluice_config::GlobalSettings;

/// The characters allowed in names besides letters, digits and hyphens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldNames {
    /// Bits of [`KINDS`] that no name may have.
    dropped: u8,
}

const UNDERSCORE: u8 = 1;
const ODD: u8 = 2;

/// Kind of each byte in a name; 0 for letters, digits and hyphens.
static KINDS: [u8; 256] = {
    let mut kinds = [ODD; 256];
    let mut byte = 0;
    while byte < kinds.len() {
        let text = byte as u8;
        if text.is_ascii_alphanumeric() || text == b'-' {
            kinds[byte] = 0;
        } else if text == b'_' {
            kinds[byte] = UNDERSCORE;
        }
        byte += 1;
    }
    kinds
};

impl FieldNames {
    /// Allows every name.
    pub(crate) const ANY: Self = Self { dropped: 0 };
    /// The default settings.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) const PLAIN: Self = Self { dropped: UNDERSCORE | ODD };

    /// Returns the rule that the settings configure.
    pub(crate) fn of(settings: &GlobalSettings) -> Self {
        match (settings.ignore_invalid_headers, settings.underscores_in_headers) {
            (false, _) => Self::ANY,
            (true, true) => Self { dropped: ODD },
            (true, false) => Self { dropped: UNDERSCORE | ODD },
        }
    }

    /// Returns whether fields of this name are dropped.
    pub(crate) fn drops(self, name: &[u8]) -> bool {
        name.iter().fold(0, |kinds, byte| kinds | KINDS[usize::from(*byte)]) & self.dropped != 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dropped(name: &str) -> [bool; 3] {
        let strict = GlobalSettings::default();
        let underscores = GlobalSettings { underscores_in_headers: true, ..GlobalSettings::default() };
        let all = GlobalSettings { ignore_invalid_headers: false, ..GlobalSettings::default() };
        [strict, underscores, all].map(|settings| FieldNames::of(&settings).drops(name.as_bytes()))
    }

    #[test]
    fn names_are_letters_digits_and_hyphens_unless_the_operator_allows_more() {
        for (name, expected) in [
            ("X-Forwarded-For", [false; 3]),
            ("x1", [false; 3]),
            ("X_Forwarded_For", [true, false, false]),
            ("x.forwarded.for", [true, true, false]),
            ("x_a.b", [true, true, false]),
            ("x~a", [true, true, false]),
        ] {
            assert_eq!(dropped(name), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_passes_by_what_each_of_its_bytes_is(name in "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,24}") {
            let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            let underscored = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
            prop_assert_eq!(dropped(&name), [!plain, !underscored, false]);
        }
    }
}
