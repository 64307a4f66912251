//! The validating webhook from the perspective of an API server: TLS, one path, limits, verdicts.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::client::Response;
use crate::harness::{Connection, Folder, Gateway, Ingress, TestCertificate, await_until, ports};

const PATH: &str = "/networking/v1/ingresses";

struct Webhook {
    gateway: Gateway,
    address: SocketAddr,
    files: tempfile::TempDir,
    _folder: Folder,
}

impl Webhook {
    fn start(objects: String, certificate: Option<&TestCertificate>) -> Self {
        let files = tempfile::tempdir().unwrap();
        let [address] = ports::addresses();
        if let Some(certificate) = certificate {
            write(&files, certificate);
        }
        let file = |name: &str| files.path().join(name).display().to_string();
        let flags = [
            format!("--validating-webhook={address}"),
            format!("--validating-webhook-certificate={}", file("tls.crt")),
            format!("--validating-webhook-key={}", file("tls.key")),
        ];
        let folder = Folder::with(objects);
        let gateway = Gateway::with(&folder, &flags.each_ref().map(String::as_str));
        Self { gateway, address, files, _folder: folder }
    }

    fn post(&self, path: &str, body: &str) -> Response {
        let mut connection = Connection::tls(self.address, "webhook.example");
        let length = body.len();
        connection.send(format!(
            "POST {path} HTTP/1.1\r\nHost: webhook.example\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        connection.response()
    }

    fn review(&self, object: Value) -> Value {
        let response = self.post(PATH, &review(object));
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()["response"].clone()
    }
}

fn write(files: &tempfile::TempDir, certificate: &TestCertificate) {
    fs::write(files.path().join("tls.crt"), &certificate.pem).unwrap();
    fs::write(files.path().join("tls.key"), &certificate.key_pem).unwrap();
}

fn review(object: Value) -> String {
    let kind = json!({"group": "networking.k8s.io", "version": "v1", "kind": "Ingress"});
    let request =
        json!({"uid": "u", "kind": kind, "operation": "CREATE", "namespace": "default", "object": object});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string()
}

fn object(name: &str, host: &str, annotations: Value) -> Value {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let paths = json!([{"path": "/", "pathType": "Prefix", "backend": backend}]);
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"ingressClassName": "nginx", "rules": [{"host": host, "http": {"paths": paths}}]},
    })
}

#[test]
fn a_review_is_answered_with_a_verdict_and_nothing_is_changed_by_it() {
    let objects = Ingress::new("first").path("shop.example", "/", "web").text();
    let webhook = Webhook::start(objects, Some(&TestCertificate::new(&["webhook.example"])));
    let refused = webhook.review(object("second", "shop.example", json!({})));
    let message = refused["status"]["message"].as_str().unwrap();
    assert_eq!((&refused["allowed"], &refused["uid"]), (&json!(false), &json!("u")));
    assert!(
        message.contains("host \"shop.example\" and path \"/\" is already defined in ingress default/first"),
        "{message}"
    );
    let bad = json!({"nginx.ingress.kubernetes.io/limit-rps": "plenty"});
    let refused = webhook.review(object("third", "other.example", bad));
    let message = refused["status"]["message"].as_str().unwrap();
    assert!(message.contains("limit-rps contains invalid value"), "{message}");
    let allowed = webhook.review(object("fourth", "other.example", json!({})));
    assert_eq!(allowed["allowed"], true);
    assert!(allowed["warnings"].to_string().contains("ServiceNotFound"), "{allowed}");
    assert!(!webhook.gateway.ask("/routes").text().contains("other.example"), "a review changed something");
    let metrics = webhook.gateway.metrics();
    assert!(metrics.contains("check_errors{") && metrics.contains("check_success{"), "{metrics}");
}

#[test]
fn invalid_reviews_are_rejected_with_specific_statuses() {
    let webhook = Webhook::start(String::new(), Some(&TestCertificate::new(&["webhook.example"])));
    assert_eq!(webhook.post("/", "{}").status, 404);
    assert_eq!(webhook.post(PATH, "{}").status, 400);
    assert_eq!(webhook.post(PATH, "garbage").status, 400);
    let mut get = Connection::tls(webhook.address, "webhook.example");
    assert_eq!(get.get("webhook.example", PATH).status, 405);
    let mut large = Connection::tls(webhook.address, "webhook.example");
    large.send(format!(
        "POST {PATH} HTTP/1.1\r\nHost: webhook.example\r\nContent-Length: {}\r\n\r\n",
        10 << 20
    ));
    assert_eq!(large.response().status, 413);
}

/// The connection was reset while the client was still sending, and a review of this size passed.
#[test]
fn a_review_of_9_mib_is_answered_413_while_it_is_still_sent() {
    let webhook = Webhook::start(String::new(), Some(&TestCertificate::new(&["webhook.example"])));
    let review = review(object("web", "shop.example", json!({})));
    let padded = |size: usize| format!("{review}{}", " ".repeat(size - review.len()));
    assert_eq!(webhook.post(PATH, &padded((9 << 20) - 1)).status, 200);
    for size in [9 << 20, 20 << 20] {
        assert_eq!(webhook.post(PATH, &padded(size)).status, 413, "{size} bytes");
        let mut chunked = Connection::tls(webhook.address, "webhook.example");
        chunked.send(format!(
            "POST {PATH} HTTP/1.1\r\nHost: webhook.example\r\nTransfer-Encoding: chunked\r\n\r\n\
             {size:x}\r\n{}\r\n0\r\n\r\n",
            padded(size)
        ));
        assert_eq!(chunked.response().status, 413, "{size} bytes in one chunk");
    }
    assert_eq!(webhook.post("/", &padded(9 << 20)).status, 404);
}

/// Regression: each request occupied one of eight slots for reviews until its time limit of 9 s,
/// and all other clients received 503 meanwhile.
#[test]
fn twenty_incomplete_requests_stalled_the_reviews_of_other_clients() {
    let webhook = Webhook::start(String::new(), Some(&TestCertificate::new(&["webhook.example"])));
    let head = format!("POST {PATH} HTTP/1.1\r\nHost: webhook.example\r\nContent-Length: 1000\r\n\r\n{{");
    let _incomplete: Vec<Connection> = (0..20)
        .map(|_| {
            let mut connection = Connection::tls(webhook.address, "webhook.example");
            connection.send(&head);
            connection
        })
        .collect();
    let allowed = webhook.review(object("web", "shop.example", json!({})));
    assert_eq!(allowed["allowed"], true, "{allowed}");
}

/// More connections than the limit: the webhook closes those that send nothing.
#[test]
fn silent_connections_do_not_keep_other_clients_out() {
    let webhook = Webhook::start(String::new(), Some(&TestCertificate::new(&["webhook.example"])));
    let connect = |_| std::net::TcpStream::connect(webhook.address).unwrap();
    let _silent: Vec<std::net::TcpStream> = (0..400).map(connect).collect();
    let allowed = webhook.review(object("web", "shop.example", json!({})));
    assert_eq!(allowed["allowed"], true, "{allowed}");
}

#[test]
fn a_certificate_that_comes_late_or_changes_is_picked_up() {
    let webhook = Webhook::start(String::new(), None);
    assert!(Connection::try_tls(webhook.address, "webhook.example").is_err(), "there is no certificate yet");
    await_until("the problem", || {
        webhook.gateway.problems().contains("certificate and key of the validating webhook")
    });
    for _ in 0..2 {
        let certificate = TestCertificate::new(&["webhook.example"]);
        write(&webhook.files, &certificate);
        await_until("the certificate", || {
            Connection::try_tls(webhook.address, "webhook.example")
                .is_ok_and(|connection| connection.certificate() == certificate.der)
        });
    }
    await_until("the problem to vanish", || {
        !webhook.gateway.problems().contains("certificate and key of the validating webhook")
    });
}

/// Prints the time, and compares it with a limit that only a cost proportional to the number of
/// Ingresses would exceed.
#[test]
fn the_cost_of_a_review_does_not_depend_on_other_ingresses() {
    let many = |count: usize| -> String {
        (0..count)
            .map(|n| Ingress::new(&format!("i{n}")).path(&format!("h{n}.example"), "/", "web").text())
            .collect()
    };
    let webhook = Webhook::start(many(2_000), Some(&TestCertificate::new(&["webhook.example"])));
    let mut connection = Connection::tls(webhook.address, "webhook.example");
    let mut took: Vec<Duration> = (0..50)
        .map(|n| {
            let body = review(object("new", &format!("new{n}.example"), json!({})));
            let begin = Instant::now();
            let length = body.len();
            connection.send(format!(
                "POST {PATH} HTTP/1.1\r\nHost: webhook.example\r\nContent-Length: {length}\r\n\r\n{body}"
            ));
            assert_eq!(connection.response().status, 200);
            begin.elapsed()
        })
        .collect();
    let first = took[0];
    took.sort();
    println!(
        "reviews among 2,000 Ingresses: median {:?}, slowest {:?}, first of the connection {first:?}",
        took[25], took[49]
    );
    let metrics = webhook.gateway.metrics();
    let tested = metrics.lines().find(|line| line.contains("admission_tested_ingresses{")).unwrap();
    let tested: f64 = tested.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(tested <= 4.0, "one review looked at {tested} Ingresses and hosts");
}
