//! The head of a FastCGI response: fields, and the status among them (RFC 3875 §6.3).

use http::{Method, StatusCode};

use crate::message::response::{BadHead, MAX_HEAD, Response};

/// Fields that describe the connection of an HTTP endpoint. A FastCGI endpoint has none; nginx
/// ignores these too.
const IGNORED: [&[u8]; 5] = [b"connection", b"keep-alive", b"trailer", b"transfer-encoding", b"upgrade"];

/// Parses the head at the start of `bytes`, the response to a request with this method. Returns it
/// with its length, or `None` while it is incomplete. Lines end with CR LF or LF.
///
/// The status is that of the field `Status`; without it 302 with a `Location`, otherwise 200, as in
/// nginx.
///
/// # Errors
/// The head is malformed or too large, or an interim status is given.
pub(crate) fn read(bytes: &[u8], method: &Method) -> Result<Option<(Response, usize)>, BadHead> {
    let Some(length) = head_length(bytes) else {
        return if bytes.len() > MAX_HEAD { Err(BadHead) } else { Ok(None) };
    };
    let (mut status, mut redirects, mut fields) = (None, false, Vec::with_capacity(length + 64));
    for line in lines(&bytes[..length]) {
        let name = memchr::memchr(b':', line).map_or(line, |colon| &line[..colon]);
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        if is(b"status") {
            let value = line.get(name.len() + 1..).ok_or(BadHead)?;
            if status.replace(Status::read(value.trim_ascii())?).is_some() {
                return Err(BadHead);
            }
            continue;
        }
        if IGNORED.iter().any(|ignored| is(ignored)) {
            continue;
        }
        redirects |= is(b"location");
        fields.extend_from_slice(line);
        fields.extend_from_slice(b"\r\n");
    }
    let status = status.unwrap_or(match redirects {
        true => Status { code: StatusCode::FOUND, reason: b"" },
        false => Status { code: StatusCode::OK, reason: b"" },
    });
    let reason = match status.reason {
        b"" => status.code.canonical_reason().unwrap_or_default().as_bytes(),
        given => given,
    };
    let line = [b"HTTP/1.1 ", status.code.as_str().as_bytes(), b" ", reason, b"\r\n"].concat();
    let head = [&line[..], &fields, b"\r\n"].concat();
    let mut response = Response::default();
    match response.read(&head, method)? {
        Some(whole) if whole == head.len() => Ok(Some((response, length))),
        _ => Err(BadHead),
    }
}

/// Finds the end of the empty line.
fn head_length(bytes: &[u8]) -> Option<usize> {
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', bytes) {
        if matches!(&bytes[start..end], b"" | b"\r") {
            return Some(end + 1);
        }
        start = end + 1;
    }
    None
}

/// The lines of a head, without their ends and without the empty one.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.take_while(|line| !line.is_empty())
}

/// The value of `Status`: a code and an optional phrase.
struct Status<'a> {
    code: StatusCode,
    reason: &'a [u8],
}

impl<'a> Status<'a> {
    fn read(value: &'a [u8]) -> Result<Self, BadHead> {
        let (code, reason) = value.split_at_checked(3).ok_or(BadHead)?;
        if !matches!(reason.first(), None | Some(b' ')) {
            return Err(BadHead);
        }
        let code = StatusCode::from_bytes(code).map_err(|_| BadHead)?;
        // FastCGI has no interim responses, and no switch to another protocol.
        match code.is_informational() {
            true => Err(BadHead),
            false => Ok(Self { code, reason: reason.trim_ascii() }),
        }
    }
}

#[cfg(test)]
mod tests;
