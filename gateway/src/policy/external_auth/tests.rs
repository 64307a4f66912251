use http::HeaderName;

use super::*;

fn fields(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
    };
    let mut map = HeaderMap::new();
    for (name, value) in pairs.iter().map(pair) {
        map.append(name, value);
    }
    map
}

fn cache(valid: &[(&[u16], u64)]) -> AuthCache {
    AuthCache {
        key: Template::compile(&sluice_config::Template::default()).unwrap(),
        valid: Some(
            valid.iter().map(|(codes, seconds)| (codes.to_vec(), Duration::from_secs(*seconds))).collect(),
        ),
    }
}

#[test]
fn an_answer_is_kept_for_as_long_as_rule_and_service_allow() {
    let cache = cache(&[(&[200, 202], 600), (&[401], 300)]);
    for (status, said, seconds) in [
        (200, &[][..], Some(600)),
        (401, &[], Some(300)),
        (204, &[], None),
        (200, &[("cache-control", "max-age=5")], Some(5)),
        (200, &[("cache-control", "max-age=5000")], Some(600)),
        (200, &[("cache-control", "public, no-store")], None),
        (200, &[("cache-control", "Private")], None),
        (200, &[("cache-control", "max-age=0")], None),
        (200, &[("cache-control", "max-age=x")], None),
        (200, &[("set-cookie", "a=b")], None),
        (200, &[("vary", "cookie")], None),
    ] {
        let holds = cache.holds(StatusCode::from_u16(status).unwrap(), &fields(said));
        assert_eq!(holds, seconds.map(Duration::from_secs), "{status} {said:?}");
    }
}

#[test]
fn without_times_an_answer_is_kept_for_as_long_as_the_service_allows() {
    let alone = AuthCache { valid: None, ..cache(&[]) };
    let any = cache(&[(&[401], 2), (&[], 1)]);
    for (status, said, seconds, seconds_of_any) in [
        (200, &[][..], None, Some(1)),
        (401, &[], None, Some(2)),
        (403, &[], None, Some(1)),
        (200, &[("cache-control", "max-age=5000")], Some(5000), Some(1)),
        (403, &[("x-accel-expires", "7")], Some(7), Some(1)),
        (200, &[("cache-control", "no-store")], None, None),
        (200, &[("cache-control", "max-age=9"), ("set-cookie", "a=b")], None, None),
    ] {
        let status = StatusCode::from_u16(status).unwrap();
        let holds = [&alone, &any, &cache(&[])].map(|cache| cache.holds(status, &fields(said)));
        let expected = [seconds, seconds_of_any, None].map(|seconds| seconds.map(Duration::from_secs));
        assert_eq!(holds, expected, "{status} {said:?}");
    }
}

#[test]
fn cookies_go_along_as_nginx_has_it() {
    let mut reply = AuthReply {
        status: StatusCode::OK,
        fields: Vec::new(),
        cookies: vec![HeaderValue::from_static("a=b")],
        challenges: Vec::new(),
        kept: Vec::new(),
        holds: None,
        always_set_cookie: false,
    };
    for (status, goes) in [(200, true), (302, true), (206, true), (404, false), (401, false), (502, false)] {
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(!reply.cookies(status).is_empty(), goes, "{status}");
    }
    reply.always_set_cookie = true;
    assert!(!reply.cookies(StatusCode::NOT_FOUND).is_empty());
}
