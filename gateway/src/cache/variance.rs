//! The selecting fields of a request (RFC 9111 §4.1).

use http::HeaderMap;
use http::header::{HeaderName, InvalidHeaderName, VARY};
use pingora_cache::VarianceBuilder;
use pingora_cache::key::HashBinary;

use crate::message::fields::Fields;

/// Returns a hash of the fields that `Vary` of the response names, as the request has them; `None`
/// if it names none. `request` returns the fields that the endpoint gets: the gateway may set some
/// of them from the identity of a client.
pub(crate) fn variance<'r, F: Fields + 'r>(
    response: &HeaderMap,
    request: impl FnOnce() -> &'r F,
) -> Option<HashBinary> {
    let names: Vec<HeaderName> = vary_names(response).flatten().collect();
    if names.is_empty() {
        return None;
    }
    let request = request();
    let mut builder = VarianceBuilder::new();
    for name in &names {
        let lines: Vec<&[u8]> = request.lines(name).map(<[u8]>::trim_ascii).collect();
        // Several lines are the same as one with commas (RFC 9110 §5.3). A field without a value
        // differs from an absent one.
        let value = match lines.is_empty() {
            true => Vec::new(),
            false => [b"=", &*lines.join(&b", "[..])].concat(),
        };
        builder.add_owned_value(name.as_str(), value);
    }
    builder.finalize()
}

/// Reads the names in `Vary`; `*` is one. An element that is not a name is an error.
pub(super) fn vary_names(
    response: &HeaderMap,
) -> impl Iterator<Item = Result<HeaderName, InvalidHeaderName>> {
    let elements = response.lines(&VARY).flat_map(|line| line.split(|byte| *byte == b','));
    let elements = elements.map(<[u8]>::trim_ascii).filter(|element| !element.is_empty());
    elements.map(HeaderName::from_bytes)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn fields(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        fields.iter().map(pair).collect()
    }

    #[test]
    fn only_the_named_fields_count() {
        let of = |vary: &'static str, request: &[(&'static str, &'static str)]| {
            variance(&fields(&[("vary", vary)]), || Box::leak(Box::new(fields(request))))
        };
        assert_eq!(variance(&HeaderMap::new(), || -> &HeaderMap { panic!("nothing is read") }), None);
        let german = of("Accept-Language, X-Other", &[("accept-language", "de"), ("x-more", "1")]);
        assert!(german.is_some());
        assert_eq!(german, of("x-other,accept-language", &[("accept-language", " de ")]), "order and spaces");
        assert_ne!(german, of("Accept-Language, X-Other", &[("accept-language", "fr")]));
        assert_ne!(german, of("Accept-Language, X-Other", &[]));
        assert_ne!(of("X-A", &[("x-a", "")]), of("X-A", &[]), "an empty field is no absent one");
        let lines = of("X-A", &[("x-a", "1"), ("x-a", "2")]);
        assert_eq!(lines, of("X-A", &[("x-a", "1, 2")]));
        assert_ne!(of("X-A, X-B", &[("x-a", "1")]), of("X-A, X-B", &[("x-b", "1")]));
    }
}
