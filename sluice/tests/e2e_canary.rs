//! Canaries, from their annotations to the selected endpoint.

use crate::harness::client::Response;
use crate::harness::h2;
use crate::harness::manifest::{endpoints, service, service_with};
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, TestCertificate, await_until};

const HOST: &str = "shop.example";

fn main() -> Ingress {
    Ingress::new("main").path(HOST, "/", "stable")
}

fn canary(annotations: &[(&str, &str)]) -> Ingress {
    Ingress::new("next").path(HOST, "/", "next").annotation("canary", "true").annotations(annotations)
}

struct Shop {
    folder: Folder,
    gateway: Gateway,
    _stable: Backend,
    _next: Backend,
}

impl Shop {
    fn open(main: &Ingress, canary: &Ingress) -> Self {
        let (stable, next) = (Backend::echo("stable"), Backend::echo("next"));
        let services = service_with("stable", &[&stable]) + &service("next");
        let folder = Folder::with(main.text() + &services);
        folder.write("next.yaml", endpoints("next", &[&next]));
        folder.write("canary.yaml", canary.text());
        let gateway = Gateway::with(&folder, &["--enable-metrics"]);
        Self { folder, gateway, _stable: stable, _next: next }
    }

    fn ask(&self, fields: &[(&str, &str)]) -> Response {
        Connection::plain(self.gateway.http).request("GET", HOST, "/", fields, "")
    }

    fn backend(&self, fields: &[(&str, &str)]) -> String {
        self.ask(fields).backend()
    }

    /// Returns how many of `of` requests go to the canary.
    fn taken(&self, of: usize, fields: &[(&str, &str)]) -> usize {
        let mut connection = Connection::plain(self.gateway.http);
        (0..of).filter(|_| connection.request("GET", HOST, "/", fields, "").backend() == "next").count()
    }
}

#[test]
fn header_then_cookie_then_weight() {
    let annotations =
        [("canary-by-header", "X-Canary"), ("canary-by-cookie", "side"), ("canary-weight", "100")];
    let shop = Shop::open(&main(), &canary(&annotations));
    for (fields, backend) in [
        (&[][..], "next"),
        (&[("X-Canary", "never")], "stable"),
        (&[("X-Canary", "never"), ("Cookie", "side=always")], "stable"),
        (&[("X-Canary", "other"), ("Cookie", "a=b; side=never")], "stable"),
        (&[("X-Canary", "other"), ("Cookie", "side=other")], "next"),
        (&[("X-Canary", "always"), ("Cookie", "side=never")], "next"),
    ] {
        assert_eq!(shop.backend(fields), backend, "{fields:?}");
    }
    shop.folder.write(
        "canary.yaml",
        canary(&[("canary-by-header", "X-Canary"), ("canary-by-header-value", "eu")]).text(),
    );
    await_until("the value", || shop.backend(&[]) == "stable");
    for (value, backend) in [("eu", "next"), ("always", "stable"), ("eu2", "stable")] {
        assert_eq!(shop.backend(&[("X-Canary", value)]), backend, "{value}");
    }
    let pattern = [("canary-by-header", "X-Canary"), ("canary-by-header-pattern", "^(eu|us)-[0-9]+$")];
    shop.folder.write("canary.yaml", canary(&pattern).text());
    await_until("the pattern", || shop.backend(&[("X-Canary", "us-7")]) == "next");
    for (value, backend) in [("eu-12", "next"), ("eu", "stable"), ("always", "stable")] {
        assert_eq!(shop.backend(&[("X-Canary", value)]), backend, "{value}");
    }
}

#[test]
fn weights_change_live_and_a_canary_that_goes_leaves_nothing() {
    let shop = Shop::open(&main(), &canary(&[("canary-weight", "0")]));
    assert_eq!(shop.taken(20, &[]), 0);
    let write = |weight: &str, total: &str| {
        let annotations = [("canary-weight", weight), ("canary-weight-total", total)];
        shop.folder.write("canary.yaml", canary(&annotations).text());
    };
    write("500", "1000");
    await_until("half", || shop.taken(10, &[]) > 0);
    // Six standard deviations of 400 draws with a probability of 1/2 are 60.
    let taken = shop.taken(400, &[]);
    assert!((140..=260).contains(&taken), "{taken}");
    write("1000", "1000");
    await_until("all", || shop.taken(10, &[]) == 10);
    assert_eq!(shop.taken(20, &[]), 20);
    shop.folder.remove("canary.yaml");
    await_until("no canary", || shop.taken(10, &[]) == 0);
}

#[test]
fn streams_of_http2_have_canaries_too_each_for_itself() {
    let shop = Shop::open(
        &main().tls(&[HOST], "tls"),
        &canary(&[("canary-by-header", "x-canary"), ("canary-by-cookie", "side")]),
    );
    shop.folder.write("tls.yaml", TestCertificate::new(&[HOST]).secret("tls"));
    h2::run(async {
        let connection = h2::Connection::tls(shop.gateway.https, HOST).await;
        for (name, value, backend) in [
            ("x-canary", "always", "next"),
            ("x-canary", "never", "stable"),
            ("cookie", "side=always", "next"),
        ] {
            let request = http::Request::get("https://shop.example/").header(name, value).body(()).unwrap();
            let response = connection.send(request, "").await.unwrap();
            let seen: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
            assert_eq!(seen["backend"], backend, "{name}: {value}");
        }
    });
}

#[test]
fn sessions_stick_to_the_side_on_which_they_began() {
    let sticky = main().annotation("affinity", "cookie");
    let by_header = [("canary-by-header", "x-canary")];
    let shop = Shop::open(&sticky, &canary(&by_header));
    for (value, backend, other) in [("always", "next", "never"), ("never", "stable", "always")] {
        // The ring of a pool is built outside the request path.
        await_until("a cookie", || shop.ask(&[("x-canary", value)]).cookie().is_some());
        let first = shop.ask(&[("x-canary", value)]);
        assert_eq!(first.backend(), backend);
        let cookie = first.cookie().unwrap();
        for fields in [&[("Cookie", &*cookie)][..], &[("Cookie", &cookie), ("x-canary", other)]] {
            let next = shop.ask(fields);
            assert_eq!((next.backend().as_str(), next.cookie()), (backend, None), "{fields:?}");
        }
    }
    let legacy = [("canary-by-header", "x-canary"), ("affinity-canary-behavior", "legacy")];
    let cookie = shop.ask(&[("x-canary", "never")]).cookie().unwrap();
    shop.folder.write("canary.yaml", canary(&legacy).text());
    await_until("legacy", || shop.backend(&[("Cookie", &cookie), ("x-canary", "always")]) == "next");
    let taken = shop.ask(&[("x-canary", "always")]);
    assert_eq!((taken.backend().as_str(), taken.cookie()), ("next", None), "the canary has no sessions");
    assert_eq!(shop.backend(&[("Cookie", &cookie)]), "stable");
}

#[test]
fn a_canary_without_endpoints_or_main_ingress_serves_nothing() {
    let shop = Shop::open(&main(), &canary(&[("canary-weight", "100")]));
    assert_eq!(shop.backend(&[]), "next");
    shop.folder.remove("next.yaml");
    await_until("the main Ingress", || shop.backend(&[]) == "stable");
    shop.folder.write("objects.yaml", service("stable") + &service("next"));
    await_until("no host", || shop.ask(&[]).status == 404);
    assert!(shop.gateway.problems().contains("no main Ingress has \"/\" of host shop.example"));
}

#[test]
fn log_and_metrics_name_the_canary_beside_the_main_service() {
    let shop = Shop::open(&main(), &canary(&[("canary-by-header", "x-canary")]));
    assert_eq!(shop.backend(&[("x-canary", "always"), ("User-Agent", "taken")]), "next");
    assert_eq!(shop.backend(&[("User-Agent", "left")]), "stable");
    let taken = shop.gateway.await_access("\"taken\"");
    assert!(taken.contains(" [default-stable-80] [default-next-80] "), "{taken}");
    let left = shop.gateway.await_access("\"left\"");
    assert!(left.contains(" [default-stable-80] [] "), "{left}");
    for canary in ["default-next-80", ""] {
        let label = format!("canary=\"{canary}\"");
        await_until("the metric", || {
            shop.gateway.metrics().lines().any(|line| {
                line.starts_with("nginx_ingress_controller_requests{")
                    && [&*label, "ingress=\"main\"", "service=\"stable\""]
                        .iter()
                        .all(|part| line.contains(part))
                    && line.ends_with(" 1")
            })
        });
    }
}

#[test]
fn a_slip_in_a_canary_leaves_the_main_ingress_as_it_is() {
    let shop = Shop::open(&main(), &canary(&[("canary-weight", "100")]));
    assert_eq!(shop.backend(&[]), "next");
    let slip = canary(&[("canary", "ture"), ("canary-weight", "100")]).created("2020-01-01T00:00:00Z");
    shop.folder.write("canary.yaml", slip.path(HOST, "/own", "next").text());
    await_until("the main Ingress alone", || shop.backend(&[]) == "stable");
    let own = Connection::plain(shop.gateway.http).get(HOST, "/own");
    assert_eq!(own.backend(), "stable", "it is no ordinary Ingress either");
    assert!(shop.gateway.problems().contains("is neither true nor false"));
}
