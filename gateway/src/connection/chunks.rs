//! Finds the end of a chunked body without decoding it (RFC 9112 §7.1).
//!
//! The driver's own parser decodes and validates; this scanner only says which octets on the wire still belong
//! to the body, so that what follows, a pipelined request, stays with the connection.

/// Where in a chunked body we are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkScanner {
    at: Place,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// In the digits of a chunk size.
    #[default]
    Start,
    Size(u64),
    /// In a chunk extension, up to the end of the line.
    Extension(u64),
    /// In data, with what is left of it.
    Data(u64),
    /// In the line end after data.
    DataEnd,
    /// At the first octet of a trailer line.
    TrailerStart,
    /// Inside a trailer line.
    Trailer,
    /// After the carriage return of what may be the last line.
    LastLine,
    /// The body has ended.
    Done,
    /// Not a chunked body: the driver's parser refuses it, so nothing needs to be kept back.
    Broken,
}

impl ChunkScanner {
    /// Whether the whole body has been seen.
    pub(crate) fn is_done(self) -> bool {
        self.at == Place::Done
    }

    /// How many octets of `octets` belong to the body.
    pub(crate) fn scan(&mut self, octets: &[u8]) -> usize {
        let mut used = 0;
        while used < octets.len() {
            match self.at {
                Place::Done => break,
                Place::Broken => return octets.len(),
                Place::Data(left) => {
                    let step = usize::try_from(left).unwrap_or(usize::MAX).min(octets.len() - used);
                    used += step;
                    self.at = match left - step as u64 {
                        0 => Place::DataEnd,
                        left => Place::Data(left),
                    };
                }
                place => {
                    self.at = next(place, octets[used]);
                    used += 1;
                }
            }
        }
        used
    }
}

fn next(place: Place, octet: u8) -> Place {
    match (place, octet) {
        (Place::Start, octet) => digit(0, octet),
        (Place::Size(size), b'\n') | (Place::Extension(size), b'\n') => match size {
            0 => Place::TrailerStart,
            size => Place::Data(size),
        },
        (Place::Size(size), b'\r' | b';' | b' ' | b'\t') => Place::Extension(size),
        (Place::Size(size), octet) => digit(size, octet),
        (Place::Extension(size), _) => Place::Extension(size),
        (Place::DataEnd, b'\r') => Place::DataEnd,
        (Place::DataEnd, b'\n') => Place::Start,
        (Place::TrailerStart, b'\r') => Place::LastLine,
        (Place::TrailerStart, b'\n') | (Place::LastLine, b'\n') => Place::Done,
        (Place::Trailer, b'\n') => Place::TrailerStart,
        (Place::TrailerStart | Place::Trailer, _) => Place::Trailer,
        _ => Place::Broken,
    }
}

fn digit(size: u64, octet: u8) -> Place {
    match (octet as char).to_digit(16) {
        Some(digit) if size < 1 << 60 => Place::Size(size * 16 + u64::from(digit)),
        _ => Place::Broken,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn body(chunks: &[Vec<u8>], trailer: &str) -> Vec<u8> {
        let mut body = Vec::new();
        for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
            body.extend(format!("{:x};ext=1\r\n", chunk.len()).bytes());
            body.extend(chunk);
            body.extend(b"\r\n");
        }
        body.extend(b"0\r\n");
        body.extend(trailer.bytes());
        body.extend(b"\r\n");
        body
    }

    proptest! {
        #[test]
        fn finds_the_end_however_the_octets_arrive(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..5),
            trailer in prop_oneof![Just(""), Just("A: b\r\n"), Just("A: b\r\nC: d\r\n")],
            steps in prop::collection::vec(1usize..9, 1..20),
        ) {
            let body = body(&chunks, trailer);
            let mut wire = body.clone();
            wire.extend(b"GET / HTTP/1.1\r\n");
            let mut scanner = ChunkScanner::default();
            let mut used = 0;
            for step in steps.iter().cycle() {
                let end = (used + step).min(wire.len());
                let taken = scanner.scan(&wire[used..end]);
                used += taken;
                if scanner.is_done() {
                    break;
                }
                prop_assert_eq!(used, end);
            }
            prop_assert_eq!(used, body.len());
        }
    }

    #[test]
    fn passes_on_what_is_not_chunked_for_the_driver_to_refuse() {
        for wire in ["x\r\n", "\r\n", "1\r\nab\r\n", "fffffffffffffffff\r\n"] {
            let mut scanner = ChunkScanner::default();
            assert_eq!(scanner.scan(wire.as_bytes()), wire.len(), "{wire:?}");
            assert!(!scanner.is_done());
        }
    }
}
