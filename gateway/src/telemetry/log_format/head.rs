//! The variables of the access log that come from the request head.

use http::header::HeaderName;
use sluice_config::LogEscape;

use super::super::escape::escape;
use super::record::protocol;
use crate::message::fields::Fields;
use crate::message::parts;
use crate::message::request_head::RequestHead;

/// A variable that comes from the request head.
#[derive(Debug)]
pub(super) enum HeadValue {
    Args,
    IsArgs,
    PassAccessScheme,
    RemoteUser,
    Request,
    RequestUri,
    Uri,
    Field(HeaderName),
    Cookie(Box<str>),
    Argument(Box<str>),
}

/// The request head and what was derived from it for the log.
#[derive(Clone, Copy, Debug)]
pub struct LoggedHead<'a> {
    /// The head.
    pub head: &'a RequestHead<'a>,
    /// The normalised path, if the target has one.
    pub path: Option<&'a str>,
    /// The client's scheme: that of a trusted proxy's field, or of the connection.
    pub access_scheme: &'a [u8],
}

impl HeadValue {
    /// Writes the value; `None` if there is none.
    pub(super) fn write(&self, logged: &LoggedHead<'_>, mode: LogEscape, out: &mut Vec<u8>) -> Option<()> {
        let LoggedHead { head, path, access_scheme } = logged;
        match self {
            Self::Args => escape(mode, head.query()?.as_bytes(), out),
            Self::IsArgs => out.extend_from_slice(head.query().map_or(b"", |_| b"?")),
            Self::PassAccessScheme => escape(mode, access_scheme, out),
            Self::RemoteUser => {
                let (user, _) =
                    parts::basic_credentials(head.headers).filter(|(user, _)| !user.is_empty())?;
                escape(mode, &user, out);
            }
            Self::Request => {
                escape(mode, head.method.as_str().as_bytes(), out);
                out.push(b' ');
                escape(mode, head.target.as_bytes(), out);
                out.push(b' ');
                out.extend_from_slice(protocol(head.version));
            }
            Self::RequestUri => escape(mode, head.target.as_bytes(), out),
            Self::Uri => escape(mode, (*path)?.as_bytes(), out),
            Self::Field(name) => return field(head.headers, name, mode, out),
            Self::Cookie(name) => escape(mode, parts::cookie(head.headers, name)?, out),
            Self::Argument(name) => escape(mode, parts::argument(head.query()?, name)?.as_bytes(), out),
        }
        Some(())
    }
}

pub(super) fn field(
    fields: &impl Fields,
    name: &HeaderName,
    mode: LogEscape,
    out: &mut Vec<u8>,
) -> Option<()> {
    let mut lines = fields.lines(name);
    escape(mode, lines.next()?, out);
    for line in lines {
        out.extend_from_slice(b", ");
        escape(mode, line, out);
    }
    Some(())
}
