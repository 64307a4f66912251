use proptest::prelude::*;

use super::*;

/// A record with padding.
fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let mut header = header(kind, content.len());
    header[6] = padding;
    [&header[..], content, &vec![0xaa; usize::from(padding)]].concat()
}

fn end() -> Vec<u8> {
    record(END_REQUEST, &[0; 8], 0)
}

/// Decodes buffers one after the other: the output, the error output, and the last result.
fn decode(buffers: &[&[u8]]) -> Result<(Vec<u8>, Vec<u8>, DecodedRecords), BadRecord> {
    let (mut decoder, mut output, mut errors) = (RecordDecoder::default(), Vec::new(), Vec::new());
    let mut last = DecodedRecords::default();
    for buffer in buffers {
        let mut buffer = buffer.to_vec();
        last = decoder.decode(&mut buffer, |text| errors.extend_from_slice(text))?;
        output.extend_from_slice(&buffer[..last.output]);
    }
    Ok((output, errors, last))
}

#[test]
fn output_and_error_output_are_told_apart() {
    let bytes = [
        record(STDOUT, b"hello ", 3),
        record(STDERR, b"warning", 1),
        record(STDOUT, b"world", 0),
        record(STDOUT, b"", 5),
        end(),
    ]
    .concat();
    let (output, errors, last) = decode(&[&bytes]).unwrap();
    assert_eq!((&output[..], &errors[..]), (&b"hello world"[..], &b"warning"[..]));
    assert!(last.output_ended && last.ended && !last.excess);
}

#[test]
fn bytes_behind_the_end_are_excess() {
    let (_, _, last) = decode(&[&[end(), b"x".to_vec()].concat()]).unwrap();
    assert!(last.ended && last.excess);
    let (output, _, last) = decode(&[&record(STDOUT, b"a", 0)]).unwrap();
    assert_eq!((&output[..], last.ended, last.output_ended), (&b"a"[..], false, false));
}

#[test]
fn records_that_no_response_has_are_refused() {
    let good = record(STDOUT, b"x", 0);
    for (at, value) in [(0, 2), (1, BEGIN_REQUEST), (1, STDIN), (1, 10), (1, 99), (2, 1), (3, 0), (3, 2)] {
        let mut bad = good.clone();
        bad[at] = value;
        assert_eq!(decode(&[&bad]).unwrap_err(), BadRecord, "{at} {value}");
    }
    assert!(decode(&[&record(END_REQUEST, &[0; 7], 0)]).is_err());
}

#[test]
fn a_body_is_split_into_records() {
    let body = vec![7; MAX_CONTENT + 1];
    let mut out = Vec::new();
    stdin(&mut out, &body);
    end_stdin(&mut out);
    assert_eq!(out.len(), body.len() + 3 * HEADER);
    assert_eq!(out[..HEADER], [1, STDIN, 0, 1, 0xff, 0xff, 0, 0]);
    assert_eq!(out[HEADER + MAX_CONTENT..][..HEADER], [1, STDIN, 0, 1, 0, 1, 0, 0]);
    assert_eq!(out[out.len() - HEADER..], [1, STDIN, 0, 1, 0, 0, 0, 0]);
}

#[test]
fn a_request_begins_with_its_role_and_whether_the_connection_is_kept() {
    let mut out = Vec::new();
    begin(&mut out, true);
    assert_eq!(out, [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
}

proptest! {
    #[test]
    fn the_result_does_not_depend_on_how_bytes_arrive(
        records in prop::collection::vec(
            (any::<bool>(), prop::collection::vec(any::<u8>(), 0..40), any::<u8>()), 0..8),
        cuts in prop::collection::vec(0_usize..400, 0..8),
    ) {
        let mut bytes = Vec::new();
        for (is_error, content, padding) in &records {
            bytes.extend(record(if *is_error { STDERR } else { STDOUT }, content, *padding));
        }
        bytes.extend(end());
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let (mut buffers, mut from) = (Vec::new(), 0);
        for cut in cuts.into_iter().chain([bytes.len()]) {
            buffers.push(&bytes[from..cut]);
            from = cut;
        }
        buffers.retain(|buffer| !buffer.is_empty());
        let (output, errors, last) = decode(&buffers).unwrap();
        let of = |wanted: bool| -> Vec<u8> {
            records.iter().filter(|(is_error, ..)| *is_error == wanted).flat_map(|(_, content, _)| content.clone()).collect()
        };
        prop_assert_eq!((output, errors), (of(false), of(true)));
        prop_assert!(last.ended && !last.excess);
    }

    #[test]
    fn no_bytes_make_the_decoder_fail_otherwise(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&[&bytes]);
    }
}
