//! Removes stored responses: `DELETE /cache` on the admin listener.
//!
//! The listener is on loopback, so a caller needs access to the Pod. The method is DELETE because a
//! page in a browser on the same machine may send GET and POST anywhere without permission; for
//! DELETE its browser asks for permission first, which is never given. Requests that name another
//! host or come from another origin are refused as for all paths ([`own_names`](super::own_names)).

use http::StatusCode;
use serde_json::json;

use super::pages::Document;
use crate::cache::{Purge, PurgedPath, ResponseCache};
use crate::router::{host_of, normalise, query_values};

/// The path of the document.
pub(super) const PATH: &str = "/cache";

const USAGE: &str = "give host=NAME, path=PATH (or path=PREFIX*), or both; or all=true\n";

/// Removes the responses that a query names.
pub(super) fn purge(cache: &ResponseCache, query: &str) -> Document {
    let Some(purge) = read(query) else { return Document::text(StatusCode::BAD_REQUEST, USAGE) };
    let removed = cache.purge(&purge);
    tracing::info!(removed, query, "stored responses were removed at the admin listener");
    let body = json!({ "removed": removed });
    Document { content_type: "application/json", ..Document::text(StatusCode::OK, format!("{body}\n")) }
}

/// Reads a query; `None` if it does not name responses.
fn read(query: &str) -> Option<Purge> {
    let names = ["all", "host", "path"];
    let is_known = |part: &str| names.contains(&part.split('=').next().unwrap_or_default());
    if !query.split('&').all(is_known) {
        return None;
    }
    let text = |name: &str| {
        let mut values = query_values(query, name);
        let value = values.next().map(|value| String::from_utf8(value.into_owned()).ok());
        // Given twice, one of them would be overlooked.
        if values.next().is_some() { None } else { Some(value) }
    };
    let [all, host, path] = names.map(text);
    match (all?, host?, path?) {
        (Some(all), None, None) => (all? == "true").then_some(Purge::All),
        (Some(_), ..) | (None, None, None) => None,
        (None, host, path) => {
            let host = host.map(|host| read_host(&host?)).map_or(Some(None), |host| Some(Some(host?)))?;
            let path = path.map(|path| read_path(&path?)).map_or(Some(None), |path| Some(Some(path?)))?;
            Some(Purge::Of { host, path })
        }
    }
}

fn read_host(text: &str) -> Option<Box<str>> {
    let host = host_of(text);
    (!host.is_empty()).then(|| (&*host).into())
}

fn read_path(text: &str) -> Option<PurgedPath> {
    if !text.starts_with('/') {
        return None;
    }
    match text.strip_suffix('*') {
        Some(prefix) => Some(PurgedPath::Prefix(prefix.into())),
        None => Some(PurgedPath::Exact((&*normalise(text).ok()?).into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_host_a_path_both_or_all() {
        let of = |host: Option<&str>, path: Option<PurgedPath>| {
            Some(Purge::Of { host: host.map(Into::into), path })
        };
        let exact = |path: &str| Some(PurgedPath::Exact(path.into()));
        for (query, expected) in [
            ("all=true", Some(Purge::All)),
            ("host=Shop.Example", of(Some("shop.example"), None)),
            ("host=shop.example:8080", of(Some("shop.example"), None)),
            ("path=/img/*", of(None, Some(PurgedPath::Prefix("/img/".into())))),
            ("host=a.example&path=/a%2520b", of(Some("a.example"), exact("/a b"))),
            ("path=%2Fa&host=a.example", of(Some("a.example"), exact("/a"))),
        ] {
            assert_eq!(read(query), expected, "{query}");
        }
        for query in [
            "",
            "all=1",
            "all",
            "all=true&host=a",
            "host=&path=/",
            "path=",
            "path=img",
            "hosts=a",
            "host=a&host=b",
        ] {
            assert_eq!(read(query), None, "{query:?} removes nothing");
        }
    }
}
