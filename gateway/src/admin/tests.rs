//! The two servers over real sockets on loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use serde_json::{Value, json};
use sluice_config::certificate::CertificateFacts;
use sluice_config::{
    Balance, Certificate, CertificateId, Change, Code, Delta, Host, HostTls, ObjectRef, PrivateKey, Problem,
    Severity, Uid,
};
use sluice_testing::backend::Gate;
use sluice_testing::wait::PATIENCE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::pipeline::tests::fixture::*;

fn options() -> AdminOptions {
    AdminOptions {
        health_host: Some(Ipv4Addr::LOCALHOST.into()),
        health_port: 0,
        admin: "127.0.0.1:0".parse().unwrap(),
    }
}

async fn exchange(address: SocketAddr, method: &str, path: &str) -> (u16, String) {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    exchange(address, "GET", path).await
}

async fn get_json(address: SocketAddr, path: &str) -> Value {
    let (status, body) = get(address, path).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

#[tokio::test]
async fn readiness_needs_configuration_and_listeners_and_ends_first() {
    let telemetry = crate::telemetry::Telemetry::new(
        crate::telemetry::TelemetryOptions::default(),
        crate::telemetry::AccessLog::none(),
    );
    let state = State::new(Arc::new(telemetry.unwrap()), Arc::new(|_| ()));
    let health = serve(state.clone(), options()).await.unwrap().health;
    assert_eq!(get(health, "/healthz").await.0, 500);
    assert_eq!(get(health, "/livez").await.0, 200);
    let complete = Delta { complete: true, ..Delta::default() };
    crate::state::apply::apply(&state, &complete, &NoCertificates);
    assert_eq!(get(health, "/healthz").await.0, 500);
    state.readiness.set_bound(true);
    assert_eq!(get(health, "/healthz").await.0, 200);
    assert_eq!(exchange(health, "HEAD", "/healthz").await, (200, String::new()));
    assert_eq!(exchange(health, "POST", "/healthz").await.0, 405);
    state.readiness.set_draining();
    assert_eq!(get(health, "/healthz").await, (500, "shutting down\n".to_owned()));
    assert_eq!(get(health, "/livez").await.0, 200);
    assert_eq!(get(health, "/other").await.0, 404);
}

fn served_plane() -> Plane {
    let mut plane = Plane::simple(&[2, 1]);
    let ids = ["tls", "ecdsa"].map(|name| CertificateId::new("shop", name));
    let certificate = |id: &CertificateId, algorithm: &str, not_after: i64| Certificate {
        id: id.clone(),
        chain: Vec::new(),
        key: PrivateKey::Pkcs8(b"secret key".to_vec()),
        facts: CertificateFacts {
            names: vec!["b.example".into(), "a.example".into()],
            issuer_common_name: Some("ca".into()),
            serial_number: "12".into(),
            public_key_algorithm: algorithm.into(),
            not_after,
            ..CertificateFacts::default()
        },
    };
    let certificates =
        [certificate(&ids[0], "RSA", 1_900_000_000), certificate(&ids[1], "ECDSA", 1_800_000_000)];
    let key = host_key(exact("b.example"));
    let host = Host {
        key: key.clone(),
        alias_of: None,
        tls: Some(HostTls { certificate: Some(ids[0].clone()), alternatives: [ids[1].clone()].into() }),
        rules: vec![rule("/b", forward("web"))],
        has_https: true,
        passthrough: None,
        client_certificates: None,
        cipher_suites: None,
        fall_through: false,
    };
    plane.apply(Delta {
        certificates: ids
            .into_iter()
            .zip(certificates)
            .map(|(id, certificate)| Change::Put(id, Arc::new(certificate)))
            .collect(),
        hosts: vec![Change::Put(key, Arc::new(host))],
        ..Delta::default()
    });
    let problem = Problem {
        object: ObjectRef::new("Ingress", "shop", "web"),
        field: "spec.rules[0]".into(),
        uid: Some(Uid::new("0f8fad5b-d9cb-469f-a165-70867728950e")),
        severity: Severity::Warning,
        code: Code::PathUnusual,
        message: "odd".into(),
        remedy: "look".into(),
    };
    plane.state.problems.change(&[Arc::new(problem)], &[]);
    plane
}

#[tokio::test]
async fn metrics_hold_everything_that_is_counted_at_the_scrape() {
    let plane = served_plane();
    let health = serve(plane.state.clone(), options()).await.unwrap().health;
    let (status, text) = get(health, "/metrics").await;
    assert_eq!(status, 200);
    assert!(text.contains("sluice_endpoints{health=\"healthy\"} 2\n"), "{text}");
    assert!(text.contains("sluice_problems{severity=\"warning\"} 1\n"));
    let by_code =
        "sluice_problems_by_code{class=\"own-fault\",code=\"PathUnusual\",severity=\"warning\"} 1\n";
    assert!(text.contains(by_code), "{text}");
    let expiry = "nginx_ingress_controller_ssl_expire_time_seconds{class=\"k8s.io/ingress-nginx\",";
    let expiries: Vec<&str> = text.lines().filter(|line| line.starts_with(expiry)).collect();
    for (secret, not_after) in [("tls", "1900000000"), ("ecdsa", "1800000000")] {
        let labels = ["host=\"b.example\"".to_owned(), format!("secret_name=\"{secret}\"")];
        let is_of_host =
            |line: &&&str| labels.iter().all(|label| line.contains(label)) && line.ends_with(not_after);
        assert!(expiries.iter().any(|line| is_of_host(&line)), "{secret}: {expiries:?}");
    }
}

#[tokio::test]
async fn introspection_answers_in_stable_json() {
    let plane = served_plane();
    let admin = serve(plane.state.clone(), options()).await.unwrap().admin;
    let index = get_json(admin, "/").await;
    for path in index["paths"].as_array().unwrap() {
        get_json(admin, path.as_str().unwrap()).await;
    }
    let routes = get_json(admin, "/routes").await;
    let hosts: Vec<&str> =
        routes.as_array().unwrap().iter().map(|host| host["host"].as_str().unwrap()).collect();
    assert_eq!(hosts, ["a.example", "b.example"]);
    assert_eq!(
        routes[1],
        json!({
            "group": "ingress", "listener": "any", "host": "b.example", "tls": true,
            "certificate": "shop/tls", "alternativeCertificates": ["shop/ecdsa"], "passthrough": null, "stream": null, "fallThrough": false,
            "rules": [{
                "pathType": "Prefix", "path": "/b", "method": null, "headers": [], "query": [],
                "action": "forward", "status": null, "location": null,
                "backends": [{
                    "weight": 1, "service": "shop-web-80", "pool": "shop/web:http (http)",
                    "status": null, "reason": null,
                }],
                "denied": null, "affinity": null,
                "origin": { "kind": "Ingress", "namespace": "shop", "name": "web", "rule": 0, "match": 0 },
            }],
        })
    );
    let endpoint = |last: u8| {
        json!({
            "address": format!("10.0.0.{last}:8080"), "zone": null, "health": "healthy",
            "ejectedForMs": null, "failures": 0, "inFlight": 0,
        })
    };
    assert_eq!(
        get_json(admin, "/backends").await,
        json!([{
            "pool": "shop/web:http (http)", "protocol": "http", "balance": "roundRobin",
            "endpoints": [endpoint(1), endpoint(2)],
        }])
    );
    let (_, certificates) = get(admin, "/certs").await;
    let shown = |name: &str, algorithm: &str, not_after: i64| {
        json!({
            "secret": format!("shop/{name}"), "names": ["a.example", "b.example"], "commonName": null,
            "issuerCommonName": "ca", "issuerOrganization": null, "serialNumber": "12",
            "publicKeyAlgorithm": algorithm, "notAfter": not_after, "isDefault": false,
            "hosts": ["b.example"],
        })
    };
    assert!(!certificates.contains("secret key") && !certificates.contains("\"key\""));
    assert_eq!(
        serde_json::from_str::<Value>(&certificates).unwrap(),
        json!([shown("ecdsa", "ECDSA", 1_800_000_000), shown("tls", "RSA", 1_900_000_000)])
    );
    assert_eq!(
        get_json(admin, "/problems").await,
        json!([{
            "object": { "kind": "Ingress", "namespace": "shop", "name": "web" },
            "uid": "0f8fad5b-d9cb-469f-a165-70867728950e", "field": "spec.rules[0]", "severity": "warning",
            "code": "PathUnusual", "class": "own-fault", "message": "odd", "remedy": "look",
        }])
    );
    let generation = get_json(admin, "/generation").await;
    assert!(generation["generation"].as_u64().unwrap() >= 4);
    assert_eq!(generation["hash"].as_str().unwrap().len(), 16);
    assert_eq!(get(admin, "/nothing").await.0, 404);
}

#[tokio::test]
async fn a_failed_bind_names_the_flag() {
    let plane = Plane::with_policies(Balance::RoundRobin, &[], Default::default());
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let busy = AdminOptions { health_port: port, ..options() };
    let error = serve(plane.state.clone(), busy).await.unwrap_err().to_string();
    assert_eq!(
        error,
        format!("port {port} is already in use; free it or choose another with --healthz-port")
    );
    let open = AdminOptions { admin: "0.0.0.0:0".parse().unwrap(), ..options() };
    let error = serve(plane.state.clone(), open).await.unwrap_err().to_string();
    assert!(error.contains("0.0.0.0:0 is not a loopback address"), "{error}");
}

/// A document that exceeds the buffers of the kernel.
struct Large;

impl pages::Pages for Large {
    fn refuse(&self, _: &http::Request<hyper::body::Incoming>) -> Option<pages::Document> {
        None
    }

    fn find(&self, uri: &http::Uri, _: &http::HeaderMap) -> pages::PageSource {
        match uri.path() {
            "/metrics" => pages::PageSource::Page("/metrics".into()),
            _ => pages::PageSource::Here(pages::Document::text(http::StatusCode::OK, "ok\n")),
        }
    }

    fn make(&self, _: &str) -> pages::Document {
        pages::Document::text(http::StatusCode::OK, "x".repeat(LARGE))
    }
}

const LARGE: usize = 32 << 20;

#[tokio::test]
async fn a_slow_reader_of_a_large_page_delays_no_other_client() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server::run(listener, Large));
    let mut slow = Vec::new();
    for _ in 0..300 {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        slow.push(stream);
    }
    assert_eq!(get(address, "/healthz").await, (200, "ok\n".to_owned()));
    // Clients that wait for the document are not evicted, so it may take a moment until a slot is
    // free.
    let page = async {
        loop {
            match get(address, "/metrics").await {
                (503, _) => tokio::task::yield_now().await,
                answer => break answer,
            }
        }
    };
    let page = tokio::time::timeout(PATIENCE, page).await.expect("room for the page");
    assert_eq!((page.0, page.1.len()), (200, LARGE));
    assert_eq!(get(address, "/healthz").await.0, 200);
    drop(slow);
}

#[tokio::test]
async fn a_burst_of_connections_evicts_no_probe() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut burst = Vec::new();
    // All connections are in the kernel's queue before the first one is accepted.
    for _ in 0..120 {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        burst.push(stream);
    }
    tokio::spawn(server::run(listener, Large));
    for (number, stream) in burst.iter_mut().enumerate() {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(answer.starts_with(b"HTTP/1.1 200"), "connection {number}: {answer:?}");
    }
}

/// A document that is not finished before all of the clients have requested it.
struct Slow {
    clients: AtomicUsize,
    all: Gate,
}

const CROWD: usize = 16;

impl pages::Pages for Slow {
    fn refuse(&self, _: &http::Request<hyper::body::Incoming>) -> Option<pages::Document> {
        None
    }

    fn find(&self, _: &http::Uri, _: &http::HeaderMap) -> pages::PageSource {
        if self.clients.fetch_add(1, SeqCst) + 1 == CROWD {
            self.all.open();
        }
        pages::PageSource::Page("/metrics".into())
    }

    fn make(&self, _: &str) -> pages::Document {
        self.all.wait();
        pages::Document::text(http::StatusCode::OK, "ok\n")
    }
}

#[tokio::test]
async fn the_ninth_client_of_a_page_waits_for_a_slot() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server::run(listener, Slow { clients: AtomicUsize::new(0), all: Gate::default() }));
    let answers = futures::future::join_all((0..CROWD).map(|_| get(address, "/metrics"))).await;
    assert!(answers.iter().all(|(status, _)| *status == 200), "{answers:?}");
}
