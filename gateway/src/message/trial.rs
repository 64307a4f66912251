//! Invariants for all input from either side, checked by the fuzz target and by tests over its
//! seeds.
//!
//! The meaning of bytes does not depend on how they are split; nothing is read beyond the end of a
//! message; and a head that Sluice writes parses, by the same strict rules, as a head with the same
//! framing. The last invariant ensures that no reader behind Sluice finds another message in it.

use http::{HeaderValue, Method, Version};

use crate::message::edit::{Edit, RequestTarget};
use crate::message::field_names::FieldNames;
use crate::message::fields::Fields;
use crate::message::fields::FieldsMut;
use crate::message::framing::BadChunk;
use crate::message::framing::FramedBytes;
use crate::message::framing::Framing;
use crate::message::head::Head;
use crate::message::head::HeadLimits;
use crate::message::head::Scanner;
use crate::message::hop_by_hop;
use crate::message::request;
use crate::message::response::Delivery;
use crate::message::response::Response;
use crate::message::trailers::Section;

const LIMITS: HeadLimits =
    HeadLimits { request_line: 8 * 1024, field_line: 8 * 1024, head: 32 * 1024, first_buffer: 1024 };

/// Parses bytes as a message. The first byte selects the direction, the second how the rest is
/// split.
///
/// # Panics
/// If an invariant is violated.
pub fn message(input: &[u8]) {
    let [side, cut, stream @ ..] = input else { return };
    let cut = usize::from(*cut).max(1);
    match side % 3 {
        0 => as_request(stream, cut),
        1 => as_response(stream, cut, &Method::GET),
        _ => as_response(stream, cut, &Method::HEAD),
    }
}

fn as_request(stream: &[u8], cut: usize) {
    let whole = Scanner::default().scan(stream, &LIMITS);
    let mut scanner = Scanner::default();
    let mut pieces = Ok(None);
    let mut end = 0;
    while end < stream.len() && matches!(pieces, Ok(None)) {
        end = (end + cut).min(stream.len());
        pieces = scanner.scan(&stream[..end], &LIMITS);
    }
    if !stream.is_empty() {
        assert_eq!(whole, pieces, "cut");
    }
    let Ok(Some(length)) = whole else { return };
    let Ok(mut head) = Head::read(&stream[..length], FieldNames::PLAIN) else { return };
    assert!(!head.fields.iter().any(|(name, _)| FieldNames::PLAIN.drops(name)), "an odd name passed");
    let mut written = Vec::new();
    request::write(&head, Version::HTTP_11, &mut written, false);
    if head.fields.has(&http::header::HOST) {
        let again = Head::read(&written, FieldNames::PLAIN).expect("what we write is a head");
        assert_eq!(
            (again.framing, again.target()),
            (head.framing, head.target()),
            "framing or target changed"
        );
    }
    head.keep();
    hop_by_hop::request(&mut head.fields, head.version);
    head.fields.set(&http::header::VIA, &HeaderValue::from_static("1"));
    if let Some(target) = RequestTarget::new("/rewritten".to_owned()) {
        Edit::new(&mut head).set_target(&target);
    }
    head.restore();
    let mut rewritten = Vec::new();
    request::write(&head, Version::HTTP_11, &mut rewritten, false);
    assert_eq!(written, rewritten, "another try sends something else");
    body(head.framing, &stream[length..], cut);
}

fn as_response(stream: &[u8], cut: usize, method: &Method) {
    let mut response = Response::default();
    let Ok(Some(length)) = response.read(stream, method) else { return };
    let mut prefix = cut;
    while prefix < length {
        let read = Response::default().read(&stream[..prefix], method);
        assert_eq!(read, Ok(None), "complete before its end");
        prefix += cut;
    }
    let framing = response.framing;
    body(framing, &stream[length..], cut);
    if response.is_interim() {
        return;
    }
    hop_by_hop::response(&mut response.fields, response.status);
    response.deliver(false);
    let mut written = Vec::new();
    response.write(&mut written, true);
    let mut again = Response::default();
    assert_eq!(again.read(&written, method), Ok(Some(written.len())), "what we write is a head");
    let expected = match response.delivery {
        Delivery::Chunked => Framing::CHUNKED,
        Delivery::AsIs | Delivery::UntilClose => framing,
    };
    assert_eq!(again.framing, expected, "framing changed");
}

fn body(start: Framing, stream: &[u8], cut: usize) {
    let (mut whole, mut data) = (start, Vec::new());
    let end = whole.read(stream, |piece| data.extend_from_slice(piece));
    let (mut pieces, mut other, mut at) = (start, Vec::new(), 0);
    let mut verdict = Ok::<_, BadChunk>(());
    while at < stream.len() && !pieces.is_done() && verdict.is_ok() {
        let until = (at + cut).min(stream.len());
        match pieces.read(&stream[at..until], |piece| other.extend_from_slice(piece)) {
            Ok(taken) => at += taken,
            Err(error) => verdict = Err(error),
        }
    }
    assert_eq!(verdict.map(|()| at), end, "another end when cut");
    assert_eq!(data, other, "other data when cut");
    if let Framing::Length(length) = start {
        assert!(data.len() as u64 <= length, "read beyond the end");
    }
    if let Ok(end) = end
        && whole.is_done()
    {
        passed_on(start, &stream[..end], cut, &data);
    }
}

/// A complete body is passed on as a complete body, with the same data and only the trailers that
/// pass.
fn passed_on(start: Framing, stream: &[u8], cut: usize, data: &[u8]) {
    let (mut framing, mut section, mut out) = (start, Section::default(), Vec::new());
    for piece in stream.chunks(cut) {
        let read = framing.read_all(piece, |_| (), |byte| section.push(byte));
        let FramedBytes { raw, .. } = read.expect("it has been read before");
        out.extend_from_slice(&piece[..raw]);
    }
    if !section.is_empty() {
        section.write(&FieldNames::PLAIN, &mut out);
    }
    let (mut again, mut same, mut trailers) = (start, Vec::new(), Section::default());
    let read = again.read_all(&out, |piece| same.extend_from_slice(piece), |byte| trailers.push(byte));
    assert_eq!(read.map(|taken| taken.whole), Ok(out.len()), "what goes on is not a whole body");
    assert!(again.is_done() && same == data, "another body goes on");
    assert_eq!(trailers.fields(&FieldNames::ANY).count(), section.fields(&FieldNames::PLAIN).count());
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    fn seeds() -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/messages");
        fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
    }

    #[test]
    fn every_seed_holds_however_it_is_cut() {
        let seeds = seeds();
        assert!(seeds.len() >= 10);
        for mut seed in seeds {
            for cut in 1..=255 {
                seed[1] = cut;
                message(&seed);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn seeds_hold_after_mutations_too(
            seed in prop::sample::select(seeds()),
            cut in any::<u8>(),
            changes in prop::collection::vec(
                (any::<prop::sample::Index>(), prop::sample::select(b"\r\n :;,0a5_.-\t\0\xff".to_vec()), 0..3),
                0..4,
            ),
        ) {
            let mut bytes = seed;
            bytes[1] = cut;
            for (at, byte, change) in changes {
                let at = 2 + at.index(bytes.len() - 2);
                match change {
                    0 => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    _ => drop(bytes.remove(at)),
                }
                if bytes.len() < 4 {
                    return Ok(());
                }
            }
            message(&bytes);
        }
    }
}
