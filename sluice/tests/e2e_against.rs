//! `sluice check --against`: the same safe requests to the old controller and to the new one.

mod nginx;

use std::net::{SocketAddr, TcpListener};
use std::time::Instant;

use crate::harness::gateway::run;
use crate::harness::{Backend, Folder, Gateway, Ingress, Reply, TestCertificate, manifest, site};
use nginx::old_controller;

/// Runs a comparison of these URLs with the old controller at an address.
fn compare(folder: &Folder, urls: &str, old: &str, flags: &[&str]) -> (Option<i32>, String, String) {
    let requests = Folder::empty();
    requests.write("urls", urls);
    let file = requests.file("urls");
    let mut words =
        vec!["check", "--manifests", folder.path().to_str().unwrap(), "--urls", file.to_str().unwrap()];
    words.extend(["--against", old]);
    if !flags.contains(&"--rate") {
        words.extend(["--rate", "500"]);
    }
    words.extend(flags);
    let output = run(&words);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// An endpoint whose responses have a field that nginx passes on.
fn shop() -> Backend {
    Backend::with("shop", |_| {
        Reply::Answer(200, vec![("Cache-Control".to_owned(), "no-store".to_owned())], "shop".to_owned())
    })
}

#[test]
fn a_real_nginx_is_compared_and_differences_are_grouped_by_cause() {
    let backend = shop();
    let locations = format!(
        "location / {{ proxy_pass http://{0}; }}\nlocation /old {{ return 301 https://new.example/old; }}\n\
         location /inside {{ deny all; }}\nlocation /cached {{ proxy_pass http://{0}; proxy_hide_header Cache-Control; }}\n",
        backend.address
    );
    let Some(old) = old_controller(&locations) else {
        return eprintln!("skipped: nginx is not installed");
    };
    let path = |name: &str, path: &str| Ingress::new(name).path("shop.example", path, "shop");
    let folder = Folder::with(
        site("shop", "shop.example", &[&backend])
            + &path("old", "/old").annotation("permanent-redirect", "https://newer.example/old").text()
            + &path("inside", "/inside").text(),
    );
    let urls = "http://shop.example/\nHEAD http://shop.example/cart?a=1\nhttp://shop.example/old\nhttp://shop.example/inside/a\n\
                http://shop.example/inside/b\nhttp://shop.example/cached\nDELETE http://shop.example/cart\nhttp://other.example/\n";
    let (status, text, error) =
        compare(&folder, urls, &old.address.to_string(), &["--compare-header", "Cache-Control"]);
    assert_eq!(status, Some(1), "{text}{error}");
    for part in [
        "not checked: not GET or HEAD, so not sent to a controller that serves: 1; the first is http://shop.example/cart",
        ": 3 the same, 4 different",
        "difference: status 403 became 200, cache-control differs (2 requests, 2 distinct)\n  because: Ingress \
         default/inside, Prefix /inside\n  GET http://shop.example/inside/a: status 403 became 200",
        "difference: Location differs in its host (1 request, 1 distinct)\n  because: Ingress default/old",
        "difference: cache-control differs (1 request",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let methods: Vec<_> =
        backend.seen().iter().map(|seen| seen.start.split(' ').next().unwrap().to_owned()).collect();
    assert!(methods.iter().all(|method| method == "GET" || method == "HEAD"), "{methods:?}");
}

#[test]
fn equal_controllers_have_no_difference() {
    let backend = shop();
    let folder = Folder::with(site("shop", "shop.example", &[&backend]));
    let gateway = Gateway::start(&folder);
    let urls = "http://shop.example/\nhttp://shop.example/a//b?c=%20d\nhttp://other.example/\n";
    let flags = ["--compare-header", "cache-control", "--compare-header", "server"];
    let old = gateway.http.to_string();
    let (status, text, error) = compare(&folder, urls, &old, &flags);
    assert_eq!(status, Some(0), "{text}{error}");
    assert!(text.contains(": 3 the same, 0 different"), "{text}");
    let (status, text, _) = compare(&folder, urls, &old, &[&flags[..], &["--new", &old]].concat());
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains(&format!("compared: {old} with {old}: 3 the same")), "{text}");
}

#[test]
fn https_requests_reach_the_address_with_the_host_of_the_url() {
    let certificate = TestCertificate::new(&["shop.example"]);
    let answer = |_: &crate::harness::wire::Message| Reply::Answer(404, Vec::new(), String::new());
    let old = Backend::tls_with("old", certificate.server_config_by_name(), answer);
    let backend = shop();
    let ingress = Ingress::new("shop").path("shop.example", "/", "shop").tls(&["shop.example"], "shop-tls");
    let folder = Folder::with(
        ingress.text() + &manifest::service_with("shop", &[&backend]) + &certificate.secret("shop-tls"),
    );
    let unused = free();
    let address = format!("{unused},{}", old.address);
    let (status, text, error) = compare(&folder, "https://shop.example/cart\n", &address, &[]);
    assert_eq!(status, Some(1), "{text}{error}");
    assert!(text.contains("difference: status 404 became 200"), "{text}");
    let seen = old.seen();
    assert!(seen.iter().all(|seen| seen.header("host") == Some("shop.example")) && !seen.is_empty());
    assert!(!backend.seen().is_empty(), "the gateway of the check forwards to the real endpoint");
}

#[test]
fn an_unreachable_controller_ends_the_check_with_what_to_do() {
    let folder = Folder::with(site("shop", "shop.example", &[]));
    let old = free().to_string();
    let (status, _, error) = compare(&folder, "http://shop.example/\n", &old, &[]);
    assert_eq!(status, Some(2));
    for part in [&old[..], "--against", "cannot reach", "kubectl port-forward"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let output = run(&["check", "--manifests", folder.path().to_str().unwrap(), "--against", &old]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && error.contains("--urls FILE or --access-log FILE"), "{error}");
}

#[test]
fn endpoints_that_cannot_be_reached_from_here_are_not_compared() {
    let backend = shop();
    let folder = Folder::with(
        Ingress::new("shop").path("shop.example", "/", "shop").text()
            + &manifest::service("shop")
            + &manifest::slice("shop-1", "shop", &["127.0.0.1"], free().port()),
    );
    let (status, text, _) = compare(&folder, "http://shop.example/\n", &backend.address.to_string(), &[]);
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.contains("not compared: its endpoints cannot be reached") && text.contains("--new"),
        "{text}"
    );
}

#[test]
fn requests_are_sent_at_the_given_rate() {
    let backend = shop();
    let folder = Folder::with(site("shop", "shop.example", &[&backend]));
    let urls: String = (0..11).map(|number| format!("http://shop.example/{number}\n")).collect();
    let start = Instant::now();
    let (_, text, _) = compare(&folder, &urls, &backend.address.to_string(), &["--rate", "20"]);
    assert!(start.elapsed().as_millis() >= 500, "11 requests at 20 a second: {text}");
}

/// Returns an address of loopback at which nothing listens.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
