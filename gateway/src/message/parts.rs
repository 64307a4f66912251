//! Named parts of a request head: parameters of its query, its cookies.

use super::fields::Fields;

/// The value of a parameter of the query.
pub(crate) fn argument<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// The value of a cookie.
pub(crate) fn cookie<'h>(headers: &'h impl Fields, name: &str) -> Option<&'h [u8]> {
    let crumbs = headers.lines(&http::header::COOKIE).flat_map(|line| line.split(|byte| *byte == b';'));
    crumbs.map(|crumb| crumb.trim_ascii()).find_map(|crumb| {
        let rest = crumb.strip_prefix(name.as_bytes())?;
        rest.strip_prefix(b"=")
    })
}
