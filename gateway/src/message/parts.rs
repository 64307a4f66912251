//! Named parts of a request head: query parameters, cookies, basic credentials.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::header::{AUTHORIZATION, COOKIE};

use super::fields::Fields;

/// As lenient as nginx: padding is optional, unused bits are ignored.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns user and password of `Basic` credentials (RFC 7617 §2).
pub(crate) fn basic_credentials(headers: &impl Fields) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, credentials) = headers.first(&AUTHORIZATION)?.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let mut user = BASE64.decode(credentials.trim_ascii()).ok()?;
    let colon = user.iter().position(|byte| *byte == b':')?;
    let password = user.split_off(colon + 1);
    user.truncate(colon);
    Some((user, password))
}

/// Returns the value of the first query parameter of a name in any case, as in nginx's
/// `$arg_<name>`.
pub(crate) fn argument<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

/// Returns all cookies (RFC 6265 §5.4) as name and value without surrounding spaces, in order, from
/// any number of `Cookie` fields (HTTP/2 splits them, RFC 9113 §8.2.3). Skips parts that are not
/// pairs.
pub(crate) fn cookies(headers: &impl Fields) -> impl Iterator<Item = (&[u8], &[u8])> {
    let parts = headers.lines(&COOKIE).flat_map(|line| line.split(|byte| *byte == b';'));
    parts.filter_map(|part| {
        let equals = part.iter().position(|byte| *byte == b'=')?;
        Some((part[..equals].trim_ascii(), part[equals + 1..].trim_ascii()))
    })
}

/// Returns the value of the first cookie of a name in any case, as in nginx's `$cookie_<name>`
/// (`ngx_http_parse_multi_header_lines`): a name begins the field or follows a `;` or `,`, and a
/// value ends with the field or at a `;`.
pub(crate) fn cookie<'h>(headers: &'h impl Fields, name: &str) -> Option<&'h [u8]> {
    headers.lines(&COOKIE).find_map(|line| cookie_in(line, name.as_bytes()))
}

fn cookie_in<'l>(mut line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    loop {
        if let Some((start, rest)) = line.split_at_checked(name.len())
            && start.eq_ignore_ascii_case(name)
        {
            let (next, rest) = without_blanks(rest).split_first()?;
            if *next == b'=' {
                return without_blanks(rest).split(|byte| *byte == b';').next();
            }
            // Also if it is a separator.
            line = rest;
        }
        let end = memchr::memchr2(b';', b',', line)?;
        line = without_blanks(&line[end + 1..]);
    }
}

fn without_blanks(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|byte| **byte == b' ').count()..]
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn cookies_are_read_from_all_fields_whatever_their_spacing() {
        let lines = ["a=1; Route = x=y ;junk", ";=; b=", "route=z"];
        let headers: HeaderMap = lines.iter().map(|line| (COOKIE, line.parse().unwrap())).collect();
        let expected = [("a", "1"), ("Route", "x=y"), ("", ""), ("b", ""), ("route", "z")];
        let expected = expected.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        assert_eq!(cookies(&headers).collect::<Vec<_>>(), expected);
        assert_eq!(cookie(&headers, "route"), Some(&b"x=y "[..]), "with the blank, as in nginx");
        assert_eq!(cookie(&headers, "b"), Some(&b""[..]));
        assert_eq!(cookie(&headers, "rout"), None);
    }

    #[test]
    fn a_cookie_behind_a_comma_is_found_as_in_nginx() {
        for (line, expected) in [
            ("x=1,debug=1", Some("1")),
            ("x=1, Debug = 1,y=2; z=3", Some("1,y=2")),
            ("x=debug=1", None),
            ("debug,debug=2", None),
            ("debug ;a,debug=2", Some("2")),
            ("debugs=1;debug=", Some("")),
            ("debug", None),
            ("a b debug=1", None),
            (" debug=1", None),
            ("x; debug=1;debug=2", Some("1")),
        ] {
            let headers = HeaderMap::from_iter([(COOKIE, line.parse().unwrap())]);
            assert_eq!(cookie(&headers, "debug"), expected.map(str::as_bytes), "{line}");
        }
    }

    #[test]
    fn parameters_are_found_in_any_case() {
        let query = "a=1&DEBUG=x=y&debug=2&flag";
        assert_eq!(argument(query, "debug"), Some("x=y"));
        assert_eq!(argument(query, "A"), Some("1"));
        assert_eq!([argument(query, "deb"), argument(query, "flag")], [None; 2]);
    }

    #[test]
    fn credentials_without_user_and_password_are_none() {
        let read = |value: &str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
            basic_credentials(&headers)
        };
        for value in ["Bearer abc", "Basic", "Basic ???", "Basic bm9jb2xvbg=="] {
            assert_eq!(read(value), None, "{value}");
        }
        for value in ["Basic YW5uOng6eQ==", "basic  YW5uOng6eQ"] {
            assert_eq!(read(value), Some((b"ann".to_vec(), b"x:y".to_vec())), "{value}");
        }
    }
}
