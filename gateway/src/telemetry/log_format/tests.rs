use std::time::Duration;

use http::{Method, Version};
use sluice_config::{ObjectRef, Origin, ServiceRef, TemplatePiece};

use super::*;
use crate::connection::info::{ConnectionInfo, ProxiedAddresses, Texts, TlsInfo};
use crate::message::field_list::FieldList;
use crate::message::request_head::RequestHead;
use crate::pipeline::tests::fixture;
use crate::variable::{UpstreamAttempt, basic_user};

/// Returns a format of one variable between brackets.
fn of(variable: Variable, escape: LogEscape) -> LogFormat {
    let text = |text: &str| TemplatePiece::Text(text.into());
    let pieces = [text("<"), TemplatePiece::Variable(variable), text(">")].into();
    LogFormat::compile(&sluice_config::LogFormat { pieces, escape })
}

fn without_time(line: &[u8]) -> String {
    let text = str::from_utf8(line).unwrap();
    let (start, rest) = text.split_once('[').unwrap();
    let (time, end) = rest.split_once(']').unwrap();
    assert_eq!(time.len(), 26);
    format!("{start}[T]{end}")
}

fn headers(fields: &[(&str, &str)]) -> FieldList {
    let mut list = FieldList::default();
    for (name, value) in fields {
        list.push_line(name.as_bytes(), value.as_bytes());
    }
    list
}

fn connection(https: bool) -> ConnectionInfo {
    fixture::connection_from("192.0.2.7:5000", https)
}

/// Returns the record of a request that was refused.
fn refused(connection: &ConnectionInfo) -> RequestRecord<'_> {
    RequestRecord {
        connection,
        client: "2001:db8::1".parse().unwrap(),
        requests: 1,
        method: None,
        version: Version::HTTP_11,
        authority: "",
        status: 400,
        body_sent: 99,
        bytes_sent: 200,
        request_length: 17,
        request_time: Duration::ZERO,
        is_whole: true,
        upstream: "",
        alternative: "",
        attempts: &[],
        cache_status: None,
        request_id: b"",
        origin: None,
        server_name: "_",
        service: None,
        locations: None,
        client_identity: None,
        trace: None,
    }
}

fn attempts() -> [UpstreamAttempt; 2] {
    let failed = UpstreamAttempt {
        address: "10.0.0.1:80".parse().unwrap(),
        status: Some(502),
        length: 0,
        time: Duration::from_millis(1),
        connect: None,
        header: None,
    };
    let good = UpstreamAttempt {
        address: "[fd00::2]:80".parse().unwrap(),
        status: Some(200),
        length: 5,
        time: Duration::from_millis(1234),
        connect: Some(Duration::from_millis(2)),
        header: Some(Duration::from_millis(30)),
    };
    [failed, good]
}

#[test]
fn a_proxied_request_has_the_line_of_nginx() {
    let headers = headers(&[
        ("referer", "https://a.example/"),
        ("user-agent", "curl/8.5 \"x\""),
        ("authorization", "Basic YWxpY2U6c2VjcmV0"),
    ]);
    let head = RequestHead {
        method: &Method::GET,
        target: "/a?b=\\c",
        received: None,
        authority: "a.example",
        version: Version::HTTP_11,
        headers: &headers,
        length: 100,
    };
    let format = LogFormat::default();
    let line = format.request(&values(&head, "/a", b"http"), |_, _| {});
    let (connection, attempts) = (connection(false), attempts());
    let record = RequestRecord {
        client: "192.0.2.7".parse().unwrap(),
        method: Some(&Method::GET),
        status: 200,
        body_sent: 5,
        request_length: 321,
        request_time: Duration::from_millis(1240),
        upstream: "shop-web-80",
        attempts: &attempts,
        request_id: b"0123456789abcdef0123456789abcdef",
        ..refused(&connection)
    };
    let mut out = Vec::new();
    format.write(&line, &record, &mut out);
    assert!(line.response.is_none() && !format.needs_response());
    assert_eq!(
        without_time(&out),
        "192.0.2.7 - alice [T] \"GET /a?b=\\x5Cc HTTP/1.1\" 200 5 \"https://a.example/\" \
         \"curl/8.5 \\x22x\\x22\" 321 1.240 [shop-web-80] [] 10.0.0.1:80, [fd00::2]:80 0, 5 \
         0.001, 1.234 502, 200 0123456789abcdef0123456789abcdef\n"
    );
}

#[test]
fn a_refused_request_has_what_was_read_of_its_line() {
    let format = LogFormat::default();
    let line = format.refused(b"GET\x01 / HTTP/1.1");
    let mut out = Vec::new();
    format.write(&line, &refused(&connection(false)), &mut out);
    assert_eq!(
        without_time(&out),
        "2001:db8::1 - - [T] \"GET\\x01 / HTTP/1.1\" 400 99 \"-\" \"-\" 17 0.000 [] [] - - - - -\n"
    );
}

#[test]
fn every_variable_is_written() {
    let headers = headers(&[
        ("cookie", "a=1; session=x=y"),
        ("x-tenant", "blue"),
        ("x-tenant", "green"),
        ("referer", ""),
    ]);
    let head = RequestHead {
        method: &Method::POST,
        target: "/a%20b?x=1",
        received: None,
        authority: "Shop.example:8443",
        version: Version::HTTP_2,
        headers: &headers,
        length: 0,
    };
    let mut connection = connection(true);
    connection.tls = Some(Box::new(TlsInfo {
        server_name: Some("shop.example".into()),
        version: "TLSv1.3",
        cipher: "TLS_AES_128_GCM_SHA256",
        alpn: "h2",
        resumed: false,
        client: None,
        progress: None,
    }));
    connection.proxied = Some(Box::new(ProxiedAddresses {
        source: "198.51.100.7:7777".parse().unwrap(),
        destination: "203.0.113.1:443".parse().unwrap(),
    }));
    connection.texts = Texts::new(connection.nearest(), 443);
    let origin = Origin {
        object: ObjectRef::new("Ingress", "shop", "web"),
        rule: 0,
        match_index: 0,
        rule_name: None,
        path: "/a".into(),
    };
    let service = ServiceRef { namespace: "shop".into(), name: "web".into(), port: "80".into() };
    let attempts = attempts();
    let record = RequestRecord {
        method: Some(&Method::POST),
        version: Version::HTTP_2,
        authority: head.authority,
        status: 200,
        requests: 3,
        upstream: "shop-web-80",
        attempts: &attempts,
        request_id: b"id",
        origin: Some(&origin),
        server_name: "*.example",
        service: Some(&service),
        client: "198.51.100.7".parse().unwrap(),
        ..refused(&connection)
    };
    let pid = std::process::id().to_string();
    for (names, text) in [
        ("args query_string", "x=1"),
        ("body_bytes_sent", "99"),
        ("bytes_sent", "200"),
        ("connection", "1"),
        ("connection_requests", "3"),
        ("host", "shop.example"),
        ("http2", "h2"),
        ("https", "on"),
        ("ingress_name", "web"),
        ("is_args", "?"),
        ("location_path", "/a"),
        ("namespace", "shop"),
        ("ssl_client_s_dn upstream_cache_status", "-"),
        ("pass_access_scheme", "https"),
        ("pid", &pid),
        ("pipe ssl_session_reused", "."),
        ("proxy_alternative_upstream_name", ""),
        ("proxy_protocol_addr", "198.51.100.7"),
        ("proxy_protocol_port", "7777"),
        ("proxy_protocol_server_addr", "203.0.113.1"),
        ("proxy_protocol_server_port", "443"),
        ("proxy_upstream_name proxy_host", "shop-web-80"),
        ("realip_remote_addr", "192.0.2.7"),
        ("realip_remote_port remote_port", "5000"),
        ("remote_addr the_real_ip", "198.51.100.7"),
        ("remote_user", "-"),
        ("req_id request_id", "id"),
        ("request", "POST /a%20b?x=1 HTTP/2.0"),
        ("request_completion", "OK"),
        ("request_length", "17"),
        ("request_method", "POST"),
        ("request_time", "0.000"),
        ("request_uri", "/a%20b?x=1"),
        ("scheme", "https"),
        ("server_name", "*.example"),
        ("server_port pass_server_port pass_port", "443"),
        ("server_protocol", "HTTP/2.0"),
        ("service_name", "web"),
        ("service_port", "80"),
        ("ssl_alpn_protocol", "h2"),
        ("ssl_cipher", "TLS_AES_128_GCM_SHA256"),
        ("ssl_client_verify", "NONE"),
        ("ssl_protocol", "TLSv1.3"),
        ("ssl_server_name", "shop.example"),
        ("status", "200"),
        ("upstream_addr", "10.0.0.1:80, [fd00::2]:80"),
        ("upstream_connect_time", "-, 0.002"),
        ("upstream_header_time", "-, 0.030"),
        ("upstream_response_length", "0, 5"),
        ("upstream_response_time", "0.001, 1.234"),
        ("upstream_status", "502, 200"),
        ("uri document_uri", "/a b"),
        ("arg_x", "1"),
        ("arg_y", "-"),
        ("cookie_session", "x=y"),
        ("cookie_none", "-"),
        ("http_x_tenant", "blue, green"),
        ("http_referer", ""),
        ("http_none", "-"),
        ("upstream_http_x_from", "endpoint"),
        ("sent_http_x_from", "gateway"),
        ("sent_http_none", "-"),
    ] {
        for name in names.split(' ') {
            let format = of(Variable::named(name).unwrap(), LogEscape::Hex);
            let logged = values(&head, "/a b", b"https");
            let mut line = format.request(&logged, |_, _| {});
            if format.needs_response() {
                format.upstream(&mut line, &self::headers(&[("x-from", "first")]));
                format.upstream(&mut line, &self::headers(&[("x-from", "endpoint")]));
                format.sent(&mut line, &self::headers(&[("x-from", "gateway")]));
            }
            let mut out = Vec::new();
            format.write(&line, &record, &mut out);
            assert_eq!(str::from_utf8(&out).unwrap(), format!("<{text}>\n"), "${name}");
        }
    }
    // Values that differ from run to run.
    for (name, pattern) in [
        ("connection_time", r"^\d+\.\d{3}$"),
        ("hostname", r"^\S+$"),
        ("msec", r"^\d{10}\.\d{3}$"),
        ("time_iso8601", r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d$"),
        ("time_local", r"^\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}$"),
    ] {
        let format = of(Variable::named(name).unwrap(), LogEscape::Hex);
        let mut out = Vec::new();
        format.write(&format.refused(b""), &record, &mut out);
        let text = str::from_utf8(&out).unwrap().trim_end().trim_matches(['<', '>']);
        assert!(regex::Regex::new(pattern).unwrap().is_match(text), "${name}: {text}");
    }
}

#[test]
fn every_variable_has_its_words() {
    let connection = connection(false);
    for row in Variable::NAMED {
        for name in row.names {
            for escape in [LogEscape::Hex, LogEscape::Json, LogEscape::None] {
                let format = of(Variable::named(name).unwrap(), escape);
                let mut out = Vec::new();
                format.write(&format.refused(b""), &refused(&connection), &mut out);
                let text = str::from_utf8(&out).unwrap();
                assert!(text.starts_with('<') && text.ends_with(">\n"), "${name}: {text:?}");
                assert!(escape == LogEscape::Hex || !text.contains("<->"), "${name}: {text:?}");
            }
        }
    }
}

fn values<'h>(head: &'h RequestHead<'h>, path: &'h str, access_scheme: &'h [u8]) -> HeadValues<'h> {
    HeadValues {
        head,
        path: Some(path.as_bytes()),
        query: head.query(),
        received: head.received,
        access_scheme,
        access_host: "public.example",
        client: "192.0.2.7".parse().unwrap(),
        user: basic_user,
    }
}

#[test]
fn a_lone_question_mark_is_no_query_for_variables() {
    let connection = connection(false);
    let headers = headers(&[]);
    for (target, args, is_args) in [("/a", "-", ""), ("/a?", "-", ""), ("/a?b", "b", "?")] {
        let head = RequestHead {
            method: &Method::GET,
            target,
            received: None,
            authority: "shop.example",
            version: Version::HTTP_11,
            headers: &headers,
            length: 0,
        };
        for (variable, text) in [(Variable::Args, args), (Variable::IsArgs, is_args)] {
            let format = of(variable, LogEscape::Hex);
            let line = format.request(&values(&head, "/a", b"http"), |_, _| {});
            let mut out = Vec::new();
            format.write(&line, &refused(&connection), &mut out);
            assert_eq!(str::from_utf8(&out).unwrap(), format!("<{text}>\n"), "{target}");
        }
    }
}
