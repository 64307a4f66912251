//! Extraction of the host name from the authority of a request.

use std::borrow::Cow;

/// Returns the host of an authority (`Host` field or `:authority`) without its port and one
/// trailing dot, in lower case (RFC 9110 section 4.2.3). Borrows unless there are letters to
/// convert. An IPv6 literal keeps its brackets. Does not validate the authority; requests are
/// validated elsewhere.
pub fn host_of(authority: &str) -> Cow<'_, str> {
    // A colon before the closing bracket belongs to an IPv6 literal.
    let host = match authority.bytes().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(at) if authority.as_bytes()[at] == b':' => &authority[..at],
        _ => authority,
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(host.to_ascii_lowercase())
    } else {
        Cow::Borrowed(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_dot_and_case_do_not_count() {
        for (authority, host) in [
            ("shop.example", "shop.example"),
            ("Shop.Example:8080", "shop.example"),
            ("shop.example.", "shop.example"),
            ("shop.example.:80", "shop.example"),
            ("[2001:DB8::1]:80", "[2001:db8::1]"),
            ("[::1]", "[::1]"),
            ("10.0.0.1:80", "10.0.0.1"),
            ("", ""),
        ] {
            assert_eq!(host_of(authority), host, "{authority}");
        }
    }

    #[test]
    fn the_common_case_borrows() {
        assert!(matches!(host_of("shop.example:80"), Cow::Borrowed("shop.example")));
    }
}
