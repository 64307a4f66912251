//! FastCGI endpoints: a real php-fpm behind `backend-protocol: FCGI`.

mod php;

use self::php::Php;
use crate::harness::manifest::{service, slice};
use crate::harness::{Connection, Folder, Gateway, Ingress, await_until, config_map, get};

const HOST: &str = "php.example";
const PARAMS: &str = "default/php";

/// Prints what the program received.
const SHOW: &str = r#"<?php
header("Content-Type: text/plain");
foreach (["REQUEST_METHOD", "REQUEST_URI", "QUERY_STRING", "SCRIPT_NAME", "DOCUMENT_ROOT", "CONTENT_TYPE",
    "CONTENT_LENGTH", "SERVER_NAME", "SERVER_PROTOCOL", "REMOTE_ADDR", "REQUEST_SCHEME", "REMOTE_USER", "APP_MODE",
    "HTTP_HOST", "HTTP_COOKIE", "HTTP_PROXY", "HTTP_X_FORWARDED_FOR"] as $name) {
    echo $name, "=", $_SERVER[$name] ?? "-", "\n";
}
foreach ($_POST as $name => $value) { echo "post:", $name, "=", $value, "\n"; }
foreach ($_FILES as $name => $file) { echo "file:", $name, "=", $file["name"], " ", $file["size"], "\n"; }
echo "body=", strlen(file_get_contents("php://input")), "\n";
"#;

/// Redirects, fails, writes to the error stream, sends much, or breaks off.
const ACT: &str = r#"<?php
switch ($_GET["do"]) {
    case "redirect": header("Location: /elsewhere"); break;
    case "missing": http_response_code(404); echo "not here"; break;
    case "log": fwrite(fopen("php://stderr", "w"), "for the log\n"); error_log("noticed"); echo "logged"; break;
    case "huge": for ($i = 0; $i < 40; $i++) { echo str_repeat("x", 1000000); } break;
    case "large": for ($i = 0; $i < 3000; $i++) { echo str_repeat("x", 1000); } break;
    case "die": echo str_repeat("x", 100000); flush(); exec("kill -9 " . getmypid());
    case "pid": echo getmypid();
}
"#;

/// A gateway in front of php-fpm with further annotations.
fn start(php: &Php, annotations: &[(&str, &str)]) -> (Folder, Gateway) {
    let ingress = Ingress::new("php")
        .path(HOST, "/", "php")
        .annotation("backend-protocol", "FCGI")
        .annotation("fastcgi-index", "index.php")
        .annotation("fastcgi-params-configmap", PARAMS)
        .annotations(annotations);
    let ip = php.address.ip().to_string();
    let folder =
        Folder::with(ingress.text() + &service("php") + &slice("php", "php", &[&ip], php.address.port()));
    folder.write("params.yaml", params(php, "production"));
    let gateway = Gateway::start(&folder);
    (folder, gateway)
}

fn params(php: &Php, mode: &str) -> String {
    let script = format!("{}$fastcgi_script_name", php.root());
    config_map(PARAMS, &[("SCRIPT_FILENAME", &*script), ("APP_MODE", mode)])
}

/// The value that `SHOW` printed for a name.
fn shown<'t>(text: &'t str, name: &str) -> &'t str {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("no {name}: {text}"))
}

#[test]
fn php_gets_the_request_as_from_nginx() {
    let Some(php) = Php::start(&[("index.php", SHOW)]) else { return };
    let (_folder, gateway) = start(&php, &[]);
    let mut client = Connection::plain(gateway.http);
    let fields = [("Cookie", "a=1"), ("Proxy", "http://203.0.113.9"), ("X-Forwarded-For", "203.0.113.9")];
    let response = client.request("GET", HOST, "/?a=b%20c", &fields, "");
    let text = response.text();
    assert_eq!(response.status, 200, "{text}");
    for (name, value) in [
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_URI", "/?a=b%20c"),
        ("QUERY_STRING", "a=b%20c"),
        ("SCRIPT_NAME", "/index.php"),
        ("DOCUMENT_ROOT", "/usr/local/nginx/html"),
        ("SERVER_NAME", HOST),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REQUEST_SCHEME", "http"),
        ("APP_MODE", "production"),
        ("HTTP_HOST", HOST),
        ("HTTP_COOKIE", "a=1"),
        ("HTTP_PROXY", "-"),
        ("HTTP_X_FORWARDED_FOR", "127.0.0.1"),
        ("body", "0"),
    ] {
        assert_eq!(shown(&text, name), value, "{name}: {text}");
    }
    assert!(response.header("content-type").unwrap().starts_with("text/plain"));
}

#[test]
fn php_reads_forms_and_files_with_and_without_a_length() {
    let Some(php) = Php::start(&[("index.php", SHOW)]) else { return };
    let (_folder, gateway) = start(&php, &[]);
    let mut client = Connection::plain(gateway.http);
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let text = client.request("POST", HOST, "/", &form, "a=1&b=two+words").text();
    assert_eq!((shown(&text, "post:b"), shown(&text, "CONTENT_LENGTH")), ("two words", "15"));
    let file = "x".repeat(300_000);
    let body = format!(
        "--edge\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\n\r\n{file}\r\n--edge--\r\n"
    );
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: multipart/form-data; boundary=edge\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    ));
    let response = client.response();
    assert_eq!(shown(&response.text(), "file:f"), "a.txt 300000");
    let raw = client.request("PUT", HOST, "/index.php", &[], &"x".repeat(1_000_000)).text();
    assert_eq!((shown(&raw, "body"), shown(&raw, "REQUEST_METHOD")), ("1000000", "PUT"));
}

#[test]
fn php_redirects_fails_and_sends_large_responses() {
    let Some(php) = Php::start(&[("act.php", ACT)]) else { return };
    let (_folder, gateway) = start(&php, &[]);
    let ask = |action: &str| get(gateway.http, HOST, &format!("/act.php?do={action}"));
    let redirect = ask("redirect");
    assert_eq!((redirect.status, redirect.header("location")), (302, Some("/elsewhere")));
    let missing = ask("missing");
    assert_eq!((missing.status, missing.text()), (404, "not here".to_owned()));
    assert_eq!(get(gateway.http, HOST, "/nothing.php").status, 404, "php-fpm finds no script");
    let large = ask("large");
    assert_eq!((large.status, large.body().len()), (200, 3_000_000));
    let mut client = Connection::plain(gateway.http);
    client.send(format!("HEAD /act.php?do=missing HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n"));
    let head = String::from_utf8(client.rest()).unwrap();
    assert!(head.starts_with("HTTP/1.1 404 ") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn error_output_of_php_is_logged_and_not_sent() {
    let Some(php) = Php::start(&[("act.php", ACT)]) else { return };
    let (_folder, gateway) = start(&php, &[]);
    assert_eq!(get(gateway.http, HOST, "/act.php?do=log").text(), "logged");
    await_until("the error output in the log", || {
        gateway.program_log().iter().any(|line| line.contains("noticed") && line.contains("error stream"))
    });
}

#[test]
fn a_script_that_dies_breaks_its_response_off_and_others_are_served() {
    let Some(php) = Php::start(&[("act.php", ACT)]) else { return };
    let (_folder, gateway) = start(&php, &[]);
    let mut client = Connection::plain(gateway.http);
    client.send(format!("GET /act.php?do=die HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    let rest = client.rest();
    assert!(!rest.ends_with(b"0\r\n\r\n"), "{} bytes", rest.len());
    await_until("another process of php-fpm", || get(gateway.http, HOST, "/act.php?do=pid").status == 200);
}

#[test]
fn connections_to_php_are_kept_where_the_annotation_asks_for_it() {
    let Some(php) = Php::start(&[("act.php", ACT)]) else { return };
    let (_folder, gateway) = start(&php, &[("sluice.dev/fastcgi-keep-conn", "true")]);
    // A kept connection belongs to one process, and each worker of the gateway may have one.
    let mut client = Connection::plain(gateway.http);
    let pids: Vec<String> = (0..6).map(|_| client.get(HOST, "/act.php?do=pid").text()).collect();
    assert!(pids.iter().all(|pid| *pid == pids[0] && !pid.is_empty()), "{pids:?}");
}

#[test]
fn a_missing_or_bad_config_map_closes_the_route_until_it_is_corrected() {
    let Some(php) = Php::start(&[("index.php", SHOW)]) else { return };
    let (folder, gateway) = start(&php, &[]);
    let mode = || shown(&get(gateway.http, HOST, "/").text(), "APP_MODE").to_owned();
    assert_eq!(mode(), "production");
    folder.write("params.yaml", params(&php, "test"));
    await_until("the changed parameter", || mode() == "test");
    folder.write("params.yaml", params(&php, "$no_such_variable"));
    await_until("the route to close", || get(gateway.http, HOST, "/").status == 503);
    let problems = gateway.problems();
    assert!(problems.contains("$no_such_variable") && problems.contains("APP_MODE"), "{problems}");
    folder.remove("params.yaml");
    await_until("the problem to name the ConfigMap", || gateway.problems().contains("does not exist"));
    assert_eq!(get(gateway.http, HOST, "/").status, 503);
    folder.write("params.yaml", params(&php, "again"));
    await_until("the route to open", || get(gateway.http, HOST, "/").status == 200);
}

#[test]
fn a_rewritten_path_selects_the_script() {
    let Some(php) = Php::start(&[("index.php", SHOW)]) else { return };
    let ip = php.address.ip().to_string();
    let ingress = Ingress::new("php")
        .typed_path(HOST, "/blog(/|$)(.*)", "ImplementationSpecific", "php")
        .annotation("use-regex", "true")
        .annotation("rewrite-target", "/index.php")
        .annotation("backend-protocol", "FCGI")
        .annotation("fastcgi-params-configmap", PARAMS);
    let folder = Folder::with(
        ingress.text()
            + &service("php")
            + &slice("php", "php", &[&ip], php.address.port())
            + &params(&php, "x"),
    );
    let gateway = Gateway::start(&folder);
    let text = get(gateway.http, HOST, "/blog/news?a=1").text();
    assert_eq!(shown(&text, "SCRIPT_NAME"), "/index.php");
    assert_eq!(shown(&text, "REQUEST_URI"), "/blog/news?a=1");
    assert_eq!(shown(&text, "QUERY_STRING"), "a=1");
}

#[test]
fn slow_clients_do_not_occupy_php() {
    let Some(php) = Php::start(&[("act.php", ACT)]) else { return };
    let (_folder, gateway) = start(&php, &[]);
    // As many as php has processes. They read only when another client was served.
    let slow: Vec<_> = (0..2)
        .map(|_| {
            let mut client = Connection::plain(gateway.http);
            client.send(format!("GET /act.php?do=huge HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
            client
        })
        .collect();
    assert_eq!(get(gateway.http, HOST, "/act.php?do=log").text(), "logged");
    for mut client in slow {
        assert_eq!(client.response().body().len(), 40_000_000);
    }
}
