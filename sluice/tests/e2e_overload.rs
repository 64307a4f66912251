//! More clients than there is room for.

use std::time::{Duration, Instant};

use crate::harness::{Backend, Connection, Folder, Gateway, await_until, config_map, pause, site};

const HOST: &str = "shop.example";
const CONFIG: &str = "ingress-nginx/controller";
/// Open files of the gateway. Half of them are for clients.
const DESCRIPTORS: usize = 256;
const CLIENTS: usize = 400;

#[test]
fn without_descriptors_left_it_serves_open_connections_answers_probes_and_recovers_at_once() {
    let backend = Backend::echo("shop");
    let gateway = Gateway::with_descriptors(&Folder::with(site("shop", HOST, &[&backend])), DESCRIPTORS);
    let mut first = Connection::plain(gateway.http);
    assert_eq!(first.get(HOST, "/").status, 200);
    let clients: Vec<Connection> = (0..CLIENTS).map(|_| Connection::plain(gateway.http)).collect();
    await_until("refusals", || counter(&gateway, "sluice_connections_refused_total") > 0);
    assert_eq!(first.get(HOST, "/").status, 200, "an open connection is served");
    assert_eq!(gateway.health(), Some(200));
    await_until("accepted, handled and refused connections to add up", || {
        let text = gateway.metrics();
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with("nginx_ingress") && line.contains(name));
            line.and_then(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).unwrap()
        };
        let (accepted, handled) = (value("state=\"accepted\""), value("state=\"handled\""));
        assert!(accepted >= handled, "{accepted} accepted, {handled} handled");
        accepted == CLIENTS + 1 && handled <= DESCRIPTORS && handled > DESCRIPTORS / 4
    });

    let (before, since) = (gateway.cpu_time(), Instant::now());
    while since.elapsed() < Duration::from_secs(1) {
        pause();
    }
    let used = gateway.cpu_time() - before;
    assert!(used < Duration::from_millis(500), "it is busy with nothing: {used:?} of {:?}", since.elapsed());

    drop(clients);
    await_until("room", || {
        Connection::try_plain(gateway.http)
            .and_then(|mut connection| connection.try_request("GET", HOST, "/", &[], ""))
            .is_ok_and(|answer| answer.is_some_and(|answer| answer.status == 200))
    });
    assert_eq!(first.get(HOST, "/").status, 200);
}

#[test]
fn more_clients_than_the_operator_allows_are_refused_until_there_are_fewer() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    let limit =
        |most: &str| folder.write("config.yaml", config_map(CONFIG, &[("max-worker-connections", most)]));
    limit("5");
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    let is_served = || {
        let answer = Connection::try_plain(gateway.http)
            .and_then(|mut connection| connection.try_request("GET", HOST, "/", &[], ""));
        answer.is_ok_and(|answer| answer.is_some_and(|answer| answer.status == 200))
    };
    let mut kept: Vec<Connection> = (0..5).map(|_| Connection::plain(gateway.http)).collect();
    kept.iter_mut().for_each(|connection| assert_eq!(connection.get(HOST, "/").status, 200));
    assert!(!is_served(), "the sixth");
    limit("50");
    await_until("room for more", is_served);
    limit("5");
    await_until("no room for more", || !is_served());
    kept.iter_mut().for_each(|connection| assert_eq!(connection.get(HOST, "/").status, 200));
    kept.clear();
    await_until("room again", is_served);
}

#[test]
fn the_budget_of_bodies_changes_live() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    let limit = || counter(&gateway, "sluice_body_memory_limit_bytes ");
    assert_eq!(limit(), 128 << 20);
    folder.write("config.yaml", config_map(CONFIG, &[("body-memory-budget", "1m")]));
    await_until("less of it", || limit() == 1 << 20);
    // More than that passes all the same, for what finds no memory waits on disk.
    let large = "x".repeat(1_000_000);
    for _ in 0..3 {
        let response = Connection::plain(gateway.http).request("POST", HOST, "/", &[], &large);
        assert_eq!(response.json()["body"].as_str().map(str::len), Some(large.len()));
    }
}

fn counter(gateway: &Gateway, name: &str) -> u64 {
    let metrics = gateway.metrics();
    let line = metrics.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.rsplit(' ').next()).map_or(0, |value| value.parse().unwrap())
}
