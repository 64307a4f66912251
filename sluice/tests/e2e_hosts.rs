//! Selection of a host.

use crate::harness::{Backend, Folder, Gateway, Ingress, get, manifest, site};

#[test]
fn an_exact_host_is_compared_without_case_port_or_final_dot() {
    let backend = Backend::echo("shop");
    let gateway = Gateway::start(&Folder::with(site("shop", "Shop.example", &[&backend])));
    for host in ["shop.example", "SHOP.Example", "shop.example:8080", "shop.example."] {
        assert_eq!(get(gateway.http, host, "/").backend(), "shop", "{host}");
    }
    for host in ["shop.example.org", "a.shop.example", "shopxexample", "other.example"] {
        assert_eq!(get(gateway.http, host, "/").status, 404, "{host}");
    }
}

#[test]
fn a_wildcard_covers_exactly_one_label() {
    let backend = Backend::echo("wild");
    let gateway = Gateway::start(&Folder::with(site("wild", "*.shop.example", &[&backend])));
    for host in ["a.shop.example", "B.SHOP.example", "a-1.shop.example:81"] {
        assert_eq!(get(gateway.http, host, "/").backend(), "wild", "{host}");
    }
    for host in ["shop.example", "a.b.shop.example", ".shop.example"] {
        assert_ne!(get(gateway.http, host, "/").status, 200, "{host}");
    }
}

#[test]
fn exact_is_before_wildcard_and_wildcard_before_no_host() {
    let [exact, wild, any] = ["exact", "wild", "any"].map(Backend::echo);
    let objects = site("exact", "a.shop.example", &[&exact])
        + &site("wild", "*.shop.example", &[&wild])
        + &site("any", "", &[&any]);
    let gateway = Gateway::start(&Folder::with(objects));
    assert_eq!(get(gateway.http, "a.shop.example", "/").backend(), "exact");
    assert_eq!(get(gateway.http, "b.shop.example", "/").backend(), "wild");
    assert_eq!(get(gateway.http, "elsewhere.example", "/").backend(), "any");
}

#[test]
fn one_ingress_may_have_many_hosts_and_one_host_many_ingresses() {
    let [one, two] = ["one", "two"].map(Backend::echo);
    let objects = Ingress::new("both").path("a.example", "/", "one").path("b.example", "/", "two").text()
        + &Ingress::new("more").path("a.example", "/two", "two").text()
        + &manifest::service_with("one", &[&one])
        + &manifest::service_with("two", &[&two]);
    let gateway = Gateway::start(&Folder::with(objects));
    assert_eq!(get(gateway.http, "a.example", "/").backend(), "one");
    assert_eq!(get(gateway.http, "b.example", "/").backend(), "two");
    assert_eq!(get(gateway.http, "a.example", "/two").backend(), "two");
}
