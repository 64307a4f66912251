//! The client's address: the PROXY protocol on both ports, and fields of proxies in front.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, TestCertificate, await_until, config_map, get, site,
};

const HOST: &str = "shop.example";
const NAME: &str = "ingress-nginx/controller";

/// Returns a version 2 header with these addresses.
fn v2(source: &str, destination: &str) -> Vec<u8> {
    let [source, destination] = [source, destination].map(|text| text.parse::<SocketAddr>().unwrap());
    let mut block = Vec::new();
    let protocol = match (source, destination) {
        (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
            block.extend(source.ip().octets());
            block.extend(destination.ip().octets());
            0x11
        }
        (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
            block.extend(source.ip().octets());
            block.extend(destination.ip().octets());
            0x21
        }
        _ => panic!("addresses of one version"),
    };
    block.extend(source.port().to_be_bytes());
    block.extend(destination.port().to_be_bytes());
    // An extension of 5 bytes, which is ignored.
    block.extend([0x20, 0, 5, 1, 2, 3, 4, 5]);
    let length = u16::try_from(block.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[0x21, protocol][..], &length, &block].concat()
}

fn start(backend: &Backend, keys: &[(&str, &str)]) -> (Folder, Gateway) {
    let certificate = TestCertificate::new(&[HOST]);
    let ingress = Ingress::new("shop")
        .annotation("ssl-redirect", "false")
        .path(HOST, "/", "shop")
        .tls(&[HOST], "tls")
        .text();
    let objects =
        ingress + &crate::harness::manifest::service_with("shop", &[backend]) + &certificate.secret("tls");
    let folder = Folder::with(objects);
    folder.write("config.yaml", config_map(NAME, keys));
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    (folder, gateway)
}

fn refused(gateway: &Gateway, reason: &str) -> usize {
    let start = format!("sluice_proxy_protocol_refused_total{{reason=\"{reason}\"}} ");
    let metrics = gateway.metrics();
    let line = metrics.lines().find_map(|line| line.strip_prefix(&start));
    line.map_or(0, |count| count.parse().unwrap())
}

#[test]
fn a_header_determines_the_client_on_both_ports() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend, &[("use-proxy-protocol", "true")]);
    for (header, client) in [
        (b"PROXY TCP4 198.51.100.7 203.0.113.1 7777 80\r\n".to_vec(), "198.51.100.7"),
        (b"PROXY TCP6 2001:db8::7 2001:db8::1 7777 80\r\n".to_vec(), "2001:db8::7"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (v2("198.51.100.8:7777", "203.0.113.1:80"), "198.51.100.8"),
        (v2("[2001:db8::8]:7777", "[2001:db8::1]:80"), "2001:db8::8"),
        (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec(), "127.0.0.1"),
    ] {
        let mut plain = Connection::plain_after(gateway.http, &header);
        let mut tls = Connection::try_tls_after(gateway.https, HOST, &header).unwrap();
        for connection in [&mut plain, &mut tls] {
            // The address applies to all requests of the connection.
            for _ in 0..2 {
                let response = connection.get(HOST, &format!("/{client}"));
                assert_eq!(response.status, 200);
                assert_eq!(response.received("x-real-ip"), [client]);
                assert_eq!(response.received("x-forwarded-for"), [client]);
            }
        }
        let line = gateway.await_access(&format!("\"GET /{client} "));
        assert!(line.starts_with(&format!("{client} - ")), "{line}");
    }
    // A load balancer that terminates TLS announces the port for https.
    let mut ended =
        Connection::plain_after(gateway.http, b"PROXY TCP4 198.51.100.7 203.0.113.1 7777 443\r\n");
    let response = ended.get(HOST, "/");
    assert_eq!(response.received("x-forwarded-proto"), ["https"]);
    assert_eq!(response.received("x-forwarded-port"), ["443"]);
    assert_eq!(gateway.health(), Some(200), "health is asked without a header");
}

#[test]
fn a_header_may_come_byte_by_byte_and_with_the_request() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend, &[("use-proxy-protocol", "true")]);
    for header in
        [b"PROXY TCP4 198.51.100.7 203.0.113.1 7777 80\r\n".to_vec(), v2("198.51.100.7:1", "203.0.113.1:2")]
    {
        let mut connection = Connection::plain(gateway.http);
        for byte in &header {
            connection.send([*byte]);
        }
        assert_eq!(connection.get(HOST, "/").received("x-real-ip"), ["198.51.100.7"]);
        let request = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n").into_bytes();
        let mut connection = Connection::plain_after(gateway.http, &[header, request].concat());
        assert_eq!(connection.response().received("x-real-ip"), ["198.51.100.7"]);
    }
}

#[test]
fn connections_without_a_valid_header_are_closed_and_counted() {
    let backend = Backend::echo("shop");
    let keys = [("use-proxy-protocol", "true"), ("proxy-protocol-header-timeout", "200ms")];
    let (folder, gateway) = start(&backend, &keys);
    for (bytes, reason) in [
        (&b"GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n"[..], "missing"),
        (b"PROXY TCP4 198.51.100.7 203.0.113.1 7777\r\n", "malformed"),
        (b"PROXY TCP4 198.51.100.7 203.0.113.1 +7 80\r\n", "malformed"),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff", "malformed"),
        (b"PROXY TCP4 198.", "late"),
    ] {
        let before = refused(&gateway, reason);
        for address in [gateway.http, gateway.https] {
            assert!(Connection::plain_after(address, bytes).is_closed(), "{reason}");
        }
        await_until("both to be counted", || refused(&gateway, reason) == before + 2);
    }
    assert!(Connection::try_tls_after(gateway.https, HOST, b"").is_err(), "TLS without a header");
    assert_eq!(backend.requests(), 0);
    // Even a valid header of an untrusted peer is refused.
    let keys = [("use-proxy-protocol", "true"), ("proxy-real-ip-cidr", "10.0.0.0/8")];
    folder.write("config.yaml", config_map(NAME, &keys));
    await_until("the peer to be refused", || {
        let mut connection = Connection::plain(gateway.http);
        // The connection may be closed before everything is sent.
        let _ = connection.try_send("PROXY UNKNOWN\r\n");
        let answer = connection.try_request("GET", HOST, "/", &[("Connection", "close")], "");
        !matches!(answer, Ok(Some(_))) && refused(&gateway, "untrusted") > 0
    });
    assert!(gateway.program_log().iter().any(|line| line.contains("PROXY protocol")));
}

#[test]
fn the_switch_concerns_new_connections_only_and_fails_no_request() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend, &[]);
    let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    // Connections opened earlier, in constant use.
    let load: Vec<_> = (0..4)
        .map(|_| {
            let (stop, served) = (stop.clone(), served.clone());
            let mut connection = Connection::plain(gateway.http);
            assert_eq!(connection.get(HOST, "/").status, 200);
            thread::spawn(move || {
                // `keep-alive-requests` is 1,000.
                for _ in 0..900 {
                    if stop.load(SeqCst) {
                        break;
                    }
                    assert_eq!(connection.get(HOST, "/").status, 200);
                    served.fetch_add(1, SeqCst);
                    crate::harness::pause();
                }
            })
        })
        .collect();
    let header = b"PROXY TCP4 198.51.100.7 203.0.113.1 7777 80\r\n";
    let with_header = |gateway: &Gateway| {
        let mut connection = Connection::plain_after(gateway.http, header);
        let answer = connection.try_request("GET", HOST, "/", &[], "");
        answer.ok().flatten().is_some_and(|response| response.received("x-real-ip") == ["198.51.100.7"])
    };
    for _ in 0..3 {
        folder.write("config.yaml", config_map(NAME, &[("use-proxy-protocol", "true")]));
        await_until("headers to be read", || with_header(&gateway));
        let before = served.load(SeqCst);
        await_until("more requests on old connections", || served.load(SeqCst) > before + 8);
        folder.write("config.yaml", config_map(NAME, &[]));
        await_until("no headers to be read", || {
            let mut connection = Connection::plain(gateway.http);
            let answer = connection.try_request("GET", HOST, "/", &[], "");
            answer.ok().flatten().is_some_and(|response| response.status == 200)
        });
    }
    stop.store(true, SeqCst);
    load.into_iter().for_each(|client| client.join().expect("every request was answered with 200"));
}

#[test]
fn fields_of_proxies_count_where_they_are_trusted_live() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    let forwarded = |keys: &[(&str, &str)]| {
        // The last key marks the change.
        let keys = [keys, &[("generate-request-id", "false")]].concat();
        folder.write("config.yaml", config_map(NAME, &keys));
        await_until("the settings", || get(gateway.http, HOST, "/").received("x-request-id").is_empty());
        let fields = [
            ("X-Forwarded-For", "9.9.9.9, 8.8.8.8, 10.0.0.1"),
            ("CF-Connecting-IP", "7.7.7.7"),
            ("X-Forwarded-Host", "www.example"),
            ("X-Forwarded-Proto", "https"),
        ];
        let response = Connection::plain(gateway.http).request("GET", HOST, "/", &fields, "");
        let one = |name: &str| response.received(name).join("|");
        let forwarded = ["x-real-ip", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"].map(one);
        folder.write("config.yaml", config_map(NAME, &[]));
        await_until("the defaults", || !get(gateway.http, HOST, "/").received("x-request-id").is_empty());
        forwarded
    };
    let (local, full) = ("127.0.0.1", "9.9.9.9, 8.8.8.8, 10.0.0.1, 127.0.0.1");
    let mine = [local, local, HOST, "http"];
    assert_eq!(forwarded(&[]), mine);
    let uses = ("use-forwarded-headers", "true");
    assert_eq!(forwarded(&[uses]), ["9.9.9.9", "9.9.9.9", "www.example", "https"]);
    let inner = ("proxy-real-ip-cidr", "127.0.0.0/8,10.0.0.1");
    assert_eq!(forwarded(&[uses, inner]), ["8.8.8.8", "8.8.8.8", "www.example", "https"]);
    assert_eq!(forwarded(&[uses, ("proxy-real-ip-cidr", "10.0.0.0/8")]), mine);
    assert_eq!(forwarded(&[uses, ("proxy-real-ip-cidr", "lb.example")]), mine);
    let append = ("compute-full-forwarded-for", "true");
    assert_eq!(forwarded(&[uses, inner, append]), ["8.8.8.8", full, "www.example", "https"]);
    assert_eq!(forwarded(&[("enable-real-ip", "true"), inner]), ["8.8.8.8", "8.8.8.8", HOST, "http"]);
    let header = ("forwarded-for-header", "CF-Connecting-IP");
    assert_eq!(forwarded(&[uses, header]), ["7.7.7.7", "7.7.7.7", "www.example", "https"]);
}

#[test]
fn endpoints_get_the_address_in_the_configured_field() {
    let backend = Backend::echo("shop");
    let both = [("use-proxy-protocol", "true"), ("use-forwarded-headers", "true")];
    let (folder, gateway) = start(&backend, &both);
    let forwarded = |name: &str| {
        let mut connection =
            Connection::plain_after(gateway.http, b"PROXY TCP4 192.0.2.7 127.0.0.1 7777 80\r\n");
        connection.request("GET", HOST, "/", &[("X-Forwarded-For", "9.9.9.9")], "").received(name)
    };
    assert_eq!(forwarded("x-forwarded-for-proxy-protocol"), ["9.9.9.9"]);
    let named = [&both[..], &[("forwarded-for-proxy-protocol-header", "X-Taken-From")]].concat();
    folder.write("config.yaml", config_map(NAME, &named));
    await_until("the other field", || forwarded("x-taken-from") == ["9.9.9.9"]);
    assert_eq!(forwarded("x-forwarded-for-proxy-protocol"), Vec::<String>::new());
}

#[test]
fn limits_and_lists_concern_the_client_that_the_header_names() {
    let backend = Backend::echo("shop");
    let keys = [("use-proxy-protocol", "true"), ("whitelist-source-range", "198.51.100.0/24")];
    let (_folder, gateway) = start(&backend, &keys);
    let status = |source: &str| {
        let header = format!("PROXY TCP4 {source} 203.0.113.1 7777 80\r\n");
        Connection::plain_after(gateway.http, header.as_bytes()).get(HOST, "/").status
    };
    assert_eq!(status("198.51.100.7"), 200);
    assert_eq!(status("192.0.2.7"), 403);
}
