//! The result of a gRPC call, in the trailers of its response or, without a message, in its head.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use sluice_config::text::one_line;

/// Maximum length of a message in bytes.
const LONGEST_MESSAGE: usize = 400;

static STATUS: HeaderName = HeaderName::from_static("grpc-status");
static MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The result of a call. Both parts are shortened, and have no line breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GrpcStatus {
    /// The number of the status, if the peer sends one.
    pub(crate) code: String,
    /// What the peer says about it.
    pub(crate) message: String,
}

impl GrpcStatus {
    /// Returns the status in these fields, if there is one.
    pub(crate) fn of(fields: &HeaderMap) -> Option<Self> {
        let code = fields.get(&STATUS)?;
        let message = fields.get(&MESSAGE).map(HeaderValue::as_bytes).unwrap_or_default();
        Some(Self {
            code: bounded(&String::from_utf8_lossy(code.as_bytes())),
            message: bounded(&decoded(message)),
        })
    }

    /// Returns whether the call succeeded.
    pub(crate) fn is_ok(&self) -> bool {
        self.code == "0"
    }
}

fn bounded(text: &str) -> String {
    one_line(text, LONGEST_MESSAGE).into_owned()
}

/// Removes the percent-encoding of a message.
fn decoded(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        let code = behind.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        out.push(code.unwrap_or(*first));
        rest = if code.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(fields: &[(&'static str, &'static str)]) -> Option<(String, String)> {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        GrpcStatus::of(&fields.iter().map(pair).collect()).map(|status| (status.code, status.message))
    }

    #[test]
    fn the_message_of_a_status_is_decoded() {
        let is = |code: &str, message: &str| Some((code.to_owned(), message.to_owned()));
        assert_eq!(status(&[("grpc-message", "x")]), None);
        assert_eq!(status(&[("grpc-status", "0")]), is("0", ""));
        for (text, message) in [("no%20rule", "no rule"), ("100%", "100%"), ("%zz%41", "%zzA"), ("%", "%")] {
            let fields = [("grpc-status", "3"), ("grpc-message", text)];
            assert_eq!(status(&fields), is("3", message), "{text}");
        }
        let lines = status(&[("grpc-status", "3"), ("grpc-message", "a%0Ab")]).unwrap().1;
        assert!(!lines.contains('\n'), "{lines}");
    }
}
