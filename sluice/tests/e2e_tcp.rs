//! TCP services: ports that a ConfigMap maps to Services.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::harness::manifest::slice;
use crate::harness::stream::TcpEcho;
use crate::harness::{
    Backend, Folder, Gateway, PATIENCE, await_some, await_until, class, config_map, get, ports, service, site,
};

const MAP: &str = "edge/tcp-services";
const FLAGS: [&str; 2] = ["--tcp-services-configmap", MAP];

/// A Service with these endpoints, one slice for each.
fn echoes(name: &str, servers: &[&TcpEcho]) -> String {
    let slices = servers.iter().enumerate().map(|(index, server)| {
        let ip = server.address.ip().to_string();
        slice(&format!("{name}-{index}"), name, &[&ip], server.address.port())
    });
    service(name) + &slices.collect::<String>()
}

/// A gateway with one entry `PORT: default/<reference>`.
fn start(objects: &str, reference: &str) -> (Folder, Gateway, SocketAddr) {
    let folder = Folder::with(class("nginx", "k8s.io/ingress-nginx") + objects);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::reserve()));
    map(&folder, &[(address.port(), reference)]);
    let gateway = Gateway::with(&folder, &FLAGS);
    (folder, gateway, address)
}

fn map(folder: &Folder, entries: &[(u16, &str)]) {
    let entries: Vec<(String, String)> =
        entries.iter().map(|(port, to)| (port.to_string(), format!("default/{to}"))).collect();
    let entries: Vec<(&str, &str)> = entries.iter().map(|(port, to)| (&**port, &**to)).collect();
    folder.write("tcp.yaml", config_map(MAP, &entries));
}

/// A client, once the port is open.
fn connect(address: SocketAddr) -> TcpStream {
    let stream = await_some(&format!("{address} to be open"), || TcpStream::connect(address).ok());
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The name of the server that a new connection reaches; none where it is closed at once.
fn greeting(address: SocketAddr) -> Option<String> {
    let mut line = String::new();
    BufReader::new(connect(address)).read_line(&mut line).ok()?;
    (!line.is_empty()).then(|| line.trim().to_owned())
}

fn is_open(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_ok()
}

#[test]
fn bytes_pass_both_ways_and_one_end_leaves_the_other_direction_open() {
    let echo = TcpEcho::start("db");
    let (_folder, gateway, address) = start(&echoes("db", &[&echo]), "db:80");
    let mut stream = connect(address);
    stream.write_all(b"before the end").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "db\nbefore the end");
    let line = gateway.await_access("TCP 200 17 14 ");
    assert!(line.starts_with("[127.0.0.1] ["), "the format of the reference: {line}");
    let metrics = gateway.metrics();
    let labels = "namespace=\"default\",port=\"80\",protocol=\"tcp\",service=\"db\"";
    for sample in [
        format!("sluice_streams_total{{{labels},status=\"200\"}} 1"),
        format!("sluice_streams_open{{{labels}}} 0"),
        format!("sluice_stream_bytes_total{{direction=\"sent\",{labels}}} 17"),
        format!("sluice_stream_bytes_total{{direction=\"received\",{labels}}} 14"),
    ] {
        assert!(metrics.contains(&sample), "{sample}\n{metrics}");
    }
}

#[test]
fn a_large_transfer_arrives_whole_in_both_directions() {
    const SIZE: usize = 64 << 20;
    let echo = TcpEcho::start("db");
    let (_folder, _gateway, address) = start(&echoes("db", &[&echo]), "db:http");
    let mut stream = connect(address);
    let mut sending = stream.try_clone().unwrap();
    let sender = thread::spawn(move || {
        let part: Vec<u8> = (0..1 << 16).map(|byte| (byte % 251) as u8).collect();
        (0..SIZE / part.len()).for_each(|_| sending.write_all(&part).unwrap());
        sending.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::with_capacity(SIZE + 3);
    stream.read_to_end(&mut received).unwrap();
    sender.join().unwrap();
    assert_eq!(received.len(), SIZE + 3);
    let intact = received[3..].iter().enumerate().all(|(at, byte)| *byte == (at % (1 << 16) % 251) as u8);
    assert!(intact);
}

#[test]
fn a_configmap_is_edited_live_and_no_other_connection_notices() {
    let (one, two) = (TcpEcho::start("one"), TcpEcho::start("two"));
    let objects = echoes("one", &[&one]) + &echoes("two", &[&two]);
    let (folder, gateway, first) = start(&objects, "one:80");
    let mut kept = connect(first);
    kept.write_all(b"x").unwrap();
    let mut bytes = [0; 5];
    kept.read_exact(&mut bytes).unwrap();
    let hash = || {
        let metrics = gateway.metrics();
        let of_configuration = |line: &&str| line.starts_with("nginx_ingress_controller_config_hash{");
        metrics.lines().find(of_configuration).unwrap().to_owned()
    };
    let first_hash = hash();
    let second = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::reserve()));
    map(&folder, &[(first.port(), "one:80"), (second.port(), "two:80")]);
    await_until("the second port", || is_open(second));
    assert_eq!(greeting(second).as_deref(), Some("two"));
    let second_hash = hash();
    assert_ne!(second_hash, first_hash);
    map(&folder, &[(first.port(), "two:80"), (second.port(), "two:80")]);
    await_until("the first port to lead elsewhere", || greeting(first).as_deref() == Some("two"));
    assert_ne!(hash(), second_hash);
    folder.remove("tcp.yaml");
    await_until("both ports to close", || !is_open(first) && !is_open(second));
    let missing = "Flag /--tcp-services-configmap: edge/tcp-services: this ConfigMap does not exist";
    await_until("the problem", || gateway.problems().contains(missing));
    kept.write_all(b"y").unwrap();
    kept.read_exact(&mut bytes[..1]).unwrap();
    assert_eq!(bytes[0], b'y', "a connection outlives its listener");
    map(&folder, &[(first.port(), "one:80")]);
    await_until("the port to open again", || is_open(first));
    assert_eq!(greeting(first).as_deref(), Some("one"));
    await_until("the hash of the same services", || hash() == first_hash);
    assert_eq!(gateway.health(), Some(200));
}

#[test]
fn endpoints_change_while_connections_are_open() {
    let (old, new) = (TcpEcho::start("old"), TcpEcho::start("new"));
    let (folder, gateway, address) = start(&echoes("db", &[&old]), "db:80");
    let mut kept = connect(address);
    let mut bytes = [0; 4];
    kept.read_exact(&mut bytes).unwrap();
    folder.write("objects.yaml", class("nginx", "k8s.io/ingress-nginx") + &echoes("db", &[&new]));
    await_until("the new endpoint", || greeting(address).as_deref() == Some("new"));
    kept.write_all(b"z").unwrap();
    kept.read_exact(&mut bytes[..1]).unwrap();
    assert_eq!(bytes[0], b'z');
    folder.write("objects.yaml", class("nginx", "k8s.io/ingress-nginx") + &service("db"));
    await_until("no endpoint", || greeting(address).is_none());
    gateway.await_access("TCP 503 0 0 ");
    assert!(is_open(address), "a rollout does not close the port");
}

#[test]
fn an_endpoint_that_refuses_is_passed_over_and_ejected() {
    let (mut dead, alive) = (TcpEcho::start("dead"), TcpEcho::start("alive"));
    dead.stop_listening();
    let (_folder, gateway, address) = start(&echoes("db", &[&dead, &alive]), "db:80");
    for _ in 0..8 {
        assert_eq!(greeting(address).as_deref(), Some("alive"));
    }
    let ejected = |line: &String| line.contains("an endpoint is ejected");
    await_until("the ejection", || gateway.program_log().iter().any(ejected));
    drop(alive);
    await_until("nothing to answer", || greeting(address).is_none());
    gateway.await_access("TCP 502 0 0 ");
}

#[test]
fn entries_that_cannot_be_served_are_problems_and_the_others_are_served() {
    let echo = TcpEcho::start("db");
    let folder = Folder::with(class("nginx", "k8s.io/ingress-nginx") + &echoes("db", &[&echo]));
    let (good, busy) = (ports::reserve(), ports::listen());
    let busy_port = busy.local_addr().unwrap().port().to_string();
    let good_text = good.to_string();
    let free: Vec<String> = (0..4).map(|_| ports::reserve().to_string()).collect();
    let gateway = Gateway::with(&folder, &FLAGS);
    let admin = gateway.admin.port().to_string();
    let entries = [
        (&*good_text, "default/db:80"),
        (&*busy_port, "default/db:80"),
        (&*admin, "default/db:80"),
        ("seventy", "default/db:80"),
        (&*free[0], "default/db"),
        (&*free[1], "default/other:80"),
        (&*free[2], "default/db:81"),
        (&*free[3], "default/db:80:PROXI"),
    ];
    folder.write("tcp.yaml", config_map(MAP, &entries));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, good));
    assert_eq!(greeting(address).as_deref(), Some("db"));
    let expected = [
        format!(
            "data[{admin}]: port {admin} is reserved for the gateway itself (--admin-address); the entry is skipped"
        ),
        "data[seventy]: \"seventy\" is not a port number; the entry is skipped".to_owned(),
        format!("data[{}]: \"default/db\" is not a reference to a Service and its port", free[0]),
        format!("data[{}]: Service default/other does not exist; the port is not open", free[1]),
        format!("data[{}]: Service default/db has no TCP port 81; it has 80 (http)", free[2]),
        format!("data[{}]: \"default/db:80:PROXI\" ends with \"PROXI\", which is ignored", free[3]),
        format!(
            "port {busy_port} is already in use; free it or choose another with data[{busy_port}] of ConfigMap {MAP}"
        ),
    ];
    for expected in expected {
        await_until(&expected, || gateway.problems().contains(&expected));
    }
    assert_eq!(gateway.health(), Some(200), "the port of one service leaves the gateway in use");
    drop(busy);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, busy_port.parse().unwrap()));
    await_until("the port", || is_open(address) && !gateway.problems().contains("already in use"));
}

#[test]
fn the_proxy_protocol_is_read_from_clients_and_sent_to_endpoints() {
    let endpoint = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = endpoint.local_addr().unwrap().port();
    let objects = service("db") + &slice("db-1", "db", &["127.0.0.1"], port);
    let (folder, gateway, address) = start(&objects, "db:80:PROXY:PROXY");
    let received = |preamble: &str| {
        let mut client = connect(address);
        client.write_all(format!("{preamble}hello\n").as_bytes()).unwrap();
        let (server, _) = endpoint.accept().unwrap();
        let mut lines = BufReader::new(server).lines();
        [(); 2].map(|()| lines.next().unwrap().unwrap())
    };
    let header = "PROXY TCP4 192.0.2.7 192.0.2.1 4711 5432";
    assert_eq!(received(&format!("{header}\r\n")), [header, "hello"]);
    gateway.await_access("[192.0.2.7] [");
    let mut without = connect(address);
    without.write_all(b"hello\n").unwrap();
    let mut rest = Vec::new();
    assert!(matches!(without.read_to_end(&mut rest), Ok(0) | Err(_)), "{rest:?}");
    gateway.await_access("TCP 400 0 0 ");
    let generation = gateway.generation();
    map(&folder, &[(address.port(), "db:80::PROXY")]);
    await_until("the new options", || gateway.generation() > generation);
    let [line, rest] = received("");
    assert!(line.starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 "), "{line}");
    assert!(line.ends_with(&format!(" {}", address.port())) && rest == "hello", "{line}");
}

#[test]
fn an_idle_stream_times_out_and_shutdown_waits_for_others() {
    let echo = TcpEcho::start("db");
    let folder = Folder::with(class("nginx", "k8s.io/ingress-nginx") + &echoes("db", &[&echo]));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::reserve()));
    map(&folder, &[(address.port(), "db:80")]);
    folder.write("config.yaml", config_map("edge/config", &[("proxy-stream-timeout", "1s")]));
    let flags = [&FLAGS[..], &["--configmap", "edge/config", "--shutdown-grace-period", "0"]].concat();
    let mut gateway = Gateway::with(&folder, &flags);
    let mut text = String::new();
    connect(address).read_to_string(&mut text).unwrap();
    assert_eq!(text, "db\n", "the gateway has ended it");
    let generation = gateway.generation();
    folder.write("config.yaml", config_map("edge/config", &[]));
    await_until("the default", || gateway.generation() > generation);
    let mut kept = connect(address);
    let mut bytes = [0; 3];
    kept.read_exact(&mut bytes).unwrap();
    gateway.terminate();
    await_until("the port to close", || !is_open(address));
    kept.write_all(b"still").unwrap();
    let mut bytes = [0; 5];
    kept.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"still");
    drop(kept);
    assert!(gateway.await_exit().success());
}

#[test]
fn streams_have_their_own_log_if_configured() {
    let echo = TcpEcho::start("db");
    let shop = Backend::echo("shop");
    let folder = Folder::with(site("shop", "shop.example", &[&shop]) + &echoes("db", &[&echo]));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::reserve()));
    map(&folder, &[(address.port(), "db:80")]);
    let file = folder.path().parent().unwrap().join(format!("streams-{}.log", address.port()));
    let path = file.to_str().unwrap();
    let format = "$protocol $proxy_upstream_name ${upstream_addr} $status";
    let keys = [("stream-access-log-path", path), ("log-format-stream", format)];
    folder.write("config.yaml", config_map("edge/config", &keys));
    let gateway = Gateway::with(&folder, &[&FLAGS[..], &["--configmap", "edge/config"]].concat());
    assert_eq!(greeting(address).as_deref(), Some("db"));
    let expected = format!("TCP tcp-default-db-80 {} 200\n", echo.address);
    await_until("the line", || std::fs::read_to_string(&file).is_ok_and(|text| text == expected));
    assert_eq!(get(gateway.http, "shop.example", "/").status, 200);
    let line = gateway.await_access("GET / HTTP/1.1");
    assert!(!line.contains("TCP"), "{line}");
    let off = [("disable-stream-access-log", "true")];
    folder.write("config.yaml", config_map("edge/config", &off));
    let _ = std::fs::remove_file(file);
    await_until("no further line", || {
        let before = gateway.access_log().len();
        let greeted = greeting(address).is_some();
        assert_eq!(get(gateway.http, "shop.example", "/").status, 200);
        await_until("the request's line", || gateway.access_log().len() > before);
        greeted && gateway.access_log().iter().skip(before).all(|line| line.contains("GET /"))
    });
}

/// A server of Redis, killed by its id when dropped.
struct Redis(Child);

impl Redis {
    fn start(port: u16) -> Option<Self> {
        let port = port.to_string();
        let flags = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        Command::new("redis-server").args(flags).stdout(Stdio::null()).spawn().ok().map(Self)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn redis_is_served_to_its_clients() {
    let port = ports::reserve();
    let Some(_redis) = Redis::start(port) else {
        println!("this machine has no redis-server: it was NOT tried");
        return;
    };
    let own = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    await_until("redis", || is_open(own));
    let objects = service("redis") + &slice("redis-1", "redis", &["127.0.0.1"], port);
    let (_folder, _gateway, address) = start(&objects, "redis:80");
    let stream = connect(address);
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut command = |text: &str| {
        (&stream).write_all(format!("{text}\r\n").as_bytes()).unwrap();
        lines.next().unwrap().unwrap()
    };
    assert_eq!(command("PING"), "+PONG");
    assert_eq!(command("SET greeting hello"), "+OK");
    assert_eq!(command("GET greeting"), "$5");
    assert_eq!(command(""), "hello");
    assert_eq!(command("QUIT"), "+OK");
}
