//! Variables whose values come from the head of the request.

use std::net::IpAddr;

use http::header::{HeaderName, InvalidHeaderName, UPGRADE};
use sluice_config::{LogEscape, Variable};

use super::escape::{self, escape};
use super::record::protocol;
use super::write_field;
use crate::message::field_list::FieldList;
use crate::message::fields::Fields;
use crate::message::parts;
use crate::message::request_head::{ReceivedLine, RequestHead};

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// A variable whose value comes from the head of the request.
#[derive(Clone, Debug)]
pub enum HeadValue {
    /// `$args`
    Args,
    /// `$best_http_host`
    BestHttpHost,
    /// `$connection_upgrade`
    ConnectionUpgrade,
    /// `$escaped_request_uri`
    EscapedRequestUri,
    /// `$proxy_add_x_forwarded_for`
    ForwardedFor,
    /// `$http_host`
    HttpHost,
    /// `$is_args`
    IsArgs,
    /// `$pass_access_scheme`
    PassAccessScheme,
    /// `$remote_user`
    RemoteUser,
    /// `$request`
    Request,
    /// `$request_uri`
    RequestUri,
    /// `$uri`
    Uri,
    /// `$http_NAME`
    Field(HeaderName),
    /// `$cookie_NAME`
    Cookie(Box<str>),
    /// `$arg_NAME`
    Argument(Box<str>),
}

/// The head of a request, and what was derived from it.
#[derive(Clone, Copy, Debug)]
pub struct HeadValues<'a> {
    /// The head.
    pub head: &'a RequestHead<'a>,
    /// The normalised path, if the target has one. Decoded bytes need not be UTF-8.
    pub path: Option<&'a [u8]>,
    /// The query in effect: that of the target, or that of a rewrite.
    pub query: Option<&'a str>,
    /// The request line of `$request` and `$request_uri`, if it is not that of the head.
    pub received: Option<ReceivedLine<'a>>,
    /// The client's scheme: that of a trusted proxy's field, or of the connection.
    pub access_scheme: &'a [u8],
    /// The client's host: that of a trusted proxy's field, or of the request.
    pub access_host: &'a str,
    /// The client's address.
    pub client: IpAddr,
    /// Reads the name of the user: from basic credentials, or from digest credentials where the
    /// rule checks them.
    pub user: fn(&FieldList) -> Option<Vec<u8>>,
}

/// Reads the name in basic credentials, whether they are checked or not, as nginx does.
pub(crate) fn basic_user(headers: &FieldList) -> Option<Vec<u8>> {
    parts::basic_credentials(headers).map(|(user, _)| user)
}

impl HeadValue {
    /// Compiles a variable; `None` if its value does not come from the head.
    pub(super) fn compile(variable: &Variable) -> Result<Option<Self>, InvalidHeaderName> {
        Ok(Some(match variable {
            Variable::Args => Self::Args,
            Variable::BestHttpHost => Self::BestHttpHost,
            Variable::ConnectionUpgrade => Self::ConnectionUpgrade,
            Variable::EscapedRequestUri => Self::EscapedRequestUri,
            Variable::ForwardedFor => Self::ForwardedFor,
            Variable::HttpHost => Self::HttpHost,
            Variable::IsArgs => Self::IsArgs,
            Variable::PassAccessScheme => Self::PassAccessScheme,
            Variable::RemoteUser => Self::RemoteUser,
            Variable::Request => Self::Request,
            Variable::RequestUri => Self::RequestUri,
            Variable::Uri => Self::Uri,
            Variable::Field(field) => Self::Field(HeaderName::from_bytes(field.as_bytes())?),
            Variable::Cookie(cookie) => Self::Cookie((**cookie).into()),
            Variable::Argument(argument) => Self::Argument((**argument).into()),
            _ => return Ok(None),
        }))
    }

    /// Appends the value; `None` if there is none.
    pub(crate) fn write(&self, values: &HeadValues<'_>, mode: LogEscape, out: &mut Vec<u8>) -> Option<()> {
        let HeadValues { head, path, query, received, access_scheme, access_host, client, user } = values;
        let line = received.unwrap_or(ReceivedLine { method: head.method, target: head.target });
        match self {
            Self::Args => escape(mode, query.filter(|query| !query.is_empty())?.as_bytes(), out),
            Self::BestHttpHost => escape(mode, access_host.as_bytes(), out),
            Self::ConnectionUpgrade => {
                let upgrades = head.headers.first(&UPGRADE).is_some_and(|value| !value.is_empty());
                out.extend_from_slice(if upgrades { b"upgrade" } else { b"" });
            }
            Self::EscapedRequestUri => percent_encode(line.target.as_bytes(), out),
            Self::ForwardedFor => {
                for line in head.headers.lines(&X_FORWARDED_FOR) {
                    escape(mode, line, out);
                    out.extend_from_slice(b", ");
                }
                escape::ip(out, *client);
            }
            Self::HttpHost if head.authority.is_empty() => return None,
            Self::HttpHost => escape(mode, head.authority.as_bytes(), out),
            // As in nginx, a question mark without a query is none.
            Self::IsArgs if query.is_none_or(str::is_empty) => {}
            Self::IsArgs => out.push(b'?'),
            Self::PassAccessScheme => escape(mode, access_scheme, out),
            Self::RemoteUser => escape(mode, &user(head.headers).filter(|user| !user.is_empty())?, out),
            Self::Request => {
                escape(mode, line.method.as_str().as_bytes(), out);
                out.push(b' ');
                escape(mode, line.target.as_bytes(), out);
                out.push(b' ');
                out.extend_from_slice(protocol(head.version));
            }
            Self::RequestUri => escape(mode, line.target.as_bytes(), out),
            Self::Uri => escape(mode, (*path)?, out),
            Self::Field(name) => return write_field(head.headers, name, mode, out),
            Self::Cookie(name) => escape(mode, parts::cookie(head.headers, name)?, out),
            Self::Argument(name) => escape(mode, parts::argument((*query)?, name)?.as_bytes(), out),
        }
        Some(())
    }
}

/// Escapes all characters that are not unreserved (RFC 3986 §2.3), as nginx does.
fn percent_encode(text: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(*byte),
            _ => {
                out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
            }
        }
    }
}
