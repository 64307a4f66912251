//! Where the body of an HTTP/1 request or response ends (RFC 9112 §6 and §7.1).
//!
//! The connection counts the bytes of a body itself and passes on nothing beyond its end: bytes
//! after a body are the next request and pass all checks of a head again. No reader behind Sluice
//! can therefore disagree about the end of a request, which prevents request smuggling. Chunked
//! coding is read more strictly than the RFC requires: no spaces around a size, no bare line ends,
//! bounded extensions and trailers. [`trailers`](super::trailers) decides which trailers pass.

/// Maximum number of bytes of extensions in one chunk line.
const MAX_EXTENSION: u16 = 1024;
/// Maximum number of bytes of all trailer fields.
const MAX_TRAILERS: u16 = 8 * 1024;

/// The rest of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// This many bytes.
    Length(u64),
    /// Chunks, in this state.
    Chunked(Chunks),
    /// All bytes until the connection ends, including those of another protocol after an upgrade.
    Opaque,
}

/// Parser state of the chunked coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunks {
    /// In the size of a chunk, after `digits` digits.
    Size { size: u64, digits: u8 },
    /// Between the size and the end of its line.
    Extension { size: u64, bytes: u16 },
    /// Before the LF of a chunk line.
    SizeEnd { size: u64 },
    /// In the data of a chunk.
    Data { left: u64 },
    /// Before the CR after the data, then before its LF.
    DataEnd { carriage_return: bool },
    /// In the trailer section, after `bytes` bytes.
    Trailers { bytes: u16, part: Trailer },
    /// After the end of the body.
    Done,
}

/// Position in a trailer line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trailer {
    /// At the start of a line. An empty line ends the section.
    Start,
    /// In the name.
    Name,
    /// After the colon.
    Value,
    /// Before the LF of a line.
    LineEnd,
    /// Before the LF of the empty line that ends the section.
    LastLineEnd,
}

/// The part of a buffer that belongs to a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FramedBytes {
    /// Bytes that belong to the body.
    pub(crate) whole: usize,
    /// Bytes before its trailer section, which pass unchanged. An empty trailer section is
    /// included.
    pub(crate) raw: usize,
}

/// The chunked coding is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body is not in chunked coding as RFC 9112 section 7.1 has it")]
pub(crate) struct BadChunk;

impl Default for Framing {
    fn default() -> Self {
        Self::NONE
    }
}

impl Framing {
    /// No body.
    pub(crate) const NONE: Self = Self::Length(0);
    /// A chunked body from its start.
    pub(crate) const CHUNKED: Self = Self::Chunked(Chunks::START);

    /// Returns whether the body is complete.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunks::Done))
    }

    /// Returns the number of bytes still to come, or `None` if it is unknown.
    pub(crate) fn left(&self) -> Option<u64> {
        match self {
            Self::Length(left) => Some(*left),
            Self::Chunked(Chunks::Done) => Some(0),
            Self::Chunked(_) | Self::Opaque => None,
        }
    }

    /// Advances over `bytes` and returns how many of them belong to the body.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<usize, BadChunk> {
        self.read(bytes, |_| ())
    }

    /// Like [`take`](Self::take), and passes the decoded content to `data`, piece by piece.
    pub(crate) fn read(&mut self, bytes: &[u8], data: impl FnMut(&[u8])) -> Result<usize, BadChunk> {
        self.read_all(bytes, data, |_| ()).map(|taken| taken.whole)
    }

    /// Like [`read`](Self::read), and passes a non-empty trailer section to `trailer`, byte by
    /// byte, including the empty line at its end.
    pub(crate) fn read_all(
        &mut self,
        bytes: &[u8],
        mut data: impl FnMut(&[u8]),
        mut trailer: impl FnMut(u8),
    ) -> Result<FramedBytes, BadChunk> {
        match self {
            Self::Opaque => {
                data(bytes);
                Ok(FramedBytes { whole: bytes.len(), raw: bytes.len() })
            }
            Self::Length(left) => {
                let taken = clamp(*left, bytes.len());
                *left -= taken as u64;
                data(&bytes[..taken]);
                Ok(FramedBytes { whole: taken, raw: taken })
            }
            Self::Chunked(chunks) => {
                let (mut at, mut raw) = (0, 0);
                while at < bytes.len() && *chunks != Chunks::Done {
                    if let Chunks::Data { left } = chunks {
                        let taken = clamp(*left, bytes.len() - at);
                        data(&bytes[at..at + taken]);
                        at += taken;
                        raw = at;
                        *left -= taken as u64;
                        if *left == 0 {
                            *chunks = Chunks::DataEnd { carriage_return: false };
                        }
                    } else {
                        let byte = bytes[at];
                        at += 1;
                        match chunks.is_in_trailers(byte) {
                            true => trailer(byte),
                            false => raw = at,
                        }
                        *chunks = chunks.next(byte)?;
                    }
                }
                Ok(FramedBytes { whole: at, raw })
            }
        }
    }
}

fn clamp(left: u64, available: usize) -> usize {
    usize::try_from(left).map_or(available, |left| left.min(available))
}

impl Chunks {
    const START: Self = Self::Size { size: 0, digits: 0 };

    /// Returns whether the next byte belongs to a non-empty trailer section.
    fn is_in_trailers(self, byte: u8) -> bool {
        match self {
            Self::Trailers { bytes: 0, .. } => byte != b'\r',
            Self::Trailers { bytes: 1, part: Trailer::LastLineEnd } => false,
            Self::Trailers { .. } => true,
            _ => false,
        }
    }

    /// Returns the state after one byte that is not data.
    fn next(self, byte: u8) -> Result<Self, BadChunk> {
        Ok(match (self, byte) {
            (Self::Size { size, digits }, _) if byte.is_ascii_hexdigit() && digits < 15 => {
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                Self::Size { size: size * 16 + digit, digits: digits + 1 }
            }
            (Self::Size { size, digits: 1.. }, b'\r') => Self::SizeEnd { size },
            (Self::Size { size, digits: 1.. }, b';') => Self::Extension { size, bytes: 0 },
            (Self::Extension { size, .. }, b'\r') => Self::SizeEnd { size },
            (Self::Extension { size, bytes: bytes @ 0..MAX_EXTENSION }, _) if is_text(byte) => {
                Self::Extension { size, bytes: bytes + 1 }
            }
            (Self::SizeEnd { size: 0 }, b'\n') => Self::Trailers { bytes: 0, part: Trailer::Start },
            (Self::SizeEnd { size }, b'\n') => Self::Data { left: size },
            (Self::DataEnd { carriage_return: false }, b'\r') => Self::DataEnd { carriage_return: true },
            (Self::DataEnd { carriage_return: true }, b'\n') => Self::START,
            (Self::Trailers { part: Trailer::LastLineEnd, .. }, b'\n') => Self::Done,
            (Self::Trailers { bytes: bytes @ 0..MAX_TRAILERS, part }, _) => {
                Self::Trailers { bytes: bytes + 1, part: part.next(byte)? }
            }
            _ => return Err(BadChunk),
        })
    }
}

impl Trailer {
    fn next(self, byte: u8) -> Result<Self, BadChunk> {
        Ok(match (self, byte) {
            (Self::Start, b'\r') => Self::LastLineEnd,
            (Self::Start | Self::Name, _) if is_token(byte) => Self::Name,
            (Self::Name, b':') => Self::Value,
            (Self::Value, b'\r') => Self::LineEnd,
            (Self::Value, _) if is_text(byte) => Self::Value,
            (Self::LineEnd, b'\n') => Self::Start,
            _ => return Err(BadChunk),
        })
    }
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Returns whether a field name may contain this byte (RFC 9110 §5.6.2).
pub(crate) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(bytes: &[u8]) -> Result<usize, BadChunk> {
        Framing::CHUNKED.clone().take(bytes)
    }

    #[test]
    fn a_chunked_body_ends_where_it_ends() {
        for body in [
            &b"0\r\n\r\n"[..],
            b"5\r\nhello\r\n0\r\n\r\n",
            b"5;name=\"a b\";x\r\nhello\r\n00\r\n\r\n",
            b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\nX-Sum: 1\r\nX-More:\t2\r\n\r\n",
        ] {
            let mut stream = body.to_vec();
            stream.extend_from_slice(b"GET / HTTP/1.1\r\n");
            assert_eq!(whole(&stream), Ok(body.len()), "{}", body.escape_ascii());
        }
    }

    #[test]
    fn broken_chunks_are_refused() {
        for body in [
            &b"\r\n"[..],
            b"5\nhello\r\n0\r\n\r\n",
            b"5 \r\nhello\r\n0\r\n\r\n",
            b" 5\r\nhello\r\n0\r\n\r\n",
            b"0x5\r\nhello\r\n0\r\n\r\n",
            b"-1\r\n",
            b"+1\r\n",
            b"5\r\nhelloX\r\n",
            b"5\r\nhello\n0\r\n\r\n",
            b"5\r\nhello\r0\r\n\r\n",
            b"5;a\nb\r\nhello\r\n0\r\n\r\n",
            b"5;a\rb\r\nhello\r\n",
            b"5;\0\r\nhello\r\n",
            b"0\r\n\n",
            b"0\r\nX: 1\n\r\n",
            b"0\r\nX: 1\rY: 2\r\n\r\n",
            b"0\r\nno colon\r\n\r\n",
            b"0\r\n folded: 1\r\n\r\n",
            b"0\r\n: 1\r\n\r\n",
            b"0\r\nX : 1\r\n\r\n",
            b"1000000000000000\r\n",
            b"ffffffffffffffff\r\n",
        ] {
            assert_eq!(whole(body), Err(BadChunk), "{}", body.escape_ascii());
        }
        let long = format!("5;{}\r\n", "x".repeat(2000));
        assert_eq!(whole(long.as_bytes()), Err(BadChunk));
        let long = format!("0\r\nX: {}\r\n\r\n", "x".repeat(9000));
        assert_eq!(whole(long.as_bytes()), Err(BadChunk));
    }

    #[test]
    fn a_length_is_counted_down() {
        let mut framing = Framing::Length(5);
        assert_eq!(framing.take(b"abc"), Ok(3));
        assert_eq!(framing.left(), Some(2));
        assert_eq!(framing.take(b"deGET /"), Ok(2));
        assert!(framing.is_done());
        assert!(Framing::NONE.is_done());
        assert!(!Framing::Opaque.is_done());
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_bytes_arrive(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..5),
            cuts in prop::collection::vec(1usize..9, 1..200),
            rest in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut stream = Vec::new();
            for chunk in &chunks {
                stream.extend(format!("{:x}\r\n", chunk.len()).bytes());
                stream.extend(chunk);
                stream.extend(b"\r\n");
            }
            stream.extend(b"0\r\n\r\n");
            let end = stream.len();
            stream.extend(&rest);
            let mut framing = Framing::CHUNKED;
            let (mut at, mut cuts, mut data) = (0, cuts.iter().cycle(), Vec::new());
            while !framing.is_done() {
                let until = (at + cuts.next().unwrap()).min(stream.len());
                at += framing.read(&stream[at..until], |piece| data.extend_from_slice(piece)).unwrap();
            }
            prop_assert_eq!(at, end);
            prop_assert_eq!(data, chunks.concat());
        }

        /// For any input: the verdict, the end and the data do not depend on how it is split.
        #[test]
        fn any_bytes_mean_the_same_in_any_pieces(
            stream in "([0-3a]{0,2}(;x)?(\r\n|\n|\r)?[a-c:\r\n ]{0,4}){0,6}(0\r\n(a: b\r\n)?\r\n)?[a-z]{0,3}",
            cuts in prop::collection::vec(1usize..9, 1..100),
        ) {
            let stream = stream.as_bytes();
            for start in [Framing::CHUNKED, Framing::Length(7), Framing::NONE, Framing::Opaque] {
                let (mut whole, mut expected) = (start, Vec::new());
                let end = whole.read(stream, |piece| expected.extend_from_slice(piece));
                let (mut framing, mut data) = (start, Vec::new());
                let (mut at, mut cuts) = (0, cuts.iter().cycle());
                let mut verdict = Ok(());
                while at < stream.len() && !framing.is_done() && verdict.is_ok() {
                    let until = (at + cuts.next().unwrap()).min(stream.len());
                    match framing.read(&stream[at..until], |piece| data.extend_from_slice(piece)) {
                        Ok(taken) => at += taken,
                        Err(error) => verdict = Err(error),
                    }
                }
                prop_assert_eq!(verdict.map(|()| at), end);
                prop_assert_eq!(data, expected);
                if end.is_ok() {
                    prop_assert_eq!(framing, whole);
                }
            }
        }
    }
}
