//! The access log on standard output, byte for byte in the reference's default format.

use regex::Regex;

use crate::harness::manifest::service_with;
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, await_until, config_map, get, site};

const HOST: &str = "shop.example";

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
fn what_is_not_there_is_a_dash() {
    let gateway = Gateway::start(&Folder::with(Ingress::new("shop").path(HOST, "/", "none").text()));
    get(gateway.http, HOST, "/nothing");
    let line = gateway.await_access("/nothing");
    assert!(line.contains("\"GET /nothing HTTP/1.1\" 503 ") && line.contains(" \"-\" \"-\" "), "{line}");
    assert!(line.contains(" - - - "), "{line}");
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
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    folder.write("config.yaml", config_map("ingress-nginx/controller", &[("disable-access-log", "true")]));
    let gateway = Gateway::with(&folder, &["--configmap", "ingress-nginx/controller"]);
    get(gateway.http, HOST, "/silent");
    folder.write("config.yaml", config_map("ingress-nginx/controller", &[]));
    await_until("a line", || {
        get(gateway.http, HOST, "/loud");
        gateway.access_log().iter().any(|line| line.contains("/loud"))
    });
    assert!(!gateway.access_log().iter().any(|line| line.contains("/silent")));
}

#[test]
fn standard_output_holds_the_access_log_alone() {
    let backend = Backend::echo("shop");
    let gateway = Gateway::with(&Folder::with(site("shop", HOST, &[&backend])), &["--v=3"]);
    get(gateway.http, HOST, "/one");
    gateway.await_access("/one");
    assert_eq!(gateway.access_log().len(), 1, "{:?}", gateway.access_log());
}
