//! More clients than there is room for.

use std::time::{Duration, Instant};

use crate::harness::{Backend, Connection, Folder, Gateway, await_until, pause, site};

const HOST: &str = "shop.example";
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

fn counter(gateway: &Gateway, name: &str) -> u64 {
    let metrics = gateway.metrics();
    let line = metrics.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.rsplit(' ').next()).map_or(0, |value| value.parse().unwrap())
}
