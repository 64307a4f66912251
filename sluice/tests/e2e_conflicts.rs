//! Conflicts between two objects.

use crate::harness::manifest::service_with;
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, TestCertificate, await_until, get};

const OLD: &str = "2023-01-01T00:00:00Z";
const NEW: &str = "2024-01-01T00:00:00Z";
const HOST: &str = "shop.example";

/// Creates the backends and Services `old` and `new`.
fn two() -> ([Backend; 2], String) {
    let backends = ["old", "new"].map(Backend::echo);
    let services = service_with("old", &[&backends[0]]) + &service_with("new", &[&backends[1]]);
    (backends, services)
}

#[test]
fn the_oldest_ingress_owns_a_path_and_the_other_gets_a_problem() {
    let (_backends, services) = two();
    let folder = Folder::with(services);
    folder.write("new.yaml", Ingress::new("aaa").created(NEW).path(HOST, "/", "new").text());
    folder.write("old.yaml", Ingress::new("zzz").created(OLD).path(HOST, "/", "old").text());
    let gateway = Gateway::start(&folder);
    assert_eq!(get(gateway.http, HOST, "/").backend(), "old");
    let problems = gateway.problems();
    assert!(problems.contains("aaa") && problems.contains("default/zzz"), "{problems}");
    folder.remove("old.yaml");
    await_until("the other to take over", || get(gateway.http, HOST, "/").backend() == "new");
    await_until("its problem to vanish", || !gateway.problems().contains("zzz"));
    folder.write("old.yaml", Ingress::new("zzz").created(OLD).path(HOST, "/", "old").text());
    await_until("the oldest to take it back", || get(gateway.http, HOST, "/").backend() == "old");
}

#[test]
fn of_the_same_age_the_last_by_name_wins() {
    let (_backends, services) = two();
    let objects = services
        + &Ingress::new("alpha").path(HOST, "/", "new").text()
        + &Ingress::new("beta").path(HOST, "/", "old").text();
    let gateway = Gateway::start(&Folder::with(objects));
    assert_eq!(get(gateway.http, HOST, "/").backend(), "old");
}

#[test]
fn one_path_with_two_types_is_no_conflict() {
    let (_backends, services) = two();
    let objects = services
        + &Ingress::new("a").created(OLD).typed_path(HOST, "/x", "Prefix", "old").text()
        + &Ingress::new("b").created(NEW).typed_path(HOST, "/x", "Exact", "new").text();
    let gateway = Gateway::start(&Folder::with(objects));
    assert_eq!(get(gateway.http, HOST, "/x").backend(), "new");
    assert_eq!(get(gateway.http, HOST, "/x/y").backend(), "old");
}

#[test]
fn the_rest_of_the_loser_is_served() {
    let (_backends, services) = two();
    let objects = services
        + &Ingress::new("a").created(OLD).path(HOST, "/", "old").text()
        + &Ingress::new("b").created(NEW).path(HOST, "/", "new").path(HOST, "/own", "new").text();
    let gateway = Gateway::start(&Folder::with(objects));
    assert_eq!(get(gateway.http, HOST, "/").backend(), "old");
    assert_eq!(get(gateway.http, HOST, "/own").backend(), "new");
}

#[test]
fn the_oldest_ingress_with_a_certificate_decides_for_the_host() {
    let (_backends, services) = two();
    let [first, second] = [TestCertificate::new(&[HOST]), TestCertificate::new(&[HOST])];
    let objects = services
        + &Ingress::new("b").created(NEW).path(HOST, "/new", "new").tls(&[HOST], "second").text()
        + &Ingress::new("a").created(OLD).path(HOST, "/", "old").tls(&[HOST], "first").text()
        + &first.secret("first")
        + &second.secret("second");
    let gateway = Gateway::start(&Folder::with(objects));
    assert_eq!(Connection::tls(gateway.https, HOST).certificate(), first.der);
}
