//! Query parameters for matching.

use std::borrow::Cow;

use super::path::hex;

/// Returns the first value of a parameter.
pub(super) fn first_value<'q>(query: &'q str, name: &str) -> Option<Cow<'q, [u8]>> {
    values(query, name).next()
}

/// Returns the values of a parameter, decoded like a form (`application/x-www-form-urlencoded`:
/// percent and plus). A parameter without `=` has an empty value. Malformed percent sequences are
/// kept.
pub(crate) fn values<'q>(query: &'q str, name: &str) -> impl Iterator<Item = Cow<'q, [u8]>> {
    query.split('&').filter(|part| !part.is_empty()).filter_map(move |part| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        (*decode(key) == *name.as_bytes()).then(|| decode(value))
    })
}

fn decode(text: &str) -> Cow<'_, [u8]> {
    let bytes = text.as_bytes();
    if !bytes.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(bytes);
    }
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        let byte;
        (byte, rest) = match (first, tail) {
            (b'+', tail) => (b' ', tail),
            (b'%', [high, low, after @ ..]) => match (hex(*high), hex(*low)) {
                (Ok(high), Ok(low)) => (high << 4 | low, after),
                _ => (b'%', tail),
            },
            (plain, tail) => (*plain, tail),
        };
        decoded.push(byte);
    }
    Cow::Owned(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_counts_and_is_decoded() {
        let value = |query, name| first_value(query, name).map(|v| String::from_utf8(v.to_vec()).unwrap());
        assert_eq!(value("a=1&b=2&a=3", "a").as_deref(), Some("1"));
        assert_eq!(value("a=1", "A"), None);
        assert_eq!(value("&&a&b=", "a").as_deref(), Some(""));
        assert_eq!(value("a+b=%41%zz%4", "a b").as_deref(), Some("A%zz%4"));
        assert_eq!(value("x=a=b", "x").as_deref(), Some("a=b"));
        assert_eq!(value("", "a"), None);
    }
}
