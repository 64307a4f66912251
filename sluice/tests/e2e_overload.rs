//! More clients than the gateway has capacity for.

use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{
    Backend, Connection, Folder, Gate, Gateway, Reply, await_until, config_map, h2, pause, site,
};

const HOST: &str = "shop.example";
const CONFIG: &str = "ingress-nginx/controller";
/// Limit of open files of the gateway. Half of them are for clients.
const DESCRIPTORS: usize = 256;
const CLIENTS: usize = 400;
/// Maximum number of connections per worker.
const LIMIT: usize = 5;

#[test]
fn more_clients_than_descriptors_leave_some_for_requests_and_probes() {
    let (gate, backend) = gated();
    let gateway = Gateway::with_descriptors(&Folder::with(site("shop", HOST, &[&backend])), DESCRIPTORS);
    let mut first = Connection::plain(gateway.http);
    first.send(format!("GET /slow HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    await_until("the request", || backend.requests() == 1);
    let clients: Vec<Connection> = (0..CLIENTS).map(|_| Connection::plain(gateway.http)).collect();
    await_until("the limit", || counter(&gateway, "sluice_connections_reclaimed_total") > 0);
    gate.open();
    assert_eq!(first.response().status, 200, "a request in progress goes on");
    assert!(is_served(&gateway), "a new client");
    assert_eq!(gateway.health(), Some(200));
    await_until("the connections that are open to be few", || {
        let text = gateway.metrics();
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with("nginx_ingress") && line.contains(name));
            line.and_then(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).unwrap()
        };
        let (accepted, active) = (value("state=\"accepted\""), value("state=\"active\""));
        accepted == CLIENTS + 2 && active <= DESCRIPTORS / 2 && active > DESCRIPTORS / 4
    });

    let (before, since) = (gateway.cpu_time(), Instant::now());
    while since.elapsed() < Duration::from_secs(1) {
        pause();
    }
    let used = gateway.cpu_time() - before;
    assert!(used < Duration::from_millis(500), "it is busy with nothing: {used:?} of {:?}", since.elapsed());

    drop(clients);
    await_until("room", || is_served(&gateway));
}

#[test]
fn at_the_limit_clients_are_refused_only_while_all_requests_run() {
    let (gate, backend) = gated();
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    let limit = |most: usize| {
        folder.write("config.yaml", config_map(CONFIG, &[("max-worker-connections", &most.to_string())]))
    };
    limit(LIMIT);
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    let mut busy = Vec::new();
    let is_refused = || counter(&gateway, "sluice_connections_refused_total ") > 0;
    while !is_refused() {
        let mut connection = Connection::plain(gateway.http);
        // A connection beyond the limit may already be closed.
        let _ = connection.try_send(format!("GET /slow HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
        busy.push(connection);
        await_until("an end or a request", || is_refused() || backend.requests() == busy.len());
    }
    busy.pop();
    assert!(busy.len() >= LIMIT && busy.len().is_multiple_of(LIMIT), "{} workers' worth", busy.len());
    assert!(!is_served(&gateway), "one more");
    limit(10 * LIMIT);
    await_until("room for more", || is_served(&gateway));
    limit(LIMIT);
    await_until("no room for more", || !is_served(&gateway));
    gate.open();
    busy.iter_mut().for_each(|connection| assert_eq!(connection.response().status, 200));
    await_until("room again", || is_served(&gateway));
}

/// Regression: silent connections kept new clients out for a minute.
#[test]
fn idle_connections_do_not_lock_out_new_clients() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    folder.write("config.yaml", config_map(CONFIG, &[("max-worker-connections", &LIMIT.to_string())]));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    let most = all_workers(LIMIT);
    let silent = |address| (0..2 * most).map(move |_| Connection::plain(address)).collect::<Vec<_>>();
    let mut opened = 0;
    // Connections in the kernel's queue would be newer than the client that must be served.
    let mut accepted = |more: usize| {
        opened += more;
        await_until("them to be accepted", || {
            counter(&gateway, "sluice_connections_accepted_total ") >= opened as u64
        });
    };
    let mut all = vec![silent(gateway.http), silent(gateway.https)];
    accepted(4 * most);
    assert!(is_served(&gateway), "beside silent ones");
    // An incomplete head, an incomplete TLS handshake, and the start of a further request.
    let mut begun = silent(gateway.http);
    begun.iter_mut().for_each(|connection| drop(connection.try_send("GET / HTTP/1.1\r\nHo")));
    accepted(2 * most + 1);
    assert!(is_served(&gateway), "beside incomplete heads");
    let mut hello = silent(gateway.https);
    hello.iter_mut().for_each(|connection| drop(connection.try_send(b"\x16\x03\x01")));
    accepted(2 * most + 1);
    assert!(is_served(&gateway), "beside incomplete handshakes");
    let mut pipelined = Vec::new();
    for _ in 0..2 * most {
        let mut connection = Connection::plain(gateway.http);
        connection.send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\nGET"));
        assert_eq!(connection.response().status, 200);
        pipelined.push(connection);
    }
    assert!(is_served(&gateway), "beside what comes after a response");
    all.extend([begun, hello, pipelined]);
    assert!(counter(&gateway, "sluice_connections_open ") as usize <= most + 64);
    assert!(counter(&gateway, "sluice_connections_reclaimed_total ") > 0);
    assert_eq!(counter(&gateway, "sluice_connections_refused_total "), 0);
    assert!(gateway.program_log().iter().any(|line| line.contains("limit of client connections is reached")));
}

#[test]
fn an_idle_http2_connection_is_closed_with_goaway_at_the_limit() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    folder.write("config.yaml", config_map(CONFIG, &[("max-worker-connections", &LIMIT.to_string())]));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    h2::run(async {
        let url = format!("http://{HOST}/");
        let mut idle = Vec::new();
        for _ in 0..all_workers(LIMIT) {
            let connection = h2::Connection::plain(gateway.http).await;
            assert_eq!(connection.get(&url).await.unwrap().status(), 200);
            idle.push(connection);
        }
        let address = gateway.http;
        let served = tokio::task::spawn_blocking(move || Connection::plain(address).get(HOST, "/").status);
        assert_eq!(served.await.unwrap(), 200);
        // The selected connection depends on when the kernel acknowledged the ends of the
        // responses.
        let drivers = idle.iter_mut().map(|connection| &mut connection.driver);
        let (ended, _, _) = futures::future::select_all(drivers).await;
        assert!(ended.unwrap().is_ok(), "GOAWAY(NO_ERROR)");
    });
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
    // Larger bodies are accepted nevertheless, because bodies that do not fit into memory go to
    // disk.
    let large = "x".repeat(1_000_000);
    for _ in 0..3 {
        let response = Connection::plain(gateway.http).request("POST", HOST, "/", &[], &large);
        assert_eq!(response.json()["body"].as_str().map(str::len), Some(large.len()));
    }
}

/// Starts a backend that holds requests for `/slow` until its gate opens.
fn gated() -> (Gate, Backend) {
    let gate = Gate::default();
    let held = gate.clone();
    let backend = Backend::with("shop", move |request| {
        if request.start.contains("/slow") {
            held.wait();
        }
        Reply::status(200)
    });
    (gate, backend)
}

/// Returns at least the number of connections that a limit per worker allows.
fn all_workers(limit: usize) -> usize {
    2 * limit * thread::available_parallelism().unwrap().get()
}

fn is_served(gateway: &Gateway) -> bool {
    let answer = Connection::try_plain(gateway.http)
        .and_then(|mut connection| connection.try_request("GET", HOST, "/", &[], ""));
    answer.is_ok_and(|answer| answer.is_some_and(|answer| answer.status == 200))
}

fn counter(gateway: &Gateway, name: &str) -> u64 {
    let metrics = gateway.metrics();
    let line = metrics.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.rsplit(' ').next()).map_or(0, |value| value.parse().unwrap())
}
