//! The request head: read for the pipeline, written for an endpoint.

use std::mem::MaybeUninit;
use std::ops::Range;

use http::header::{CONNECTION, HOST, HeaderName};
use http::{Method, StatusCode, Version};

use super::fields::{FieldList, line};
use crate::connection::head::{Fault, MAX_FIELDS};
use crate::pipeline::{Fields, RequestHead};
use crate::policy::hop_by_hop;

/// A request head that has passed the checks of the connection.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) version: Version,
    target: Range<usize>,
    /// Octets of the head as it was sent.
    length: usize,
    /// Octets of the head in origin form.
    text: usize,
    pub(super) fields: FieldList,
}

impl Request {
    /// Reads a head of so many octets as it was sent.
    pub(super) fn read(bytes: &[u8], length: usize) -> Result<Self, Fault> {
        let mut fields = FieldList::default();
        let (method, target, version) = parse(bytes, &mut fields)?;
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| BAD)?;
        Ok(Self { method, version, target, length, text: bytes.len(), fields })
    }

    /// As it was before the pipeline changed it, for another try.
    pub(super) fn restore(&mut self) {
        let text = self.fields.text()[..self.text].to_vec();
        // It has been read before.
        let _ = parse(&text, &mut self.fields);
    }

    /// Path and query.
    fn target(&self) -> &str {
        str::from_utf8(&self.fields.text()[self.target.clone()]).unwrap_or_default()
    }

    /// What the pipeline sees. Hosts are checked to be ASCII.
    pub(super) fn head(&self) -> RequestHead<'_, FieldList> {
        RequestHead {
            method: &self.method,
            target: self.target(),
            authority: self
                .fields
                .first(&HOST)
                .and_then(|host| str::from_utf8(host).ok())
                .unwrap_or_default(),
            version: self.version,
            headers: &self.fields,
            length: self.length,
        }
    }

    /// Whether the client goes on with this connection (RFC 9112 §9.3).
    pub(super) fn keeps_alive(&self) -> bool {
        match self.version {
            Version::HTTP_10 => self.connection_says(&KEEP_ALIVE) && !self.connection_says(&CLOSE),
            _ => !self.connection_says(&CLOSE),
        }
    }

    /// Whether it asks for another protocol.
    pub(super) fn asks_for_upgrade(&self) -> bool {
        self.version == Version::HTTP_11 && hop_by_hop::asks_for_upgrade(&self.fields)
    }

    fn connection_says(&self, option: &HeaderName) -> bool {
        hop_by_hop::names(&self.fields, option)
    }

    /// Writes the head for an endpoint. `last` says that the connection to it is not kept.
    pub(super) fn write(&self, out: &mut Vec<u8>, last: bool) {
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.push(b' ');
        out.extend_from_slice(&self.fields.text()[self.target.clone()]);
        out.extend_from_slice(b" HTTP/1.1\r\n");
        self.fields.write(out);
        if last {
            line(out, CONNECTION.as_str().as_bytes(), b"close");
        }
        out.extend_from_slice(b"\r\n");
    }
}

static CLOSE: HeaderName = HeaderName::from_static("close");
static KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

const BAD: Fault = Fault { status: StatusCode::BAD_REQUEST, reason: "refused behind our own checks" };

/// The head's parts; [`Head::read`] has judged them.
fn parse<'h>(bytes: &'h [u8], list: &mut FieldList) -> Result<(&'h str, Range<usize>, Version), Fault> {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut []);
    request.parse_with_uninit_headers(bytes, &mut fields).map_err(|_| BAD)?;
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
        return Err(BAD);
    };
    list.read(bytes, request.headers);
    let start = target.as_ptr().addr() - bytes.as_ptr().addr();
    let version = if minor == 0 { Version::HTTP_10 } else { Version::HTTP_11 };
    Ok((method, start..start + target.len(), version))
}
