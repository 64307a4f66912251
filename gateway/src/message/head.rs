//! Strict parser of HTTP/1 request heads (RFC 9112 §2 to §7), run before any other code reads them.
//!
//! Everything that two readers could interpret differently is rejected: bare line ends, folded
//! lines, spaces around field names, several hosts, several or invalid lengths, several credentials
//! or conditions, transfer codings other than `chunked`. Fields whose names are not served are
//! dropped here, once for all later code. The result is a head in origin form with exactly one
//! authority, so Pingora, the pipeline and the endpoint all read the same request.

mod error_page;
pub(crate) mod escaped_target;
pub(crate) mod http2;
mod own;
mod scanner;
pub(crate) mod websocket;

use std::mem::MaybeUninit;
use std::ops::Range;

use bytes::{BufMut, BytesMut};
use http::{Method, StatusCode, Version};

use crate::message::authority::is_authority;
use crate::message::digits::decimal;
use crate::message::edit::{EditableMethod, HeadMut, RequestMut, RequestTarget, is_path, is_target_text};
use crate::message::field_list::FieldList;
use crate::message::field_names::FieldNames;
use crate::message::framing::Framing;
use crate::message::hop_by_hop;

pub(crate) use scanner::{HeadLimits, Scanner};

/// Maximum number of fields in a head. Pingora has the same limit; checking it here returns our
/// error page.
pub(crate) const MAX_FIELDS: usize = 256;

/// Fields that a request has once at most besides those of [`Fields`], as in nginx
/// (`ngx_http_process_unique_header_line`): an authorisation service and an endpoint could read
/// different ones.
const UNIQUE: [&str; 8] = [
    "authorization",
    "content-range",
    "expect",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
];

/// nginx's status for a request without TLS on a port for TLS, which is sent as 400.
pub(crate) const PLAIN_HTTP: StatusCode = match StatusCode::from_u16(497) {
    Ok(status) => status,
    Err(_) => StatusCode::BAD_REQUEST,
};

/// Why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {reason}")]
pub(crate) struct HeadFault {
    /// The status of the response. 431 and nginx's 497 are sent as 400 with pages of their own, as
    /// in nginx.
    pub(crate) status: StatusCode,
    /// For the program log.
    pub(crate) reason: &'static str,
}

/// A parsed request head.
#[derive(Debug)]
pub(crate) struct Head {
    /// The protocol version.
    pub(crate) version: Version,
    /// The framing of the body.
    pub(crate) framing: Framing,
    /// The client waits for `100 Continue` before it sends the body (RFC 9110 §10.1.1).
    pub(crate) expects_continue: bool,
    /// The method.
    pub(crate) method: Method,
    /// Range of path and query in the text of the fields.
    target: Range<usize>,
    /// The client's request line, if an error page has replaced it.
    received: Option<Box<Received>>,
    /// Replacements made by policies for the endpoint.
    edited: Edited,
    /// The served fields, with the text of the head in origin form (RFC 9112 §3.2.1).
    pub(crate) fields: FieldList,
    /// The names that are served; they also apply to the trailers of the request.
    pub(crate) names: FieldNames,
    /// Bytes of the head as received.
    pub(crate) length: usize,
}

/// A request line that an error page has replaced.
#[derive(Debug)]
struct Received {
    method: Method,
    /// Range in the text of the fields.
    target: Range<usize>,
}

/// Replacements made by policies.
#[derive(Debug, Default)]
struct Edited {
    /// Range in the text of the fields.
    target: Option<Range<usize>>,
    method: Option<Method>,
}

impl HeadFault {
    const fn bad(reason: &'static str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, reason }
    }

    const REPEATED: Self = Self::bad("a field that may occur once is repeated");
    const TOO_LONG_LINE: Self =
        Self { status: StatusCode::URI_TOO_LONG, reason: "the request line is too long" };
    const TOO_LONG_FIELD: Self =
        Self { status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, reason: "a field line is too long" };
    const TOO_LARGE: Self =
        Self { status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, reason: "the head is too large" };

    /// The request came without TLS to a port for TLS.
    pub(crate) const PLAIN_HTTP: Self = Self { status: PLAIN_HTTP, reason: "plain HTTP on a port for TLS" };
}

impl Head {
    /// Parses a complete head.
    pub(crate) fn read(bytes: &[u8], names: FieldNames) -> Result<Self, HeadFault> {
        let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut []);
        match request.parse_with_uninit_headers(bytes, &mut fields) {
            Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
            Ok(_) => return Err(HeadFault::bad("the head does not end where its empty line is")),
            Err(httparse::Error::TooManyHeaders) => return Err(HeadFault::bad("too many fields")),
            Err(httparse::Error::Version) => return Err(HeadFault::bad("not HTTP/1.0 or HTTP/1.1")),
            Err(_) => return Err(HeadFault::bad("not an HTTP/1 request head")),
        }
        let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version)
        else {
            return Err(HeadFault::bad("not an HTTP/1 request line"));
        };
        if !ends_lines_strictly(bytes, request.headers) {
            return Err(HeadFault::bad("a line ends without a carriage return"));
        }
        let fields = Fields::read(request.headers)?;
        fields.check_host(minor)?;
        let rewrite = match Form::read(method, target)? {
            Form::Absolute { authority, rest } => Some((Some(authority), rest)),
            Form::Origin if request.headers.iter().any(|field| names.drops(field.name.as_bytes())) => {
                Some((None, target))
            }
            Form::Origin => None,
        };
        if let Some((authority, target)) = rewrite {
            let text = self::rewrite(method, authority, target, minor, request.headers, names);
            let head = Self::read(&text, FieldNames::ANY)?;
            return Ok(Self { length: bytes.len(), names, ..head });
        }
        let start = target.as_ptr().addr() - bytes.as_ptr().addr();
        let mut list = FieldList::default();
        list.read(bytes, request.headers);
        Ok(Self {
            version: if minor == 0 { Version::HTTP_10 } else { Version::HTTP_11 },
            framing: fields.framing(minor)?,
            expects_continue: fields.expects_continue,
            method: Method::from_bytes(method.as_bytes()).map_err(|_| HeadFault::bad("not a method"))?,
            target: start..start + target.len(),
            received: None,
            edited: Edited::default(),
            fields: list,
            names,
            length: bytes.len(),
        })
    }

    /// Returns path and query as received, or those of an error page.
    pub(crate) fn target(&self) -> &str {
        self.text_of(&self.target)
    }

    fn text_of(&self, range: &Range<usize>) -> &str {
        str::from_utf8(&self.fields.text()[range.clone()]).unwrap_or_default()
    }

    /// Returns path and query for the endpoint.
    pub(crate) fn outgoing_target(&self) -> &str {
        match &self.edited.target {
            Some(edited) => self.text_of(edited),
            None => self.target(),
        }
    }

    /// Returns the method for the endpoint.
    pub(crate) fn outgoing_method(&self) -> &Method {
        self.edited.method.as_ref().unwrap_or(&self.method)
    }

    /// Saves the head in its current state.
    pub(crate) fn keep(&mut self) {
        self.fields.keep();
    }

    /// Restores the saved head.
    pub(crate) fn restore(&mut self) {
        self.fields.restore();
        self.edited = Edited::default();
    }

    /// Returns the head in origin form. Valid until the head is changed.
    #[cfg(test)]
    pub(crate) fn text(&self) -> &[u8] {
        self.fields.text()
    }
}

impl HeadMut for Head {
    type Fields = FieldList;

    fn fields(&mut self) -> &mut FieldList {
        &mut self.fields
    }
}

impl RequestMut for Head {
    fn method(&self) -> &Method {
        &self.method
    }

    fn set_target(&mut self, target: &RequestTarget) {
        let start = self.fields.text().len();
        self.fields.push_text(target.as_str());
        self.edited.target = Some(start..start + target.as_str().len());
    }

    fn set_method(&mut self, method: &EditableMethod) {
        self.edited.method = Some(method.get().clone());
    }
}

/// The fields that the connection itself interprets.
#[derive(Default)]
struct Fields<'a> {
    host: Option<&'a [u8]>,
    content_length: Option<&'a [u8]>,
    transfer_encoding: Option<&'a [u8]>,
    expects_continue: bool,
    /// The fields of [`UNIQUE`] so far, a bit for each.
    unique: u8,
    /// Number of options in `Connection`.
    options: usize,
}

impl<'a> Fields<'a> {
    fn read(all: &[httparse::Header<'a>]) -> Result<Self, HeadFault> {
        let mut fields = Self::default();
        for field in all {
            let (slot, fault) = match field.name.len() {
                4 if field.name.eq_ignore_ascii_case("host") => (&mut fields.host, "several Host fields"),
                14 if field.name.eq_ignore_ascii_case("content-length") => {
                    (&mut fields.content_length, "several Content-Length fields")
                }
                17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                    (&mut fields.transfer_encoding, "several Transfer-Encoding fields")
                }
                6 if field.name.eq_ignore_ascii_case("expect") => {
                    fields.expects_continue |= field.value.eq_ignore_ascii_case(b"100-continue");
                    fields.note_unique(field.name)?;
                    continue;
                }
                10 if field.name.eq_ignore_ascii_case("connection") => {
                    fields.options += hop_by_hop::count_options(field.value);
                    continue;
                }
                // The lengths of the names in UNIQUE.
                8 | 13 | 17 | 19 => {
                    fields.note_unique(field.name)?;
                    continue;
                }
                _ => continue,
            };
            if slot.replace(field.value).is_some() {
                return Err(HeadFault::bad(fault));
            }
        }
        if fields.options > hop_by_hop::MAX_OPTIONS {
            return Err(HeadFault::bad("too many options in Connection"));
        }
        Ok(fields)
    }

    /// Rejects the second field of a name in [`UNIQUE`].
    fn note_unique(&mut self, name: &str) -> Result<(), HeadFault> {
        let Some(at) = UNIQUE.iter().position(|unique| unique.eq_ignore_ascii_case(name)) else {
            return Ok(());
        };
        let bit = 1 << at;
        if self.unique & bit != 0 {
            return Err(HeadFault::REPEATED);
        }
        self.unique |= bit;
        Ok(())
    }

    fn check_host(&self, minor: u8) -> Result<(), HeadFault> {
        match self.host {
            Some(host) if is_authority(host) => Ok(()),
            Some(_) => Err(HeadFault::bad("the Host field is not a host with an optional port")),
            None if minor == 0 => Ok(()),
            None => Err(HeadFault::bad("no Host field")),
        }
    }

    fn framing(&self, minor: u8) -> Result<Framing, HeadFault> {
        match (self.content_length, self.transfer_encoding) {
            (None, None) => Ok(Framing::NONE),
            (Some(_), Some(_)) => Err(HeadFault::bad("both Content-Length and Transfer-Encoding")),
            (None, Some(_)) if minor == 0 => Err(HeadFault::bad("Transfer-Encoding in HTTP/1.0")),
            (None, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::CHUNKED),
            (None, Some(_)) => Err(HeadFault::bad("a transfer coding other than chunked")),
            (Some(digits), None) => match content_length(digits) {
                Some(length) => Ok(Framing::Length(length)),
                None => Err(HeadFault::bad("Content-Length is not one number")),
            },
        }
    }
}

/// Parses a `Content-Length` (RFC 9110 §8.6).
pub(crate) fn content_length(digits: &[u8]) -> Option<u64> {
    // Programs disagree about sizes beyond a signed 64-bit number.
    decimal(digits).filter(|length| i64::try_from(*length).is_ok())
}

/// Returns whether every line of a parsed head ends with CR LF (RFC 9112 §2.2). `httparse` also
/// accepts a bare LF, and no other line end. A mixture could be read in two ways.
pub(crate) fn ends_lines_strictly(head: &[u8], fields: &[httparse::Header<'_>]) -> bool {
    let begins_line = |field: &httparse::Header<'_>| {
        let start = field.name.as_ptr().addr() - head.as_ptr().addr();
        head[..start].ends_with(b"\r\n")
    };
    head.ends_with(b"\r\n\r\n") && fields.iter().all(begins_line)
}

/// The form of a request target (RFC 9112 §3.2), except that of CONNECT.
enum Form<'a> {
    /// A path with an optional query, or `*`.
    Origin,
    /// A full URL.
    Absolute { authority: &'a str, rest: &'a str },
}

impl<'a> Form<'a> {
    fn read(method: &str, target: &'a str) -> Result<Self, HeadFault> {
        if let Err(fault) = check_target(method, target) {
            let Some(rest) = without_scheme(target).filter(|_| fault.status == StatusCode::BAD_REQUEST)
            else {
                return Err(fault);
            };
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            let (authority, rest) = rest.split_at(end);
            if !is_authority(authority.as_bytes()) || !is_target_text(rest) {
                return Err(HeadFault::bad("the target is not a URL"));
            }
            return Ok(Self::Absolute { authority, rest });
        }
        Ok(Self::Origin)
    }
}

/// Checks that the target is in origin or asterisk form and the method is served. CONNECT would
/// open a tunnel, and TRACE would expose to scripts the fields that their browser adds. Also
/// applies to `:path` of HTTP/2.
pub(crate) fn check_target(method: &str, target: &str) -> Result<(), HeadFault> {
    // Methods are case-sensitive, but some endpoints ignore their case.
    if ["CONNECT", "TRACE"].iter().any(|refused| method.eq_ignore_ascii_case(refused)) {
        return Err(HeadFault { status: StatusCode::METHOD_NOT_ALLOWED, reason: "CONNECT or TRACE" });
    }
    match is_path(target) || target == "*" && method == "OPTIONS" {
        true => Ok(()),
        false => Err(HeadFault::bad("the target is neither a path nor a URL")),
    }
}

fn without_scheme(target: &str) -> Option<&str> {
    ["http://", "https://"].into_iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    })
}

/// Rewrites a head without the fields that are not served and in origin form: an authority in the
/// target becomes the Host field (RFC 9112 §3.2.2).
fn rewrite(
    method: &str,
    authority: Option<&str>,
    target: &str,
    minor: u8,
    fields: &[httparse::Header<'_>],
    names: FieldNames,
) -> BytesMut {
    let path = match target.as_bytes().first() {
        None if method == "OPTIONS" => "*",
        None | Some(b'?') => "/",
        Some(_) => "",
    };
    let size: usize = fields.iter().map(|field| field.name.len() + field.value.len() + 4).sum();
    let host = authority.map_or(0, str::len);
    let mut head = BytesMut::with_capacity(size + method.len() + host + target.len() + 32);
    for part in [method, " ", path, target, " HTTP/1.", if minor == 0 { "0" } else { "1" }, "\r\n"] {
        head.put_slice(part.as_bytes());
    }
    if let Some(authority) = authority {
        for part in ["Host: ", authority, "\r\n"] {
            head.put_slice(part.as_bytes());
        }
    }
    let replaced = |name: &str| authority.is_some() && name.eq_ignore_ascii_case("host");
    for field in fields.iter().filter(|field| !replaced(field.name) && !names.drops(field.name.as_bytes())) {
        head.put_slice(field.name.as_bytes());
        head.put_slice(b": ");
        head.put_slice(field.value);
        head.put_slice(b"\r\n");
    }
    head.put_slice(b"\r\n");
    head
}

#[cfg(test)]
mod tests;
