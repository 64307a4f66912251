//! Values of the log format that come from the head of a request.

use http::header::HeaderName;
use sluice_config::LogEscape;

use super::super::escape::escape;
use super::record::protocol;
use crate::message::fields::Fields;
use crate::message::parts;
use crate::message::request_head::RequestHead;

/// A value from the head of a request.
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

/// The head of a request, with derived values for the log.
#[derive(Clone, Copy, Debug)]
pub struct LoggedHead<'a, F> {
    /// The head.
    pub head: &'a RequestHead<'a, F>,
    /// The normalised path, if there is one.
    pub path: Option<&'a str>,
    /// The scheme that the client used, from trusted fields or the connection.
    pub access_scheme: &'a [u8],
}

impl HeadValue {
    /// Appends the value; `None` if the request has none.
    pub(super) fn write<F: Fields>(
        &self,
        logged: &LoggedHead<'_, F>,
        mode: LogEscape,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let LoggedHead { head, path, access_scheme } = logged;
        let query = || head.target.split_once('?').map(|(_, query)| query);
        match self {
            Self::Args => escape(mode, query()?.as_bytes(), out),
            Self::IsArgs => out.extend_from_slice(query().map_or(b"", |_| b"?")),
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
            Self::Argument(name) => escape(mode, parts::argument(query()?, name)?.as_bytes(), out),
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
