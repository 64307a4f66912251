//! Validation of `Host` and `:authority` (RFC 9110 §7.2, RFC 3986 §3.2).
//!
//! Stricter than the grammar where leniency helps only attackers: no userinfo, no empty host, and a
//! numeric port.

use super::digits::decimal;

/// Returns whether `text` is a host with an optional port.
pub(crate) fn is_authority(text: &[u8]) -> bool {
    let (host, port) = match text.first() {
        Some(b'[') => match text.iter().position(|byte| *byte == b']') {
            Some(end) => text.split_at(end + 1),
            None => return false,
        },
        _ => match text.iter().position(|byte| *byte == b':') {
            Some(colon) => text.split_at(colon),
            None => (text, &[][..]),
        },
    };
    is_host(host) && is_port(port)
}

fn is_host(host: &[u8]) -> bool {
    match host {
        [] => false,
        [b'[', literal @ .., b']'] => {
            std::str::from_utf8(literal).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
        }
        name => name.iter().enumerate().all(|(at, byte)| match byte {
            b'%' => name.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)),
            _ => IN_NAME[usize::from(*byte)],
        }),
    }
}

/// Whether a byte may be in a name by itself: the unreserved characters and the delimiters of
/// sub-components (RFC 3986 §2.2, §2.3).
static IN_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let mut marks: &[u8] = b"-._~!$&'()*+,;=";
    while let [mark, rest @ ..] = marks {
        table[*mark as usize] = true;
        marks = rest;
    }
    table
};

/// Accepts an empty string, a single colon, or a colon and a port number.
fn is_port(port: &[u8]) -> bool {
    match port {
        [] | [b':'] => true,
        [b':', digits @ ..] => decimal(digits).is_some_and(|port| port <= u16::MAX.into()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        for good in [
            "a",
            "shop.example",
            "shop.example:80",
            "shop.example:",
            "a_b.example",
            "10.0.0.1:65535",
            "[::1]",
            "[2001:db8::1]:8080",
            "xn--bcher-kva.example.",
            "a%20b",
        ] {
            assert!(is_authority(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            ":80",
            "a b",
            "user@a",
            "user:pw@a",
            "a:b",
            "a:80:80",
            "a:65536",
            "a:-1",
            "a:+80",
            "a/b",
            "a\\b",
            "a?b",
            "a#b",
            "[::1",
            "::1",
            "[::1]x",
            "[a]",
            "a%2",
            "a%zz",
            "a<b",
            "b\u{fc}cher",
            "a\0",
            "a\t",
            "http://a",
            "[::1%25eth0]",
            "a:99999999999999999999",
        ] {
            assert!(!is_authority(bad.as_bytes()), "{bad}");
        }
    }
}
