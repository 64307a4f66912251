//! Heads that must be accepted and heads that must be rejected.

use proptest::prelude::*;
use sluice_config::{GlobalSettings, HeaderBuffers};

use super::*;

const LIMITS: HeadLimits =
    HeadLimits { request_line: 8 * 1024, field_line: 8 * 1024, head: 32 * 1024, first_buffer: 1024 };

/// Scans and parses as the connection does.
fn read(bytes: &[u8]) -> Result<Head, HeadFault> {
    match Scanner::default().scan(bytes, &LIMITS)? {
        Some(length) => Head::read(&bytes[..length], FieldNames::PLAIN),
        None => Err(HeadFault::bad("incomplete")),
    }
}

fn status(text: &str) -> u16 {
    match read(text.as_bytes()) {
        Ok(_) => 200,
        Err(fault) => fault.status.as_u16(),
    }
}

#[test]
fn good_heads() {
    for (text, framing) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", Framing::NONE),
        ("GET / HTTP/1.0\r\n\r\n", Framing::NONE),
        ("GET /a?b=c%20d&e=/?:@ HTTP/1.1\r\nhOsT: a:80\r\nX: \r\n\r\n", Framing::NONE),
        ("GET /b\u{fc}cher HTTP/1.1\r\nHost: a\r\nX: \u{fc}\r\n\r\n", Framing::NONE),
        ("GET //double//slash HTTP/1.1\r\nHost: a\r\n\r\n", Framing::NONE),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", Framing::NONE),
        ("M-SEARCH /x HTTP/1.1\r\nHost: a\r\n\r\n", Framing::NONE),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", Framing::Length(5)),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\t 007 \r\n\r\n", Framing::Length(7)),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n", Framing::CHUNKED),
        ("GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", Framing::NONE),
    ] {
        assert_eq!(read(text.as_bytes()).map(|head| head.framing), Ok(framing), "{text:?}");
    }
    let head =
        read(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n").unwrap();
    assert!(head.expects_continue);
}

#[test]
fn a_head_within_client_header_buffer_size_is_served() {
    let scan = |client_header_buffer: usize, head: &str, piece: usize| {
        let settings = GlobalSettings { client_header_buffer, ..GlobalSettings::default() };
        let (limits, mut scanner) = (HeadLimits::of(&settings), Scanner::default());
        let ends = (piece..head.len()).step_by(piece).chain([head.len()]);
        let mut scanned = ends.map(|end| scanner.scan(&head.as_bytes()[..end], &limits));
        match scanned.find(|scanned| *scanned != Ok(None)) {
            Some(Ok(_)) => 200,
            Some(Err(fault)) => fault.status.as_u16(),
            None => 0,
        }
    };
    let long = |length: usize| "x".repeat(length << 10);
    let line = |length| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", long(length));
    let fields = |lengths: &[usize]| {
        let lines: String = lengths.iter().map(|length| format!("X: {}\r\n", long(*length))).collect();
        format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
    };
    for (size, head, status) in [
        (1, line(7), 200),
        (1, line(12), 414),
        (1, fields(&[12]), 431),
        (16, line(12), 200),
        (16, fields(&[12]), 200),
        (16, line(20), 414),
        (16, fields(&[20]), 431),
        (16, fields(&[12, 7]), 200),
        (16, fields(&[12, 7, 7, 7]), 200),
        (16, fields(&[7, 12]), 431),
        (32, fields(&[20]), 200),
        (64, fields(&[20, 40]), 200),
        (64, fields(&[7; 10]), 200),
        (64, fields(&[7; 14]), 431),
    ] {
        let seen = [usize::MAX, 1000, 1].map(|piece| scan(size << 10, &head, piece.min(head.len())));
        assert_eq!(seen, [status; 3], "{size}k: {}", head.len());
    }
}

#[test]
fn the_first_buffer_adds_to_the_large_ones() {
    for (first_buffer, count, size) in
        [(1, 4, 8), (16, 4, 8), (1, 2, 1)].map(|(a, b, c)| (a << 10, b, c << 10))
    {
        let large_client_header_buffers = HeaderBuffers { count, size };
        let settings = GlobalSettings {
            client_header_buffer: first_buffer,
            large_client_header_buffers,
            ..GlobalSettings::default()
        };
        let limits = HeadLimits::of(&settings);
        let begin = "GET / HTTP/1.1\r\nHost: a\r\n";
        let scan = |length: usize| {
            let line = format!("X: {}\r\n", "x".repeat(507));
            let mut head = begin.to_owned() + &line.repeat((length - begin.len()) / line.len() - 1);
            let rest = length - head.len() - "X: \r\n\r\n".len();
            head += &format!("X: {}\r\n\r\n", "x".repeat(rest));
            Scanner::default().scan(head.as_bytes(), &limits)
        };
        let most = first_buffer + count * size;
        assert_eq!(scan(most), Ok(Some(most)), "{first_buffer} + {count} * {size}");
        assert_eq!(scan(most + 1), Err(HeadFault::TOO_LARGE), "{first_buffer} + {count} * {size}");
    }
}

#[test]
fn several_authorization_fields_were_forwarded() {
    for name in UNIQUE {
        let head = |second: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{name}: 1\r\n{second}: 2\r\n\r\n");
        assert_eq!([name, &name.to_uppercase()].map(|second| status(&head(second))), [400; 2], "{name}");
        assert_eq!(status(&head("x-other")), 200, "{name}");
    }
    for name in ["Accept", "Cookie", "Range", "Content-Type", "Cache-Control", "X-Forwarded-Proto"] {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{name}: 1\r\n{name}: 2\r\n\r\n");
        assert_eq!(status(&head), 200, "{name}");
    }
}

#[test]
fn bad_heads() {
    for (text, what) in [
        ("GET / HTTP/1.1\nHost: a\n\n", "bare LF"),
        ("GET / HTTP/1.1\r\nHost: a\n\r\n", "bare LF in a field"),
        ("GET / HTTP/1.1\r\nHost: a\r\n\n", "bare LF at the end"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: 1\rY: 2\r\n\r\n", "bare CR"),
        ("GET / HTTP/1.1\rHost: a\r\n\r\n", "bare CR after the request line"),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\r\n\r\n", "CR CR LF"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n", "folded line"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\t2\r\n\r\n", "folded line, tab"),
        ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", "space before the first field"),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", "space before colon"),
        ("GET / HTTP/1.1\r\nHost\t: a\r\n\r\n", "tab before colon"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX Y: 1\r\n\r\n", "space in a name"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", "no colon"),
        ("GET / HTTP/1.1\r\nHost: a\r\n: 1\r\n\r\n", "empty name"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", "NUL"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n", "control"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX(: 1\r\n\r\n", "no token"),
        ("GET / HTTP/1.1\r\n\r\n", "no host"),
        ("GET / HTTP/1.1\r\nHost:\r\n\r\n", "empty host"),
        ("GET / HTTP/1.0\r\nHost:\r\n\r\n", "empty host in 1.0"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "two hosts"),
        ("GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", "two hosts, case"),
        ("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", "userinfo"),
        ("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", "bad port"),
        ("GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", "port too large"),
        ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", "list of hosts"),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "path in host"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "CL+TE"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", "TE+CL"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "two lengths"),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "the same length twice",
        ),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n", "list of lengths"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n", "signed length"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n", "negative length"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\n", "hex length"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n\r\n", "space in length"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", "empty length"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\n", "length over 2^63"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", "length over 2^64"),
        ("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "TE in 1.0"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "gzip, chunked"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n", "chunked, identity"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", "identity"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", "xchunked"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n", "chunked with a parameter"),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n",
            "vertical tab before chunked",
        ),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", "quoted chunked"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n", "empty TE"),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "chunked twice",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
            "two codings",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n",
            "TE with a space before its colon",
        ),
        ("GET /\r\n\r\n", "HTTP/0.9"),
        ("GET / HTTP/0.9\r\nHost: a\r\n\r\n", "version 0.9"),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", "version 1.2"),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", "version 2.0"),
        ("GET / http/1.1\r\nHost: a\r\n\r\n", "lower-case version"),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", "space after the version"),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "two spaces"),
        ("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", "tab"),
        ("GET / a HTTP/1.1\r\nHost: a\r\n\r\n", "space in the target"),
        (" GET / HTTP/1.1\r\nHost: a\r\n\r\n", "space before the method"),
        ("G(T / HTTP/1.1\r\nHost: a\r\n\r\n", "bad method"),
        ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", "relative target"),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", "asterisk for GET"),
        ("GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", "authority form for GET"),
        ("GET /#f HTTP/1.1\r\nHost: a\r\n\r\n", "fragment"),
        ("GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", "DEL"),
        ("GET http:/a HTTP/1.1\r\nHost: a\r\n\r\n", "one slash"),
        ("GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n", "no authority"),
        ("GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", "userinfo in the target"),
        ("GET http://a\\b/ HTTP/1.1\r\nHost: a\r\n\r\n", "backslash in the target's authority"),
        ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "another scheme"),
        ("GET http://a/ HTTP/1.1\r\n\r\n", "absolute form without Host in 1.1"),
        ("\x16\x03\x01\x02", "TLS"),
    ] {
        assert_eq!(status(text), 400, "{what}: {text:?}");
    }
    assert!(read(b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n").is_err(), "no UTF-8");
    assert_eq!(status("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"), 405);
    assert_eq!(status("CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n"), 405);
    for method in ["TRACE", "trace", "Connect"] {
        assert_eq!(status(&format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n")), 405, "{method}");
        assert_eq!(status(&format!("{method} http://a/ HTTP/1.1\r\nHost: a\r\n\r\n")), 405, "{method}");
    }
    assert_eq!(status("TRACES / HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
}

#[test]
fn connection_may_hold_so_many_options() {
    let lines = |options: usize, lines: usize| {
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
            ["Connection: ", &"a,".repeat(options), "\r\n"].concat().repeat(lines)
        )
    };
    assert_eq!(status(&lines(63, 1)), 200);
    assert_eq!(status(&lines(64, 1)), 400);
    assert_eq!(status(&lines(0, 64)), 200);
    assert_eq!(status(&lines(31, 3)), 400, "over all lines");
    assert_eq!(
        status(&format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: {}\r\n\r\n", ",".repeat(5000))),
        400
    );
}

#[test]
fn fields_with_odd_names_are_dropped_from_the_text_too() {
    let sent = "POST /x?y HTTP/1.1\r\nhOsT: a\r\nX_Forwarded_For: 1\r\nX-A:  1 \r\na.b: 2\r\n\
                Content_Length: 9\r\nContent-Length: 3\r\n\r\n";
    let head = read(sent.as_bytes()).unwrap();
    let text = "POST /x?y HTTP/1.1\r\nhOsT: a\r\nX-A: 1\r\nContent-Length: 3\r\n\r\n";
    assert_eq!(str::from_utf8(head.text()), Ok(text));
    assert_eq!((head.length, head.target(), head.framing), (sent.len(), "/x?y", Framing::Length(3)));
    assert_eq!(head.names, FieldNames::PLAIN);
    let all = Head::read(sent.as_bytes(), FieldNames::ANY).unwrap();
    assert_eq!(str::from_utf8(all.text()), Ok(sent));
    let absolute = "GET http://b/ HTTP/1.1\r\nHost: a\r\nx_y: 1\r\n\r\n";
    let head = read(absolute.as_bytes()).unwrap();
    assert_eq!(str::from_utf8(head.text()), Ok("GET / HTTP/1.1\r\nHost: b\r\n\r\n"));
}

#[test]
fn sizes() {
    let line = |length: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(length - 16));
    assert_eq!(status(&line(8 * 1024)), 200);
    assert_eq!(status(&line(8 * 1024 + 1)), 414);
    let unfinished = format!("GET /{}", "a".repeat(9 * 1024));
    assert_eq!(status(&unfinished), 414);
    let field = |length: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(length - 5));
    assert_eq!(status(&field(8 * 1024)), 200);
    assert_eq!(status(&field(8 * 1024 + 1)), 431);
    let unfinished = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "a".repeat(9 * 1024));
    assert_eq!(status(&unfinished), 431);
    let head = |length: usize| {
        let mut head = "GET / HTTP/1.1\r\nHost: a\r\n".to_owned();
        while head.len() < length - 8 * 1024 {
            head += &format!("X: {}\r\n", "a".repeat(4096));
        }
        let left = length - head.len() - "X: \r\n\r\n".len();
        head + "X: " + &"a".repeat(left) + "\r\n\r\n"
    };
    assert_eq!(status(&head(33 * 1024)), 200);
    assert_eq!(status(&head(33 * 1024 + 1)), 431);
    let unfinished = &head(48 * 1024)[..40 * 1024];
    assert_eq!(status(unfinished), 431);
    let fields = |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: 1\r\n".repeat(count - 1));
    assert_eq!(status(&fields(256)), 200);
    assert_eq!(status(&fields(257)), 400);
}

#[test]
fn the_absolute_form_wins_over_the_host_field() {
    let rewritten = |text: &str| {
        let head = read(text.as_bytes()).unwrap();
        assert_eq!(head.length, text.len());
        String::from_utf8(head.text().to_vec()).unwrap()
    };
    assert_eq!(
        rewritten("GET http://b:8080/p?q HTTP/1.1\r\nX: 1\r\nHost: a\r\nY: 2\r\n\r\n"),
        "GET /p?q HTTP/1.1\r\nHost: b:8080\r\nX: 1\r\nY: 2\r\n\r\n"
    );
    assert_eq!(rewritten("GET HTTPS://b HTTP/1.0\r\n\r\n"), "GET / HTTP/1.0\r\nHost: b\r\n\r\n");
    assert_eq!(
        rewritten("GET http://b?q HTTP/1.1\r\nHost: b\r\n\r\n"),
        "GET /?q HTTP/1.1\r\nHost: b\r\n\r\n"
    );
    assert_eq!(
        rewritten("OPTIONS http://b HTTP/1.1\r\nHost: a\r\n\r\n"),
        "OPTIONS * HTTP/1.1\r\nHost: b\r\n\r\n"
    );
}

/// Mutations of a valid head.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let seeds = prop::sample::select(vec![
        &b"GET /a/b?c=d HTTP/1.1\r\nHost: shop.example\r\nAccept: */*\r\n\r\n"[..],
        b"POST /x HTTP/1.1\r\nHost: a:80\r\nContent-Length: 12\r\nConnection: close\r\n\r\n",
        b"PUT http://b.example:8080/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"OPTIONS * HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
    ]);
    let edits = prop::collection::vec((any::<prop::sample::Index>(), edit()), 0..4);
    (seeds, edits).prop_map(|(seed, edits)| {
        let mut head = seed.to_vec();
        for (index, (insert, remove)) in edits {
            let at = index.index(head.len() + 1);
            let until = (at + remove).min(head.len());
            head.splice(at..until, insert);
        }
        head
    })
}

fn edit() -> impl Strategy<Value = (Vec<u8>, usize)> {
    let pieces = prop::sample::select(vec![
        &b"\r"[..],
        b"\n",
        b"\r\n",
        b" ",
        b"\t",
        b":",
        b"\0",
        b"\x0b",
        b"\xff",
        b"#",
        b"@",
        b"\\",
        b",",
        b";",
        b"0",
        b"Host: b\r\n",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"\r\nX_A: 1\r\nx.b: 2\r\n",
        b"_",
        b"http://c",
        b"//",
        b"?",
        b"%",
    ]);
    (pieces.prop_map(<[u8]>::to_vec), 0usize..3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Pingora agrees with this parser: it accepts every head that this one accepts, with the same
    /// body framing and the same host.
    #[test]
    fn pingora_agrees(bytes in mutated()) {
        let Ok(Some(length)) = Scanner::default().scan(&bytes, &LIMITS) else { return Ok(()) };
        let Ok(head) = Head::read(&bytes[..length], FieldNames::PLAIN) else { return Ok(()) };
        let text = BytesMut::from(head.text());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let read = runtime.block_on(async {
            let stream = Box::new(std::io::Cursor::new(Vec::new()));
            let mut session = pingora_core::protocols::http::ServerSession::new_http1(stream);
            session.set_pipelined_prefix(text.clone());
            let done = session.read_request().await;
            done.map(|done| done.then_some(session))
        });
        let mut session = read
            .map_err(|error| TestCaseError::fail(format!("{error}: {}", text.escape_ascii())))?
            .expect("a complete head");
        prop_assert_eq!(session.is_body_empty(), head.framing.is_done());
        let fields = &session.req_header().headers;
        prop_assert!(fields.get_all("host").iter().count() <= 1);
        prop_assert!(!fields.keys().any(|name| FieldNames::PLAIN.drops(name.as_str().as_bytes())));
        prop_assert_eq!(fields.contains_key("transfer-encoding"), head.framing == Framing::CHUNKED);
        prop_assert!(session.req_header().raw_path().first().is_some_and(|byte| b"/*".contains(byte)));
    }

    /// The scanner finds the same end or the same fault however a head is split.
    #[test]
    fn cuts_do_not_matter(bytes in mutated(), cut in any::<prop::sample::Index>()) {
        let whole = Scanner::default().scan(&bytes, &LIMITS);
        let cut = cut.index(bytes.len() + 1);
        let mut scanner = Scanner::default();
        let parts = match scanner.scan(&bytes[..cut], &LIMITS) {
            Ok(None) => scanner.scan(&bytes, &LIMITS),
            other => other,
        };
        prop_assert_eq!(parts, whole);
    }
}
