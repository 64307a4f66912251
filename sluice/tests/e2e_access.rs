//! Access control by address, and requests that are blocked on all hosts.

use crate::harness::h2;
use crate::harness::manifest::service_with;
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, await_until, config_map, get};

const HOST: &str = "shop.example";
const CONFIG: [&str; 2] = ["--configmap", "system/settings"];

fn shop(annotations: &[(&str, &str)]) -> Ingress {
    Ingress::new("shop").path(HOST, "/", "shop").annotations(annotations)
}

fn start(ingress: &Ingress, settings: &[(&str, &str)]) -> (Backend, Folder, Gateway) {
    let backend = Backend::echo("shop");
    let folder = Folder::with(service_with("shop", &[&backend]));
    folder.write("shop.yaml", ingress.text());
    folder.write("config.yaml", config_map("system/settings", settings));
    let gateway = Gateway::with(&folder, &CONFIG);
    (backend, folder, gateway)
}

fn from(gateway: &Gateway, client: &str) -> u16 {
    Connection::plain(gateway.http).request("GET", HOST, "/", &[("X-Forwarded-For", client)], "").status
}

#[test]
fn only_listed_clients_are_admitted_and_denied_ones_never() {
    let lists =
        [("allowlist-source-range", "10.0.0.0/8, 2001:db8::/32"), ("denylist-source-range", "10.6.6.6")];
    let (backend, folder, gateway) = start(&shop(&lists), &[("use-forwarded-headers", "true")]);
    for (client, status) in [
        ("10.1.2.3", 200),
        ("10.6.6.6", 403),
        ("2001:db8::1", 200),
        ("192.0.2.1", 403),
        ("::1", 403),
        ("::ffff:10.1.2.3", 200),
    ] {
        assert_eq!(from(&gateway, client), status, "{client}");
    }
    assert_eq!(backend.requests(), 3);
    let response = get(gateway.http, HOST, "/");
    assert_eq!(response.status, 403, "its own address is 127.0.0.1");
    assert!(response.text().contains("403 Forbidden"));
    // The older name of the annotation, with a thousand networks.
    let many: Vec<String> = (0..1000).map(|n| format!("10.{}.{}.0/24", n / 250, n % 250)).collect();
    folder.write("shop.yaml", shop(&[("whitelist-source-range", &many.join(","))]).text());
    await_until("the new list", || from(&gateway, "10.4.0.1") == 403);
    assert_eq!((from(&gateway, "10.3.9.9"), from(&gateway, "10.0.0.1")), (200, 200));
    folder.write("shop.yaml", shop(&[]).text());
    await_until("no list", || from(&gateway, "192.0.2.1") == 200);
}

#[test]
fn an_empty_address_list_closes_its_routes_but_not_its_older_name() {
    let (_backend, folder, gateway) = start(&shop(&[("allowlist-source-range", "")]), &[]);
    assert_eq!(get(gateway.http, HOST, "/").status, 503);
    folder.write("shop.yaml", shop(&[("whitelist-source-range", "")]).text());
    await_until("the older name", || get(gateway.http, HOST, "/").status == 200);
    folder.write("shop.yaml", shop(&[("denylist-source-range", "")]).text());
    await_until("the other list", || get(gateway.http, HOST, "/").status == 503);
}

#[test]
fn only_a_trusted_proxy_determines_the_client_address() {
    let (_backend, _folder, gateway) = start(&shop(&[("allowlist-source-range", "10.0.0.0/8")]), &[]);
    assert_eq!(from(&gateway, "10.1.2.3"), 403);
}

#[test]
fn the_config_map_lists_hold_where_an_ingress_has_none_of_its_own() {
    let (_backend, folder, gateway) = start(&shop(&[]), &[("whitelist-source-range", "10.0.0.0/8")]);
    assert_eq!(get(gateway.http, HOST, "/").status, 403);
    folder.write("shop.yaml", shop(&[("whitelist-source-range", "0.0.0.0/0,::/0")]).text());
    await_until("the own list", || get(gateway.http, HOST, "/").status == 200);
    let settings = |data: &[(&str, &str)]| folder.write("config.yaml", config_map("system/settings", data));
    settings(&[("denylist-source-range", "127.0.0.0/8")]);
    await_until("the deny list", || get(gateway.http, HOST, "/").status == 403);
    settings(&[]);
    await_until("no list", || get(gateway.http, HOST, "/").status == 200);
}

#[test]
fn an_unreadable_list_admits_no_client() {
    let (backend, folder, gateway) =
        start(&shop(&[("allowlist-source-range", "10.0.0.0/8, 300.1.2.3")]), &[]);
    assert_eq!(get(gateway.http, HOST, "/").status, 503);
    let problems = gateway.problems();
    for part in ["Ingress default/shop", "allowlist-source-range", "\"300.1.2.3\"", "correct the value"] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
    folder.write("shop.yaml", shop(&[]).text());
    await_until("the route", || get(gateway.http, HOST, "/").status == 200);
    let served = backend.requests();
    folder.write("config.yaml", config_map("system/settings", &[("block-cidrs", "10.0.0.0/99")]));
    await_until("everything to close", || get(gateway.http, HOST, "/").status == 503);
    assert!(gateway.problems().contains("block-cidrs"), "{}", gateway.problems());
    assert!(backend.requests() >= served);
}

#[test]
fn blocked_agents_referers_and_networks_get_403_from_every_host() {
    let blocks =
        [("block-user-agents", "BadBot/1.0, ~*curl/[0-9]"), ("block-referers", "~^https?://spam\\.")];
    let (backend, folder, gateway) = start(&shop(&[("permanent-redirect", "https://new.example")]), &blocks);
    let ask = |host: &str, agent: &str, referer: &str| {
        let fields = [("User-Agent", agent), ("Referer", referer)];
        Connection::plain(gateway.http).request("GET", host, "/healthz", &fields, "").status
    };
    assert_eq!(ask(HOST, "Mozilla", "https://a.example"), 301);
    for (agent, referer) in [
        ("badbot/1.0", ""),
        ("tool CURL/8", ""),
        ("Mozilla", "https://spam.example/"),
        ("Mozilla", "http://spam.x"),
    ] {
        assert_eq!(ask(HOST, agent, referer), 403, "{agent} {referer}");
        assert_eq!(ask("unknown.example", agent, referer), 403, "{agent} {referer}");
    }
    for agent in ["badbot/1.0 (x)", "curl/"] {
        assert_eq!(ask(HOST, agent, ""), 301, "{agent}");
    }
    assert_eq!(ask("unknown.example", "Mozilla", ""), 200);
    h2::run(async {
        let connection = h2::Connection::plain(gateway.http).await;
        let request = http::Request::get("http://shop.example/").header("user-agent", "BadBot/1.0");
        assert_eq!(connection.send(request.body(()).unwrap(), "").await.unwrap().status(), 403);
    });
    folder.write("config.yaml", config_map("system/settings", &[("block-cidrs", "127.0.0.0/8")]));
    await_until("the network", || ask(HOST, "Mozilla", "") == 403 && ask("unknown.example", "x", "") == 403);
    folder.write("config.yaml", config_map("system/settings", &[]));
    await_until("no client blocked", || ask(HOST, "badbot/1.0", "") == 301);
    assert_eq!(backend.requests(), 0);
}
