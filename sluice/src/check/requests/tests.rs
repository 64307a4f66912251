use super::*;

fn client() -> IpAddr {
    CLIENT
}

fn log(text: &str, format: Option<&str>, escape: LogEscape) -> Result<Requests> {
    let mut requests = Requests::new(100);
    access_log::read(text, &RecordedFormat::new(format, escape)?, client(), &mut requests)?;
    Ok(requests)
}

fn list(text: &str) -> Result<Requests> {
    let mut requests = Requests::new(100);
    url_list::read(text, client(), &mut requests)?;
    Ok(requests)
}

#[test]
fn a_list_has_one_request_per_line_with_the_method_in_front() {
    let requests =
        list("# pages\nhttps://shop.example/cart?item=1\n\n  HEAD http://Shop.Example:8080\n").unwrap();
    let seen: Vec<_> =
        requests.distinct.iter().map(|(request, _)| (request.method.as_str(), request.url())).collect();
    let expected = [("GET", "https://shop.example/cart?item=1"), ("HEAD", "http://shop.example:8080/")];
    assert_eq!(seen, expected.map(|(method, url)| (method, url.to_owned())));
    assert_eq!(requests.distinct[1].0.host(), "shop.example");
}

#[test]
fn an_unreadable_line_of_a_list_is_named_with_its_number() {
    for (text, part) in [
        (
            "https://a.example/\nshop.example/cart",
            "line 2: \"shop.example/cart\" is not a URL; write https://shop.example/cart",
        ),
        (
            "get https://a.example/",
            "line 1: \"get https://a.example/\" begins with a word that is not a method",
        ),
        ("https://me:secret@a.example/", "has a user name, which is never sent; remove it"),
        ("https://a.example/a b", "begins with a word that is not a method"),
        ("https:///cart", "is not a URL"),
        ("# nothing\n", "the list has no URL; write one per line"),
    ] {
        let error = format!("{:#}", list(text).unwrap_err());
        assert!(error.contains(part), "{text:?}: {error}");
    }
}

const LINE: &str = "203.0.113.9 - - [25/Nov/2026:08:00:00 +0000] \"GET /cart?a=%20 HTTP/2.0\" 200 512 \"-\" \"curl/8\" 90 0.004 \
     [shop-web-80] [] 10.0.0.1:8080 512 0.004 200 0b1c";

#[test]
fn the_default_format_gives_the_request_and_the_service_that_answered() {
    let redirect =
        LINE.replace(" 200 512 \"-", " 308 164 \"-").replace("10.0.0.1:8080 512 0.004 200", "- - - -");
    let canary = LINE.replace("[]", "[shop-web-next-80]");
    let text = format!("{LINE}\n{LINE}\nI1125 08:00:00 controller.go:1] reload\n{redirect}\n{canary}\n");
    let requests = log(&text, None, LogEscape::Hex).unwrap();
    let seen: Vec<_> = requests
        .distinct
        .iter()
        .map(|(request, count)| (request.recorded.clone().unwrap(), *count))
        .collect();
    let location = Some("shop-web-80".to_owned());
    let recorded = |status, upstream: Option<&str>| RecordedResponse {
        status,
        answerer: match upstream {
            Some(name) => LoggedAnswerer::Endpoint(Some(name.to_owned())),
            None => LoggedAnswerer::Controller,
        },
        location: location.clone(),
        credentials: false,
    };
    assert_eq!(
        seen,
        [
            (recorded(200, Some("shop-web-80")), 2),
            (recorded(308, None), 1),
            (recorded(200, Some("shop-web-next-80")), 1)
        ]
    );
    let (request, _) = &requests.distinct[0];
    assert_eq!((request.target.as_str(), request.client), ("/cart?a=%20", [203, 0, 113, 9].into()));
    assert_eq!(
        (request.authority.as_str(), request.https),
        ("", false),
        "the format has neither host nor scheme"
    );
    assert_eq!(requests.skipped["lines in another format"].count, 1);
}

#[test]
fn a_configured_format_gives_host_and_scheme_and_is_unescaped() {
    let format = r#"{"host": "$host", "scheme": "$scheme", "uri": "$request_uri", "method": "$request_method", "status": "$status", "x": "$unknown_here"}"#;
    let line = r#"{"host": "shop.example", "scheme": "https", "uri": "/a\u002fb", "method": "POST", "status": "201", "x": "y"}"#;
    let requests = log(line, Some(format), LogEscape::Json).unwrap();
    let (request, _) = &requests.distinct[0];
    assert_eq!((request.url().as_str(), request.method.as_str()), ("https://shop.example/a/b", "POST"));
    assert!(!request.is_safe());
    let hex = log("/a\\x22b 200", Some("${request_uri} $status"), LogEscape::Hex).unwrap();
    assert_eq!(
        hex.skipped.len() + hex.distinct.len(),
        1,
        "a quote is not part of a URL, but the line is read"
    );
}

#[test]
fn the_format_decides_whether_the_answerer_is_known() {
    for (format, line, expected) in [
        ("$request_uri $status", "/ 200", LoggedAnswerer::Unknown),
        ("$request_uri $status $proxy_upstream_name", "/ 200 shop-web-80", LoggedAnswerer::Unknown),
        ("$request_uri $status $upstream_status", "/ 200 200", LoggedAnswerer::Endpoint(None)),
        ("$request_uri $status $upstream_addr", "/ 308 -", LoggedAnswerer::Controller),
    ] {
        let requests = log(line, Some(format), LogEscape::Hex).unwrap();
        let recorded = requests.distinct[0].0.recorded.clone().unwrap();
        assert_eq!(recorded.answerer, expected, "{format}");
    }
}

#[test]
fn a_log_in_another_format_is_refused_with_what_to_do() {
    let error = log("some other line\n", None, LogEscape::Hex).unwrap_err().to_string();
    assert!(error.contains("--configmap") && error.contains("--log-format"), "{error}");
    let error = log("200\n", Some("$status"), LogEscape::Hex).unwrap_err().to_string();
    assert!(error.contains("$request_uri") && error.contains("--urls"), "{error}");
}

#[test]
fn requests_beyond_the_limit_are_counted() {
    let mut requests = Requests::new(1);
    url_list::read("https://a.example/\nhttps://a.example/\nhttps://b.example/", client(), &mut requests)
        .unwrap();
    assert_eq!((requests.distinct.len(), requests.distinct[0].1), (1, 2));
    assert_eq!(requests.skipped["beyond --limit"].first, "https://b.example/");
}
