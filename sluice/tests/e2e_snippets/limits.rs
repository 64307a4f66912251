//! `limit_req` and `limit_conn` of snippets, compared with nginx where a sequence of requests has
//! one outcome.

use std::time::{Duration, Instant};

use super::{HOST, ON, gateway, nginx, shop};
use crate::harness::{Backend, Connection, Gate, Reply, await_until, get};

const ZONES: &str = "limit_req_zone $binary_remote_addr zone=client:1m rate=1r/m;\n\
                     limit_req_zone $http_x_key zone=key:1m rate=1r/m;\n\
                     map $http_x_exempt $limited { default $remote_addr; 1 \"\"; }\n\
                     limit_req_zone $limited zone=some:1m rate=1r/m;\n\
                     limit_conn_zone $http_x_key zone=number:1m;";

type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// `server-snippet`, `configuration-snippet` and a field of each request in turn.
const CASES: &[Case] = &[
    ("", "limit_req zone=client;", &[("X", ""); 3]),
    ("", "limit_req zone=client burst=2 nodelay; limit_req_status 429;", &[("X", ""); 5]),
    ("", "limit_req zone=client burst=2 delay=5; limit_req_log_level info;", &[("X", ""); 5]),
    ("limit_req zone=client burst=1 nodelay; limit_req_status 421;", "", &[("X", ""); 4]),
    ("limit_req zone=client;", "limit_req zone=key;", &[("X-Key", "a"), ("X-Key", "b"), ("X-Key", "a")]),
    (
        "",
        "limit_req zone=client burst=3 nodelay; limit_req zone=key;",
        &[
            ("X-Key", "a"),
            ("X-Key", "a"),
            ("X-Key", "a"),
            ("X-Key", "a"),
            ("X-Key", "b"),
            ("X-Key", "c"),
            ("X-Key", "d"),
            ("X-Key", "e"),
        ],
    ),
    ("", "limit_req zone=key;", &[("X", ""), ("X", ""), ("X-Key", "a"), ("X-Key", "a")]),
    ("", "limit_req zone=some;", &[("X-Exempt", "1"), ("X-Exempt", "1"), ("X", ""), ("X", "")]),
    ("", "limit_req zone=client; limit_req_dry_run on;", &[("X", ""); 3]),
    ("", "limit_conn number 1; limit_conn_status 429;", &[("X-Key", "a"); 3]),
    // return runs before limits, and these before deny.
    ("", "limit_req zone=client;\nif ($http_x_text) { return 200 text; }", &[("X-Text", "1"); 3]),
    ("", "limit_req zone=client; deny all;", &[("X", ""); 3]),
];

#[test]
fn limits_refuse_the_requests_that_they_refuse_in_nginx() {
    if !nginx::is_installed() {
        eprintln!("nginx with headers-more is not installed, so nothing was compared");
        return;
    }
    let backend = Backend::echo("shop");
    for (server, location, fields) in CASES {
        let nginx = nginx::start(ZONES, server, location, backend.address);
        let annotations = [("configuration-snippet", *location), ("server-snippet", *server)];
        let annotations: Vec<_> = annotations.into_iter().filter(|(_, text)| !text.is_empty()).collect();
        let folder = shop(&backend, &annotations, &[ON[0], ON[1], ("http-snippet", ZONES)]);
        let sluice = gateway(&folder);
        assert_eq!(sluice.problems(), "", "{server} {location}");
        let statuses = |address| -> Vec<u16> {
            let request = |field: &(&str, &str)| {
                Connection::plain(address).request("GET", HOST, "/", &[*field], "").status
            };
            fields.iter().map(request).collect()
        };
        assert_eq!(statuses(sluice.http), statuses(nginx.address), "{server} {location}");
    }
}

#[test]
fn an_early_request_waits_until_it_is_due() {
    let backend = Backend::echo("shop");
    let http = "limit_req_zone $binary_remote_addr zone=a:1m rate=5r/s;";
    let keys = [ON[0], ON[1], ("http-snippet", http)];
    let folder = shop(&backend, &[("configuration-snippet", "limit_req zone=a burst=2;")], &keys);
    let gateway = gateway(&folder);
    let began = Instant::now();
    let statuses: Vec<u16> = (0..3).map(|_| get(gateway.http, HOST, "/").status).collect();
    assert_eq!(statuses, [200; 3]);
    assert!(began.elapsed() >= Duration::from_millis(380), "{:?}", began.elapsed());
}

#[test]
fn requests_that_a_zone_delays_had_places_of_concurrent_requests() {
    let backend = Backend::echo("shop");
    let http = "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s;";
    let keys = [ON[0], ON[1], ("http-snippet", http)];
    let annotations = [("configuration-snippet", "limit_req zone=a burst=5;"), ("limit-connections", "1")];
    let gateway = gateway(&shop(&backend, &annotations, &keys));
    let mut clients = [0; 3].map(|_| Connection::plain(gateway.http));
    for client in &mut clients {
        client.send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    }
    assert_eq!(clients.map(|mut client| client.response().status), [200; 3]);
}

#[test]
fn concurrent_requests_with_a_key_are_limited_until_one_ends() {
    let gate = Gate::default();
    let inside = gate.clone();
    let backend = Backend::with("shop", move |_| {
        inside.wait();
        Reply::Echo
    });
    let keys = [ON[0], ON[1], ("http-snippet", ZONES)];
    let folder = shop(&backend, &[("server-snippet", "limit_conn number 2; limit_conn_status 429;")], &keys);
    let gateway = gateway(&folder);
    let request = |key: &str| format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nX-Key: {key}\r\n\r\n");
    let mut held: Vec<Connection> = (0..2)
        .map(|_| {
            let mut connection = Connection::plain(gateway.http);
            connection.send(request("a"));
            connection
        })
        .collect();
    await_until("both to be under way", || backend.requests() == 2);
    let third = || Connection::plain(gateway.http).request("GET", HOST, "/", &[("X-Key", "a")], "").status;
    assert_eq!(third(), 429);
    gate.open();
    assert!(held.iter_mut().all(|connection| connection.response().status == 200));
    await_until("a place to be free", || third() == 200);
}

#[test]
fn a_rate_of_responses_is_that_of_the_snippet() {
    let body = "x".repeat(60_000);
    let backend = Backend::with("shop", move |_| Reply::Answer(200, Vec::new(), body.clone()));
    let snippet = [("configuration-snippet", "limit_rate 20k; limit_rate_after 10k;")];
    let folder = shop(&backend, &snippet, &ON);
    let gateway = gateway(&folder);
    let began = Instant::now();
    assert_eq!(get(gateway.http, HOST, "/").text().len(), 60_000);
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
}
