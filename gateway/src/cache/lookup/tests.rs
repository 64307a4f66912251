//! Only responses that can be sent as they are stored are found here.

use std::time::Duration;

use http::Method;
use http::header::HeaderName;
use pingora_cache::CacheMeta;
use pingora_http::ResponseHeader;

use super::*;
use crate::cache::key::CachedUrl;
use crate::cache::response_cache::ResponseCache;
use crate::cache::store::NewResponse;
use crate::io::budget::Budget;
use crate::message::field_names::FieldNames;

const BODY: &[u8] = b"0123456789";
const OLD: HashBinary = [1; 16];
const NEW: HashBinary = [2; 16];

/// A response that is stored.
struct Stored {
    status: u16,
    fields: &'static [(&'static str, &'static str)],
    fresh_for: Duration,
    /// Seconds since it was made.
    age: u64,
    variance: Option<HashBinary>,
    /// It is not the primary variant.
    is_secondary: bool,
}

const FRESH: Stored = Stored {
    status: 200,
    fields: &[("Content-Length", "10"), ("ETag", "\"a\"")],
    fresh_for: Duration::from_secs(600),
    age: 7,
    variance: None,
    is_secondary: false,
};

fn cache() -> &'static ResponseStore {
    let cache = ResponseCache::new(&Budget::new(10_000_000));
    cache.set_limit(1_000_000);
    cache.store().unwrap()
}

fn key() -> RequestKey {
    let mut key = RequestKey::new(CachedUrl { host: "a.example".into(), path: "/".into() });
    key.push(b"a");
    key
}

fn put(cache: &'static ResponseStore, stored: &Stored) {
    let mut header = ResponseHeader::build(stored.status, None).unwrap();
    for (name, value) in stored.fields {
        header.append_header(*name, *value).unwrap();
    }
    let made = SystemTime::now() - Duration::from_secs(stored.age);
    let mut meta = CacheMeta::new(made + stored.fresh_for, made, 0, 0, header);
    let mut place = cache_key(&cache.store, &key());
    if let Some(variance) = stored.variance {
        meta.set_variance(variance);
        if stored.is_secondary {
            place.set_variance_key(variance);
        }
    }
    let (url, memory) = (key().url().clone(), cache.store.reservation());
    cache.store.put(NewResponse {
        key: place.combined_bin(),
        epoch: cache.store.epoch(&url),
        url,
        head: StoredHead::of(&meta),
        body: StoredBody::Memory(Bytes::from_static(BODY)),
        memory,
    });
}

fn request(method: &str, fields: &str) -> Head {
    let text = format!("{method} / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
    Head::read(text.as_bytes(), FieldNames::ANY).unwrap()
}

/// Returns what a request finds whose selecting fields have this variance.
fn find(cache: &ResponseStore, method: &str, fields: &str, variance: HashBinary) -> Option<FreshResponse> {
    cache.fresh(&key(), &mut request(method, fields), |_, _| Some(variance))
}

fn lines(response: &FreshResponse) -> String {
    let lines = response.head.fields.iter().map(|(name, value)| [name, b": ", value].concat());
    lines.map(|line| String::from_utf8(line).unwrap()).collect::<Vec<_>>().join(" | ")
}

#[test]
fn a_fresh_response_is_found_with_its_age() {
    let cache = cache();
    assert!(find(cache, "GET", "", OLD).is_none());
    put(cache, &FRESH);
    for _ in 0..2 {
        let found = find(cache, "GET", "", OLD).unwrap();
        assert_eq!(
            lines(&found),
            "Content-Length: 10 | ETag: \"a\" | accept-ranges: bytes | Age: 7",
            "the head is made once, and does not keep the age of the first client"
        );
        assert_eq!((found.head.framing, &found.rest[..]), (Framing::Length(10), BODY));
    }
    let head = find(cache, "HEAD", "", OLD).unwrap();
    assert_eq!((head.head.framing, head.rest.len()), (Framing::NONE, 0));
    assert!(lines(&head).starts_with("Content-Length: 10"));
}

#[test]
fn conditions_are_evaluated() {
    let cache = cache();
    put(cache, &FRESH);
    for (fields, status) in [
        ("If-None-Match: \"b\", W/\"a\"\r\n", 304),
        ("If-None-Match: \"b\"\r\n", 200),
        ("If-Match: \"b\"\r\n", 200),
    ] {
        let found = find(cache, "GET", fields, OLD).unwrap();
        assert_eq!(found.head.status.as_u16(), status, "{fields}");
        if status == 304 {
            assert_eq!(lines(&found), "ETag: \"a\" | Age: 7");
            assert_eq!((found.head.framing, found.rest.len()), (Framing::NONE, 0));
        }
    }
}

#[test]
fn pingora_gets_what_is_not_whole_or_not_fresh() {
    let cache = cache();
    put(cache, &FRESH);
    assert!(find(cache, "GET", "Range: bytes=0-1\r\n", OLD).is_none());
    put(cache, &Stored { fresh_for: Duration::from_secs(6), ..FRESH });
    assert!(find(cache, "GET", "", OLD).is_none(), "stale");
    put(cache, &Stored { fields: &[], ..FRESH });
    assert!(find(cache, "GET", "", OLD).is_none(), "without a length");
    put(cache, &Stored { status: 204, fields: &[], ..FRESH });
    assert_eq!(find(cache, "GET", "", OLD).unwrap().head.framing, Framing::NONE);
}

#[test]
fn the_variant_of_the_request_is_found() {
    const VARIES: Stored = Stored {
        fields: &[("Content-Length", "10"), ("Vary", "X-A"), ("X-Number", "1")],
        variance: Some(OLD),
        ..FRESH
    };
    const SECOND: Stored = Stored {
        fields: &[("Content-Length", "10"), ("Vary", "X-A"), ("X-Number", "2")],
        variance: Some(NEW),
        is_secondary: true,
        ..FRESH
    };
    let cache = cache();
    put(cache, &VARIES);
    let number = |variance| {
        let name = HeaderName::from_static("x-number");
        Some(find(cache, "GET", "", variance)?.head.fields.first(&name)?.to_vec())
    };
    assert_eq!((number(OLD), number(NEW)), (Some(b"1".to_vec()), None));
    put(cache, &Stored { age: FRESH.age + 1, ..SECOND });
    assert_eq!(number(NEW), None, "older than the primary one");
    put(cache, &Stored { age: FRESH.age - 1, ..SECOND });
    assert_eq!((number(OLD), number(NEW)), (Some(b"1".to_vec()), Some(b"2".to_vec())));
    assert_eq!(find(cache, "GET", "", [3; 16]).map(|found| lines(&found)), None);
}

#[test]
fn a_request_selects_by_its_fields_only_if_the_response_varies() {
    let cache = cache();
    put(cache, &FRESH);
    let mut request = request(Method::GET.as_str(), "");
    let found = cache.fresh(&key(), &mut request, |_, _| panic!("nothing is selected"));
    assert!(found.is_some());
}
