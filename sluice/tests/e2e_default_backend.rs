//! Requests without a matching rule.

use crate::harness::manifest::service_with;
use crate::harness::{Backend, Folder, Gateway, Ingress, await_until, get, site};

#[test]
fn without_a_default_backend_there_is_a_404_and_a_health_answer() {
    let gateway = Gateway::start(&Folder::with(""));
    let response = get(gateway.http, "unknown.example", "/x");
    assert_eq!(response.status, 404);
    assert!(response.text().contains("404 Not Found"), "{}", response.text());
    assert_eq!(get(gateway.http, "unknown.example", "/healthz").status, 200);
}

#[test]
fn the_program_has_a_default_backend_that_may_come_later() {
    let fallback = Backend::echo("fallback");
    let shop = Backend::echo("shop");
    let ingress = Ingress::new("shop").path("shop.example", "/cart", "shop").text();
    let folder = Folder::with(ingress + &service_with("shop", &[&shop]));
    let gateway = Gateway::with(&folder, &["--default-backend-service", "default/fallback"]);
    assert_eq!(get(gateway.http, "unknown.example", "/x").status, 404);
    folder.write("fallback.yaml", service_with("fallback", &[&fallback]));
    await_until("the default backend", || get(gateway.http, "unknown.example", "/x").backend() == "fallback");
    assert_eq!(get(gateway.http, "shop.example", "/cart").backend(), "shop");
    assert_eq!(get(gateway.http, "shop.example", "/other").backend(), "fallback", "a host without /");
    folder.remove("fallback.yaml");
    await_until("the built-in answer again", || get(gateway.http, "unknown.example", "/x").status == 404);
}

#[test]
fn an_ingress_with_a_default_backend_alone_catches_all() {
    let [catch, shop] = ["catch", "shop"].map(Backend::echo);
    let objects = Ingress::new("catch").default_backend("catch").text()
        + &service_with("catch", &[&catch])
        + &site("shop", "shop.example", &[&shop]);
    let folder = Folder::with(objects);
    let gateway = Gateway::start(&folder);
    assert_eq!(get(gateway.http, "unknown.example", "/any").backend(), "catch");
    assert_eq!(get(gateway.http, "shop.example", "/any").backend(), "shop");
}

#[test]
fn a_default_backend_with_rules_serves_the_hosts_of_its_ingress() {
    let [rest, shop] = ["rest", "shop"].map(Backend::echo);
    let objects = Ingress::new("shop").path("shop.example", "/cart", "shop").default_backend("rest").text()
        + &service_with("shop", &[&shop])
        + &service_with("rest", &[&rest]);
    let gateway = Gateway::start(&Folder::with(objects));
    assert_eq!(get(gateway.http, "shop.example", "/cart").backend(), "shop");
    assert_eq!(get(gateway.http, "shop.example", "/other").backend(), "rest");
}

#[test]
fn catch_alls_can_be_disabled_with_all_of_their_ingress() {
    let [rest, shop] = ["rest", "shop"].map(Backend::echo);
    let objects = Ingress::new("shop").path("shop.example", "/cart", "shop").default_backend("rest").text()
        + &service_with("shop", &[&shop])
        + &service_with("rest", &[&rest]);
    let gateway = Gateway::with(&Folder::with(objects), &["--disable-catch-all"]);
    assert_eq!(get(gateway.http, "shop.example", "/cart").status, 404);
    assert_eq!(get(gateway.http, "shop.example", "/other").status, 404);
}
