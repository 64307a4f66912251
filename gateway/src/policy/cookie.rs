//! Lookup of one cookie of a request (RFC 6265 §5.4). It is lenient: it accepts any spacing, any
//! number of `Cookie` fields (HTTP/2 splits them, RFC 9113 §8.2.3) and quoted values, and skips
//! malformed pairs.

use http::header::COOKIE;

use crate::message::fields::Fields;

/// Returns the first non-empty value of the cookie `name`.
pub fn find<'h>(headers: &'h impl Fields, name: &str) -> Option<&'h [u8]> {
    headers
        .lines(&COOKIE)
        .flat_map(|line| line.split(|byte| *byte == b';'))
        .filter_map(|pair| {
            let equals = pair.iter().position(|byte| *byte == b'=')?;
            let (key, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
            (key == name.as_bytes()).then(|| unquoted(value))
        })
        .find(|value| !value.is_empty())
}

fn unquoted(value: &[u8]) -> &[u8] {
    match value {
        [b'"', inner @ .., b'"'] => inner,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn found(lines: &[&str], name: &str) -> Option<String> {
        let headers: HeaderMap = lines.iter().map(|line| (COOKIE, line.parse().unwrap())).collect();
        find(&headers, name).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    #[test]
    fn a_cookie_is_found_in_any_shape() {
        assert_eq!(found(&["a=1; route=x.1|f00; b=2"], "route").unwrap(), "x.1|f00");
        assert_eq!(found(&["a=1;route=x"], "route").unwrap(), "x");
        assert_eq!(found(&["a=1", " route = \"x=y\" ;"], "route").unwrap(), "x=y");
        assert_eq!(found(&["junk; ;=; route=; route=z"], "route").unwrap(), "z");
        assert_eq!(found(&["route=\""], "route").unwrap(), "\"");
    }

    #[test]
    fn other_names_do_not_count() {
        assert_eq!(found(&["Route=1; xroute=2; route2=3"], "route"), None);
        assert_eq!(found(&[], "route"), None);
    }
}
