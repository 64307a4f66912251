//! Ranges of a stored response (RFC 9110 §14).

use http::header::{CONTENT_LENGTH, HeaderValue, RANGE};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::{RangeType, range_header_filter};

/// Requests for so many ranges or more get the whole response.
const TOO_MANY: usize = 200;

/// Turns the head of a response into one for the ranges that a request asks for, and returns these.
pub(super) fn apply(request: &RequestHeader, response: &mut ResponseHeader) -> RangeType {
    let satisfiable = without_empty(request, response);
    range_header_filter(satisfiable.as_ref().unwrap_or(request), response, Some(TOO_MANY))
}

/// Returns the request without ranges that have no bytes, of which Pingora makes a part of the
/// response: a suffix of 0 bytes, which cannot be satisfied, and any suffix of an empty body, which
/// is the whole of it (RFC 9110 §14.1.2). `None` if it asks for none of them.
fn without_empty(request: &RequestHeader, response: &ResponseHeader) -> Option<RequestHeader> {
    let length = response.headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse::<usize>().ok()?;
    let (unit, ranges) = request.headers.get(RANGE)?.to_str().ok()?.split_once('=')?;
    let is_empty = |range: &&str| {
        let suffix = range.trim().strip_prefix('-');
        suffix.is_some_and(|suffix| length == 0 || suffix.parse::<usize>() == Ok(0))
    };
    if !ranges.split(',').any(|range| is_empty(&range)) {
        return None;
    }
    let mut request = request.clone();
    let rest: Vec<&str> = ranges.split(',').filter(|range| !is_empty(range)).collect();
    let rest = match (length, &*rest) {
        (0, _) => {
            request.remove_header(&RANGE);
            return Some(request);
        }
        // Behind the end, which cannot be satisfied either.
        (_, []) => format!("{unit}={length}-"),
        (_, rest) => format!("{unit}={}", rest.join(",")),
    };
    // Parts of a valid value are valid.
    request.insert_header(RANGE, HeaderValue::try_from(rest).ok()?).ok()?;
    Some(request)
}

/// Returns the first byte of a body that a range requests; 0 if the range is unusual.
pub(super) fn first_byte(range: &str, length: usize) -> usize {
    let bounds = range.trim().strip_prefix("bytes=").and_then(|bounds| bounds.split_once('-'));
    match bounds.map(|(first, last)| (first.trim().parse::<usize>(), last.trim().parse::<usize>())) {
        Some((Ok(first), _)) => first,
        Some((Err(_), Ok(suffix))) => length.saturating_sub(suffix),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn the_first_byte_of_a_range_is_known() {
        for (range, first) in [
            ("bytes=2-4", 2),
            ("bytes=7-", 7),
            ("bytes=-3", 7),
            ("bytes=-30", 0),
            ("bytes=2-4,8-9", 2),
            ("bytes=99-", 99),
            ("lines=2-4", 0),
            ("bytes=x", 0),
        ] {
            assert_eq!(first_byte(range, 10), first, "{range}");
        }
    }

    #[test]
    fn a_range_without_bytes_was_a_part_of_the_response() {
        for (range, length, status, content_range) in [
            ("bytes=-0", 10, 416, Some("bytes */10")),
            ("bytes=-00", 10, 416, Some("bytes */10")),
            ("bytes=-0, -0", 10, 416, Some("bytes */10")),
            ("Bytes=-0,2-4", 10, 206, Some("bytes 2-4/10")),
            ("bytes=-3", 10, 206, Some("bytes 7-9/10")),
            ("bytes=-5", 0, 200, None),
            ("bytes=-0", 0, 200, None),
            ("bytes=0-", 0, 416, Some("bytes */0")),
            ("bytes=--0", 10, 200, None),
        ] {
            let mut request = RequestHeader::build(Method::GET, b"/", None).unwrap();
            request.insert_header(RANGE, range).unwrap();
            let mut response = ResponseHeader::build(200, None).unwrap();
            response.insert_header(CONTENT_LENGTH, length).unwrap();
            apply(&request, &mut response);
            let part = response.headers.get("content-range").map(|value| value.to_str().unwrap());
            assert_eq!((response.status.as_u16(), part), (status, content_range), "{range} of {length}");
        }
    }
}
