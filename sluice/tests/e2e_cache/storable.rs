//! What is stored: the rules of RFC 9111, variants, framing, and the limit of the store.

use super::{FRESH, HOST, assert_is, get, origin, request, start};
use crate::harness::{Backend, Connection, Reply, await_until, config_map};

type Fields = &'static [(&'static str, &'static str)];

/// In the spirit of cache-tests.fyi: the fields of a response, those of two requests, and whether
/// the second one gets the response to the first one.
type Case = (&'static str, Fields, Fields, bool);

#[test]
fn what_is_stored_follows_rfc_9111() {
    const NONE: Fields = &[];
    let later = "Expires: Fri, 31 Dec 2100 23:59:59 GMT";
    let cases: &[Case] = &[
        ("Cache-Control: max-age=600", NONE, NONE, true),
        ("Cache-Control: max-age=600 | Age: 599", NONE, NONE, true),
        ("Cache-Control: max-age=600 | Age: 601", NONE, NONE, false),
        ("Cache-Control: s-maxage=600", NONE, NONE, true),
        ("Cache-Control: s-maxage=600, max-age=0", NONE, NONE, true),
        ("Cache-Control: s-maxage=0, max-age=600", NONE, NONE, false),
        ("Cache-Control: public, max-age=600", NONE, NONE, true),
        ("Cache-Control: max-age=600 | Cache-Control: no-store", NONE, NONE, false),
        ("Cache-Control: must-revalidate, max-age=600", NONE, NONE, true),
        ("Cache-Control: unknown=\"a, no-store\", max-age=600", NONE, NONE, true),
        ("Cache-Control: max-age=0", NONE, NONE, false),
        ("Cache-Control: no-cache", NONE, NONE, false),
        ("Cache-Control: no-cache, max-age=600", NONE, NONE, false),
        ("Cache-Control: no-store, max-age=600", NONE, NONE, false),
        ("Cache-Control: private, max-age=600", NONE, NONE, false),
        ("Cache-Control: private=\"x-user\", max-age=600", NONE, NONE, false),
        ("Cache-Control: max-age=600 | Set-Cookie: a=b", NONE, NONE, false),
        ("Cache-Control: max-age=600 | Vary: *", NONE, NONE, false),
        ("Cache-Control: max-age=600 | Vary: X-A", NONE, NONE, true),
        ("Cache-Control: max-age=600 | Vary: X-A", &[("X-A", "1")], &[("X-A", "1")], true),
        ("Cache-Control: max-age=600 | Vary: X-A", &[("X-A", "1")], &[("X-A", "2")], false),
        ("Cache-Control: max-age=600 | Vary: X-A", &[("X-A", "1")], NONE, false),
        ("Cache-Control: max-age=600 | Vary: X-A, x-b", &[("X-B", "1")], &[("X-B", "2")], false),
        ("Cache-Control: max-age=600 | Vary: X-A | Vary: X-B", &[("X-B", "1")], NONE, false),
        ("Cache-Control: max-age=600 | Vary: X-A", &[("X-B", "1")], &[("X-B", "2")], true),
        (later, NONE, NONE, true),
        ("Expires: 0", NONE, NONE, false),
        ("Expires: Thu, 01 Jan 1970 00:00:00 GMT", NONE, NONE, false),
        ("X-Nothing: 1", NONE, NONE, false),
        ("ETag: \"a\"", NONE, NONE, false),
        ("Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT", NONE, NONE, false),
        (FRESH, &[("X-Status", "301")], NONE, true),
        (FRESH, &[("X-Status", "404")], NONE, false),
        (FRESH, &[("X-Status", "500")], NONE, false),
        (FRESH, &[("Authorization", "Basic YTpi")], NONE, false),
        (FRESH, NONE, &[("Authorization", "Basic YTpi")], false),
        ("Cache-Control: public, max-age=600", &[("Authorization", "Basic YTpi")], NONE, false),
        (FRESH, &[("Cache-Control", "no-store")], NONE, false),
        (FRESH, NONE, &[("Cache-Control", "no-store")], false),
        (FRESH, NONE, &[("Cache-Control", "no-cache")], true),
        (FRESH, NONE, &[("Pragma", "no-cache")], true),
        (FRESH, &[("Cookie", "a=b")], &[("Cookie", "c=d")], true),
    ];
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[], &[]);
    for (at, (respond, first, second, is_reused)) in cases.iter().enumerate() {
        let path = format!("/{at}");
        let number = get(&gateway, &path, respond, first).text();
        let again = get(&gateway, &path, respond, second).text();
        assert_eq!(again == number, *is_reused, "{respond} {first:?} {second:?}");
    }
}

#[test]
fn each_variant_is_stored() {
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[], &[]);
    let ask = |language: &str| {
        let respond = format!("{FRESH} | Vary: Accept-Language");
        get(&gateway, "/", &respond, &[("Accept-Language", language)])
    };
    for (language, cache, body) in [
        ("de", "MISS", "1"),
        ("fr", "MISS", "2"),
        ("en", "MISS", "3"),
        ("de", "HIT", "1"),
        ("en", "HIT", "3"),
        ("fr", "HIT", "2"),
    ] {
        assert_is(&ask(language), cache, body);
    }
}

/// The gateway sets `X-Real-IP`, so the client's own field says nothing.
#[test]
fn fields_that_the_gateway_sets_select_the_variant() {
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[], &[("use-forwarded-headers", "true")]);
    let ask = |client: &str| {
        let respond = format!("{FRESH} | Vary: X-Real-IP");
        get(&gateway, "/", &respond, &[("X-Forwarded-For", client), ("X-Real-IP", "same")])
    };
    assert_is(&ask("192.0.2.1"), "MISS", "1");
    assert_is(&ask("192.0.2.2"), "MISS", "2");
    assert_is(&ask("192.0.2.1"), "HIT", "1");
}

#[test]
fn a_response_in_chunks_is_stored_with_its_length() {
    let backend = Backend::with("shop", |_| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\n";
        Reply::Bytes(format!("{head}4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n").into_bytes())
    });
    let (_folder, gateway) = start(&backend, &[], &[]);
    let first = request(&gateway, "GET", "/", &[]);
    assert_is(&first, "MISS", "0123456789");
    assert_eq!(first.header("transfer-encoding"), Some("chunked"));
    let mut connection = Connection::plain(gateway.http);
    for (method, body) in [("GET", "0123456789"), ("HEAD", ""), ("GET", "0123456789")] {
        let hit = connection.request(method, HOST, "/", &[], "");
        assert_is(&hit, "HIT", body);
        assert_eq!((hit.header("content-length"), hit.header("transfer-encoding")), (Some("10"), None));
    }
    let range = request(&gateway, "GET", "/", &[("Range", "bytes=2-4")]);
    assert_eq!((range.status, &*range.text()), (206, "234"));
}

#[test]
fn a_response_in_an_unknown_transfer_coding_is_502_and_never_stored() {
    let cases = [
        "1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
        "1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ];
    let backend = Backend::with("shop", move |request| {
        let path = request.start.split(' ').nth(1).unwrap();
        let (version, rest) = cases[path[1..].parse::<usize>().unwrap()].split_once("\r\n").unwrap();
        Reply::Raw(format!("HTTP/{version}\r\n{FRESH}\r\n{rest}").into_bytes())
    });
    let (_folder, gateway) = start(&backend, &[], &[]);
    for (at, case) in cases.iter().enumerate() {
        for method in ["GET", "GET", "HEAD"] {
            let response = request(&gateway, method, &format!("/{at}"), &[]);
            assert_eq!(response.status, 502, "{method} {case}");
        }
    }
    assert_eq!(gateway.ask("/cache").json()["responses"], 0);
}

#[test]
fn conditions_and_ranges_are_answered_from_the_stored_response() {
    let backend = Backend::with("shop", |_| {
        let fields = [
            ("Cache-Control", "max-age=600"),
            ("ETag", "\"a\""),
            ("Last-Modified", "Thu, 01 Jan 2015 00:00:00 GMT"),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Reply::Answer(200, fields.into(), "0123456789".to_owned())
    });
    let (_folder, gateway) = start(&backend, &[], &[]);
    let ask = |path: &str, name: &str, value: &str| request(&gateway, "GET", path, &[(name, value)]);
    // The first request of each path has the condition or range, which no endpoint sees.
    let range = ask("/range", "Range", "bytes=2-4");
    assert_eq!((range.status, range.text()), (206, "234".to_owned()));
    assert_eq!(range.header("content-range"), Some("bytes 2-4/10"));
    let condition = ask("/condition", "If-None-Match", "\"a\"");
    assert_eq!((condition.status, condition.header("x-cache")), (304, Some("MISS")));
    await_until("both stored", || gateway.ask("/cache").json()["responses"] == 2);
    let seen = backend.seen();
    assert!(seen.iter().all(|seen| seen.header("range").is_none() && seen.header("if-none-match").is_none()));
    for (name, value, status, body) in [
        ("If-None-Match", "\"a\"", 304, ""),
        ("If-None-Match", "\"x\", W/\"a\"", 304, ""),
        ("If-None-Match", "\"b\"", 200, "0123456789"),
        ("If-Modified-Since", "Thu, 01 Jan 2015 00:00:00 GMT", 304, ""),
        ("If-Modified-Since", "Wed, 31 Dec 2014 00:00:00 GMT", 200, "0123456789"),
        ("Range", "bytes=0-1", 206, "01"),
        ("Range", "bytes=-3", 206, "789"),
        ("Range", "bytes=8-", 206, "89"),
        ("Range", "bytes=10-", 416, ""),
        ("Range", "bytes=-0", 416, ""),
        ("Range", "lines=1-2", 200, "0123456789"),
    ] {
        for path in ["/range", "/condition"] {
            let response = ask(path, name, value);
            assert_eq!((response.status, &*response.text()), (status, body), "{name}: {value}");
            assert_eq!(response.header("x-cache"), Some("HIT"), "{name}: {value}");
        }
    }
    let parts = ask("/range", "Range", "bytes=0-1,8-9");
    assert!(parts.status == 206 && parts.text().contains("bytes 8-9/10"), "{}", parts.text());
    let fields = [("Range", "bytes=0-1"), ("If-Range", "\"other\"")];
    assert_eq!(request(&gateway, "GET", "/range", &fields).status, 200);
    assert_eq!(backend.requests(), 2);
}

#[test]
fn the_store_stays_within_its_limit() {
    let backend = Backend::with("shop", |request| {
        let size = request.header("x-size").map_or(8_000, |size| size.parse().unwrap());
        let body = "x".repeat(size);
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n";
        match request.header("x-chunked") {
            Some(_) => Reply::Bytes(
                format!("{head}Transfer-Encoding: chunked\r\n\r\n{size:x}\r\n{body}\r\n0\r\n\r\n")
                    .into_bytes(),
            ),
            None => Reply::Bytes(format!("{head}Content-Length: {size}\r\n\r\n{body}").into_bytes()),
        }
    });
    let (folder, gateway) = start(&backend, &[], &[("cache-size", "128k")]);
    for number in 0..40 {
        assert_eq!(request(&gateway, "GET", &format!("/{number}"), &[]).text().len(), 8_000);
        assert!(gateway.metric("sluice_cache_bytes") <= 128 << 10);
    }
    assert_eq!(gateway.metric("sluice_cache_limit_bytes"), 128 << 10);
    assert!(gateway.metric("sluice_cache_evictions_total") >= 25);
    assert!(gateway.metric("sluice_body_memory_bytes") >= gateway.metric("sluice_cache_bytes"));
    assert_eq!(request(&gateway, "GET", "/39", &[]).header("x-cache"), Some("HIT"));
    assert_eq!(request(&gateway, "GET", "/0", &[]).header("x-cache"), Some("MISS"));
    for chunked in [&[][..], &[("X-Chunked", "1")]] {
        for _ in 0..2 {
            let fields = [&[("X-Size", "200000")], chunked].concat();
            let response = request(&gateway, "GET", "/large", &fields);
            assert_eq!((response.text().len(), response.header("x-cache")), (200_000, Some("MISS")));
        }
    }
    folder.write("config.yaml", config_map("system/settings", &[("cache-size", "0")]));
    await_until("no cache", || request(&gateway, "GET", "/39", &[]).header("x-cache") == Some("BYPASS"));
    assert_eq!(gateway.metric("sluice_cache_bytes"), 0);
}
