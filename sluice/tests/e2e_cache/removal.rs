//! Responses are removed by a purge and by changes of their resource.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::{FRESH, HOST, assert_is, get, origin, request, respond, start};
use crate::harness::h2::{self, run};
use crate::harness::{Backend, Connection, Reply, await_until};

#[test]
fn responses_are_purged_at_the_admin_listener() {
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[], &[]);
    let purge = |host: &str, target: &str, fields: &[(&str, &str)]| {
        let fields = [&[("Connection", "close")], fields].concat();
        Connection::plain(gateway.admin).request("DELETE", host, target, &fields, "")
    };
    let fill =
        || ["/img/a?x=1", "/img/a?x=2", "/img/b", "/"].map(|path| get(&gateway, path, FRESH, &[]).text());
    let first = fill();
    assert_eq!(fill(), first);
    let removed = |target: &str| purge("localhost", target, &[]).json()["removed"].clone();
    assert_eq!(removed("/cache?path=/img/a"), 2);
    let second = fill();
    assert!(second[0] != first[0] && second[1] != first[1] && second[2..] == first[2..]);
    assert_eq!(removed("/cache?host=other.example&path=/img/*"), 0);
    assert_eq!(removed(&format!("/cache?host={HOST}&path=/img/*")), 3);
    assert_eq!(fill()[3], first[3]);
    assert_eq!(removed(&format!("/cache?host={HOST}")), 4);
    assert_ne!(fill()[3], first[3]);
    assert_eq!(removed("/cache?all=true"), 4);

    fill();
    assert_eq!(purge("localhost", "/cache", &[]).status, 400);
    assert_eq!(purge("rebound.example", "/cache?all=true", &[]).status, 421);
    assert_eq!(purge("localhost", "/cache?all=true", &[("Origin", "http://evil.example")]).status, 403);
    for method in ["POST", "PUT"] {
        let fields = [("Connection", "close")];
        let response =
            Connection::plain(gateway.admin).request(method, "localhost", "/cache?all=true", &fields, "");
        assert_eq!(response.status, 405, "a page may send {method} from anywhere");
    }
    for listener in [gateway.healthz, gateway.http] {
        let fields = [("Connection", "close")];
        let response = Connection::plain(listener).request("DELETE", HOST, "/cache?all=true", &fields, "");
        assert!(response.status == 405 || response.header("x-cache").is_some(), "{}", response.status);
    }
    assert_eq!(gateway.ask("/cache").json()["responses"], 4, "nothing was removed");
}

#[test]
fn a_successful_change_of_a_resource_makes_its_responses_invalid() {
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[], &[]);
    assert_is(&get(&gateway, "/a", FRESH, &[]), "MISS", "1");
    assert_is(&get(&gateway, "/b", FRESH, &[]), "MISS", "2");
    assert_is(&request(&gateway, "DELETE", "/a", &[("X-Status", "404")]), "BYPASS", "3");
    assert_is(&get(&gateway, "/a", FRESH, &[]), "HIT", "1");
    assert_is(&request(&gateway, "POST", "/a", &[("X-Respond", FRESH)]), "BYPASS", "4");
    assert_is(&get(&gateway, "/a", FRESH, &[]), "MISS", "5");
    assert_is(&get(&gateway, "/b", FRESH, &[]), "HIT", "2");
}

#[test]
fn a_change_took_effect_only_when_its_response_was_complete() {
    let requests = AtomicUsize::new(0);
    let backend = Backend::with("shop", move |request| match request.start.starts_with("POST") {
        true => Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234".to_vec()),
        false => respond(request, requests.fetch_add(1, SeqCst) + 1),
    });
    let (_folder, gateway) = start(&backend, &[], &[]);
    assert_is(&get(&gateway, "/a", FRESH, &[]), "MISS", "1");
    assert_is(&get(&gateway, "/a", FRESH, &[]), "HIT", "1");
    let mut change = Connection::plain(gateway.http);
    change.send(format!("POST /a HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 0\r\n\r\n"));
    assert!(change.bytes(12).starts_with(b"HTTP/1.1 200"), "the client knows that it succeeded");
    assert_is(&get(&gateway, "/a", FRESH, &[]), "MISS", "2");
}

/// A body of many pieces, larger than what the kernel keeps for a client that reads nothing.
#[test]
fn a_large_response_in_memory_stays_whole_for_a_slow_client_if_purged() {
    const LARGE: usize = 20_000_000;
    let content: String = (0..LARGE).map(|at| char::from(b'a' + (at / 5 % 23) as u8)).collect();
    let backend = Backend::with("shop", {
        let content = content.clone();
        move |_| {
            let field = ("Cache-Control".to_owned(), "max-age=600".to_owned());
            Reply::Answer(200, vec![field], content.clone())
        }
    });
    let (_folder, gateway) = start(&backend, &[], &[("body-memory-budget", "1g"), ("cache-size", "200m")]);
    run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        for cache in ["MISS", "HIT", "HIT"] {
            let response = connection.get(&format!("https://{HOST}/")).await.unwrap();
            assert_eq!(response.headers()["x-cache"], cache);
            assert!(response.body()[..] == *content.as_bytes());
            await_until("the stored response", || gateway.ask("/cache").json()["responses"] == 1);
        }
    });
    let mut slow = Connection::tls(gateway.https, HOST);
    slow.send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n"));
    let begin = slow.bytes(100);
    let fields = [("Connection", "close")];
    let purged =
        Connection::plain(gateway.admin).request("DELETE", "localhost", "/cache?all=true", &fields, "");
    assert_eq!(purged.json()["removed"], 1);
    assert!(gateway.metric("sluice_body_memory_bytes") > LARGE as u64, "it is held until the client has it");
    let response = [begin, slow.rest()].concat();
    assert!(response.ends_with(content.as_bytes()));
    await_until("the memory", || gateway.metric("sluice_body_memory_bytes") < LARGE as u64);
}
