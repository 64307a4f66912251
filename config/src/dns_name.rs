//! Names of DNS, as far as they can be looked up.

/// Returns whether a text can be looked up as a name: up to 253 characters in labels of up to 63
/// (RFC 1035 §2.3.4), each of letters, digits, hyphens and underscores. Underscores are no part of
/// host names (RFC 1123 §2.1), but names in use have them. A final dot is not accepted.
#[must_use]
pub fn is_dns_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&label.len()) && label.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_labels_of_a_bounded_length() {
        let longest = [&*"a".repeat(63); 4].join(".")[..253].to_owned();
        for name in ["a", "api.example.com", "_srv.a-b.example", &longest] {
            assert!(is_dns_name(name), "{name}");
        }
        let long_label = "a".repeat(64);
        for text in ["", ".", "a..b", "a.", "a b", "é.example", "a/b", &long_label, &format!("{longest}a")] {
            assert!(!is_dns_name(text), "{text}");
        }
    }
}
