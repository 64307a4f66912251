//! The context of a trace in header fields (W3C Trace Context).

use http::header::{HeaderName, HeaderValue};

use super::ids::{SpanId, TraceId, number};
use crate::message::fields::{Fields, FieldsMut};

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
static TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Length of `traceparent` in version 00.
const LENGTH: usize = 55;
/// Maximum length of `tracestate`; a longer one is dropped. At least 512 are to be passed on.
const LONGEST_STATE: usize = 2048;
/// Maximum number of entries of `tracestate`.
const MOST_ENTRIES: usize = 32;

/// The context of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceContext {
    pub(crate) trace: TraceId,
    /// The span of the request.
    pub(crate) span: SpanId,
    pub(crate) is_sampled: bool,
    /// Data of other systems about the trace, which is passed on unchanged.
    pub(crate) state: Option<HeaderValue>,
}

/// The context that a client has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IncomingContext {
    pub(crate) trace: TraceId,
    /// The span of the client.
    pub(crate) parent: SpanId,
    pub(crate) is_sampled: bool,
    pub(crate) state: Option<HeaderValue>,
}

impl IncomingContext {
    /// Reads the context of a request; `None` if there is none, or an invalid one.
    pub(crate) fn read(fields: &impl Fields) -> Option<Self> {
        let mut lines = fields.lines(&TRACEPARENT);
        let line = lines.next().filter(|_| lines.next().is_none())?;
        let (trace, parent, is_sampled) = parse(line)?;
        Some(Self { trace, parent, is_sampled, state: read_state(fields) })
    }
}

impl TraceContext {
    /// Writes the fields for an endpoint, in place of those of the client. `span` is the sender.
    pub(crate) fn write(&self, fields: &mut impl FieldsMut, span: SpanId) {
        if let Ok(value) = HeaderValue::from_bytes(&self.traceparent(span)) {
            fields.set(&TRACEPARENT, &value);
        }
        match &self.state {
            Some(state) => fields.set(&TRACESTATE, state),
            None => fields.remove(&TRACESTATE),
        }
    }

    /// Returns `traceparent` with this sender.
    pub(crate) fn traceparent(&self, span: SpanId) -> [u8; LENGTH] {
        let mut text = *b"00-................................-................-00";
        text[3..35].copy_from_slice(&self.trace.digits());
        text[36..52].copy_from_slice(&span.digits());
        if self.is_sampled {
            text[54] = b'1';
        }
        text
    }
}

/// Parses `traceparent`. Fields behind those of version 00 are permitted for later versions only.
fn parse(line: &[u8]) -> Option<(TraceId, SpanId, bool)> {
    let (known, rest) = line.split_at_checked(LENGTH)?;
    let version = number(&known[..2], 2).filter(|version| *version != 0xff)?;
    let is_delimited = [2, 35, 52].iter().all(|at| known[*at] == b'-');
    if !is_delimited || !(rest.is_empty() || version > 0 && rest[0] == b'-') {
        return None;
    }
    let flags = number(&known[53..], 2)?;
    Some((TraceId::parse(&known[3..35])?, SpanId::parse(&known[36..52])?, flags & 1 == 1))
}

/// Returns the lines of `tracestate` as one value; `None` if it is invalid or too long.
fn read_state(fields: &impl Fields) -> Option<HeaderValue> {
    let mut state = Vec::new();
    for line in fields.lines(&TRACESTATE) {
        if !state.is_empty() {
            state.push(b',');
        }
        state.extend_from_slice(line);
    }
    let entries =
        || state.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|entry| !entry.is_empty());
    let is_valid = state.len() <= LONGEST_STATE
        && (1..=MOST_ENTRIES).contains(&entries().count())
        && entries().all(is_entry);
    HeaderValue::from_bytes(&state).ok().filter(|_| is_valid)
}

/// Returns whether a text is `key=value` with permitted characters.
fn is_entry(entry: &[u8]) -> bool {
    let Some(at) = entry.iter().position(|byte| *byte == b'=') else { return false };
    let (key, value) = (&entry[..at], &entry[at + 1..]);
    let of_key = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    let of_value = |byte: &u8| matches!(byte, 0x20..=0x7e) && *byte != b'=';
    let lengths_fit = (1..=256).contains(&key.len()) && (1..=256).contains(&value.len());
    lengths_fit && !b"_-*/@".contains(&key[0]) && key.iter().all(of_key) && value.iter().all(of_value)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;

    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn read(lines: &[(&HeaderName, &str)]) -> Option<IncomingContext> {
        let mut fields = HeaderMap::new();
        for (name, value) in lines {
            fields.append(*name, HeaderValue::from_str(value).unwrap());
        }
        IncomingContext::read(&fields)
    }

    #[test]
    fn a_context_is_passed_on_as_it_was_read() {
        let incoming =
            read(&[(&TRACEPARENT, VALID), (&TRACESTATE, "a=1, b=2"), (&TRACESTATE, "c@d=x y")]).unwrap();
        let IncomingContext { trace, parent, is_sampled, state } = incoming;
        let context = TraceContext { trace, span: SpanId::random(), is_sampled, state };
        let mut fields = HeaderMap::new();
        fields.append(&TRACEPARENT, HeaderValue::from_static("of the client"));
        fields.append(&TRACESTATE, HeaderValue::from_static("of the client"));
        context.write(&mut fields, parent);
        assert_eq!(fields[&TRACEPARENT], VALID);
        assert_eq!(fields.get_all(&TRACEPARENT).iter().count(), 1);
        assert_eq!(fields[&TRACESTATE], "a=1, b=2,c@d=x y");
        let without = TraceContext { state: None, is_sampled: false, ..context };
        without.write(&mut fields, parent);
        assert!(fields[&TRACEPARENT].as_bytes().ends_with(b"-00") && !fields.contains_key(&TRACESTATE));
    }

    #[test]
    fn an_invalid_traceparent_is_ignored() {
        for bad in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-extra",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01extra",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
            " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(read(&[(&TRACEPARENT, bad)]), None, "{bad}");
        }
        assert_eq!(read(&[(&TRACEPARENT, VALID), (&TRACEPARENT, VALID)]), None, "which of both?");
        let later = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03-extra";
        assert!(read(&[(&TRACEPARENT, later)]).unwrap().is_sampled, "the known part of a later version");
    }

    #[test]
    fn an_invalid_tracestate_is_dropped_alone() {
        let many = vec!["a=1"; 33].join(",");
        let long = "a=".to_owned() + &"x".repeat(257);
        for bad in ["a", "=1", "A=1", "a=b=c", "a=1;,b", "_a=1", "a=", ",", &many, &long, "a=1,b"] {
            let incoming = read(&[(&TRACEPARENT, VALID), (&TRACESTATE, bad)]).unwrap();
            assert_eq!(incoming.state, None, "{bad}");
        }
        let gaps = read(&[(&TRACEPARENT, VALID), (&TRACESTATE, ",a=1,")]).unwrap();
        assert_eq!(gaps.state.unwrap(), ",a=1,");
    }

    proptest! {
        #[test]
        fn any_fields_are_read_without_a_panic(parent in "[ -~]{0,70}", state in "[ -~]{0,70}") {
            read(&[(&TRACEPARENT, &parent), (&TRACESTATE, &state)]);
        }

        #[test]
        fn what_is_written_is_valid(trace in 1_u128.., span in 1_u64.., is_sampled: bool) {
            let id = format!("00-{trace:032x}-{span:016x}-{:02x}", u8::from(is_sampled));
            let incoming = read(&[(&TRACEPARENT, &id)]).unwrap();
            let context = TraceContext {
                trace: incoming.trace,
                span: incoming.parent,
                is_sampled: incoming.is_sampled,
                state: None,
            };
            prop_assert_eq!(&context.traceparent(context.span), id.as_bytes());
        }
    }
}
