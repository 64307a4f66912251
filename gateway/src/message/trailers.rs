//! The trailers of a body that are passed on (RFC 9110 §6.5).
//!
//! Trailers arrive after all checks of the head, and some readers merge them into the head's
//! fields. Trailers that have a meaning only in a head, or that would identify the client to an
//! endpoint, are therefore dropped. The message and its other trailers pass. The names of request
//! trailers follow the same rule as those of the head's fields. The trailers of a response have no
//! field that clients may not see.

use std::sync::{Arc, LazyLock};

use crate::message::accel;
use crate::message::edit::EditableName;
use crate::message::field_names::FieldNames;
use crate::message::framing::is_token;

/// Trailers about framing, routing, authentication, content format or the handling of the request
/// (RFC 9110 §6.5.1), and fields of connections (§7.6.1). Lowercase and sorted.
const DROPPED: [&str; 46] = [
    "age",
    "authorization",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "early-data",
    "expect",
    "expires",
    "forwarded",
    "host",
    "http2-settings",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "location",
    "max-forwards",
    "pragma",
    "proxy",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "remote-user",
    "retry-after",
    "set-cookie",
    "strict-transport-security",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "x-real-ip",
    "x-request-id",
    "x-scheme",
    "x-sluice-hops",
];
/// Prefixes of trailers that would identify the client to an endpoint.
const DROPPED_PREFIXES: [&str; 4] = ["ssl-client-", "x-auth-", "x-forwarded-", "x-original-"];

/// Which trailers of a message pass.
pub(crate) trait TrailerFilter {
    /// Returns whether a trailer of this name passes.
    fn passes(&self, name: &[u8]) -> bool;
}

/// The trailers of requests.
impl TrailerFilter for FieldNames {
    fn passes(&self, name: &[u8]) -> bool {
        passes(name, *self)
    }
}

/// Names of trailers that clients do not see in the response of an endpoint; `None`: the standard
/// ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct HiddenTrailers(pub(crate) Option<Arc<[EditableName]>>);

/// The names that are hidden unless settings or rules change them.
static STANDARD: LazyLock<Box<[EditableName]>> = LazyLock::new(|| {
    let server = EditableName::from_static("server");
    accel::HIDDEN.iter().cloned().chain([server]).collect()
});

impl HiddenTrailers {
    /// Returns the names.
    pub(crate) fn names(&self) -> &[EditableName] {
        self.0.as_deref().unwrap_or(&STANDARD)
    }
}

/// The trailers of responses.
impl TrailerFilter for HiddenTrailers {
    fn passes(&self, name: &[u8]) -> bool {
        passes(name, FieldNames::ANY)
            && !self.names().iter().any(|hidden| name.eq_ignore_ascii_case(hidden.get().as_str().as_bytes()))
    }
}

/// Returns whether a trailer may be passed on in any message.
pub(crate) fn passes(name: &[u8], names: FieldNames) -> bool {
    if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) || names.drops(name) {
        return false;
    }
    // Readers that treat underscores as hyphens in a head do so in trailers too.
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    let name: Vec<u8> = name.iter().map(plain).collect();
    DROPPED.binary_search_by(|dropped| dropped.as_bytes().cmp(&name)).is_err()
        && !DROPPED_PREFIXES.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
}

/// The trailer section of an HTTP/1 body. It is collected completely before it is filtered.
/// [`Framing`](super::framing::Framing) limits its length and checks its grammar.
#[derive(Debug, Default)]
pub(crate) struct Section(Vec<u8>);

impl Section {
    /// Appends the next byte.
    pub(crate) fn push(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// Returns whether there are no trailers: the body ends with its last chunk.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the trailers that pass.
    pub(crate) fn fields(&self, filter: &impl TrailerFilter) -> impl Iterator<Item = (&[u8], &[u8])> {
        let fields = self.0.split(|byte| *byte == b'\n').filter_map(|line| {
            let colon = memchr::memchr(b':', line)?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        });
        fields.filter(|(name, _)| filter.passes(name))
    }

    /// Writes the trailers that pass and the empty line that ends the section.
    pub(crate) fn write(&self, filter: &impl TrailerFilter, out: &mut Vec<u8>) {
        for (name, value) in self.fields(filter) {
            super::field_list::line(out, name, value);
        }
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::framing::FramedBytes;
    use crate::message::framing::Framing;

    #[test]
    fn the_list_is_in_order() {
        assert!(DROPPED.is_sorted());
    }

    #[test]
    fn trailers_that_belong_in_a_head_are_dropped_in_any_case() {
        for name in
            ["Content-Length", "HOST", "x-Forwarded-For", "X-Original-URI", "Via", "X-Sluice-Hops", "te"]
        {
            assert!(!passes(name.as_bytes(), FieldNames::ANY), "{name}");
        }
        for name in ["X_Forwarded_For", "x_real-ip", "a b", "", "a\"b"] {
            assert!(!passes(name.as_bytes(), FieldNames::ANY), "{name}");
        }
        for name in ["grpc-status", "Server-Timing", "ETag", "Digest", "x-sum"] {
            assert!(passes(name.as_bytes(), FieldNames::PLAIN), "{name}");
        }
        assert!(passes(b"checksum_md5.bin", FieldNames::ANY), "metadata of gRPC");
        assert!(!passes(b"checksum_md5.bin", FieldNames::PLAIN));
    }

    #[test]
    fn trailers_cannot_carry_identity_fields_of_the_gateway() {
        for name in [
            "ssl-client-verify",
            "SSL-Client-Subject-DN",
            "ssl_client_issuer_dn",
            "ssl-client-cert",
            "Early-Data",
            "remote-user",
            "REMOTE_USER",
        ] {
            assert!(!passes(name.as_bytes(), FieldNames::ANY), "{name}");
        }
    }

    #[test]
    fn names_of_hidden_fields_are_hidden_in_trailers() {
        let standard = HiddenTrailers::default();
        for name in ["Server", "x-accel-redirect", "X-Accel-Expires", "x-pad", "Content-Length"] {
            assert!(!standard.passes(name.as_bytes()), "{name}");
        }
        for name in ["grpc-status", "grpc-message", "Server-Timing", "x-secret"] {
            assert!(standard.passes(name.as_bytes()), "{name}");
        }
        let own = HiddenTrailers(Some([EditableName::from_static("x-secret")].into()));
        assert!(!own.passes(b"X-Secret") && !own.passes(b"te") && own.passes(b"server"));
    }

    proptest! {
        /// However the section is split: the body stays the same, exactly the passing trailers are
        /// written, and the next reader finds a complete body.
        #[test]
        fn a_body_stays_one_and_loses_only_what_does_not_pass(
            trailers in prop::collection::vec(
                ("(x-sum|x_sum|Host|content-length|X-Forwarded-For|via|grpc-status|a~b)", "[ -~\t]{0,12}"),
                0..6,
            ),
            cuts in prop::collection::vec(1usize..9, 1..60),
            rest in "[a-z]{0,5}",
        ) {
            let mut stream = b"3\r\nabc\r\n0\r\n".to_vec();
            for (name, value) in &trailers {
                crate::message::field_list::line(&mut stream, name.as_bytes(), value.as_bytes());
            }
            stream.extend(b"\r\n");
            let end = stream.len();
            stream.extend(rest.bytes());
            let (mut framing, mut section, mut out) = (Framing::CHUNKED, Section::default(), Vec::new());
            let (mut at, mut cuts) = (0, cuts.iter().cycle());
            while !framing.is_done() {
                let until = (at + cuts.next().unwrap()).min(stream.len());
                let FramedBytes { whole, raw } =
                    framing.read_all(&stream[at..until], |_| (), |byte| section.push(byte)).unwrap();
                out.extend_from_slice(&stream[at..at + raw]);
                at += whole;
            }
            prop_assert_eq!(at, end);
            prop_assert_eq!(section.is_empty(), trailers.is_empty());
            if !section.is_empty() {
                section.write(&FieldNames::PLAIN, &mut out);
            }
            let mut expected = b"3\r\nabc\r\n0\r\n".to_vec();
            for (name, value) in &trailers {
                if ["x-sum", "grpc-status"].contains(&name.as_str()) {
                    crate::message::field_list::line(&mut expected, name.as_bytes(), value.trim().as_bytes());
                }
            }
            expected.extend(b"\r\n");
            prop_assert_eq!(String::from_utf8(out.clone()), String::from_utf8(expected));
            prop_assert_eq!({ Framing::CHUNKED }.take(&out), Ok(out.len()));
        }
    }
}
