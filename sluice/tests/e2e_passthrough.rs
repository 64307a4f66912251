//! TLS that is passed through by server name, beside hosts whose TLS is terminated, on one port.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, PATIENCE, TestCertificate, await_until, class, config_map,
    get, get_tls, service,
};

const PASSED: &str = "passed.example";
const ENDED: &str = "ended.example";
const FLAG: &str = "--enable-ssl-passthrough";

/// An Ingress that has TLS of a host passed through.
fn passing(name: &str, host: &str) -> Ingress {
    Ingress::new(name).annotation("ssl-passthrough", "true").path(host, "/", name)
}

/// A host that is passed through to `passed`, and one that is terminated and served by `ended`.
fn objects(passed: &Backend, ended: &Backend, certificate: &TestCertificate) -> String {
    class("nginx", "k8s.io/ingress-nginx")
        + &passing("passed", PASSED).text()
        + &service_with("passed", &[passed])
        + &Ingress::new("ended").path(ENDED, "/", "ended").tls(&[ENDED], "tls").text()
        + &service_with("ended", &[ended])
        + &certificate.secret("tls")
}

fn tls_backend(name: &str, certificate: &TestCertificate) -> Backend {
    Backend::tls(name, certificate.server_config())
}

/// The certificate that a client of this name is shown.
fn certificate_of(gateway: SocketAddr, name: &str) -> Vec<u8> {
    Connection::tls(gateway, name).certificate().to_vec()
}

#[test]
fn hosts_that_are_passed_through_and_terminated_share_the_port() {
    let (own, backends) = (TestCertificate::new(&[ENDED]), TestCertificate::new(&[PASSED]));
    let (passed, ended) = (tls_backend("passed", &backends), Backend::echo("ended"));
    let folder = Folder::with(objects(&passed, &ended, &own));
    let gateway = Gateway::with(&folder, &[FLAG]);
    for _ in 0..3 {
        let mut connection = Connection::tls(gateway.https, PASSED);
        assert_eq!(connection.certificate(), &*backends.der, "the endpoint's own");
        assert_eq!(connection.get(PASSED, "/").backend(), "passed");
        let mut connection = Connection::tls(gateway.https, ENDED);
        assert_eq!(connection.certificate(), &*own.der);
        assert_eq!(connection.get(ENDED, "/").backend(), "ended");
    }
    assert_ne!(certificate_of(gateway.https, "other.example"), backends.der);
    let line = gateway.await_access("TCP 200 ");
    assert!(line.starts_with("[127.0.0.1] ["), "{line}");
    let metrics = gateway.metrics();
    assert!(metrics.contains("protocol=\"tls\",service=\"passed\""), "{metrics}");
    // As in ingress-nginx, plain HTTP is sent to the same endpoints over TLS.
    assert_eq!(get(gateway.http, PASSED, "/").backend(), "passed");
    let routes = gateway.ask("/routes").text();
    assert!(routes.contains("\"passthrough\": \"default-passed-80\""), "{routes}");
    assert!(gateway.ask("/backends").text().contains("\"protocol\": \"tcp\""));
    assert!(passed.seen().iter().all(|request| request.header("x-forwarded-for").is_none()
        || request.header("x-forwarded-proto") == Some("http")));
}

#[test]
fn without_its_flag_the_annotation_has_no_effect() {
    let (own, backends) = (TestCertificate::new(&[ENDED]), TestCertificate::new(&[PASSED]));
    let (passed, ended) = (Backend::echo("passed"), Backend::echo("ended"));
    let folder = Folder::with(objects(&passed, &ended, &own));
    let gateway = Gateway::start(&folder);
    assert_ne!(certificate_of(gateway.https, PASSED), backends.der);
    assert_eq!(get_tls(gateway.https, PASSED, "/").backend(), "passed");
    let problems = gateway.problems();
    assert!(problems.contains("\"true\" has no effect without --enable-ssl-passthrough"), "{problems}");
}

#[test]
fn a_client_hello_may_come_byte_by_byte_and_with_a_proxy_header() {
    let (own, backends) = (TestCertificate::new(&[ENDED]), TestCertificate::new(&[PASSED]));
    let (passed, ended) = (tls_backend("passed", &backends), Backend::echo("ended"));
    let folder = Folder::with(objects(&passed, &ended, &own));
    folder.write("config.yaml", config_map("edge/config", &[("use-proxy-protocol", "true")]));
    let gateway = Gateway::with(&folder, &[FLAG, "--configmap", "edge/config"]);
    let header = b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\r\n";
    let slow = Slow::before(gateway.https);
    for (name, certificate) in [(PASSED, &backends), (ENDED, &own)] {
        let mut connection = Connection::try_tls_after(slow.address, name, header).unwrap();
        assert_eq!(connection.certificate(), &*certificate.der, "{name}");
        assert_eq!(connection.get(name, "/").status, 200);
    }
    gateway.await_access("[192.0.2.7] [");
}

/// Passes the first bytes of each connection on one by one, and the others as they come.
struct Slow {
    address: SocketAddr,
}

impl Slow {
    fn before(gateway: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let gateway = TcpStream::connect(gateway).unwrap();
                gateway.set_nodelay(true).unwrap();
                let (answers, back) = (gateway.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || copy(&answers, &back, 0));
                thread::spawn(move || copy(&client, &gateway, 300));
            }
        });
        Self { address }
    }
}

fn copy(mut from: &TcpStream, mut to: &TcpStream, slowly: usize) {
    let mut buffer = [0; 16 * 1024];
    let mut single = slowly;
    // Either side may end first.
    while let Ok(count @ 1..) = from.read(&mut buffer[..if single > 0 { 1 } else { 16 * 1024 }]) {
        single = single.saturating_sub(1);
        if to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

#[test]
fn endpoints_and_the_annotation_change_while_connections_are_open() {
    let (own, backends) = (TestCertificate::new(&[ENDED]), TestCertificate::new(&[PASSED]));
    let (old, new) = (tls_backend("old", &backends), tls_backend("new", &backends));
    let ended = Backend::echo("ended");
    let folder = Folder::with(objects(&old, &ended, &own));
    let gateway = Gateway::with(&folder, &[FLAG]);
    let mut kept = Connection::tls(gateway.https, PASSED);
    assert_eq!(kept.get(PASSED, "/").backend(), "old");
    folder.write("objects.yaml", objects(&new, &ended, &own));
    await_until("the new endpoint", || get_tls(gateway.https, PASSED, "/").backend() == "new");
    assert_eq!(kept.get(PASSED, "/").backend(), "old", "an open connection stays where it is");
    let terminated = objects(&new, &ended, &own).replace("\"true\"", "\"false\"");
    folder.write("objects.yaml", terminated);
    await_until("TLS to be terminated", || certificate_of(gateway.https, PASSED) != backends.der);
    assert_eq!(kept.get(PASSED, "/").backend(), "old");
}

#[test]
fn an_ingress_of_another_path_or_without_a_service_terminates() {
    let own = TestCertificate::new(&[ENDED]);
    let ended = Backend::echo("ended");
    let folder = Folder::with(
        class("nginx", "k8s.io/ingress-nginx")
            + &Ingress::new("part")
                .annotation("ssl-passthrough", "true")
                .path(PASSED, "/part", "ended")
                .text()
            + &passing("gone", "gone.example").text()
            + &service_with("ended", &[&ended])
            + &service("none")
            + &own.secret("tls"),
    );
    let gateway = Gateway::with(&folder, &[FLAG]);
    let problems = gateway.problems();
    for expected in [
        "has no effect on host passed.example: its path / has no usable Service; TLS is terminated",
        "has no effect on host gone.example: its path / has no usable Service; TLS is terminated",
    ] {
        assert!(problems.contains(expected), "{expected}\n{problems}");
    }
    assert_eq!(get_tls(gateway.https, "gone.example", "/").status, 503);
}

#[test]
fn a_host_without_endpoints_closes_its_connections_and_no_others() {
    let own = TestCertificate::new(&[ENDED]);
    let ended = Backend::echo("ended");
    let folder = Folder::with(
        class("nginx", "k8s.io/ingress-nginx")
            + &passing("none", PASSED).text()
            + &service("none")
            + &Ingress::new("ended").path(ENDED, "/", "ended").tls(&[ENDED], "tls").text()
            + &service_with("ended", &[&ended])
            + &own.secret("tls"),
    );
    let gateway = Gateway::with(&folder, &[FLAG]);
    assert!(Connection::try_tls(gateway.https, PASSED).is_err());
    gateway.await_access("TCP 503 0 0 ");
    assert_eq!(get_tls(gateway.https, ENDED, "/").backend(), "ended");
    // HTTP gets a page, and other bytes an alert of TLS.
    for (sent, first) in [("GET / HTTP/1.1\r\n\r\n", b'H'), ("get / HTTP/1.1\r\n\r\n", 21)] {
        let mut other = TcpStream::connect(gateway.https).unwrap();
        other.set_read_timeout(Some(PATIENCE)).unwrap();
        other.write_all(sent.as_bytes()).unwrap();
        let mut received = Vec::new();
        let read = other.read_to_end(&mut received);
        assert!(read.is_err() || received.first() == Some(&first), "{received:?}");
    }
}

#[test]
fn openssl_reaches_both_kinds_of_hosts() {
    let (own, backends) = (TestCertificate::new(&[ENDED]), TestCertificate::new(&[PASSED]));
    let (passed, ended) = (tls_backend("passed", &backends), Backend::echo("ended"));
    let folder = Folder::with(objects(&passed, &ended, &own));
    let gateway = Gateway::with(&folder, &[FLAG]);
    for (name, version) in [(PASSED, "-tls1_3"), (PASSED, "-tls1_2"), (ENDED, "-tls1_3"), (ENDED, "-tls1_2")]
    {
        let mut openssl = Command::new("openssl");
        openssl.args([
            "s_client",
            "-quiet",
            version,
            "-servername",
            name,
            "-connect",
            &gateway.https.to_string(),
        ]);
        let child = openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut child) = child else {
            println!("this machine has no openssl: it was NOT tried");
            return;
        };
        let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
        child.stdin.as_mut().unwrap().write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(line.starts_with("HTTP/1.1 200"), "{name} {version}: {line}");
    }
}
