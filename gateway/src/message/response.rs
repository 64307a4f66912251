//! Strict parser of response heads, and their serialisation for the client (RFC 9112 §4 to §7).
//!
//! Endpoints are trusted with their content, but not with the framing of client connections. A
//! response that two readers could interpret differently results in 502 and never reaches the
//! client.

use std::mem::{self, MaybeUninit};
use std::ops::Range;
use std::sync::Arc;

use http::header::{AGE, CONTENT_LENGTH, DATE, HeaderName, TRANSFER_ENCODING};
use http::{Method, StatusCode};
use pingora_core::protocols::http::date::get_cached_date;

use crate::message::edit::{EditableName, EditableStatus, HeadMut, ResponseMut};
use crate::message::field_list::FieldList;
use crate::message::field_list::line;
use crate::message::fields::Fields;
use crate::message::fields::FieldsMut;
use crate::message::framing::Framing;
use crate::message::head::MAX_FIELDS;
use crate::message::head::content_length;
use crate::message::head::ends_lines_strictly;
use crate::message::hop_by_hop;
use crate::message::trailers::HiddenTrailers;

/// Maximum number of bytes of a response head.
pub(crate) const MAX_HEAD: usize = 128 * 1024;

/// A response head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    reason: Range<usize>,
    pub(crate) fields: FieldList,
    pub(crate) framing: Framing,
    /// Whether the endpoint keeps its connection open.
    pub(crate) keeps_alive: bool,
    /// How the client detects the end of the body.
    pub(crate) delivery: Delivery,
    /// The endpoint has turned off buffering of this response.
    pub(crate) is_unbuffered: bool,
    /// Trailers that clients do not see.
    pub(crate) hidden_trailers: HiddenTrailers,
    /// The piece that is passed on now is the last of a body without a length. Its
    /// [end](crate::body::downstream::Downstream::end) follows at once, without trailers, so both
    /// can be sent together.
    pub(crate) is_last: bool,
}

/// How a body is delivered to the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Unchanged: with a length, in chunks, or without a body.
    #[default]
    AsIs,
    /// In chunks. The endpoint ended it by closing its connection.
    Chunked,
    /// Ended by closing the client's connection.
    UntilClose,
}

/// The head is not HTTP, or its framing is ambiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadHead;

impl Response {
    /// Returns `100 Continue`.
    pub(crate) fn go_on() -> Self {
        let mut response = Self::default();
        // Cannot fail: the head is complete and well formed.
        let _ = response.read(b"HTTP/1.1 100 Continue\r\n\r\n", &Method::POST);
        response
    }

    /// Returns a response without fields, for heads parsed elsewhere.
    pub(crate) fn of(status: StatusCode, reason: &str, framing: Framing) -> Self {
        let mut fields = FieldList::default();
        fields.push_text(reason);
        Self { status, reason: 0..reason.len(), fields, framing, keeps_alive: true, ..Self::default() }
    }

    /// Takes the head out. What remains tells where the body ends.
    pub(crate) fn take_head(&mut self) -> Self {
        let (status, framing, keeps_alive) = (self.status, self.framing, self.keeps_alive);
        mem::replace(self, Self { status, framing, keeps_alive, ..Self::default() })
    }

    /// Parses the head at the start of `bytes`, the response to a request with this method. Returns
    /// its length, or `None` while it is incomplete.
    pub(crate) fn read(&mut self, bytes: &[u8], method: &Method) -> Result<Option<usize>, BadHead> {
        let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            bytes,
            &mut fields,
        );
        let length = match parsed {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if bytes.len() <= MAX_HEAD => return Ok(None),
            _ => return Err(BadHead),
        };
        let head = &bytes[..length];
        // Endpoints that end all lines with a bare LF are served, as in nginx.
        let has_line_ends =
            || ends_lines_strictly(head, response.headers) || memchr::memchr(b'\r', head).is_none();
        if length > MAX_HEAD || !head.starts_with(b"HTTP/") || !has_line_ends() {
            return Err(BadHead);
        }
        let (Some(code), Some(minor)) = (response.code, response.version) else { return Err(BadHead) };
        let reason = response.reason.unwrap_or_default();
        let start = match reason {
            "" => 0,
            text => text.as_ptr().addr() - head.as_ptr().addr(),
        };
        self.status = StatusCode::from_u16(code).map_err(|_| BadHead)?;
        self.reason = start..start + reason.len();
        self.fields.read(head, response.headers);
        if hop_by_hop::has_too_many_options(&self.fields) {
            return Err(BadHead);
        }
        self.keeps_alive = minor == 1 && !hop_by_hop::names(&self.fields, &CLOSE);
        self.framing = self.body(minor, method)?;
        Ok(Some(length))
    }

    /// Determines the framing of the body (RFC 9112 §6.3).
    fn body(&self, minor: u8, method: &Method) -> Result<Framing, BadHead> {
        // Nothing follows an interim head, whatever framing it states.
        if self.is_interim() {
            return Ok(Framing::NONE);
        }
        let framing = stated_framing(&self.fields, minor == 1)?;
        if self.switches() {
            return Ok(Framing::Opaque);
        }
        let bodiless = *method == Method::HEAD
            || matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        Ok(if bodiless { Framing::NONE } else { framing })
    }

    /// Returns the framing of the body that the head describes: its length, if only the head states
    /// it, as in HTTP/2. `is_head`: that of the response to GET, because a response to HEAD has its
    /// fields and no body (RFC 9110 §9.3.2).
    pub(crate) fn described_body(&self, is_head: bool) -> Framing {
        let never_has_body = matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if self.framing != Framing::Opaque && (!is_head || never_has_body) {
            return self.framing;
        }
        let length = self.fields.first(&CONTENT_LENGTH).and_then(content_length);
        length.map_or(Framing::Opaque, Framing::Length)
    }

    /// Returns whether more heads follow (RFC 9110 §15.2).
    pub(crate) fn is_interim(&self) -> bool {
        self.status.is_informational() && !self.switches()
    }

    /// Returns whether the connection switches to another protocol (RFC 9110 §15.2.2).
    pub(crate) fn switches(&self) -> bool {
        self.status == StatusCode::SWITCHING_PROTOCOLS
    }

    /// Returns whether `Date` is passed on. As in nginx, it is the time of relaying otherwise. The
    /// lifetime of a response from a cache is counted from its own `Date` (RFC 9111 §4.2.1), and
    /// `Age` since then.
    pub(crate) fn is_dated(&self) -> bool {
        self.fields.has(&AGE) && self.fields.lines(&DATE).count() == 1
    }

    /// Decides how the body is delivered to a client of HTTP/1.1, or of HTTP/1.0, which has no
    /// chunks.
    pub(crate) fn deliver(&mut self, http_1_0: bool) {
        self.delivery = match self.framing {
            _ if self.switches() => Delivery::AsIs,
            Framing::Opaque if !http_1_0 => Delivery::Chunked,
            Framing::Opaque => Delivery::UntilClose,
            Framing::Chunked(_) if http_1_0 => Delivery::UntilClose,
            _ => Delivery::AsIs,
        };
        if self.status == StatusCode::NO_CONTENT || self.switches() {
            self.remove_framing();
        } else if http_1_0 {
            self.fields.remove(&TRANSFER_ENCODING);
        }
    }

    /// Prepares an interim head for a client of any protocol.
    pub(crate) fn deliver_interim(&mut self) {
        hop_by_hop::response(&mut self.fields, self.status);
        self.remove_framing();
    }

    /// Removes the fields of a framing, which are not allowed in a response with status 1xx or 204
    /// (RFC 9110 §8.6, RFC 9112 §6.1). A client of HTTP/2 resets a stream whose interim response
    /// has a length.
    fn remove_framing(&mut self) {
        self.fields.remove(&CONTENT_LENGTH);
        self.fields.remove(&TRANSFER_ENCODING);
    }

    /// Writes a final head for the client.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, keep: bool) {
        self.write_line(out);
        let is_dated = self.is_dated();
        if !is_dated {
            self.fields.remove(&DATE);
        }
        self.fields.write(out);
        if !is_dated {
            write_date(out);
        }
        if self.delivery == Delivery::Chunked {
            line(out, b"Transfer-Encoding", b"chunked");
        }
        if !self.switches() {
            write_connection(out, keep);
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Writes an interim head for the client.
    pub(crate) fn write_interim(&mut self, out: &mut Vec<u8>) {
        self.deliver_interim();
        self.write_line(out);
        self.fields.write(out);
        out.extend_from_slice(b"\r\n");
    }

    fn write_line(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(self.status.as_str().as_bytes());
        out.push(b' ');
        out.extend_from_slice(&self.fields.text()[self.reason.clone()]);
        out.extend_from_slice(b"\r\n");
    }
}

/// Returns the framing that a head of HTTP/1 states, whether or not a body follows
/// (RFC 9112 §6.3).
///
/// # Errors
/// Two readers could find different ends, or the body has a transfer coding other than `chunked`,
/// which is not decoded here.
pub(crate) fn stated_framing(fields: &impl Fields, is_http_1_1: bool) -> Result<Framing, BadHead> {
    let mut lengths = fields.lines(&CONTENT_LENGTH);
    let mut codings = fields.lines(&TRANSFER_ENCODING);
    let (length, coding) = (lengths.next(), codings.next());
    if lengths.next().is_some() || codings.next().is_some() || length.is_some() && coding.is_some() {
        return Err(BadHead);
    }
    match (length, coding) {
        (Some(length), _) => Ok(Framing::Length(content_length(length).ok_or(BadHead)?)),
        (None, Some(coding)) if is_http_1_1 && coding.eq_ignore_ascii_case(b"chunked") => {
            Ok(Framing::CHUNKED)
        }
        (None, Some(_)) => Err(BadHead),
        (None, None) => Ok(Framing::Opaque),
    }
}

impl HeadMut for Response {
    type Fields = FieldList;

    fn fields(&mut self) -> &mut FieldList {
        &mut self.fields
    }
}

impl ResponseMut for Response {
    fn status(&self) -> StatusCode {
        self.status
    }

    fn set_status(&mut self, status: EditableStatus) {
        self.status = status.get();
        let start = self.fields.text().len();
        self.fields.push_text(status.get().canonical_reason().unwrap_or_default());
        self.reason = start..self.fields.text().len();
    }

    fn stop_buffering(&mut self) {
        self.is_unbuffered = true;
    }

    fn hide_trailers(&mut self, names: impl FnOnce() -> Option<Arc<[EditableName]>>) {
        // A body of known length has none.
        if matches!(self.framing, Framing::Chunked(_) | Framing::Opaque) {
            self.hidden_trailers = HiddenTrailers(names());
        }
    }
}

/// Writes a `Date` field with the current time.
pub(crate) fn write_date(out: &mut Vec<u8>) {
    line(out, b"Date", get_cached_date().as_bytes());
}

/// Writes `Connection`, which states whether the connection stays open.
pub(crate) fn write_connection(out: &mut Vec<u8>, keep: bool) {
    line(out, b"Connection", if keep { b"keep-alive" } else { b"close" });
}

static CLOSE: HeaderName = HeaderName::from_static("close");

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<(Response, usize)>, BadHead> {
        let mut response = Response::default();
        Ok(response.read(text.as_bytes(), &Method::GET)?.map(|length| (response, length)))
    }

    fn framing(text: &str) -> Framing {
        read(text).unwrap().unwrap().0.framing
    }

    #[test]
    fn the_end_of_a_body_is_where_the_rfc_has_it() {
        for (head, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Framing::Length(5)),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", Framing::CHUNKED),
            ("HTTP/1.1 200 OK\r\n\r\n", Framing::Opaque),
            ("HTTP/1.0 200 OK\r\n\r\n", Framing::Opaque),
            ("HTTP/1.1 200\r\n\r\n", Framing::Opaque),
            ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", Framing::NONE),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", Framing::NONE),
            ("HTTP/1.1 103 Early Hints\r\n\r\n", Framing::NONE),
            (
                "HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                Framing::NONE,
            ),
            ("HTTP/1.1 101 Switching Protocols\r\n\r\n", Framing::Opaque),
            ("HTTP/1.1 101 Switching Protocols\r\nContent-Length: 5\r\n\r\n", Framing::Opaque),
        ] {
            assert_eq!(framing(head), expected, "{head}");
        }
        let mut response = Response::default();
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(response.read(head, &Method::HEAD), Ok(Some(head.len())));
        assert_eq!(response.framing, Framing::NONE);
    }

    #[test]
    fn ambiguous_responses_are_refused() {
        for head in [
            "\r\nHTTP/1.1 200 OK\r\n\r\n",
            "\nHTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\n\r\n",
            "HTTP/1.1 200 OK\r\nA: 1\n\n",
            "HTTP/1.1 200 OK\nA: 1\r\nB: 2\n\n",
            "HTTP/1.1 200 OK\nA: 1\rB: 2\n\n",
            "HTTP/1.1 200 OK\nContent-Length: 5\n 5\n\n",
            "\nHTTP/1.1 200 OK\n\n",
            "HTTP/1.1 200 OK\r\n\n",
            "HTTP/1.1 200 OK\r\nA: 1\nB: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: 1\rB: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: 1\r\n folded\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA : 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nContent-Length: x\r\n\r\n",
            "HTTP/2.0 200 OK\r\n\r\n",
            &format!("HTTP/1.1 200 OK\r\nConnection: {}\r\n\r\n", "a,".repeat(1000)),
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/1.1 099 OK\r\n\r\n",
            "ICY 200 OK\r\n\r\n",
        ] {
            assert!(read(head).is_err(), "{head:?}");
        }
    }

    #[test]
    fn a_head_may_come_in_pieces_but_not_without_end() {
        let head = "HTTP/1.1 200 Fine\r\nA: 1\r\nContent-Length: 2\r\n\r\nok";
        for end in 0..head.len() - 2 {
            assert!(read(&head[..end]).unwrap().is_none(), "{end}");
        }
        let (mut response, length) = read(head).unwrap().unwrap();
        assert_eq!(&head[length..], "ok");
        let mut out = Vec::new();
        response.write(&mut out, true);
        let out = String::from_utf8(out).unwrap();
        assert!(out.starts_with("HTTP/1.1 200 Fine\r\nA: 1\r\nContent-Length: 2\r\nDate: "), "{out}");
        assert!(out.ends_with(" GMT\r\nConnection: keep-alive\r\n\r\n"), "{out}");
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(MAX_HEAD));
        assert!(read(&endless).is_err());
    }

    #[test]
    fn a_head_whose_lines_all_end_in_a_bare_line_feed_is_read() {
        let head = "HTTP/1.1 200 Fine\nA: 1\nContent-Length: 2\n\nok";
        for end in 0..head.len() - 2 {
            assert!(read(&head[..end]).unwrap().is_none(), "{end}");
        }
        let (mut response, length) = read(head).unwrap().unwrap();
        assert_eq!((&head[length..], response.framing), ("ok", Framing::Length(2)));
        let mut out = Vec::new();
        response.write(&mut out, true);
        let out = String::from_utf8(out).unwrap();
        assert!(out.starts_with("HTTP/1.1 200 Fine\r\nA: 1\r\nContent-Length: 2\r\nDate: "), "{out}");
    }

    #[test]
    fn the_head_before_another_protocol_frames_nothing() {
        let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\n";
        let (mut response, length) = read(head).unwrap().unwrap();
        assert!(length == head.len() && response.switches() && !response.is_interim());
        response.deliver(false);
        let mut out = Vec::new();
        response.write(&mut out, false);
        let out = String::from_utf8(out).unwrap();
        assert!(out.starts_with("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nDate: "), "{out}");
        assert!(out.ends_with(" GMT\r\n\r\n"), "{out}");
    }

    #[test]
    fn only_a_current_endpoint_that_does_not_say_close_goes_on() {
        for (head, keeps) in [
            ("HTTP/1.1 200 OK\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", false),
        ] {
            assert_eq!(read(head).unwrap().unwrap().0.keeps_alive, keeps, "{head}");
        }
    }
}
