//! Invariants of FastCGI messages, checked by the fuzz target and by a test.

use http::Method;

use super::{Params, RecordDecoder, read_response};
use crate::message::field_names::FieldNames;
use crate::message::fields::Fields;
use crate::message::head::Head;

/// Reads bytes as records, as the head of a response, and as the head of a request that becomes
/// parameters. The first byte is how the bytes are split.
///
/// # Panics
/// If an invariant is violated.
pub fn fastcgi(input: &[u8]) {
    let [cut, bytes @ ..] = input else { return };
    let cut = usize::from(*cut).max(1);
    records(bytes, cut);
    response(bytes, cut);
    params(bytes);
}

/// The result does not depend on how bytes arrive.
fn records(bytes: &[u8], cut: usize) {
    let decode = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let (mut decoder, mut output, mut errors) = (RecordDecoder::default(), Vec::new(), Vec::new());
        for piece in pieces {
            let mut buffer = piece.to_vec();
            let decoded = decoder.decode(&mut buffer, |text| errors.extend_from_slice(text)).ok()?;
            assert!(decoded.output <= piece.len(), "more output than bytes");
            output.extend_from_slice(&buffer[..decoded.output]);
            if decoded.ended {
                return Some((output, errors, true));
            }
        }
        Some((output, errors, false))
    };
    let whole = decode(&mut std::iter::once(bytes));
    assert_eq!(whole, decode(&mut bytes.chunks(cut)), "another result when cut");
}

/// A head is complete at its end and not before.
fn response(bytes: &[u8], cut: usize) {
    let Ok(Some((response, length))) = read_response(bytes, &Method::GET) else { return };
    assert!(length <= bytes.len() && !response.status.is_informational());
    for prefix in (0..length).step_by(cut) {
        let read = read_response(&bytes[..prefix], &Method::GET);
        assert!(matches!(read, Ok(None)), "complete after {prefix} of {length} bytes");
    }
}

/// The parameters of a client's fields have names of their own, all with the prefix of fields.
fn params(bytes: &[u8]) {
    let Ok(head) = Head::read(bytes, FieldNames::ANY) else { return };
    let mut params = Params::default();
    params.push_fields(&head.fields, |_| false);
    let mut records = Vec::new();
    params.write(&mut records);
    let pairs = read_params(&records).expect("what is written can be read");
    for (index, (name, _)) in pairs.iter().enumerate() {
        assert!(name.starts_with(b"HTTP_") && name != b"HTTP_PROXY", "a forged parameter");
        assert!(pairs[..index].iter().all(|(other, _)| other != name), "a parameter is set twice");
    }
    let mut count = 0;
    head.fields.each(|_, _| count += 1);
    assert!(pairs.len() <= count);
}

/// Reads the pairs of PARAMS records, of which each is whole in one record.
pub(super) fn read_params(mut records: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut pairs = Vec::new();
    loop {
        let [1, 4, 0, 1, high, low, 0, 0, rest @ ..] = records else { return None };
        let (mut record, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
        if record.is_empty() {
            return rest.is_empty().then_some(pairs);
        }
        while !record.is_empty() {
            let (name, value) = (take_length(&mut record)?, take_length(&mut record)?);
            let (name, behind) = record.split_at_checked(name)?;
            let (value, behind) = behind.split_at_checked(value)?;
            record = behind;
            pairs.push((name.to_vec(), value.to_vec()));
        }
        records = rest;
    }
}

fn take_length(bytes: &mut &[u8]) -> Option<usize> {
    let [first, rest @ ..] = *bytes else { return None };
    if *first < 128 {
        *bytes = rest;
        return Some(usize::from(*first));
    }
    let [b, c, d, rest @ ..] = rest else { return None };
    *bytes = rest;
    Some(u32::from_be_bytes([first & 0x7f, *b, *c, *d]) as usize)
}
