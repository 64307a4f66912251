//! UDP services: sessions of datagrams.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::harness::manifest::document;
use crate::harness::stream::UdpEcho;
use crate::harness::{Folder, Gateway, PATIENCE, await_some, await_until, class, config_map, pause, ports};

const MAP: &str = "edge/udp-services";

/// A Service with a UDP port 53 named `dns`, with these endpoints.
fn dns(name: &str, servers: &[SocketAddr]) -> String {
    let slices = servers.iter().enumerate().map(|(index, server)| {
        document(&json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "name": format!("{name}-{index}"), "namespace": "default",
                "labels": {"kubernetes.io/service-name": name},
            },
            "ports": [{"name": "dns-tcp", "port": 1}, {"name": "dns", "port": server.port(), "protocol": "UDP"}],
            "endpoints": [{"addresses": [server.ip().to_string()]}],
        }))
    });
    let ports: Value = json!([
        {"name": "dns-tcp", "port": 53},
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353},
    ]);
    let service = document(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"ports": ports},
    }));
    service + &slices.collect::<String>()
}

/// A gateway with one UDP service and these keys of its ConfigMap.
fn start(objects: &str, reference: &str, keys: &[(&str, &str)]) -> (Folder, Gateway, SocketAddr) {
    let folder = Folder::with(class("nginx", "k8s.io/ingress-nginx") + objects);
    let port = ports::reserve();
    folder.write("udp.yaml", config_map(MAP, &[(&port.to_string(), reference)]));
    folder.write("config.yaml", config_map("edge/config", keys));
    let gateway = Gateway::with(&folder, &["--udp-services-configmap", MAP, "--configmap", "edge/config"]);
    let bound = || gateway.program_log().iter().any(|line| line.contains(&format!("0.0.0.0:{port}")));
    await_until("the port", bound);
    (folder, gateway, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

/// A client that receives from `gateway` alone.
fn client(gateway: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(gateway).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> String {
    let mut buffer = vec![0; 64 * 1024];
    let count = socket.recv(&mut buffer).unwrap();
    String::from_utf8(buffer[..count].to_vec()).unwrap()
}

fn ask(socket: &UdpSocket, text: &str) -> String {
    socket.send(text.as_bytes()).unwrap();
    receive(socket)
}

#[test]
fn a_response_comes_from_the_address_that_was_asked_and_ends_the_session() {
    let echo = UdpEcho::start("dns");
    let (_folder, gateway, address) = start(&dns("dns", &[echo.address]), "default/dns:53", &[]);
    for ip in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 9)] {
        // A connected socket takes responses from no other address.
        let socket = client((ip, address.port()).into());
        assert_eq!(ask(&socket, "who?"), "dns:who?");
        assert_eq!(ask(&socket, "again"), "dns:again");
    }
    let line = gateway.await_access("UDP 200 8 4 ");
    assert!(line.starts_with("[127.0.0.1] ["), "{line}");
    await_until("all sessions to end", || gateway.metrics().contains("service=\"dns\"} 0"));
    assert_eq!(echo.datagrams(), 4);
    let sessions: std::collections::HashSet<String> = echo.senders().into_iter().collect();
    assert!(sessions.len() > 1, "each response ends its session: {sessions:?}");
}

#[test]
fn large_and_empty_datagrams_pass_whole() {
    let echo = UdpEcho::start("dns");
    let (_folder, _gateway, address) = start(&dns("dns", &[echo.address]), "default/dns:dns", &[]);
    let socket = client(address);
    let large = "x".repeat(32_000);
    assert_eq!(ask(&socket, &large), format!("dns:{large}"));
    assert_eq!(ask(&socket, ""), "dns:");
}

#[test]
fn clients_are_kept_apart_also_in_a_reused_slot() {
    const CLIENTS: usize = 40;
    let one = UdpEcho::answering("dns", 2);
    let keys = [("proxy-stream-responses", "2")];
    let (_folder, gateway, address) = start(&dns("dns", &[one.address]), "default/dns:53", &keys);
    for round in 0..5 {
        // Sessions of the round before have ended, and their places are used again.
        let sockets: Vec<UdpSocket> = (0..CLIENTS).map(|_| client(address)).collect();
        for (number, socket) in sockets.iter().enumerate() {
            socket.send(format!("{round}/{number}").as_bytes()).unwrap();
        }
        for (number, socket) in sockets.iter().enumerate() {
            for _ in 0..2 {
                assert_eq!(receive(socket), format!("dns:{round}/{number}"));
            }
            socket.set_nonblocking(true).unwrap();
            assert!(socket.recv(&mut [0; 64]).is_err(), "a datagram of another client");
        }
        await_until("the sessions to end", || gateway.metrics().contains("service=\"dns\"} 0"));
    }
    let mut senders = one.senders();
    senders.sort();
    senders.dedup();
    assert!(senders.len() > CLIENTS, "each client has a socket of its own: {}", senders.len());
}

#[test]
fn a_session_stays_at_its_endpoint_until_that_is_gone() {
    let (one, two) = (UdpEcho::start("one"), UdpEcho::start("two"));
    // More responses than ever come, so that the session does not end.
    let keys = [("proxy-stream-responses", "1000000")];
    let objects = dns("dns", &[one.address, two.address]);
    let (folder, gateway, address) = start(&objects, "default/dns:53", &keys);
    let socket = client(address);
    let first = ask(&socket, "x");
    for _ in 0..5 {
        assert_eq!(ask(&socket, "x"), first);
    }
    let (own, other) = if first == "one:x" { (&one, &two) } else { (&two, &one) };
    let sender = own.senders().pop().unwrap();
    own.send(&sender, "unasked");
    assert_eq!(receive(&socket), "unasked", "a session passes on whatever its endpoint sends");
    let foreign = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    foreign.send_to(b"forged", &sender).unwrap();
    assert_eq!(ask(&socket, "x"), first, "nothing from others");
    folder.write("objects.yaml", class("nginx", "k8s.io/ingress-nginx") + &dns("dns", &[other.address]));
    let expected = if first == "one:x" { "two:x" } else { "one:x" };
    await_until("the other endpoint", || ask(&socket, "x") == expected);
    assert!(gateway.metrics().contains("sluice_udp_sessions_evicted_total 0"));
}

#[test]
fn an_endpoint_whose_port_is_closed_is_passed_over() {
    let dead = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let alive = UdpEcho::start("alive");
    let objects = dns("dns", &[dead, alive.address]);
    let (_folder, gateway, address) = start(&objects, "default/dns:53", &[]);
    for number in 0..6 {
        assert_eq!(ask(&client(address), &number.to_string()), format!("alive:{number}"));
    }
    let ejected = |line: &String| line.contains("an endpoint is ejected");
    await_until("the ejection", || gateway.program_log().iter().any(ejected));
}

#[test]
fn the_longest_idle_session_ends_at_the_limit() {
    let echo = UdpEcho::start("dns");
    // Two workers have two connections together at least.
    let keys = [("proxy-stream-responses", "1000000"), ("max-worker-connections", "4")];
    let (_folder, gateway, address) = start(&dns("dns", &[echo.address]), "default/dns:53", &keys);
    let first = client(address);
    assert_eq!(ask(&first, "x"), "dns:x");
    let evicted = || {
        let metrics = gateway.metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix("sluice_udp_sessions_evicted_total "));
        line.unwrap().parse::<usize>().unwrap()
    };
    let mut sockets = Vec::new();
    await_until("an eviction", || {
        sockets.push(client(address));
        assert_eq!(ask(sockets.last().unwrap(), "y"), "dns:y");
        evicted() > 0
    });
    assert_eq!(ask(&first, "z"), "dns:z", "it begins another session");
    assert!(evicted() > 1, "for which another one makes way");
}

#[test]
fn a_port_is_closed_and_opened_again_live() {
    let echo = UdpEcho::start("dns");
    let (folder, gateway, address) = start(&dns("dns", &[echo.address]), "default/dns:53", &[]);
    let port = address.port().to_string();
    assert_eq!(ask(&client(address), "x"), "dns:x");
    folder.write("udp.yaml", config_map(MAP, &[]));
    let taken =
        await_some("the port to be free", || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, address.port())).ok());
    folder.write("udp.yaml", config_map(MAP, &[(&port, "default/dns:53:PROXY")]));
    await_until("the problem", || gateway.problems().contains("is already in use"));
    assert!(gateway.problems().contains("ends with \"PROXY\", which is ignored"), "{}", gateway.problems());
    assert_eq!(gateway.health(), Some(200));
    drop(taken);
    await_until("the port", || !gateway.problems().contains("already in use"));
    assert_eq!(ask(&client(address), "x"), "dns:x");
}

/// Its sessions stayed in the gauge, and were logged as failures.
#[test]
fn a_removed_port_ends_its_sessions() {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    silent.set_read_timeout(Some(PATIENCE)).unwrap();
    let (folder, gateway, address) =
        start(&dns("log", &[silent.local_addr().unwrap()]), "default/log:53", &[]);
    let clients: Vec<_> = (0..3).map(|_| client(address)).collect();
    for client in &clients {
        client.send(b"line").unwrap();
        assert_eq!(silent.recv(&mut [0; 16]).unwrap(), 4);
    }
    assert_eq!(gateway.metric("sluice_connections_open"), 3);
    folder.write("udp.yaml", config_map(MAP, &[]));
    await_until("the end of the sessions", || gateway.metric("sluice_connections_open") == 0);
    let lines = || gateway.access_log().iter().filter(|line| line.contains(" UDP 200 0 4 ")).count();
    await_until("their lines", || lines() == clients.len());
}

/// Sends thousands of requests from several clients at once: each gets exactly one response.
#[test]
fn many_clients_ask_at_once() {
    const CLIENTS: usize = 8;
    const REQUESTS: usize = 500;
    let echo = Arc::new(UdpEcho::start("dns"));
    let (_folder, gateway, address) = start(&dns("dns", &[echo.address]), "default/dns:53", &[]);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            scope.spawn(move || {
                let socket = client(address);
                for request in 0..REQUESTS {
                    let text = format!("{number}/{request}");
                    assert_eq!(ask(&socket, &text), format!("dns:{text}"));
                }
            });
        }
    });
    assert_eq!(echo.datagrams(), CLIENTS * REQUESTS);
    await_until("all sessions to end", || {
        pause();
        gateway.metrics().contains("sluice_connections_open 0")
    });
}
