//! Parser for the PROXY protocol header, versions 1 and 2 (HAProxy, `doc/proxy-protocol.txt`).
//!
//! Strict, because access decisions depend on the addresses in the header: every header has exactly
//! one interpretation. Existing crates accept more than the specification (signs before ports,
//! carriage returns for blanks), or hold the whole header in memory.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::connection::info::ProxiedAddresses;

/// Maximum length in bytes of a version 1 header, end of line included.
const LONGEST_V1: usize = 107;
/// Maximum length in bytes of a version 2 header, as in nginx. The protocol allows 64 KiB.
const LONGEST_V2: usize = 4096;
/// Bytes of a header that are parsed: version 2 with a pair of Unix socket addresses.
pub(super) const LOOKED_AT: usize = FIXED_V2 + 2 * 108;

const PREFIX_V1: &[u8] = b"PROXY ";
const SIGNATURE_V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of a version 2 header before its addresses.
const FIXED_V2: usize = 16;

/// A parsed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProxyHeader {
    /// Length in bytes on the wire; more than were parsed if the header ends with extensions.
    pub(super) length: usize,
    /// The client's addresses; `None` for the proxy's own connections (`LOCAL`) and for `UNKNOWN`.
    pub(super) addresses: Option<ProxiedAddresses>,
}

/// Why bytes are not a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoHeader {
    /// They do not begin as a header.
    #[error("the connection does not begin with one")]
    Missing,
    /// They begin as a header and continue with an error.
    #[error("it is malformed: {0}")]
    Malformed(&'static str),
}

/// Parses a header from the first bytes of a connection. `None` if more bytes are needed.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<ProxyHeader>, NoHeader> {
    if begins(bytes, SIGNATURE_V2) {
        return parse_v2(bytes);
    }
    if begins(bytes, PREFIX_V1) {
        return parse_v1(bytes);
    }
    Err(NoHeader::Missing)
}

/// Returns how many of these bytes certainly belong to the header and may be taken from the
/// connection. Bytes behind the header must stay there.
pub(super) fn belonging(bytes: &[u8]) -> usize {
    let known = match bytes.first() {
        Some(b'P') => bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1),
        _ => match length_v2(bytes) {
            Some(length) => length,
            None => FIXED_V2,
        },
    };
    known.min(bytes.len())
}

/// Returns whether one of the two is a prefix of the other.
fn begins(bytes: &[u8], wanted: &[u8]) -> bool {
    let both = bytes.len().min(wanted.len());
    bytes[..both] == wanted[..both]
}

/// Returns the length in bytes of a version 2 header, once its length field has arrived.
fn length_v2(bytes: &[u8]) -> Option<usize> {
    let [high, low] = *bytes.get(FIXED_V2 - 2..FIXED_V2)?.first_chunk()?;
    Some(FIXED_V2 + usize::from(u16::from_be_bytes([high, low])))
}

fn parse_v1(bytes: &[u8]) -> Result<Option<ProxyHeader>, NoHeader> {
    let within = &bytes[..bytes.len().min(LONGEST_V1)];
    let Some(end) = within.iter().position(|byte| *byte == b'\n') else {
        return match within.len() {
            LONGEST_V1 => Err(NoHeader::Malformed("the line is too long")),
            _ => Ok(None),
        };
    };
    let line = within[..end].strip_suffix(b"\r").ok_or(NoHeader::Malformed("the line ends without CR"))?;
    let words = line.get(PREFIX_V1.len()..).unwrap_or_default();
    let words = str::from_utf8(words).map_err(|_| NoHeader::Malformed("the line is not ASCII"))?;
    let addresses = match words.split_once(' ').unwrap_or((words, "")) {
        ("TCP4", rest) => Some(addresses_v1::<Ipv4Addr>(rest)?),
        ("TCP6", rest) => Some(addresses_v1::<Ipv6Addr>(rest)?),
        // The rest of the line is ignored, as the specification requires.
        ("UNKNOWN", _) => None,
        _ => return Err(NoHeader::Malformed("it has a protocol other than TCP4, TCP6 and UNKNOWN")),
    };
    Ok(Some(ProxyHeader { length: end + 1, addresses }))
}

fn addresses_v1<A: FromStr + Into<IpAddr>>(words: &str) -> Result<ProxiedAddresses, NoHeader> {
    let read = || {
        let mut words = words.split(' ');
        let [source, destination] = [words.next()?, words.next()?].map(|word| word.parse::<A>().ok());
        let ports = [port_v1(words.next()?)?, port_v1(words.next()?)?];
        words.next().is_none().then_some(ProxiedAddresses {
            source: SocketAddr::new(source?.into(), ports[0]),
            destination: SocketAddr::new(destination?.into(), ports[1]),
        })
    };
    read().ok_or(NoHeader::Malformed("it has no two addresses and two ports between single blanks"))
}

/// Parses digits without leading zeros.
fn port_v1(word: &str) -> Option<u16> {
    let plain = word.bytes().all(|byte| byte.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    plain.then(|| word.parse().ok())?
}

fn parse_v2(bytes: &[u8]) -> Result<Option<ProxyHeader>, NoHeader> {
    let (Some([version_and_command, protocol]), Some(length)) =
        (bytes.get(SIGNATURE_V2.len()..FIXED_V2 - 2), length_v2(bytes))
    else {
        return Ok(None);
    };
    let is_local = match version_and_command {
        0x20 => true,
        0x21 => false,
        _ => return Err(NoHeader::Malformed("it has another version than 2, or an unknown command")),
    };
    if length > LONGEST_V2 {
        return Err(NoHeader::Malformed("it is too long"));
    }
    let none = Some(ProxyHeader { length, addresses: None });
    // A connection of the proxy itself; the specification says to ignore the addresses.
    if is_local {
        return Ok(none);
    }
    let size = match protocol {
        // An unspecified or a Unix address cannot be used: the connection counts as the proxy's
        // own.
        0x00 => return Ok(none),
        0x31 | 0x32 => 2 * 108,
        0x11 => 2 * (4 + 2),
        0x21 => 2 * (16 + 2),
        0x12 | 0x22 => return Err(NoHeader::Malformed("it announces datagrams on a stream")),
        _ => return Err(NoHeader::Malformed("it has an unknown protocol")),
    };
    if length < FIXED_V2 + size {
        return Err(NoHeader::Malformed("it is shorter than its addresses"));
    }
    let Some(block) = bytes.get(FIXED_V2..FIXED_V2 + size) else { return Ok(None) };
    let addresses = match protocol {
        0x11 => addresses_v2::<4>(block),
        0x21 => addresses_v2::<16>(block),
        _ => None,
    };
    Ok(Some(ProxyHeader { length, addresses }))
}

/// Parses two addresses of `N` bytes each and two ports.
fn addresses_v2<const N: usize>(block: &[u8]) -> Option<ProxiedAddresses>
where
    IpAddr: From<[u8; N]>,
{
    let (source, rest) = block.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let (source_port, rest) = rest.split_first_chunk::<2>()?;
    let (destination_port, _) = rest.split_first_chunk::<2>()?;
    Some(ProxiedAddresses {
        source: SocketAddr::new((*source).into(), u16::from_be_bytes(*source_port)),
        destination: SocketAddr::new((*destination).into(), u16::from_be_bytes(*destination_port)),
    })
}

/// Parses bytes as the start of a connection, for the fuzz target and for tests with its seeds: the
/// result is the same however they are split, and no byte behind the header is taken.
///
/// # Panics
/// One of these properties does not hold.
#[cfg(any(test, feature = "fuzzing"))]
pub fn trial(bytes: &[u8]) {
    let mut taken = 0;
    let mut pieces = Ok(None);
    while taken < bytes.len() && matches!(pieces, Ok(None)) {
        // One more byte arrives, and the reader takes those that belong to the header.
        taken = belonging(&bytes[..taken + 1]);
        pieces = parse(&bytes[..taken]);
    }
    if !bytes.is_empty() {
        match (parse(bytes), pieces) {
            (Ok(whole), Ok(pieces)) => assert_eq!(whole, pieces, "cut"),
            (Err(_), Err(_)) => {}
            (whole, pieces) => panic!("whole {whole:?}, cut {pieces:?}"),
        }
    }
    if let Ok(Some(header)) = pieces {
        assert!(taken <= header.length && header.length <= LONGEST_V2 && taken <= LOOKED_AT);
        assert!(belonging(bytes) <= header.length, "what follows the header was taken");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair(source: &str, destination: &str) -> Option<ProxiedAddresses> {
        Some(ProxiedAddresses { source: source.parse().unwrap(), destination: destination.parse().unwrap() })
    }

    fn v2(version_and_command: u8, protocol: u8, block: &[u8]) -> Vec<u8> {
        let length = u16::try_from(block.len()).unwrap().to_be_bytes();
        [SIGNATURE_V2, &[version_and_command, protocol], &length, block].concat()
    }

    #[test]
    fn version_1_names_two_addresses_or_none() {
        for (line, addresses) in [
            ("PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\n", pair("192.0.2.7:56324", "198.51.100.1:443")),
            ("PROXY TCP6 2001:db8::7 ::1 1 65535\r\n", pair("[2001:db8::7]:1", "[::1]:65535")),
            ("PROXY UNKNOWN\r\n", None),
            ("PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", None),
        ] {
            let bytes = [line.as_bytes(), b"GET / HTTP/1.1\r\n"].concat();
            assert_eq!(parse(&bytes), Ok(Some(ProxyHeader { length: line.len(), addresses })), "{line}");
            assert_eq!(belonging(&bytes), line.len());
            for cut in 0..line.len() {
                assert_eq!(parse(&bytes[..cut]), Ok(None), "{line} to {cut}");
            }
        }
    }

    #[test]
    fn version_1_is_read_strictly() {
        for line in [
            "PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\n",
            "PROXY TCP4  192.0.2.7 198.51.100.1 56324 443\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 56324 443 \r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 +56324 443\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 056324 443\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 65536 443\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 1\r\n",
            "PROXY TCP4 192.0.2.07 198.51.100.1 1 2\r\n",
            "PROXY TCP4 2001:db8::7 ::1 1 2\r\n",
            "PROXY TCP6 192.0.2.7 198.51.100.1 1 2\r\n",
            "PROXY TCP4\r192.0.2.7 198.51.100.1 1 2\r\n",
            "PROXY UDP4 192.0.2.7 198.51.100.1 1 2\r\n",
            "PROXY UNKNOWNS\r\n",
            "PROXY \r\n",
            &format!("PROXY UNKNOWN {}\r\n", "x".repeat(100)),
        ] {
            assert!(matches!(parse(line.as_bytes()), Err(NoHeader::Malformed(_))), "{line:?}");
        }
        for other in ["GET / HTTP/1.1\r\n", "PROXYTCP4", "proxy TCP4", "\r\n\r\nGET", "\x16\x03\x01"] {
            assert_eq!(parse(other.as_bytes()), Err(NoHeader::Missing), "{other:?}");
        }
    }

    #[test]
    fn version_2_names_two_addresses_or_none() {
        let v4 = [192, 0, 2, 7, 198, 51, 100, 1, 0xdc, 4, 1, 187];
        let mut v6 = [0; 36];
        v6[..2].copy_from_slice(&[0x20, 1]);
        v6[15] = 7;
        v6[31] = 1;
        v6[32..].copy_from_slice(&[0, 1, 255, 255]);
        let with_extensions = [&v4[..], &[0x20, 0, 5, 1, 2, 3, 4, 5]].concat();
        for (bytes, addresses) in [
            (v2(0x21, 0x11, &v4), pair("192.0.2.7:56324", "198.51.100.1:443")),
            (v2(0x21, 0x11, &with_extensions), pair("192.0.2.7:56324", "198.51.100.1:443")),
            (v2(0x21, 0x21, &v6), pair("[2001::7]:1", "[::1]:65535")),
            (v2(0x20, 0x11, &v4), None),
            (v2(0x20, 0x00, &[]), None),
            (v2(0x20, 0xff, &[1, 2, 3]), None),
            (v2(0x21, 0x00, &[1, 2, 3]), None),
            (v2(0x21, 0x31, &[0; 216]), None),
        ] {
            let header = ProxyHeader { length: bytes.len(), addresses };
            let more = [&bytes[..], b"GET"].concat();
            assert_eq!(parse(&more), Ok(Some(header)), "{bytes:?}");
            assert_eq!(belonging(&more), bytes.len());
            for cut in 0..FIXED_V2 {
                assert_eq!(parse(&bytes[..cut]), Ok(None));
            }
        }
    }

    #[test]
    fn version_2_is_read_strictly() {
        for bytes in [
            v2(0x11, 0x11, &[0; 12]),
            v2(0x22, 0x11, &[0; 12]),
            v2(0x21, 0x11, &[0; 11]),
            v2(0x21, 0x21, &[0; 35]),
            v2(0x21, 0x31, &[0; 215]),
            v2(0x21, 0x12, &[0; 12]),
            v2(0x21, 0x13, &[0; 12]),
            v2(0x21, 0x41, &[0; 12]),
            v2(0x21, 0x11, &[0; LONGEST_V2]),
            v2(0x20, 0x00, &[0; LONGEST_V2]),
        ] {
            assert!(matches!(parse(&bytes), Err(NoHeader::Malformed(_))), "{:?}", &bytes[..FIXED_V2]);
        }
    }

    #[test]
    fn the_seeds_of_the_fuzz_target_hold() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/proxy_header");
        let seeds: Vec<_> = std::fs::read_dir(folder).unwrap().map(|seed| seed.unwrap().path()).collect();
        assert!(seeds.len() >= 5);
        seeds.iter().for_each(|seed| trial(&std::fs::read(seed).unwrap()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_alike_however_they_are_split(
            start in prop::sample::select(vec![
                b"PROXY TCP4 ".to_vec(),
                b"PROXY TCP6 1::2 ".to_vec(),
                [SIGNATURE_V2, &[0x21, 0x11, 0]].concat(),
                [SIGNATURE_V2, &[0x21]].concat(),
                Vec::new(),
            ]),
            rest in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(b"0123456789. \r\n".to_vec())], 0..300),
        ) {
            trial(&[start, rest].concat());
        }

        #[test]
        fn every_written_header_is_parsed(source: SocketAddr, destination: SocketAddr, rest: Vec<u8>) {
            let written = |version: &str| {
                let (from, to) = (source.ip(), destination.ip());
                format!("PROXY {version} {from} {to} {} {}\r\n", source.port(), destination.port())
            };
            let line = match (source, destination) {
                (SocketAddr::V4(_), SocketAddr::V4(_)) => written("TCP4"),
                (SocketAddr::V6(_), SocketAddr::V6(_)) => written("TCP6"),
                _ => return Ok(()),
            };
            let bytes = [line.as_bytes(), &rest].concat();
            let header = parse(&bytes).unwrap().unwrap();
            prop_assert_eq!(header.length, line.len());
            let read = header.addresses.unwrap();
            prop_assert_eq!((read.source.ip(), read.source.port()), (source.ip(), source.port()));
            prop_assert_eq!(read.destination.port(), destination.port());
        }
    }
}
