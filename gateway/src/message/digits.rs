//! Numbers in fields.

/// Returns the value of decimal digits, of which there is at least one. `None` for anything else,
/// and for a number above 64 bits.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    let add = |number: u64, byte: &u8| match byte {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_digits_are_a_number() {
        for (text, number) in [
            ("0", Some(0)),
            ("00042", Some(42)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("", None),
            ("+1", None),
            ("-1", None),
            ("1 ", None),
            ("1e3", None),
        ] {
            assert_eq!(decimal(text.as_bytes()), number, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_number_is_read(number: u64) {
            prop_assert_eq!(decimal(number.to_string().as_bytes()), Some(number));
        }
    }
}
