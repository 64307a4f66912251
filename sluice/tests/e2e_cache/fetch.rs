//! Requests for the same response share one request to the endpoint.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use super::{FRESH, HOST, get, is, origin, respond, start};
use crate::harness::h2::frame;
use crate::harness::{Backend, Connection, Gate, PATIENCE, await_until};

#[test]
fn concurrent_requests_make_one_request_to_the_endpoint() {
    const CLIENTS: usize = 8;
    let gate = Gate::default();
    let requests = Arc::new(AtomicUsize::new(0));
    let backend = Backend::with("shop", {
        let (gate, requests) = (gate.clone(), requests.clone());
        move |request| {
            let number = requests.fetch_add(1, SeqCst) + 1;
            gate.wait();
            respond(request, number)
        }
    });
    let (_folder, gateway) = start(&backend, &[], &[]);
    let address = gateway.http;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            thread::spawn(move || {
                Connection::plain(address).request("GET", HOST, "/", &[("X-Respond", FRESH)], "")
            })
        })
        .collect();
    await_until("all requests", || {
        let metrics = gateway.metrics();
        let requests = metrics.lines().find(|line| line.contains("nginx_process_requests_total{"));
        requests.is_some_and(|line| line.ends_with(&format!(" {CLIENTS}")))
    });
    gate.open();
    let responses: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    assert!(responses.iter().all(|response| response.text() == "1"), "all got the same response");
    assert_eq!(responses.iter().filter(|response| is(response, "MISS", "1")).count(), 1);
    assert_eq!(backend.requests(), 1);
}

/// Returns a request without a body on a stream of its own, whose number is its path.
fn get_frame(stream: u32) -> Vec<u8> {
    let path = format!("/{stream}");
    // GET and http of the static table, then path and authority as literals (RFC 7541 §6).
    let mut fields = vec![0x82, 0x86];
    for (name, value) in [(0x04, &*path), (0x01, HOST)] {
        fields.extend([name, u8::try_from(value.len()).unwrap()]);
        fields.extend(value.as_bytes());
    }
    // END_STREAM and END_HEADERS.
    frame(1, 0x05, stream, &fields)
}

#[test]
fn requests_waited_for_a_fetch_that_was_reset_at_once() {
    const STREAMS: u32 = 8;
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[("sluice.dev/cache-ttl", "1m")], &[]);
    let mut stream = TcpStream::connect(gateway.http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The preface with empty SETTINGS, requests with RST_STREAM (CANCEL), and one that stays.
    let mut bytes = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat();
    for number in 0..STREAMS {
        let stream = 2 * number + 1;
        bytes.extend([get_frame(stream), frame(3, 0, stream, &8u32.to_be_bytes())].concat());
    }
    stream.write_all(&bytes).unwrap();
    gateway.await_access(" 499 ");
    let last = 2 * STREAMS + 1;
    stream.write_all(&get_frame(last)).unwrap();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).expect("the connection lasts");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).unwrap();
        if head[3] == 1 && head[5..] == last.to_be_bytes() {
            break;
        }
    }
    // The paths of the cancelled requests are fetched, and stored.
    for cache in ["MISS", "HIT"] {
        for number in 0..STREAMS {
            let response = get(&gateway, &format!("/{}", 2 * number + 1), "", &[]);
            assert_eq!(response.header("x-cache"), Some(cache));
        }
    }
}
