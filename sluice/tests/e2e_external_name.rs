//! Services of type ExternalName, with a DNS server controlled by the test.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use sluice_testing::dns::DnsServer;

use crate::harness::manifest::document;
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, await_until, get, pause, service};

const HOST: &str = "shop.example";
const ONE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const TWO: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Returns a Service of type ExternalName whose port 80 maps to `port` of the host.
fn external(name: &str, host: &str, port: u16) -> String {
    document(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"type": "ExternalName", "externalName": host, "ports": [{"port": 80, "targetPort": port}]},
    }))
}

fn shop(host: &str, port: u16) -> Folder {
    Folder::with(Ingress::new("shop").path(HOST, "/", "shop").text() + &external("shop", host, port))
}

fn start(dns: &DnsServer, folder: &Folder, flags: &[&str]) -> Gateway {
    start_with(dns, "options timeout:1 attempts:1", folder, flags)
}

fn start_with(dns: &DnsServer, lines: &str, folder: &Folder, flags: &[&str]) -> Gateway {
    let path = dns.resolv_conf(lines);
    Gateway::with(folder, &[&["--resolv-conf", path.to_str().unwrap()], flags].concat())
}

fn answers(gateway: &Gateway, backend: &str) -> bool {
    let response = get(gateway.http, HOST, "/");
    response.status == 200 && response.backend() == backend
}

#[test]
fn new_addresses_of_a_name_apply_without_a_failed_request() {
    let (dns, one) = (DnsServer::start(), Backend::echo("one"));
    let two = Backend::at("two", SocketAddr::new(TWO, one.address.port()));
    dns.set("api.test", &[ONE], 1);
    dns.set("long.test", &[ONE], 200);
    let folder = shop("api.test", one.address.port());
    folder.write("long.yaml", Ingress::new("long").path("long.example", "/", "long").text());
    folder.write("long-service.yaml", external("long", "long.test", one.address.port()));
    let gateway = start(&dns, &folder, &[]);
    await_until("the name", || answers(&gateway, "one"));
    await_until("the other name", || get(gateway.http, "long.example", "/").status == 200);
    let done = Arc::new(AtomicBool::new(false));
    let load = std::thread::spawn({
        let (done, address) = (done.clone(), gateway.http);
        move || {
            let mut connection = Connection::plain(address);
            let mut statuses = Vec::new();
            while !done.load(Ordering::Relaxed) {
                let response = connection.get(HOST, "/");
                statuses.push(response.status);
                if response.header("connection") == Some("close") {
                    connection = Connection::plain(address);
                }
                pause();
            }
            statuses
        }
    });
    for (address, name) in [(TWO, "two"), (ONE, "one"), (TWO, "two")] {
        dns.set("api.test", &[address], 1);
        await_until("the other address", || answers(&gateway, name));
    }
    done.store(true, Ordering::Relaxed);
    let statuses = load.join().unwrap();
    assert!(!statuses.is_empty() && statuses.iter().all(|status| *status == 200), "{statuses:?}");
    assert!(two.requests() > 0);
    assert!(dns.asked("api.test") > 3);
    assert_eq!(dns.asked("long.test"), 1, "its answer holds for longer");
}

#[test]
fn a_name_that_disappears_keeps_its_addresses_with_a_problem() {
    let (dns, one) = (DnsServer::start(), Backend::echo("one"));
    dns.set("api.test", &[ONE], 1);
    let gateway = start(&dns, &shop("api.test", one.address.port()), &[]);
    await_until("the name", || answers(&gateway, "one"));
    dns.remove("api.test");
    let gone =
        "api.test cannot be resolved: it does not exist (NXDOMAIN); the addresses that it had stay in use";
    await_until("the problem", || gateway.problems().contains(gone));
    assert!(answers(&gateway, "one"));
    dns.fail("api.test");
    await_until("another problem", || gateway.problems().contains("the name server answers Server Failure"));
    assert!(answers(&gateway, "one"));
    dns.silence("api.test");
    await_until("silence", || gateway.problems().contains("no name server answers"));
    assert!(answers(&gateway, "one"));
    dns.set("api.test", &[ONE], 1);
    await_until("no problem", || !gateway.problems().contains("cannot be resolved"));
    assert!(answers(&gateway, "one"));
}

#[test]
fn a_name_that_never_resolved_gets_503_until_it_does() {
    let (dns, one) = (DnsServer::start(), Backend::echo("one"));
    let gateway = start(&dns, &shop("late.test", one.address.port()), &[]);
    await_until("the problem", || gateway.problems().contains("its requests get 503"));
    assert_eq!(get(gateway.http, HOST, "/").status, 503);
    dns.set("late.test", &[ONE], 60);
    await_until("the name", || answers(&gateway, "one"));
}

#[test]
fn search_domains_of_resolv_conf_apply_without_a_final_dot() {
    let (dns, one) = (DnsServer::start(), Backend::echo("one"));
    dns.set("db.shop.svc.cluster.test", &[ONE], 60);
    dns.set("whole.test", &[ONE], 60);
    let folder = shop("db.shop", one.address.port());
    folder.write("whole.yaml", Ingress::new("whole").path("whole.example", "/", "whole").text());
    folder.write("whole-service.yaml", external("whole", "whole.test.", one.address.port()));
    let lines = "search default.svc.cluster.test svc.cluster.test cluster.test\noptions ndots:5 timeout:1";
    let gateway = start_with(&dns, lines, &folder, &[]);
    await_until("the short name", || answers(&gateway, "one"));
    await_until("the whole name", || get(gateway.http, "whole.example", "/").status == 200);
    assert_eq!(dns.asked("db.shop.default.svc.cluster.test"), 1, "in the order of the file");
    assert_eq!(dns.asked("db.shop.cluster.test") + dns.asked("db.shop"), 0);
    assert_eq!(dns.asked("whole.test.default.svc.cluster.test"), 0);
}

#[test]
fn a_name_has_addresses_of_both_families() {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        println!("skipped: this machine has no IPv6");
        return;
    }
    let (dns, four) = (DnsServer::start(), Backend::echo("four"));
    let address = IpAddr::from(Ipv6Addr::LOCALHOST);
    let six = Backend::at("six", SocketAddr::new(address, four.address.port()));
    dns.set("api.test", &[ONE, address], 60);
    let gateway = start(&dns, &shop("api.test", six.address.port()), &[]);
    await_until("one of them", || get(gateway.http, HOST, "/").status == 200);
    (0..10).for_each(|_| assert_eq!(get(gateway.http, HOST, "/").status, 200));
    assert!(four.requests() >= 5 && six.requests() >= 5);
}

#[test]
fn names_of_the_gateways_own_machine_are_refused() {
    let (dns, one) = (DnsServer::start(), Backend::echo("one"));
    for refused in ["localhost", "127.0.0.1", "169.254.169.254", "fd00:ec2::254"] {
        let gateway = start(&dns, &shop(refused, one.address.port()), &[]);
        assert_eq!(get(gateway.http, HOST, "/").status, 503, "{refused}");
        let problems = gateway.problems();
        let fault = format!("is of type ExternalName, and the name {refused:?}");
        assert!(problems.contains(&fault), "{problems}");
    }
    assert_eq!(one.requests(), 0);
}

#[test]
fn an_external_name_may_be_any_default_backend() {
    let (dns, one) = (DnsServer::start(), Backend::echo("one"));
    dns.set("api.test", &[ONE], 60);
    let folder = Folder::with(external("other", "api.test", one.address.port()));
    // The Service `empty` has no endpoints.
    folder.write("empty.yaml", service("empty"));
    let own = Ingress::new("own").path("own.example", "/", "empty").annotation("default-backend", "other");
    folder.write("own.yaml", own.text());
    let rest = Ingress::new("rest").path("rest.example", "/cart", "empty").default_backend("other");
    folder.write("rest.yaml", rest.text());
    let gateway = start(&dns, &folder, &["--default-backend-service", "default/other"]);
    for (host, path) in [("unknown.example", "/"), ("own.example", "/"), ("rest.example", "/other")] {
        await_until(host, || {
            let response = get(gateway.http, host, path);
            response.status == 200 && response.backend() == "one"
        });
    }
    assert!(!gateway.problems().contains("ExternalName"), "{}", gateway.problems());
    // Without a port it is undefined which port to use.
    let portless = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "other", "namespace": "default"},
        "spec": {"type": "ExternalName", "externalName": "api.test"}});
    folder.write("objects.yaml", document(&portless));
    await_until("the built-in answer", || get(gateway.http, "unknown.example", "/").status == 404);
    assert!(gateway.problems().contains("has no TCP port"), "{}", gateway.problems());
}
