//! Handling of requests whose endpoint fails.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::manifest::{service_with, slice};
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, Reply, await_until, config_map, get, ports,
};

const HOST: &str = "retry.example";

fn start(annotations: &[(&str, &str)], backends: &[&Backend]) -> Gateway {
    let ingress = Ingress::new("web").path(HOST, "/", "web").annotations(annotations);
    Gateway::start(&Folder::with(ingress.text() + &service_with("web", backends)))
}

fn post(gateway: &Gateway) -> u16 {
    Connection::plain(gateway.http).request("POST", HOST, "/", &[], "body").status
}

/// Returns a backend that refuses connections.
fn dead() -> Backend {
    let mut backend = Backend::echo("dead");
    backend.stop();
    backend
}

#[test]
fn requests_go_past_a_dead_endpoint() {
    let good = Backend::echo("good");
    let gateway = start(&[], &[&dead(), &good]);
    for _ in 0..10 {
        assert_eq!(get(gateway.http, HOST, "/").backend(), "good");
        assert_eq!(post(&gateway), 200, "nothing was sent to the dead one");
    }
}

#[test]
fn requests_go_past_an_endpoint_that_closes_or_resets() {
    let closes = Backend::with("closes", |_| Reply::Close);
    let resets = Backend::with("resets", |_| Reply::Reset);
    let good = Backend::echo("good");
    let gateway = start(&[], &[&closes, &resets, &good]);
    for _ in 0..10 {
        assert_eq!(get(gateway.http, HOST, "/").backend(), "good");
    }
}

#[test]
fn a_post_that_was_sent_is_not_sent_again() {
    let backends = ["a", "b"].map(|name| Backend::with(name, |_| Reply::Close));
    let gateway = start(&[], &backends.each_ref());
    assert_eq!(post(&gateway), 502);
    assert_eq!(backends[0].requests() + backends[1].requests(), 1);
}

#[test]
fn a_post_is_sent_again_if_enabled() {
    let closes = Backend::with("closes", |_| Reply::Close);
    let good = Backend::echo("good");
    let gateway = start(&[("proxy-next-upstream", "error timeout non_idempotent")], &[&closes, &good]);
    for _ in 0..4 {
        assert_eq!(post(&gateway), 200);
    }
}

#[test]
fn a_status_is_retried_if_configured() {
    let busy = Backend::with("busy", |_| Reply::status(503));
    let good = Backend::echo("good");
    let gateway = start(&[("proxy-next-upstream", "error http_503")], &[&busy, &good]);
    for _ in 0..4 {
        assert_eq!(get(gateway.http, HOST, "/").backend(), "good");
    }
    assert!(busy.requests() >= 1);
    let busy = Backend::with("busy", |_| Reply::status(503));
    let gateway = start(&[("proxy-next-upstream", "error http_503")], &[&busy]);
    let response = get(gateway.http, HOST, "/");
    assert_eq!(response.status, 503);
    assert!(response.text().contains("of the backend"), "the last answer is relayed as it is");
}

#[test]
fn retries_can_be_switched_off_or_limited() {
    for (name, value) in [("proxy-next-upstream", "off"), ("proxy-next-upstream-tries", "1")] {
        let closes = Backend::with("closes", |_| Reply::Close);
        let gateway = start(&[(name, value)], &[&closes]);
        assert_eq!(get(gateway.http, HOST, "/").status, 502);
        assert_eq!(closes.requests(), 1, "{name}");
    }
    let closing = ["a", "b", "c", "d"].map(|name| Backend::with(name, |_| Reply::Close));
    let gateway = start(&[("proxy-next-upstream-tries", "2")], &closing.each_ref());
    assert_eq!(get(gateway.http, HOST, "/").status, 502);
    assert_eq!(closing.iter().map(Backend::requests).sum::<usize>(), 2);
    assert!(closing.iter().all(|backend| backend.requests() <= 1), "no endpoint is tried twice");
}

#[test]
fn endless_attempts_were_never_answered_and_blocked_the_shutdown() {
    for tries in ["2147483647", "0"] {
        let dead = dead();
        let mut gateway = start(&[("proxy-next-upstream-tries", tries)], &[&dead]);
        assert_eq!(get(gateway.http, HOST, "/").status, 502, "{tries}");
        let line = gateway.await_access("GET / HTTP/1.1");
        let attempts = line.matches(&dead.address.to_string()).count();
        assert!((1..=16).contains(&attempts), "{tries}: {line}");
        gateway.terminate();
        assert!(gateway.await_exit().success(), "{tries}");
    }
}

#[test]
fn a_url_whose_answers_break_off_had_its_endpoint_ejected_for_all_routes() {
    let backend = Backend::with("shop", |request| match request.start.contains("/broken") {
        true => Reply::Reset,
        false => Reply::Echo,
    });
    let gateway = start(&[], &[&backend]);
    for _ in 0..10 {
        assert_eq!(get(gateway.http, HOST, "/broken").status, 502);
        assert!(!gateway.ask("/backends").text().contains("\"ejected\""));
        assert_eq!(get(gateway.http, HOST, "/").backend(), "shop");
    }
}

#[test]
fn connections_that_went_stale_in_the_pool_never_surface() {
    let backend = Backend::closing_after("stale", 1);
    let gateway = start(&[("proxy-next-upstream-tries", "1")], &[&backend]);
    let mut client = Connection::plain(gateway.http);
    for _ in 0..50 {
        assert_eq!(client.get(HOST, "/").status, 200);
        // A POST is not repeated once the endpoint may have received it, so it must not use a
        // connection that is being closed.
        backend.await_closed();
        assert_eq!(client.request("POST", HOST, "/", &[], "body").status, 200);
    }
}

#[test]
fn a_post_was_sent_again_after_an_interim_response_of_a_pooled_connection() {
    let first = AtomicBool::new(true);
    let backend = Backend::with("pooled", move |_| match first.swap(false, Ordering::Relaxed) {
        true => Reply::status(200),
        false => Reply::Raw(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n".into()),
    });
    let gateway = start(&[], &[&backend]);
    let mut client = Connection::plain(gateway.http);
    assert_eq!(client.get(HOST, "/").status, 200);
    assert_eq!(client.request("POST", HOST, "/", &[], "body").status, 103);
    assert_eq!(client.response().status, 502);
    assert_eq!(backend.requests(), 2, "one for each");
}

#[test]
fn off_is_no_retry_of_any_kind() {
    let closing = ["a", "b", "c"].map(|name| Backend::with(name, |_| Reply::Close));
    let gateway = start(&[("proxy-next-upstream", "off")], &closing.each_ref());
    assert_eq!(get(gateway.http, HOST, "/").status, 502);
    assert_eq!(closing.iter().map(Backend::requests).sum::<usize>(), 1);
}

#[test]
fn off_does_not_repeat_a_request_that_a_pooled_connection_may_have_taken() {
    // Responds to the first request of a connection, and closes it after reading the second.
    let first = AtomicBool::new(true);
    let backend = Backend::with("pooled", move |_| {
        if first.swap(false, Ordering::Relaxed) { Reply::status(200) } else { Reply::Close }
    });
    let gateway = start(&[("proxy-next-upstream", "off")], &[&backend]);
    let mut client = Connection::plain(gateway.http);
    assert_eq!(client.get(HOST, "/").status, 200);
    assert_eq!(client.get(HOST, "/").status, 502);
    assert_eq!(backend.requests(), 2, "one for each, and no second attempt over a new connection");
}

#[test]
fn an_invalid_condition_means_the_default_and_a_problem() {
    let good = Backend::echo("good");
    let gateway = start(&[("proxy-next-upstream", "error http_599")], &[&dead(), &good]);
    for _ in 0..4 {
        assert_eq!(get(gateway.http, HOST, "/").backend(), "good");
    }
    let problems = gateway.problems();
    assert!(problems.contains("http_599") && problems.contains("the default is used"), "{problems}");
}

#[test]
fn pooled_connections_are_used_again() {
    let backend = Backend::echo("pooled");
    let gateway = start(&[], &[&backend]);
    let mut client = Connection::plain(gateway.http);
    for _ in 0..50 {
        assert_eq!(client.get(HOST, "/").status, 200);
    }
    assert!(backend.connections() <= 2, "{} connections", backend.connections());
}

#[test]
fn when_all_endpoints_are_ejected_all_are_used() {
    let mut backend = Backend::echo("only");
    let gateway = start(&[], &[&backend]);
    assert_eq!(get(gateway.http, HOST, "/").status, 200);
    backend.stop();
    for _ in 0..5 {
        assert_eq!(get(gateway.http, HOST, "/").status, 502);
    }
    let address = backend.address;
    let listener = std::net::TcpListener::bind(address).unwrap();
    let answer = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 4096];
        let _ = stream.read(&mut head).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
    });
    assert_eq!(get(gateway.http, HOST, "/").status, 200, "an endpoint that is back is used at once");
    answer.join().unwrap();
}

#[test]
fn an_address_in_two_slices_counts_once() {
    let [a, b] = ["a", "b"].map(Backend::echo);
    let twice = slice("again", "web", &["127.0.0.1"], a.address.port());
    let ingress = Ingress::new("web").path(HOST, "/", "web").text();
    let gateway = Gateway::start(&Folder::with(ingress + &service_with("web", &[&a, &b]) + &twice));
    for _ in 0..20 {
        assert_eq!(get(gateway.http, HOST, "/").status, 200);
    }
    assert_eq!((a.requests(), b.requests()), (10, 10));
}

#[test]
fn round_robin_is_exact_over_all_clients() {
    let backends = ["a", "b", "c", "d"].map(Backend::echo);
    let gateway = start(&[], &backends.each_ref());
    let mut clients: Vec<Connection> = (0..8).map(|_| Connection::plain(gateway.http)).collect();
    for _ in 0..5 {
        for client in &mut clients {
            assert_eq!(client.get(HOST, "/").status, 200);
        }
    }
    assert_eq!(backends.each_ref().map(Backend::requests), [10; 4]);
}

#[test]
fn ports_of_this_machine_are_reserved_once() {
    assert_ne!(ports::reserve(), ports::reserve());
}

#[test]
fn the_operator_has_posts_sent_again_and_changes_that_live() {
    let closes = Backend::with("closes", |_| Reply::Close);
    let good = Backend::echo("good");
    let objects = Ingress::new("web").path(HOST, "/", "web").text() + &service_with("web", &[&closes, &good]);
    let folder = Folder::with(objects);
    let gateway = Gateway::with(&folder, &["--configmap", "ingress-nginx/controller"]);
    await_until("one that is not sent again", || post(&gateway) == 502);
    let again = [("retry-non-idempotent", "true"), ("generate-request-id", "false")];
    folder.write("config.yaml", config_map("ingress-nginx/controller", &again));
    await_until("the setting", || get(gateway.http, HOST, "/").received("x-request-id").is_empty());
    let before = closes.requests();
    await_until("the one that closes to be met", || {
        assert_eq!(post(&gateway), 200);
        closes.requests() > before
    });
}

#[test]
fn no_attempt_begins_when_the_time_for_them_is_over() {
    // Each attempt takes one second; with a limit of one second there is only one attempt.
    let silent = ["a", "b", "c"].map(|name| Backend::with(name, |_| Reply::Bytes(Vec::new())));
    let asked = || silent.iter().map(Backend::requests).sum::<usize>();
    let objects = |own: Option<&str>| {
        let ingress = Ingress::new("web").path(HOST, "/", "web").annotation("proxy-read-timeout", "1");
        let ingress = own
            .iter()
            .fold(ingress, |ingress, limit| ingress.annotation("proxy-next-upstream-timeout", limit));
        ingress.text() + &service_with("web", &silent.each_ref())
    };
    let folder = Folder::with(objects(Some("1")));
    let gateway = Gateway::with(&folder, &["--configmap", "ingress-nginx/controller"]);
    assert_eq!(get(gateway.http, HOST, "/").status, 504);
    assert_eq!(asked(), 1);
    folder.write("objects.yaml", objects(None));
    let limit = [("proxy-next-upstream-timeout", "2")];
    folder.write("config.yaml", config_map("ingress-nginx/controller", &limit));
    await_until("the operator's, which is longer", || {
        let before = asked();
        get(gateway.http, HOST, "/").status == 504 && asked() == before + 2
    });
}
