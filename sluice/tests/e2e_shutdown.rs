//! Shutdown: running requests finish, and finished connections are closed.

use std::time::{Duration, Instant};

use crate::harness::grpc::{GrpcBackend, GrpcClient, message};
use crate::harness::h2::run;
use crate::harness::wire::Side;
use crate::harness::{
    Backend, Connection, Folder, Gate, Gateway, Ingress, Reply, await_until, config_map, get, ports, site,
};

const HOST: &str = "shop.example";

#[test]
fn an_idle_gateway_shuts_down_at_once_with_status_0() {
    let backend = Backend::echo("shop");
    let mut gateway = Gateway::start(&Folder::with(site("shop", HOST, &[&backend])));
    let mut idle = Connection::plain(gateway.http);
    assert_eq!(idle.get(HOST, "/").status, 200);
    let _never_used = Connection::plain(gateway.http);
    let started = Instant::now();
    gateway.terminate();
    assert!(idle.is_closed(), "idle connections are closed");
    assert_eq!(gateway.await_exit().code(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(5), "took {:?}", started.elapsed());
}

/// Starts a gateway and a request that its backend has received and answers when the gate opens.
fn with_running_request() -> (Gateway, Backend, Gate, Connection) {
    let gate = Gate::default();
    let backend = Backend::gated("slow", &gate);
    let gateway = Gateway::start(&Folder::with(site("shop", HOST, &[&backend])));
    let mut running = Connection::plain(gateway.http);
    running.send(format!("GET /slow HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    await_until("the request to reach its backend", || backend.requests() == 1);
    (gateway, backend, gate, running)
}

#[test]
fn a_running_request_completes_while_new_connections_are_refused() {
    let (mut gateway, _backend, gate, mut running) = with_running_request();
    gateway.terminate();
    await_until("the readiness to go", || gateway.health() != Some(200));
    await_until("new connections to be refused", || Connection::try_plain(gateway.http).is_err());
    assert!(gateway.is_running());
    gate.open();
    let response = running.response();
    assert_eq!(response.status, 200);
    assert_eq!(response.header("connection").map(str::to_lowercase).as_deref(), Some("close"));
    assert_eq!(gateway.await_exit().code(), Some(0));
}

/// Under `nohup`, tests and the program inherit that SIGHUP is ignored, and it stays ignored.
#[test]
fn sighup_loses_no_request() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let is_ignored = u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 1;
    let (mut gateway, _backend, gate, mut running) = with_running_request();
    gateway.hang_up();
    if !is_ignored {
        await_until("new connections to be refused", || Connection::try_plain(gateway.http).is_err());
    }
    gate.open();
    assert_eq!(running.response().status, 200);
    if is_ignored {
        assert_eq!(get(gateway.http, HOST, "/").status, 200);
        gateway.terminate();
    }
    assert_eq!(gateway.await_exit().code(), Some(0));
}

#[test]
fn a_failed_control_plane_ends_the_program_with_a_message() {
    let gate = Gate::default();
    let backend = Backend::gated("slow", &gate);
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    let mut gateway = Gateway::with_environment(&folder, "SLUICE_PANIC", "control");
    let mut running = Connection::plain(gateway.http);
    running.send(format!("GET /slow HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    await_until("the request to reach its backend", || backend.requests() == 1);
    // The thread of the control plane panics when it applies this change.
    folder.write("more.yaml", site("more", "more.example", &[&backend]));
    await_until("the readiness to go", || gateway.health() != Some(200));
    gate.open();
    assert_eq!(running.response().status, 200, "running requests finish");
    assert_eq!(gateway.await_exit().code(), Some(1));
    let log = gateway.program_log().join("\n");
    assert!(log.contains("the thread of the control plane has ended unexpectedly"), "{log}");
    assert!(log.contains("panicked: fault injection"), "{log}");
}

#[test]
fn the_grace_period_serves_new_connections_with_connection_close() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    let mut gateway = Gateway::with(&folder, &["--shutdown-grace-period", "3"]);
    let mut kept = Connection::plain(gateway.http);
    assert_eq!(kept.get(HOST, "/").status, 200);
    let started = Instant::now();
    gateway.terminate();
    await_until("/healthz to fail", || gateway.health() == Some(500));
    assert_eq!(gateway.probe("/livez").map(|response| response.status), Some(200));
    for connection in [&mut kept, &mut Connection::plain(gateway.http)] {
        let response = connection.get(HOST, "/");
        assert_eq!(response.status, 200);
        assert_eq!(response.header("connection").map(str::to_lowercase).as_deref(), Some("close"));
        assert!(connection.is_closed());
    }
    assert_eq!(gateway.await_exit().code(), Some(0));
    assert!(started.elapsed() >= Duration::from_secs(3), "took only {:?}", started.elapsed());
}

#[test]
fn a_request_that_never_ends_is_cut_off_at_the_timeout() {
    let gate = Gate::default();
    let backend = Backend::gated("slow", &gate);
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    folder.write("config.yaml", config_map("ingress-nginx/controller", &[("worker-shutdown-timeout", "1s")]));
    let mut gateway = Gateway::with(&folder, &["--configmap", "ingress-nginx/controller"]);
    let mut running = Connection::plain(gateway.http);
    running.send(format!("GET /slow HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    await_until("the request to reach its backend", || backend.requests() == 1);
    gateway.terminate();
    assert_eq!(gateway.await_exit().code(), Some(0));
    let answer = running.try_response(Side::Response);
    assert!(!matches!(&answer, Ok(Some(response)) if response.status == 200), "{answer:?}");
    gate.open();
}

#[test]
fn what_the_timeout_cuts_off_is_logged_with_its_status_and_bytes() {
    let part = b"HTTP/1.1 202 Accepted\r\nContent-Length: 9\r\n\r\nparts".to_vec();
    let backend = Backend::with("slow", move |_| Reply::Bytes(part.clone()));
    let grpc = GrpcBackend::plain();
    let call = Ingress::new("grpc").path("grpc.example", "/", "grpc").annotation("backend-protocol", "GRPC");
    let folder = Folder::with(site("shop", HOST, &[&backend]) + &call.text() + &grpc.service("grpc"));
    let format = "$host $status $body_bytes_sent $upstream_status $upstream_response_length";
    let keys = [("worker-shutdown-timeout", "1s"), ("log-format-upstream", format)];
    folder.write("config.yaml", config_map("ingress-nginx/controller", &keys));
    let mut gateway = Gateway::with(&folder, &["--configmap", "ingress-nginx/controller"]);
    let mut running = Connection::plain(gateway.http);
    running.send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    let mut received = Vec::new();
    while !received.ends_with(b"parts") {
        received.extend(running.bytes(1));
    }
    run(async {
        let client = GrpcClient::plain(gateway.http, "grpc.example").await;
        let mut call = client.call("/echo/Chat").await;
        call.send(message(b"hello")).await.unwrap();
        let (_, mut body, _stream) = call.head().await.unwrap();
        assert_eq!(body.data().await.unwrap().unwrap().len(), 10);
        gateway.terminate();
        assert_eq!(gateway.await_exit().code(), Some(0));
    });
    gateway.await_access("shop.example 202 5 202 5");
    gateway.await_access("grpc.example 200 10 200 10");
}

#[test]
fn an_open_upgrade_does_not_delay_shutdown_past_the_timeout() {
    let backend = Backend::with("chat", |_| Reply::Upgrade);
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    folder.write("config.yaml", config_map("ingress-nginx/controller", &[("worker-shutdown-timeout", "1s")]));
    let mut gateway = Gateway::with(&folder, &["--configmap", "ingress-nginx/controller"]);
    let mut socket = Connection::plain(gateway.http);
    let fields = [("Upgrade", "websocket"), ("Connection", "Upgrade")];
    assert_eq!(socket.request("GET", HOST, "/", &fields, "").status, 101);
    gateway.terminate();
    assert_eq!(gateway.await_exit().code(), Some(0));
}

#[test]
fn a_first_request_on_its_way_when_shutdown_begins_is_answered() {
    let backend = Backend::echo("shop");
    let mut gateway = Gateway::start(&Folder::with(site("shop", HOST, &[&backend])));
    let mut connections: Vec<Connection> = (0..8).map(|_| Connection::plain(gateway.http)).collect();
    // Suspended, it finds the signal and the requests at the same time, however slow this test is.
    gateway.suspend();
    gateway.terminate();
    for connection in &mut connections {
        connection.send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    }
    gateway.resume();
    for connection in &mut connections {
        // `Connection: close` is only sent if the signal came before the request.
        assert_eq!(connection.response().status, 200);
        assert!(connection.is_closed());
    }
    assert_eq!(gateway.await_exit().code(), Some(0));
}

#[test]
fn sigterm_ends_a_start_that_waits_for_databases() {
    let gate = Gate::default();
    let mirror = Backend::gated("mirror", &gate);
    let folder = Folder::with("");
    let databases = tempfile::tempdir().unwrap();
    let [http, https, healthz, admin] = ports::addresses();
    let flags = [
        format!("--http-port={}", http.port()),
        format!("--https-port={}", https.port()),
        format!("--healthz-port={}", healthz.port()),
        format!("--admin-address={admin}"),
        format!("--geoip-path={}", databases.path().display()),
        format!("--maxmind-mirror=http://{}/slow", mirror.address),
    ];
    let mut gateway = Gateway::unready(&folder, &flags, healthz);
    await_until("the download", || mirror.requests() == 1);
    let started = Instant::now();
    gateway.terminate();
    assert_eq!(gateway.await_exit().code(), Some(0));
    // The start would wait for 30 s.
    assert!(started.elapsed() < Duration::from_secs(20), "took {:?}", started.elapsed());
    let log = gateway.program_log().join("\n");
    assert!(log.contains("the start waits for the GeoIP2 databases"), "{log}");
    gate.open();
}

#[test]
fn a_second_signal_skips_the_post_shutdown_period() {
    let folder = Folder::with("");
    let mut gateway = Gateway::with(&folder, &["--post-shutdown-grace-period", "600"]);
    gateway.terminate();
    // Two signals at once count as one.
    await_until("the first signal to be received", || gateway.log().contains("draining"));
    gateway.terminate();
    assert_eq!(gateway.await_exit().code(), Some(0));
}
