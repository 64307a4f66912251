//! Limits per client. Rates are a few requests per minute, so that none becomes due during a test.

use crate::harness::h2;
use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gate, Gateway, Ingress, Reply, await_until, config_map, get,
};

const HOST: &str = "shop.example";
const CONFIG: [&str; 2] = ["--configmap", "system/settings"];

fn shop(annotations: &[(&str, &str)]) -> Ingress {
    Ingress::new("shop").path(HOST, "/", "shop").path(HOST, "/cart", "shop").annotations(annotations)
}

fn start_with(backend: &Backend, ingress: &Ingress, settings: &[(&str, &str)]) -> (Folder, Gateway) {
    let folder = Folder::with(service_with("shop", &[backend]));
    folder.write("shop.yaml", ingress.text());
    folder.write("config.yaml", config_map("system/settings", settings));
    let gateway = Gateway::with(&folder, &CONFIG);
    (folder, gateway)
}

fn from(gateway: &Gateway, client: &str) -> u16 {
    Connection::plain(gateway.http).request("GET", HOST, "/", &[("X-Forwarded-For", client)], "").status
}

#[test]
fn a_client_gets_its_burst_over_all_paths_and_connections_and_then_503() {
    let backend = Backend::echo("shop");
    let limits = [("limit-rpm", "2"), ("limit-burst-multiplier", "3"), ("limit-allowlist", "10.9.0.0/16")];
    let (folder, gateway) = start_with(&backend, &shop(&limits), &[("use-forwarded-headers", "true")]);
    let ask = |path: &str| get(gateway.http, HOST, path).status;
    let statuses: Vec<u16> = (0..10).map(|n| ask(if n % 2 == 0 { "/" } else { "/cart" })).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 200, 503, 503, 503], "2 a minute, 6 early");
    assert_eq!(backend.requests(), 7);
    assert!(get(gateway.http, HOST, "/").text().contains("503 Service Temporarily Unavailable"));
    let others: Vec<u16> = (0..8).map(|_| from(&gateway, "192.0.2.1")).collect();
    assert_eq!(others[6..], [200, 503], "each client for itself");
    assert!((0..9).all(|_| from(&gateway, "10.9.1.1") == 200), "not limited");
    let settings = [("use-forwarded-headers", "true"), ("limit-req-status-code", "429")];
    folder.write("config.yaml", config_map("system/settings", &settings));
    await_until("the status", || ask("/") == 429);
    let response = get(gateway.http, HOST, "/");
    assert!(response.text().contains("429 Too Many Requests"), "{}", response.text());
    folder.write("shop.yaml", shop(&[]).text());
    await_until("no limit", || ask("/") == 200);
}

#[test]
fn responses_describe_the_limits_only_on_request() {
    let backend = Backend::with("shop", |_| Reply::field("RateLimit", "\"own\";r=7"));
    let limits = [("limit-rpm", "2"), ("limit-burst-multiplier", "1"), ("limit-allowlist", "10.9.0.0/16")];
    let with = |value| shop(&limits).raw_annotation("sluice.dev/rate-limit-fields", value);
    let settings = [("use-forwarded-headers", "true")];
    let (folder, gateway) = start_with(&backend, &with("true"), &settings);
    assert_eq!(gateway.problems(), "");
    let mut states = Vec::new();
    for status in [200, 200, 200, 503] {
        let response = get(gateway.http, HOST, "/");
        assert_eq!(response.status, status);
        assert_eq!(response.header("ratelimit-policy"), Some("\"rpm\";q=2;w=60"), "{status}");
        let all = response.all("ratelimit");
        match (status, &*all) {
            (200, ["\"own\";r=7", state]) | (503, [state]) => states.push((*state).to_owned()),
            other => panic!("{other:?}"),
        }
    }
    // A request a minute ahead or less, so the seconds depend on the speed of the machine.
    let left: Vec<&str> = states.iter().map(|state| state.split(";t=").next().unwrap()).collect();
    assert_eq!(left, ["\"rpm\";r=2", "\"rpm\";r=1", "\"rpm\";r=0", "\"rpm\";r=0"]);
    let reset: u64 = states[3].rsplit('=').next().unwrap().parse().unwrap();
    assert!((1..=60).contains(&reset), "{states:?}");
    let exempt = [("X-Forwarded-For", "10.9.1.1")];
    let response = Connection::plain(gateway.http).request("GET", HOST, "/", &exempt, "");
    assert_eq!((response.status, response.header("ratelimit-policy")), (200, None));
    folder.write("shop.yaml", with("false").text());
    await_until("no fields", || get(gateway.http, HOST, "/").header("ratelimit-policy").is_none());
}

#[test]
fn a_change_elsewhere_forgets_nothing_and_http2_counts_alike() {
    let backend = Backend::echo("shop");
    let limits = [("limit-rpm", "1"), ("limit-burst-multiplier", "2")];
    let (folder, gateway) = start_with(&backend, &shop(&limits), &[]);
    h2::run(async {
        let connection = h2::Connection::plain(gateway.http).await;
        for expected in [200, 200, 200, 503] {
            let response = connection.get("http://shop.example/").await.unwrap();
            assert_eq!(response.status(), expected);
        }
    });
    let wider = shop(&limits).path(HOST, "/new", "shop").annotation("x-forwarded-prefix", "/x");
    folder.write("shop.yaml", wider.annotation("proxy-read-timeout", "7").text());
    folder.write("other.yaml", Ingress::new("other").path("other.example", "/", "shop").text());
    await_until("the change", || get(gateway.http, "other.example", "/").status == 200);
    assert_eq!(get(gateway.http, HOST, "/new").status, 503, "what was used stays used");
}

#[test]
fn concurrent_requests_are_limited_until_one_ends() {
    let gate = Gate::default();
    let inside = gate.clone();
    let backend = Backend::with("shop", move |_| {
        inside.wait();
        Reply::Echo
    });
    let settings = [("limit-conn-status-code", "429")];
    let (_folder, gateway) = start_with(&backend, &shop(&[("limit-connections", "2")]), &settings);
    let mut held: Vec<Connection> = (0..2)
        .map(|_| {
            let mut connection = Connection::plain(gateway.http);
            connection.send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
            connection
        })
        .collect();
    await_until("both to be under way", || backend.requests() == 2);
    let third = get(gateway.http, HOST, "/cart");
    assert_eq!(third.status, 429, "of another path of the same Ingress");
    gate.open();
    for connection in &mut held {
        assert_eq!(connection.response().status, 200);
    }
    // The connections are open, but without requests.
    await_until("the places to be free", || {
        let mut again = Connection::plain(gateway.http);
        again.get(HOST, "/").status == 200
    });
    // Clients that disconnect release their slots, too.
    for _ in 0..5 {
        Connection::plain(gateway.http).send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    }
    await_until("a place", || get(gateway.http, HOST, "/").status == 200);
}

#[test]
fn a_client_over_both_limits_has_used_its_rate_and_gets_its_status() {
    let gate = Gate::default();
    let inside = gate.clone();
    let backend = Backend::with("shop", move |_| {
        inside.wait();
        Reply::Echo
    });
    let limits = [("limit-connections", "1"), ("limit-rpm", "1"), ("limit-burst-multiplier", "1")];
    let settings = [("limit-conn-status-code", "429")];
    let (_folder, gateway) = start_with(&backend, &shop(&limits), &settings);
    let mut held = Connection::plain(gateway.http);
    held.send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    await_until("the request to be under way", || backend.requests() == 1);
    assert_eq!([0; 2].map(|_| get(gateway.http, HOST, "/").status), [429, 503]);
    gate.open();
    assert_eq!(held.response().status, 200);
    assert_eq!(get(gateway.http, HOST, "/").status, 503);
}

#[test]
fn the_configured_key_identifies_a_client() {
    let backend = Backend::echo("shop");
    let limits = [("limit-rpm", "1"), ("limit-burst-multiplier", "2")];
    let by_key = [("limit-conn-zone-variable", "$http_x_api_key")];
    let (folder, gateway) = start_with(&backend, &shop(&limits), &by_key);
    let with = |key: &str| {
        Connection::plain(gateway.http).request("GET", HOST, "/", &[("X-Api-Key", key)], "").status
    };
    let ask = || get(gateway.http, HOST, "/").status;
    let statuses = ["a", "a", "b", "a", "a", "b"].map(with);
    assert_eq!(statuses, [200, 200, 200, 200, 503, 200], "1 a minute, 2 early, for each key");
    assert!((0..9).all(|_| ask() == 200), "who has no key is not counted, as with nginx");
    let other = [("limit-conn-zone-variable", "$remote_addr$http_x_none")];
    folder.write("config.yaml", config_map("system/settings", &other));
    await_until("each address for itself", || ask() == 503);
    assert_eq!(with("c"), 503, "the key means nothing");
    folder.write("config.yaml", config_map("system/settings", &[("limit-conn-zone-variable", "$nothing")]));
    await_until("a problem", || gateway.problems().contains("data[limit-conn-zone-variable]"));
    await_until("the default, each address for itself", || ask() == 503);
    folder.write("config.yaml", config_map("system/settings", &by_key));
    await_until("the keys", || with("d") == 200);
}

#[test]
fn an_unreadable_limit_closes_and_an_unreadable_network_is_skipped() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start_with(&backend, &shop(&[("limit-rps", "ten")]), &[]);
    assert_eq!((get(gateway.http, HOST, "/").status, backend.requests()), (404, 0));
    assert!(gateway.problems().contains("limit-rps"), "{}", gateway.problems());
    folder.write("shop.yaml", shop(&[("limit-rps", "10"), ("limit-whitelist", "all")]).text());
    await_until("the other problem", || gateway.problems().contains("limit-whitelist"));
    await_until("the route, with its limit", || get(gateway.http, HOST, "/").status == 200);
}
