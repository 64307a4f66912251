//! Escaping of values for lines of the access log.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use sluice_config::LogEscape;

/// Appends a value, escaped so that it cannot end its field or line.
pub(crate) fn escape(mode: LogEscape, text: &[u8], out: &mut Vec<u8>) {
    match mode {
        LogEscape::Hex => hex(text, out),
        LogEscape::Json => json(text, out),
        LogEscape::None => out.extend_from_slice(text),
    }
}

/// Replaces bytes that could end a field or a line by `\xXX`.
fn hex(text: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let is_odd = |byte: &u8| !matches!(byte, 0x20..=0x7e) | matches!(byte, b'"' | b'\\');
    // The common case. Without a branch per byte, the compiler processes many bytes at once.
    if !text.iter().fold(false, |any, byte| any | is_odd(byte)) {
        return out.extend_from_slice(text);
    }
    let mut rest = text;
    while let Some(at) = rest.iter().position(is_odd) {
        let byte = rest[at];
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&[b'\\', b'x', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Escapes a string for JSON (RFC 8259 §7). Invalid UTF-8 becomes U+FFFD, because JSON parsers
/// reject anything else.
fn json(text: &[u8], out: &mut Vec<u8>) {
    for chunk in text.utf8_chunks() {
        let mut rest = chunk.valid();
        let is_odd = |c: char| matches!(c, '"' | '\\') || c < ' ';
        while let Some(at) = rest.find(is_odd) {
            out.extend_from_slice(&rest.as_bytes()[..at]);
            match rest.as_bytes()[at] {
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                0x08 => out.extend_from_slice(b"\\b"),
                0x0c => out.extend_from_slice(b"\\f"),
                byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
                byte => {
                    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                    let digits = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
                    out.extend_from_slice(b"\\u00");
                    out.extend_from_slice(&digits);
                }
            }
            rest = &rest[at + 1..];
        }
        out.extend_from_slice(rest.as_bytes());
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

/// Escapes a name for use between the brackets of a line. Names of objects in a manifest folder are
/// not validated: bytes that could end the brackets or the line become `\xXX`.
pub fn log_name(text: &str) -> String {
    let mut name = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' | b'[' | b']' => name.extend_from_slice(format!("\\x{byte:02X}").as_bytes()),
            _ => hex(&[byte], &mut name),
        }
    }
    String::from_utf8(name).expect("what is escaped is ASCII")
}

/// Appends an address in the format of its `Display`, without the overhead of `fmt` for IPv4.
pub(crate) fn ip(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(ip) => {
            for (index, byte) in ip.octets().into_iter().enumerate() {
                if index > 0 {
                    out.push(b'.');
                }
                out.extend_from_slice(itoa::Buffer::new().format(byte).as_bytes());
            }
        }
        // Writing to memory cannot fail.
        IpAddr::V6(ip) => drop(write!(out, "{ip}")),
    }
}

/// Appends an address with its port.
pub(crate) fn address(out: &mut Vec<u8>, address: SocketAddr) {
    match address {
        SocketAddr::V4(address) => {
            ip(out, (*address.ip()).into());
            out.push(b':');
            out.extend_from_slice(itoa::Buffer::new().format(address.port()).as_bytes());
        }
        // Writing to memory cannot fail.
        SocketAddr::V6(address) => drop(write!(out, "{address}")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn escaped(mode: LogEscape, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        escape(mode, text, &mut out);
        out
    }

    #[test]
    fn a_name_cannot_end_its_brackets_or_the_line() {
        assert_eq!(log_name("shop-web-80"), "shop-web-80");
        assert_eq!(log_name("a] [\n\u{e4}"), "a\\x5D\\x20\\x5B\\x0A\\xC3\\xA4");
    }

    #[test]
    fn each_mode_escapes_as_nginx_does() {
        let text = "a\"b\\c\nd\u{1}\u{e4}".as_bytes();
        assert_eq!(escaped(LogEscape::Hex, text), br"a\x22b\x5Cc\x0Ad\x01\xC3\xA4");
        assert_eq!(escaped(LogEscape::Json, text), "a\\\"b\\\\c\\nd\\u0001\u{e4}".as_bytes());
        assert_eq!(escaped(LogEscape::None, text), text);
    }

    proptest! {
        #[test]
        fn whatever_a_client_sends_is_a_string_of_json(text: Vec<u8>) {
            let line = [b"\"", &escaped(LogEscape::Json, &text)[..], b"\""].concat();
            let read: String = serde_json::from_slice(&line).unwrap();
            prop_assert_eq!(read, String::from_utf8_lossy(&text));
        }

        #[test]
        fn whatever_a_client_sends_stays_within_its_quotes(text: Vec<u8>) {
            let line = escaped(LogEscape::Hex, &text);
            prop_assert!(line.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'"'));
        }
    }
}
