//! Replacement of fields that `h2` cannot decode, or refuses although they are served.
//!
//! A field name with capital letters, or a value with a control character, makes one request
//! malformed, which is an error of its stream (RFC 9113 §8.1.1). `h2` treats it as a compression
//! error, which ends the whole connection, including the requests of other users behind the same
//! load balancer. Such a field is therefore replaced, before `h2` reads it, by one that `h2`
//! decodes and that is also forbidden: its value begins with a space (RFC 9113 §8.2.1). Both occupy
//! the same space in the dynamic table that later requests refer to (RFC 7541 §4.1), so that both
//! sides stay in step. For the same reason a valid name is kept: later fields may refer to it.
//!
//! A `:path` that HTTP/1.1 accepts and `h2` does not is escaped ([`escaped_target`]). Clients
//! cannot send the escaped form themselves: a proxy in front of the gateway would see another path
//! than the one that is served.
//!
//! Left to `h2`: an empty name with an empty value, for which no replacement is short enough, and
//! blocks that are split (CONTINUATION).
//!
//! [`escaped_target`]: crate::message::head::escaped_target

mod huffman;

use std::borrow::Cow;

use http::{Method, StatusCode};

use self::huffman::HUFFMAN;
use crate::message::head::escaped_target::{escape, invalid, unescape};

/// Number of consecutive ones that no Huffman code without a character of [`is_odd`] contains.
const ODD_ONES: u32 = 10;
/// Length in characters of `:method` and `:status`.
const PSEUDO_NAME: usize = 7;

/// A name that `h2` decodes but that is not allowed, so a later reference to it has no effect.
const NO_NAME: u8 = b'"';
/// A field that makes the request malformed and is not added to the table.
const REFUSED: [u8; 5] = [0, 1, NO_NAME, 1, b' '];

/// The rules for the value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A regular field.
    Field,
    /// `:authority`, `:scheme` or `:protocol`.
    Text,
    Path,
    Method,
    Status,
    /// A field with an invalid name.
    Bad,
}

/// An encoded string.
#[derive(Clone, Copy, Debug)]
struct Text<'b> {
    bytes: &'b [u8],
    huffman: bool,
}

/// Returns the block without fields that `h2` cannot decode or that it refuses. `None` if there are
/// none, or if it is not a valid field block.
pub(crate) fn repair(block: &[u8]) -> Option<Vec<u8>> {
    let mut repaired: Option<Vec<u8>> = None;
    let mut at = 0;
    while at < block.len() {
        let start = at;
        let (prefix, literal) = match block[at] {
            0x80.. => (7, false),
            0x40..=0x7f => (6, true),
            0x20..=0x3f => (5, false),
            _ => (4, true),
        };
        let index = integer(block, &mut at, prefix)?;
        let field = match literal {
            true => literal_field(block, &mut at, index, prefix == 6)?,
            false => None,
        };
        match (field, &mut repaired) {
            (Some(field), Some(repaired)) => repaired.extend(field),
            (Some(field), None) => repaired = Some([&block[..start], &field].concat()),
            (None, Some(repaired)) => repaired.extend(&block[start..at]),
            (None, None) => {}
        }
    }
    repaired
}

/// Parses a literal field. Returns its replacement if `h2` cannot decode it, or refuses it.
#[expect(clippy::option_option, reason = "no field block at all, nothing to replace, or something")]
fn literal_field(block: &[u8], at: &mut usize, index: usize, indexed: bool) -> Option<Option<Vec<u8>>> {
    let name = if index == 0 { Some(Text::read(block, at)?.decode()?) } else { None };
    let value = Text::read(block, at)?;
    let kind = match (&name, index) {
        (Some(name), _) => Kind::named(name),
        (None, 1 | 6 | 7) => Kind::Text,
        (None, 4 | 5) => Kind::Path,
        (None, 2 | 3) => Kind::Method,
        (None, 8..=14) => Kind::Status,
        (None, _) => Kind::Field,
    };
    if !kind.may_refuse(value) {
        return Some(None);
    }
    let value = value.decode()?;
    if kind.takes(&value) {
        return Some(None);
    }
    let mut field = Vec::new();
    match (&name, kind) {
        // A value of spaces makes the request malformed under any name. An empty value would not.
        (_, Kind::Field | Kind::Text | Kind::Path) => {
            put_integer(&mut field, if indexed { (6, 0x40) } else { (4, 0) }, index);
            if let Some(name) = &name {
                put_integer(&mut field, (7, 0), name.len());
                field.extend_from_slice(name);
            }
            match str::from_utf8(&value) {
                Ok(path) if kind == Kind::Path => {
                    let replacement = escape(path).unwrap_or_else(|| invalid(path));
                    put_integer(&mut field, (7, 0), replacement.len());
                    field.extend(replacement.into_bytes());
                }
                _ => put_blanks(&mut field, value.len()),
            }
        }
        _ => {
            let name = name.as_ref().map_or(PSEUDO_NAME, |name| name.len());
            let blanks = (name + value.len()).checked_sub(1)?;
            if blanks == 0 {
                field.extend(REFUSED);
            }
            field.extend([if indexed { 0x40 } else { 0 }, 1, NO_NAME]);
            put_blanks(&mut field, blanks);
        }
    }
    Some(Some(field))
}

impl Kind {
    fn named(name: &[u8]) -> Self {
        match name {
            b":authority" | b":scheme" | b":protocol" => Self::Text,
            b":path" => Self::Path,
            b":method" => Self::Method,
            b":status" => Self::Status,
            [] | [b':', ..] => Self::Bad,
            name if name.iter().all(|byte| is_in_names(*byte)) => Self::Field,
            _ => Self::Bad,
        }
    }

    /// Returns whether the value must be decoded to be judged.
    fn may_refuse(self, value: Text<'_>) -> bool {
        match self {
            Self::Field | Self::Text => value.may_be_odd(),
            Self::Path => value.may_be_odd_path(),
            Self::Method | Self::Status | Self::Bad => true,
        }
    }

    fn takes(self, value: &[u8]) -> bool {
        match self {
            Self::Field => !value.iter().any(|byte| is_control(*byte)),
            Self::Text => str::from_utf8(value).is_ok(),
            Self::Path => {
                str::from_utf8(value).is_ok_and(|path| escape(path).is_none() && unescape(path).is_none())
            }
            Self::Method => Method::from_bytes(value).is_ok(),
            Self::Status => StatusCode::from_bytes(value).is_ok(),
            Self::Bad => false,
        }
    }
}

impl<'b> Text<'b> {
    fn read(block: &'b [u8], at: &mut usize) -> Option<Self> {
        let huffman = block.get(*at)? & 0x80 != 0;
        let length = integer(block, at, 7)?;
        let bytes = block.get(*at..)?.get(..length)?;
        *at += length;
        Some(Self { bytes, huffman })
    }

    fn decode(self) -> Option<Cow<'b, [u8]>> {
        match self.huffman {
            true => HUFFMAN.decode(self.bytes).map(Cow::Owned),
            false => Some(Cow::Borrowed(self.bytes)),
        }
    }

    /// Returns whether the string may contain a control character or one outside ASCII.
    fn may_be_odd(self) -> bool {
        if !self.huffman {
            return self.bytes.iter().any(|byte| is_odd(*byte));
        }
        let mut ones = 0;
        self.bytes.iter().any(|byte| {
            let longest = ones + byte.leading_ones();
            ones = if *byte == 0xff { longest } else { byte.trailing_ones() };
            longest >= ODD_ONES
        })
    }

    /// Returns whether the string may be a path that `h2` refuses, or an escaped one.
    fn may_be_odd_path(self) -> bool {
        match (self.huffman, self.bytes.first()) {
            (false, Some(b'?')) => true,
            (false, _) => self.bytes.iter().any(|byte| is_odd(*byte) || b"\"<>`".contains(byte)),
            // The code of a question mark begins with eight ones, and no path does.
            (true, Some(0xff)) => true,
            (true, _) => HUFFMAN.has_rare(self.bytes),
        }
    }
}

fn is_control(byte: u8) -> bool {
    byte < b' ' && byte != b'\t' || byte == 0x7f
}

fn is_odd(byte: u8) -> bool {
    is_control(byte) || byte >= 0x80
}

/// Returns whether `h2` decodes this character in names.
/// [`is_valid_in_http1`](crate::message::head::http2::is_valid_in_http1) is stricter.
fn is_in_names(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!\"#$%&'*+-.^_`|~".contains(&byte)
}

/// Parses an integer (RFC 7541 §5.1), up to the length that `h2` accepts.
fn integer(block: &[u8], at: &mut usize, prefix: u32) -> Option<usize> {
    let most = (1_usize << prefix) - 1;
    let mut value = usize::from(*block.get(*at)?) & most;
    *at += 1;
    if value < most {
        return Some(value);
    }
    for shift in [0, 7, 14, 21] {
        let byte = *block.get(*at)?;
        *at += 1;
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn put_integer(out: &mut Vec<u8>, (prefix, bits): (u32, u8), value: usize) {
    let most = (1_usize << prefix) - 1;
    // No cast truncates more than intended: each value was reduced to its range before.
    if value < most {
        return out.push(bits | value as u8);
    }
    out.push(bits | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn put_blanks(out: &mut Vec<u8>, count: usize) {
    put_integer(out, (7, 0), count);
    out.resize(out.len() + count, b' ');
}

/// For the fuzz target: a block that was repaired needs no other repair, unless it has an escaped
/// path, which clients cannot send.
///
/// # Panics
/// If an invariant is violated.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn trial(block: &[u8]) {
    if let Some(again) = repair(block).and_then(|repaired| repair(&repaired)) {
        assert_eq!(repair(&again), None, "the repaired block needs repair");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::huffman::{LENGTHS, code};
    use super::*;

    fn put_text(out: &mut Vec<u8>, text: &[u8], huffman: bool) {
        let (bytes, bit) = if huffman { (code(text), 0x80) } else { (text.to_vec(), 0) };
        put_integer(out, (7, bit), bytes.len());
        out.extend(bytes);
    }

    /// Encodes a literal field, with the index of its name or with its name.
    fn field(indexed: bool, name: Result<usize, &[u8]>, value: &[u8], huffman: bool) -> Vec<u8> {
        let mut out = Vec::new();
        put_integer(&mut out, if indexed { (6, 0x40) } else { (4, 0x10) }, name.unwrap_or(0));
        if let Err(name) = name {
            put_text(&mut out, name, huffman);
        }
        put_text(&mut out, value, huffman);
        out
    }

    #[test]
    fn undecodable_fields_are_replaced_and_no_others() {
        for huffman in [false, true] {
            for (name, value, good) in [
                (Err(&b"x-a"[..]), &b"1"[..], true),
                (Err(b"x-\"a\""), b"1", true),
                (Err(b"x-a"), b"\tb\xc3\xff ", true),
                (Err(b":path"), b"/\xc3\xa4", true),
                (Err(b":method"), b"GET", true),
                (Ok(2), b"PATCH", true),
                (Ok(4), b"/x", true),
                (Ok(32), b"a=1", true),
                (Ok(70), b"\xff", true),
                (Err(b"X-A"), b"1", false),
                (Err(b"x a"), b"1", false),
                (Err(b":x"), b"1", false),
                (Err(b""), b"12", false),
                (Err(b""), b"1", false),
                (Err(b"X"), b"", false),
                (Err(b"x-a"), b"1\r\nx-b: 2", false),
                (Err(b"x-a"), b"\0", false),
                (Err(b":path"), b"/\xff", false),
                (Err(b":method"), b"G T", false),
                (Err(b":status"), b"x", false),
                (Ok(2), b"G\0T", false),
                (Ok(4), b"/\xe4", false),
                (Ok(8), b"2000", false),
                (Ok(32), b"a=\x7f", false),
                (Ok(70), b"\n", false),
            ] {
                for indexed in [false, true] {
                    let bad = field(indexed, name, value, huffman);
                    let block = [&[0x82][..], &bad, &[0x84]].concat();
                    let repaired = repair(&block);
                    assert_eq!(repaired.is_none(), good, "{name:?} {value:?}");
                    let Some(repaired) = repaired else { continue };
                    assert!(repaired.starts_with(&[0x82]) && repaired.ends_with(&[0x84]));
                    assert_eq!(repair(&repaired), None);
                    assert_eq!(entries(&repaired), entries(&block), "{name:?} {value:?}");
                }
            }
        }
    }

    /// Returns the fields that are added to the table: the name, as an index or as text if later
    /// fields may refer to it, and the size.
    fn entries(block: &[u8]) -> Option<Vec<(usize, Vec<u8>, usize)>> {
        let (mut entries, mut at) = (Vec::new(), 0);
        while at < block.len() {
            let (prefix, literal) = match block[at] {
                0x80.. => (7, false),
                0x40..=0x7f => (6, true),
                0x20..=0x3f => (5, false),
                _ => (4, true),
            };
            let index = integer(block, &mut at, prefix)?;
            if !literal {
                continue;
            }
            let (name, length) = match index {
                0 => {
                    let name = Text::read(block, &mut at)?.decode()?.into_owned();
                    let length = name.len();
                    let kept = matches!(Kind::named(&name), Kind::Field | Kind::Text | Kind::Path)
                        && name != [NO_NAME];
                    (if kept { name } else { Vec::new() }, length)
                }
                2 | 3 | 8..=14 => (Vec::new(), PSEUDO_NAME),
                _ => (Vec::new(), 0),
            };
            let value = Text::read(block, &mut at)?.decode()?.len();
            if prefix == 6 {
                let known = if matches!(index, 2 | 3 | 8..=14) { 0 } else { index };
                entries.push((known, name, length + value));
            }
        }
        Some(entries)
    }

    #[test]
    fn a_good_name_with_a_bad_value_can_be_referred_to() {
        let block = b"\x40\x03x-a\x021\r";
        assert_eq!(repair(block).as_deref(), Some(&b"\x40\x03x-a\x02  "[..]));
        assert_eq!(repair(b"\x7e\x04good"), None);
    }

    #[test]
    fn paths_that_only_h2_refuses_are_escaped_in_step() {
        for path in ["/api?query=up{job=\"a\"}", "/<b>", "/`"] {
            for (indexed, huffman) in [(false, false), (false, true), (true, false), (true, true)] {
                for name in [Ok(4), Ok(5), Err(&b":path"[..])] {
                    let bad = field(indexed, name, path.as_bytes(), huffman);
                    let block = [&[0x82][..], &bad, &[0x86]].concat();
                    let repaired = repair(&block).expect("an escaped path");
                    assert_eq!(entries(&repaired), entries(&block), "{path}");
                    let escaped = escape(path).unwrap();
                    let escaped = field(indexed, name, escaped.as_bytes(), false);
                    // Without an index, the representation may be another one.
                    assert_eq!(repaired[2..], [&escaped[1..], &[0x86]].concat(), "{path}");
                    assert_ne!(repair(&repaired), None, "the escaped form of a client");
                }
            }
        }
        // Later fields refer to the entry, whichever form it has.
        assert_eq!(repair(&[0x82, 0xbe, 0x86]), None);
    }

    #[test]
    fn an_escaped_path_of_a_client_is_refused() {
        let escaped = escape("/?\"").unwrap();
        for huffman in [false, true] {
            let block = field(true, Ok(4), escaped.as_bytes(), huffman);
            assert_eq!(repair(&block).as_deref(), Some(&b"\x44\x03???"[..]));
            assert_eq!(repair(&field(true, Ok(4), b"?a=1", huffman)), None);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn both_sides_stay_in_step(
            fields in prop::collection::vec(
                (any::<bool>(), 0_usize..80, "[a-cA-C:]{1,4}", prop::collection::vec(any::<u8>(), 0..40), any::<bool>()),
                0..6,
            ),
        ) {
            let fields = fields.iter().map(|(indexed, index, name, value, huffman)| match index {
                0..20 => field(*indexed, Err(name.as_bytes()), value, *huffman),
                index => field(*indexed, Ok(index - 19), value, *huffman),
            });
            let block = fields.collect::<Vec<_>>().concat();
            let repaired = repair(&block).unwrap_or_else(|| block.clone());
            prop_assert_eq!(entries(&repaired), entries(&block));
            trial(&block);
        }

        #[test]
        fn text_round_trips(text in prop::collection::vec(any::<u8>(), 0..60)) {
            let bytes = code(&text);
            prop_assert_eq!(HUFFMAN.decode(&bytes), Some(text.clone()));
            let odd = Text { bytes: &bytes, huffman: true };
            prop_assert!(odd.may_be_odd() || !text.iter().any(|byte| is_odd(*byte)));
            let is_rare = |byte: &u8| LENGTHS[usize::from(*byte)] > 8 && *byte != b'?';
            prop_assert_eq!(HUFFMAN.has_rare(&bytes), text.iter().any(is_rare));
        }

        #[test]
        fn any_block_is_handled(block in prop::collection::vec(any::<u8>(), 0..200)) {
            trial(&block);
        }
    }
}
