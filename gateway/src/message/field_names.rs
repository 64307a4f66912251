//! Which names of request fields are served: letters, digits and hyphens, as with nginx.
//!
//! Many a program behind a gateway (everything that speaks CGI or WSGI, PHP, Ruby's Rack) takes `X_Forwarded_For`
//! and `X-Forwarded-For` for one field. What a client says under an odd name would stand beside what the gateway
//! says under the right one. So fields with odd names are dropped before routing, policies, logs and endpoints see
//! them, unless `enable-underscores-in-headers` or `ignore-invalid-headers: "false"` let them pass. Names that are
//! no token (RFC 9110 §5.1) are refused in any case, by those who read heads.

use sluice_config::GlobalSettings;

/// What a name may be made of besides letters, digits and hyphens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldNames {
    /// Bits of [`KINDS`] that no name may have.
    dropped: u8,
}

const UNDERSCORE: u8 = 1;
const ODD: u8 = 2;

/// What a byte makes of a name; nothing where the byte is a letter, a digit or a hyphen.
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
    /// Any name.
    pub(crate) const ANY: Self = Self { dropped: 0 };
    /// What the defaults allow.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) const PLAIN: Self = Self { dropped: UNDERSCORE | ODD };

    /// What the operator allows.
    pub(crate) fn of(settings: &GlobalSettings) -> Self {
        match (settings.ignore_invalid_headers, settings.underscores_in_headers) {
            (false, _) => Self::ANY,
            (true, true) => Self { dropped: ODD },
            (true, false) => Self { dropped: UNDERSCORE | ODD },
        }
    }

    /// Whether a field of this name is dropped.
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
