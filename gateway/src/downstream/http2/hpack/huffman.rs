//! The Huffman code of strings in field blocks (RFC 7541, Appendix B).

use std::sync::LazyLock;

/// The Huffman code of RFC 7541, Appendix B. It is canonical: codes of equal length are in the
/// order of their characters, and follow those of the next shorter length.
pub(super) struct Huffman {
    /// By length: the first code, the index of its character in `characters`, and the number of
    /// codes.
    lengths: [(u32, usize, usize); MAX_LENGTH + 1],
    characters: Vec<u8>,
    /// By the next [`WINDOW`] bits: the length of the one or two codes of at most eight bits that
    /// they begin with, or 0 if they begin with a longer one.
    short: [u8; 1 << WINDOW],
}

/// Length in bits of the longest code.
const MAX_LENGTH: usize = 30;
/// Number of bits that are looked up at a time: two codes of usual characters.
const WINDOW: usize = 12;

pub(super) static HUFFMAN: LazyLock<Huffman> = LazyLock::new(Huffman::new);

impl Huffman {
    fn new() -> Self {
        let (mut lengths, mut characters) = ([(0, 0, 0); MAX_LENGTH + 1], Vec::with_capacity(256));
        let mut next = 0;
        for (length, place) in lengths.iter_mut().enumerate() {
            next <<= 1;
            let begin = characters.len();
            characters
                .extend((0..=u8::MAX).filter(|byte| usize::from(LENGTHS[usize::from(*byte)]) == length));
            let count = characters.len() - begin;
            *place = (next, begin, count);
            next += count as u32;
        }
        let mut short = [0; 1 << WINDOW];
        for (length, (first, _, count)) in lengths.iter().enumerate().take(9) {
            let begin = (*first as usize) << (WINDOW - length);
            short[begin..][..count << (WINDOW - length)].fill(length as u8);
        }
        let single = short;
        for (bits, length) in short.iter_mut().enumerate().filter(|(_, length)| **length > 0) {
            let rest = single[bits << *length & ((1 << WINDOW) - 1)];
            if usize::from(*length + rest) <= WINDOW {
                *length += rest;
            }
        }
        Self { lengths, characters, short }
    }

    /// Returns whether a string may contain a character whose code has more than eight bits, except
    /// the question mark, which most queries begin with.
    pub(super) fn has_rare(&self, bytes: &[u8]) -> bool {
        const MARK: u64 = 0x3fc;
        const MARK_LENGTH: usize = 10;
        let (mut rest, mut bits, mut count) = (bytes, 0_u64, 0);
        loop {
            if let Some((word, after)) = rest.split_first_chunk()
                && count <= 32
            {
                bits |= u64::from(u32::from_be_bytes(*word)) << (32 - count);
                (rest, count) = (after, count + 32);
            }
            while count <= 32
                && let Some((byte, after)) = rest.split_first()
            {
                bits |= u64::from(*byte) << (56 - count);
                (rest, count) = (after, count + 8);
            }
            let length = match self.short[(bits >> (64 - WINDOW)) as usize] {
                0 if count < MARK_LENGTH => return false,
                0 if bits >> (64 - MARK_LENGTH) == MARK => MARK_LENGTH,
                0 => return true,
                length => length.into(),
            };
            if length > count {
                return false;
            }
            bits <<= length;
            count -= length;
        }
    }

    /// Returns `None` if `bytes` is not a valid code, or if its padding is longer than 7 bits or
    /// not all ones.
    pub(super) fn decode(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(bytes.len() * 2);
        let (mut code, mut length) = (0_u32, 0);
        for byte in bytes {
            for bit in (0..8).rev() {
                code = code << 1 | u32::from(byte >> bit & 1);
                length += 1;
                let (first, begin, count) = *self.lengths.get(length)?;
                let place = code.wrapping_sub(first) as usize;
                if place < count {
                    out.push(self.characters[begin + place]);
                    (code, length) = (0, 0);
                }
            }
        }
        (length < 8 && code + 1 == 1 << length).then_some(out)
    }
}

/// Length in bits of the code of each character.
#[rustfmt::skip]
pub(super) const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// Encodes a string.
#[cfg(test)]
pub(super) fn code(text: &[u8]) -> Vec<u8> {
    let mut bits = Vec::new();
    for byte in text {
        let length = usize::from(LENGTHS[usize::from(*byte)]);
        let (first, begin, count) = HUFFMAN.lengths[length];
        let place = HUFFMAN.characters[begin..begin + count].iter().position(|one| one == byte).unwrap();
        let code = first + place as u32;
        bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
    }
    while bits.len() % 8 > 0 {
        bits.push(true);
    }
    bits.chunks(8).map(|byte| byte.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_the_one_of_the_rfc() {
        // Examples of RFC 7541, C.4.1 and C.6.1.
        for (text, bytes) in [
            (
                &b"www.example.com"[..],
                &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff][..],
            ),
            (b"private", &[0xae, 0xc3, 0x77, 0x1a, 0x4b]),
            (b"\0\xff", &[0xff, 0xc7, 0xff, 0xff, 0xdd]),
        ] {
            assert_eq!(code(text).escape_ascii().to_string(), bytes.escape_ascii().to_string());
            assert_eq!(HUFFMAN.decode(bytes).as_deref(), Some(text));
        }
        assert_eq!(HUFFMAN.decode(&[0xff; 4]), None, "the end of the string within it");
        assert_eq!(HUFFMAN.decode(&[0x07, 0xff]), None, "more than the rest of a byte");
        assert_eq!(HUFFMAN.decode(&[0x00]), None, "other than ones");
    }
}
