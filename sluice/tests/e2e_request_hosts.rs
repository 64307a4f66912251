//! Authorisation services and mirrors at the host of the request (`https://$host/...`), on rules
//! for many hosts, with a DNS server controlled by the test.

use std::net::{IpAddr, Ipv4Addr};

use sluice_testing::dns::DnsServer;

use crate::harness::h2::{self, run};
use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, Reply, TestCertificate, await_some, await_until,
    config_map, get,
};

const HOST: &str = "a.shop.example";
const CONFIG: &str = "ingress-nginx/controller";
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Starts an authorisation service that admits `session=ann`.
fn service() -> Backend {
    Backend::with("auth", |request| match request.header("cookie") {
        Some("session=ann") => Reply::status(202),
        _ => Reply::status(401),
    })
}

/// Returns an Ingress for this host whose clients have a second to be admitted.
fn guarded(host: &str, url: &str) -> Ingress {
    Ingress::new("shop")
        .path(host, "/", "shop")
        .annotation("auth-url", url)
        .annotation("proxy-connect-timeout", "1")
}

fn start(dns: &DnsServer, ingress: &str, shop: &Backend, flags: &[&str]) -> (Folder, Gateway) {
    let folder = Folder::with(service_with("shop", &[shop]));
    folder.write("ingress.yaml", ingress);
    let path = dns.resolv_conf("options timeout:1 attempts:1");
    let flags = [&["--resolv-conf", path.to_str().unwrap(), "--configmap", CONFIG], flags].concat();
    let gateway = Gateway::with(&folder, &flags);
    (folder, gateway)
}

fn ask(gateway: &Gateway, host: &str, who: &str) -> u16 {
    let fields = [("Cookie", &*format!("session={who}"))];
    Connection::plain(gateway.http).request("GET", host, "/", &fields, "").status
}

#[test]
fn a_wildcard_host_is_authorised_at_the_host_of_the_request() {
    let (dns, auth, shop) = (DnsServer::start(), service(), Backend::echo("shop"));
    dns.set(HOST, &[LOCAL], 200);
    let url = format!("http://$host:{}/oauth2/auth", auth.address.port());
    let ingress = guarded("*.shop.example", &url).tls(&["*.shop.example"], "tls");
    let ingress = ingress.annotation("ssl-redirect", "false").text();
    let objects = ingress + &TestCertificate::new(&["*.shop.example"]).secret("tls");
    let (_folder, gateway) = start(&dns, &objects, &shop, &[]);
    assert_eq!((ask(&gateway, HOST, "ann"), ask(&gateway, HOST, "eve")), (200, 401));
    assert_eq!(auth.seen()[0].header("host"), Some(HOST));
    assert_eq!(ask(&gateway, "A.Shop.Example:80", "ann"), 200);
    assert_eq!(dns.asked(HOST), 1, "its answer holds");
    run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        for (who, status) in [("ann", 200), ("eve", 401)] {
            let request = http::Request::get(format!("https://{HOST}/"));
            let request = request.header("cookie", format!("session={who}")).body(()).unwrap();
            assert_eq!(connection.send(request, "").await.unwrap().status(), status);
        }
    });
    assert!(!gateway.problems().contains("$host"), "{}", gateway.problems());
}

#[test]
fn a_host_that_cannot_be_resolved_admits_no_client() {
    let (dns, auth, shop) = (DnsServer::start(), service(), Backend::echo("shop"));
    dns.silence("silent.shop.example");
    let url = format!("http://$host:{}/", auth.address.port());
    let (_folder, gateway) = start(&dns, &guarded("*.shop.example", &url).text(), &shop, &[]);
    for host in [HOST, "silent.shop.example", "a%20b.shop.example"] {
        assert_eq!(ask(&gateway, host, "ann"), 500, "{host}");
    }
    assert_eq!((auth.requests(), shop.requests()), (0, 0));
    let before = dns.asked(HOST);
    assert_eq!((ask(&gateway, HOST, "ann"), dns.asked(HOST)), (500, before), "a failure holds");
    dns.set(HOST, &[LOCAL], 200);
    await_until("the name in DNS", || ask(&gateway, HOST, "ann") == 200);
}

#[test]
fn on_the_catch_all_a_client_chose_the_service_that_admitted_it() {
    let (dns, auth, shop) = (DnsServer::start(), service(), Backend::echo("shop"));
    dns.set(HOST, &[LOCAL], 200);
    let url = format!("http://$host:{}/", auth.address.port());
    let (folder, gateway) = start(&dns, &guarded("", &url).text(), &shop, &[]);
    assert_eq!((ask(&gateway, HOST, "ann"), ask(&gateway, "127.0.0.1", "ann")), (503, 503));
    assert!(gateway.problems().contains("the rule serves every host"), "{}", gateway.problems());
    let open = Ingress::new("shop").path("", "/", "shop").text();
    folder.write("ingress.yaml", open);
    await_until("the rule without authorisation", || ask(&gateway, HOST, "eve") == 200);
    folder.write("config.yaml", config_map(CONFIG, &[("global-auth-url", &*url)]));
    await_until("the global service", || ask(&gateway, HOST, "ann") == 503);
    assert_eq!(auth.requests(), 0);
}

#[test]
fn a_mirror_at_the_host_of_a_request_is_no_listener_of_the_gateway() {
    let (dns, shop) = (DnsServer::start(), Backend::echo("shop"));
    let ingress = Ingress::new("shop").path("", "/", "shop");
    let gateway_port = |gateway: &Gateway| format!("http://$host:{}/", gateway.admin.port());
    let (folder, gateway) = start(&dns, &ingress.text(), &shop, &[]);
    folder.write("ingress.yaml", ingress.annotation("mirror-target", &gateway_port(&gateway)).text());
    let failed = || gateway.metric("sluice_mirrored_requests_total{outcome=\"failed\"}") > 0;
    await_until("a copy that is not sent", || get(gateway.http, "127.0.0.1", "/").status == 200 && failed());
}

#[test]
fn the_global_service_is_at_the_host_of_a_request() {
    let (dns, auth, shop) = (DnsServer::start(), service(), Backend::echo("shop"));
    dns.set(HOST, &[LOCAL], 200);
    let wild = Ingress::new("shop").path("*.shop.example", "/", "shop").text();
    let (folder, gateway) = start(&dns, &wild, &shop, &["--default-backend-service", "default/shop"]);
    assert_eq!(ask(&gateway, HOST, "eve"), 200);
    let url = format!("http://$host:{}/", auth.address.port());
    folder.write("config.yaml", config_map(CONFIG, &[("global-auth-url", &*url)]));
    await_until("the global service", || ask(&gateway, HOST, "eve") == 401);
    assert_eq!(ask(&gateway, HOST, "ann"), 200);
    assert_eq!(ask(&gateway, "unknown.test", "eve"), 200, "the default backend is open, as in ingress-nginx");
}

#[test]
fn a_service_may_be_below_the_host_of_the_request_and_have_tls() {
    let (dns, shop) = (DnsServer::start(), Backend::echo("shop"));
    dns.set("auth.a.shop.example", &[LOCAL], 200);
    let certificate = TestCertificate::new(&["auth.a.shop.example"]);
    let auth = Backend::tls("auth", certificate.server_config());
    let url = format!("https://auth.$host:{}/check", auth.address.port());
    let (_folder, gateway) = start(&dns, &guarded("*.shop.example", &url).text(), &shop, &[]);
    assert_eq!(ask(&gateway, HOST, "ann"), 200);
    assert_eq!(auth.seen()[0].header("host"), Some("auth.a.shop.example"));
    assert_eq!(ask(&gateway, "b.shop.example", "ann"), 500);
}

#[test]
fn cached_decisions_of_one_host_do_not_apply_to_another() {
    let (dns, shop) = (DnsServer::start(), Backend::echo("shop"));
    let auth = Backend::with("auth", |request| match request.header("host") {
        Some(HOST) => Reply::status(200),
        _ => Reply::status(403),
    });
    for host in [HOST, "b.shop.example"] {
        dns.set(host, &[LOCAL], 200);
    }
    let url = format!("http://$host:{}/", auth.address.port());
    let cached = guarded("*.shop.example", &url).annotation("auth-cache-key", "$cookie_session");
    let (_folder, gateway) = start(&dns, &cached.text(), &shop, &[]);
    for _ in 0..2 {
        assert_eq!((ask(&gateway, HOST, "ann"), ask(&gateway, "b.shop.example", "ann")), (200, 403));
    }
}

#[test]
fn a_wildcard_host_is_mirrored_to_the_host_of_the_request() {
    let (dns, shop) = (DnsServer::start(), Backend::echo("shop"));
    let mirror = Backend::with("mirror", |_| Reply::status(200));
    dns.set(HOST, &[LOCAL], 200);
    let url = format!("http://$host:{}$request_uri", mirror.address.port());
    let ingress = Ingress::new("shop").path("*.shop.example", "/", "shop").annotation("mirror-target", &url);
    let (_folder, gateway) = start(&dns, &ingress.text(), &shop, &[]);
    assert_eq!(get(gateway.http, "gone.shop.example", "/x").status, 200, "its copy is dropped");
    assert_eq!(get(gateway.http, HOST, "/y?z=1").status, 200);
    let copy = await_some("a copy", || mirror.seen().first().cloned());
    assert_eq!((&*copy.start, copy.header("host")), ("GET /y?z=1 HTTP/1.1", Some(HOST)));
    let failed = || gateway.metric("sluice_mirrored_requests_total{outcome=\"failed\"}") == 1;
    await_until("the dropped copy counted", failed);
}
