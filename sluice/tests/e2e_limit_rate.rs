//! `limit-rate` and `limit-rate-after`: the rate at which a response is sent. A limited response
//! must take a minimum time; other responses must end within the time limit of tests, which a
//! limited one would exceed.

use std::time::{Duration, Instant};

use crate::harness::h2::{self, run};
use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, Reply, TestCertificate, await_until, config_map,
};

const HOST: &str = "media.example";
const CONFIG: &str = "ingress-nginx/controller";

/// Starts a backend that sends as many KiB as the path states; in chunks below /chunked.
fn media() -> Backend {
    Backend::with("media", |request| {
        let path = request.start.split(' ').nth(1).unwrap();
        let kib: usize = path.rsplit('/').next().unwrap().parse().unwrap();
        let body = "x".repeat(kib * 1024);
        match path.starts_with("/chunked") {
            false => Reply::Answer(200, Vec::new(), body),
            true => {
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                Reply::Bytes(format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).into_bytes())
            }
        }
    })
}

fn ingress(annotations: &[(&str, &str)]) -> String {
    Ingress::plain_and_tls("media", HOST).annotations(annotations).text()
}

fn start(annotations: &[(&str, &str)], backend: &Backend) -> (Folder, Gateway) {
    let folder =
        Folder::with(service_with("media", &[backend]) + &TestCertificate::new(&[HOST]).secret("tls"));
    folder.write("ingress.yaml", ingress(annotations));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    (folder, gateway)
}

/// Returns the time to receive `kib` KiB.
fn took(client: &mut Connection, folder: &str, kib: usize) -> Duration {
    let began = Instant::now();
    let response = client.get(HOST, &format!("{folder}/{kib}"));
    assert_eq!((response.status, response.body().len()), (200, kib * 1024));
    began.elapsed()
}

/// Slightly less than the limit implies, because both ends measure time.
const ALMOST: Duration = Duration::from_millis(950);

#[test]
fn a_response_takes_its_time_and_the_connection_goes_on() {
    let backend = media();
    let (_folder, gateway) = start(&[("limit-rate", "10"), ("limit-rate-after", "10")], &backend);
    let mut client = Connection::plain(gateway.http);
    // 10 KiB are not limited, 10 are sent in the first second, and 10 more in the next one.
    for folder in ["", "/chunked"] {
        assert!(took(&mut client, folder, 30) >= ALMOST, "{folder}");
    }
    // Each response is limited separately: unused rate is not carried over to the next one.
    assert!(took(&mut client, "", 30) >= ALMOST);
    run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        let began = Instant::now();
        let request = http::Request::get(format!("https://{HOST}/30")).body(()).unwrap();
        let response = connection.send(request, "").await.unwrap();
        assert_eq!(response.body().len(), 30 * 1024);
        assert!(began.elapsed() >= ALMOST);
    });
}

#[test]
fn bytes_below_the_limit_and_unlimited_responses_have_no_delay() {
    let backend = media();
    // 200 KiB would take minutes.
    let slow = ("limit-rate", "1");
    let (folder, gateway) = start(&[slow, ("limit-rate-after", "300")], &backend);
    let mut client = Connection::plain(gateway.http);
    took(&mut client, "", 200);
    took(&mut client, "/chunked", 200);
    folder.write("config.yaml", config_map(CONFIG, &[slow, ("limit-rate-after", "1")]));
    folder.write("ingress.yaml", ingress(&[("limit-rate", "0")]));
    await_until("no limit, by the annotation", || took(&mut client, "", 3) < Duration::from_secs(1));
    took(&mut client, "", 200);
    folder.write("ingress.yaml", ingress(&[]));
    await_until("the limit of the ConfigMap", || took(&mut client, "", 4) >= ALMOST);
    folder.write("config.yaml", config_map(CONFIG, &[]));
    await_until("no limit", || took(&mut client, "", 4) < ALMOST);
    took(&mut client, "", 200);
}
