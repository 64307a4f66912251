//! The access log: identical to the reference in the default format, custom formats, and its
//! outputs.

use std::fs;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::Value;

use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gate, Gateway, Ingress, PATIENCE, Reply, TestCertificate, await_some,
    await_until, config_map, get, site,
};

const HOST: &str = "shop.example";
const NAME: &str = "ingress-nginx/controller";

#[test]
fn a_line_has_the_default_format() {
    let backend = Backend::echo("shop");
    let gateway = Gateway::start(&Folder::with(site("shop", HOST, &[&backend])));
    let mut connection = Connection::plain(gateway.http);
    let fields =
        [("Referer", "http://from.example/"), ("User-Agent", "tester/1"), ("X-Request-ID", "the-id")];
    let response = connection.request("POST", HOST, "/cart?x=y", &fields, "hello");
    let line = gateway.await_access("/cart");
    let length = response.text().len();
    let pattern = format!(
        r#"^127\.0\.0\.1 - - \[\d\d/[A-Z][a-z][a-z]/\d{{4}}:\d\d:\d\d:\d\d [+-]\d{{4}}\] "POST /cart\?x=y HTTP/1\.1" 200 {length} "http://from\.example/" "tester/1" \d+ \d+\.\d{{3}} \[default-shop-80\] \[\] 127\.0\.0\.1:{} {length} \d+\.\d{{3}} 200 the-id$"#,
        backend.address.port()
    );
    assert!(Regex::new(&pattern).unwrap().is_match(&line), "{line}\n{pattern}");
}

#[test]
fn missing_values_are_a_dash() {
    let gateway = Gateway::start(&Folder::with(Ingress::new("shop").path(HOST, "/", "none").text()));
    get(gateway.http, HOST, "/nothing");
    let line = gateway.await_access("/nothing");
    assert!(line.contains("\"GET /nothing HTTP/1.1\" 503 ") && line.contains(" \"-\" \"-\" "), "{line}");
    assert!(line.contains(" - - - "), "{line}");
}

#[test]
fn the_upstream_of_a_redirect_of_the_server_was_empty() {
    let ingress = Ingress::new("shop").path(HOST, "/", "none").annotation("app-root", "/app");
    let gateway = Gateway::start(&Folder::with(ingress.text()));
    assert_eq!(get(gateway.http, HOST, "/").status, 302);
    let line = gateway.await_access("GET / ");
    assert!(line.contains(" [-] [] - - - - "), "{line}");
    let refused = Connection::plain(gateway.http).request("GET", HOST, "/\u{1}", &[], "");
    assert_eq!(refused.status, 400);
    let line = gateway.await_access("\" 400 ");
    assert!(line.contains(" [] [] - - - - "), "no server was found: {line}");
}

#[test]
fn an_own_answer_logs_its_content_length() {
    let objects = Ingress::new("shop").path(HOST, "/", "none").text()
        + &config_map(NAME, &[("log-format-upstream", "$uri $status $sent_http_content_length")]);
    let gateway = Gateway::with(&Folder::with(objects), &["--configmap", NAME]);
    let response = get(gateway.http, HOST, "/nothing");
    let line = gateway.await_access("/nothing");
    assert_eq!(line, format!("/nothing 503 {}", response.header("content-length").unwrap()));
}

#[test]
fn a_compressed_response_is_logged_with_the_fields_that_the_client_got() {
    let backend = Backend::with("shop", |request| {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let fields = vec![field("Content-Type", "text/html"), field("ETag", "\"v1\"")];
        let length = if request.start.contains("/small") { 10 } else { 1000 };
        Reply::Answer(200, fields, "x".repeat(length))
    });
    let names = ["content-length", "transfer-encoding", "content-encoding", "etag", "vary"];
    let format = |name: &&str| format!("$sent_http_{}", name.replace('-', "_"));
    let format = "$uri ".to_owned() + &names.iter().map(format).collect::<Vec<_>>().join("|");
    let ingress = Ingress::new("replaced")
        .path("replaced.example", "/", "shop")
        .annotation("configuration-snippet", "sub_filter x yy;");
    let keys = [
        ("log-format-upstream", &*format),
        ("log-format-escape-none", "true"),
        ("use-gzip", "true"),
        ("allow-snippet-annotations", "true"),
        ("annotations-risk-level", "Critical"),
    ];
    let objects = site("shop", HOST, &[&backend]) + &ingress.text() + &config_map(NAME, &keys);
    let gateway = Gateway::with(&Folder::with(objects), &["--configmap", NAME]);
    for (host, path, coding, method, is_chunked) in [
        (HOST, "/page", "gzip", "GET", true),
        (HOST, "/head", "gzip", "HEAD", false),
        (HOST, "/small", "gzip", "GET", false),
        (HOST, "/plain", "identity", "GET", false),
        ("replaced.example", "/replaced", "identity", "GET", true),
    ] {
        let fields = [("Accept-Encoding", coding)];
        let response = Connection::plain(gateway.http).request(method, host, path, &fields, "");
        let got = names.map(|name| response.header(name).unwrap_or_default()).join("|");
        assert_eq!(gateway.await_access(&format!("{path} ")), format!("{path} {got}"));
        assert_eq!(got.contains("|chunked|"), is_chunked, "{got}");
        assert_eq!(got.contains("|gzip|W/"), coding == "gzip" && path != "/small", "{got}");
    }
}

#[test]
fn every_attempt_is_listed() {
    let mut dead = Backend::echo("dead");
    dead.stop();
    let good = Backend::echo("good");
    let objects = Ingress::new("shop").path(HOST, "/", "web").text() + &service_with("web", &[&dead, &good]);
    let gateway = Gateway::start(&Folder::with(objects));
    get(gateway.http, HOST, "/first");
    get(gateway.http, HOST, "/second");
    let attempts = format!("{}, {}", dead.address, good.address);
    let line = gateway.await_access(&attempts);
    assert!(line.contains(" 502, 200 "), "{line}");
}

#[test]
fn the_log_is_switched_off_and_on_live() {
    let backend = Backend::echo("shop");
    for key in ["disable-access-log", "disable-http-access-log"] {
        let folder = Folder::with(site("shop", HOST, &[&backend]));
        folder.write("config.yaml", config_map(NAME, &[(key, "true")]));
        let gateway = Gateway::with(&folder, &["--configmap", NAME]);
        get(gateway.http, HOST, "/silent");
        folder.write("config.yaml", config_map(NAME, &[]));
        await_until("a line", || {
            get(gateway.http, HOST, "/loud");
            gateway.access_log().iter().any(|line| line.contains("/loud"))
        });
        assert!(!gateway.access_log().iter().any(|line| line.contains("/silent")), "{key}");
    }
}

#[test]
fn values_are_escaped_as_configured() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    let format = ("log-format-upstream", "<$http_user_agent>");
    for (keys, expected) in [
        (&[format][..], r"<a \x22quoted\x22 \x5Cagent>"),
        (&[format, ("log-format-escape-json", "true")], r#"<a \"quoted\" \\agent>"#),
        (&[format, ("log-format-escape-none", "true")], r#"<a "quoted" \agent>"#),
        (
            &[format, ("log-format-escape-json", "true"), ("log-format-escape-none", "true")],
            r#"<a "quoted" \agent>"#,
        ),
        (&[format], r"<a \x22quoted\x22 \x5Cagent>"),
    ] {
        folder.write("config.yaml", config_map(NAME, keys));
        let fields = [("User-Agent", r#"a "quoted" \agent"#)];
        await_until(expected, || {
            Connection::plain(gateway.http).request("GET", HOST, "/", &fields, "");
            gateway.access_log().last().is_some_and(|line| line == expected)
        });
    }
}

#[test]
fn standard_output_holds_the_access_log_alone() {
    let backend = Backend::echo("shop");
    let gateway = Gateway::with(&Folder::with(site("shop", HOST, &[&backend])), &["--v=3"]);
    get(gateway.http, HOST, "/one");
    gateway.await_access("/one");
    assert_eq!(gateway.access_log().len(), 1, "{:?}", gateway.access_log());
}

/// Sends requests until the log has a matching line, and returns that line.
fn line_like(gateway: &Gateway, target: &str, is_meant: impl Fn(&str) -> bool) -> String {
    await_some("a line of the new format", || {
        get(gateway.http, HOST, target);
        gateway.access_log().into_iter().find(|line| is_meant(line))
    })
}

#[test]
fn the_format_is_the_operators_and_changes_live() {
    let backend = Backend::with("shop", |_| Reply::field("X-Version", "7"));
    let certificate = TestCertificate::new(&[HOST]);
    let ingress = Ingress::new("shop").annotation("ssl-redirect", "false").path(HOST, "/", "shop");
    let objects =
        ingress.tls(&[HOST], "tls").text() + &service_with("shop", &[&backend]) + &certificate.secret("tls");
    let folder = Folder::with(objects);
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    let json = r#"{"uri": "$uri", "args": "$args", "agent": "$http_user_agent", "status": $status, "ingress": "$namespace/$ingress_name", "to": "$service_name:$service_port", "version": "$upstream_http_x_version", "sent": "$sent_http_x_version", "tls": "$ssl_protocol", "sni": "$ssl_server_name", "user": "$remote_user", "n": $connection_requests, "took": $request_time}"#;
    let keys = [("log-format-upstream", json), ("log-format-escape-json", "true")];
    folder.write("config.yaml", config_map(NAME, &keys));
    line_like(&gateway, "/json", |line| line.starts_with('{'));
    let mut connection = Connection::tls(gateway.https, HOST);
    for _ in 0..2 {
        let fields = [("User-Agent", "a \"quoted\" \\ agent")];
        assert_eq!(connection.request("GET", HOST, "/a%20b?x=1", &fields, "").status, 200);
    }
    let line = gateway.await_access("\"n\": 2");
    let line: Value = serde_json::from_str(&line).expect("a line of JSON");
    for (name, value) in [
        ("uri", "/a b"),
        ("args", "x=1"),
        ("agent", "a \"quoted\" \\ agent"),
        ("ingress", "default/shop"),
        ("to", "shop:80"),
        ("version", "7"),
        ("sent", "7"),
        ("tls", "TLSv1.3"),
        ("sni", HOST),
        ("user", ""),
    ] {
        assert_eq!(line[name], value, "{name}: {line}");
    }
    assert_eq!((&line["status"], line["took"].is_f64()), (&Value::from(200), true), "{line}");
    // Responses of the gateway itself, and requests that cannot be parsed.
    let mut connection = Connection::plain(gateway.http);
    connection.send("GET /\u{1} HTTP/1.1\r\n\r\n");
    assert_eq!(connection.response().status, 400);
    let refused: Value = serde_json::from_str(&gateway.await_access("\"status\": 400")).unwrap();
    assert_eq!(refused["uri"], "");
    // An unknown variable is refused, and the default format applies.
    let keys = [("log-format-upstream", "$status $no_such_thing"), ("log-format-escape-json", "true")];
    folder.write("config.yaml", config_map(NAME, &keys));
    await_until("the problem", || gateway.problems().contains("$no_such_thing"));
    assert!(gateway.problems().contains("docs/variables.md"));
    line_like(&gateway, "/default", |line| line.contains("\"GET /default HTTP/1.1\""));
    folder.write("config.yaml", config_map(NAME, &[("log-format-upstream", "plain $request_uri")]));
    line_like(&gateway, "/plain", |line| line == "plain /plain");
}

#[test]
fn lines_are_omitted_if_configured() {
    let backend = Backend::echo("shop");
    let quiet = Ingress::new("quiet").annotation("enable-access-log", "false").path(HOST, "/quiet", "shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]) + &quiet.text());
    folder.write("config.yaml", config_map(NAME, &[("skip-access-log-urls", "/Skipped, ~^/probe/[0-9]+$")]));
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    for target in ["/quiet", "/skipped", "/probe/17", "/skipped?x", "/probe/x"] {
        assert_eq!(get(gateway.http, HOST, target).status, 200);
    }
    get(gateway.http, "nobody.example", "/unknown");
    get(gateway.http, HOST, "/last");
    gateway.await_access("/last");
    let lines = gateway.access_log().join("\n");
    for (target, logged) in [
        ("/quiet ", false),
        ("/skipped ", false),
        ("/probe/17 ", false),
        ("/unknown ", false),
        ("/skipped?x ", true),
        ("/probe/x ", true),
    ] {
        assert_eq!(lines.contains(target), logged, "{target}\n{lines}");
    }
    // All of these settings change at run time.
    folder.write("config.yaml", config_map(NAME, &[("enable-access-log-for-default-backend", "true")]));
    folder.write("quiet.yaml", quiet.annotation("enable-access-log", "true").text());
    folder.write("objects.yaml", site("shop", HOST, &[&backend]));
    await_until("all lines", || {
        for (host, target) in [(HOST, "/quiet"), (HOST, "/skipped"), ("nobody.example", "/unknown")] {
            get(gateway.http, host, target);
        }
        let lines = gateway.access_log().join("\n");
        ["/quiet ", "/skipped ", "/unknown "].iter().all(|target| lines.contains(target))
    });
}

#[test]
fn a_file_is_rotated_and_a_bad_one_loses_no_line() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    let logs = Folder::empty();
    let (file, moved) = (logs.file("access.log"), logs.file("access.log.1"));
    let has =
        |file: &std::path::Path, text: &str| fs::read_to_string(file).is_ok_and(|lines| lines.contains(text));
    folder.write("config.yaml", config_map(NAME, &[("access-log-path", file.to_str().unwrap())]));
    let mut gateway = Gateway::with(&folder, &["--configmap", NAME]);
    get(gateway.http, HOST, "/one");
    await_until("the line", || has(&file, "/one"));
    assert!(gateway.access_log().is_empty());
    fs::rename(&file, &moved).unwrap();
    get(gateway.http, HOST, "/two");
    await_until("the line in the old file", || has(&moved, "/two"));
    gateway.rotate_logs();
    await_until("the new file", || {
        get(gateway.http, HOST, "/three");
        has(&file, "/three")
    });
    assert!(gateway.is_running(), "the signal ends nothing");
    // A path where no file can be created: lines go to standard output, a problem states the
    // reason, and the file is retried.
    let nowhere = logs.file("none/access.log");
    folder.write("config.yaml", config_map(NAME, &[("http-access-log-path", nowhere.to_str().unwrap())]));
    await_until("the problem", || gateway.problems().contains("none/access.log"));
    get(gateway.http, HOST, "/four");
    gateway.await_access("/four");
    fs::create_dir(logs.file("none")).unwrap();
    await_until("the problem to vanish", || gateway.problems().is_empty());
    get(gateway.http, HOST, "/five");
    await_until("the line", || has(&nowhere, "/five"));
    folder.write("config.yaml", config_map(NAME, &[]));
    line_like(&gateway, "/six", |line| line.contains("/six"));
}

#[test]
fn a_syslog_server_gets_the_lines() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let keys = [("enable-syslog", "true"), ("syslog-host", "127.0.0.1"), ("syslog-port", &*port)];
    folder.write("config.yaml", config_map(NAME, &keys));
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    get(gateway.http, HOST, "/sent");
    let mut message = [0; 4096];
    let length = server.recv(&mut message).expect("a message");
    let message = String::from_utf8_lossy(&message[..length]);
    assert!(message.starts_with("<190>") && message.contains(" nginx: 127.0.0.1 - - ["), "{message}");
    assert!(message.contains("\"GET /sent HTTP/1.1\" 200 "), "{message}");
    folder.write("config.yaml", config_map(NAME, &[("enable-syslog", "true")]));
    await_until("the problem", || gateway.problems().contains("syslog-host"));
    line_like(&gateway, "/back", |line| line.contains("/back"));
}

#[test]
fn the_programs_own_log_has_a_level_and_a_file_of_its_own_live() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    let logs = Folder::empty();
    let (file, moved) = (logs.file("error.log"), logs.file("error.log.1"));
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    let malformed = |gateway: &Gateway| {
        let mut connection = Connection::plain(gateway.http);
        connection.send("GET /\u{1} HTTP/1.1\r\n\r\n");
        connection.response().status
    };
    let debug = ("error-log-level", "debug");
    folder.write("config.yaml", config_map(NAME, &[debug]));
    await_until("a line of debug", || {
        malformed(&gateway);
        gateway.program_log().iter().any(|line| line.contains("refused a request"))
    });
    folder.write("config.yaml", config_map(NAME, &[debug, ("error-log-path", file.to_str().unwrap())]));
    let has = |file: &std::path::Path| {
        fs::read_to_string(file).is_ok_and(|text| text.contains("refused a request"))
    };
    await_until("a line in the file", || {
        malformed(&gateway);
        has(&file)
    });
    fs::rename(&file, &moved).unwrap();
    gateway.rotate_logs();
    await_until("a line in the new file", || {
        malformed(&gateway);
        has(&file)
    });
}

#[test]
fn the_request_body_is_logged_if_it_fits_its_buffer() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    let keys = [("log-format-upstream", "$request_uri <$request_body>"), ("client-body-buffer-size", "10")];
    folder.write("config.yaml", config_map(NAME, &keys));
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    let send = |target: &str, body: &str| {
        assert_eq!(Connection::plain(gateway.http).request("POST", HOST, target, &[], body).status, 200);
    };
    send("/small", "a \"b\"");
    gateway.await_access(r"/small <a \x22b\x22>");
    send("/large", "01234567890");
    gateway.await_access("/large <->");
    get(gateway.http, HOST, "/none");
    gateway.await_access("/none <->");
    let mut slow = Connection::plain(gateway.http);
    slow.send(format!("POST /slow HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 6\r\n\r\nabc"));
    slow.send("def");
    assert_eq!(slow.response().status, 200);
    gateway.await_access("/slow <abcdef>");
}

#[test]
fn a_preset_writes_lines_of_json_with_the_ids_of_the_trace() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    let keys = [("log-format-preset", "json"), ("enable-opentelemetry", "true")];
    folder.write("config.yaml", config_map(NAME, &keys));
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    let fields = [("User-Agent", "a \"quoted\" \\ \u{e4} agent\t"), ("X-Request-ID", "the-id")];
    let response = Connection::plain(gateway.http).request("GET", HOST, "/cart?x=1", &fields, "");
    let line: Value = serde_json::from_str(&gateway.await_access("/cart")).expect("a line of JSON");
    for (name, value) in [
        ("remote_addr", "127.0.0.1"),
        ("remote_user", ""),
        ("request", "GET /cart?x=1 HTTP/1.1"),
        ("http_referer", ""),
        ("http_user_agent", fields[0].1.trim_end()),
        ("proxy_upstream_name", "default-shop-80"),
        ("proxy_alternative_upstream_name", ""),
        ("upstream_addr", &backend.address.to_string()),
        ("upstream_status", "200"),
        ("req_id", "the-id"),
    ] {
        assert_eq!(line[name], value, "{name}: {line}");
    }
    assert_eq!(line["status"], 200, "{line}");
    assert_eq!(line["body_bytes_sent"], response.text().len(), "{line}");
    assert!(line["request_length"].is_u64() && line["request_time"].is_f64(), "{line}");
    let context = response.received("traceparent")[0].clone();
    assert!(context.starts_with(&format!("00-{}-", line["trace_id"].as_str().unwrap())), "{context} {line}");
    assert_eq!(line["span_id"].as_str().unwrap().len(), 16, "{line}");
    // Requests that cannot be parsed have lines of the same form.
    let mut connection = Connection::plain(gateway.http);
    connection.send("GET /\u{1}\" HTTP/1.1\r\n\r\n");
    assert_eq!(connection.response().status, 400);
    let refused: Value = serde_json::from_str(&gateway.await_access("\"status\":400")).unwrap();
    assert_eq!((&refused["trace_id"], &refused["upstream_status"]), (&Value::from(""), &Value::from("")));
    // A format of the operator takes precedence.
    let keys = [keys[0], ("log-format-upstream", "plain $request_uri")];
    folder.write("config.yaml", config_map(NAME, &keys));
    line_like(&gateway, "/both", |line| line == "plain /both");
    await_until("the problem", || {
        gateway.problems().contains("remove log-format-upstream to use the preset")
    });
}

#[test]
fn errors_slow_requests_and_a_sample_are_logged_if_configured() {
    let gate = Gate::default();
    let held = gate.clone();
    let backend = Backend::with("shop", move |request| {
        if request.start.starts_with("GET /slow ") {
            held.wait();
        }
        match request.start.starts_with("GET /bad") {
            true => Reply::status(500),
            false => Reply::Echo,
        }
    });
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    let least = Duration::from_secs(2);
    let filters = [("access-log-filter-status", "5xx,301"), ("access-log-filter-min-duration", "2s")];
    folder.write("config.yaml", config_map(NAME, &filters));
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    let mut slow = Connection::plain(gateway.http);
    slow.send(format!("GET /slow HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    await_until("the slow request", || backend.requests() == 1);
    let begin = Instant::now();
    // The lines of a connection are in order.
    let mut connection = Connection::plain(gateway.http);
    for (target, status) in [("/good", 200), ("/bad", 500)] {
        assert_eq!(connection.request("GET", HOST, target, &[], "").status, status);
    }
    gateway.await_access("/bad");
    await_until("two seconds", || begin.elapsed() >= least);
    gate.open();
    assert_eq!(slow.response().status, 200);
    gateway.await_access("/slow");
    assert!(!gateway.access_log().iter().any(|line| line.contains("/good")), "{:?}", gateway.access_log());
    // All keys change live.
    folder.write("config.yaml", config_map(NAME, &[filters[0], ("access-log-sample", "100%")]));
    line_like(&gateway, "/sampled", |line| line.contains("/sampled"));
    folder.write("config.yaml", config_map(NAME, &[filters[0], ("access-log-sample", "0%")]));
    await_until("a request that is not logged", || {
        let target = format!("/unsampled-{}", backend.requests());
        connection.request("GET", HOST, &target, &[], "");
        let marker = format!("/bad?{target}");
        assert_eq!(connection.request("GET", HOST, &marker, &[], "").status, 500);
        gateway.await_access(&marker);
        !gateway.access_log().iter().any(|line| line.contains(&format!("GET {target} ")))
    });
    // An unreadable value is ignored.
    folder.write("config.yaml", config_map(NAME, &[("access-log-sample", "0.01")]));
    line_like(&gateway, "/unfiltered", |line| line.contains("/unfiltered"));
    await_until("the problem", || gateway.problems().contains("data[access-log-sample]"));
}
