//! `limit-rate` and `limit-rate-after`: how fast a response goes out. What is limited takes at least so long; what is not
//! ends within the patience of the tests, in which the limit would not let it.

use std::time::{Duration, Instant};

use crate::harness::h2::{self, run};
use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, Reply, TestCertificate, await_until, config_map,
};

const HOST: &str = "media.example";
const CONFIG: &str = "ingress-nginx/controller";

/// Sends as many KiB as the path says; under /chunked, in chunks.
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
    let mut ingress = Ingress::new("media")
        .path(HOST, "/", "media")
        .tls(&[HOST], "tls")
        .annotation("ssl-redirect", "false");
    for (name, value) in annotations {
        ingress = ingress.annotation(name, value);
    }
    ingress.text()
}

fn start(annotations: &[(&str, &str)], backend: &Backend) -> (Folder, Gateway) {
    let folder =
        Folder::with(service_with("media", &[backend]) + &TestCertificate::new(&[HOST]).secret("tls"));
    folder.write("ingress.yaml", ingress(annotations));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    (folder, gateway)
}

/// How long it takes to get so many KiB.
fn took(client: &mut Connection, folder: &str, kib: usize) -> Duration {
    let began = Instant::now();
    let response = client.get(HOST, &format!("{folder}/{kib}"));
    assert_eq!((response.status, response.body().len()), (200, kib * 1024));
    began.elapsed()
}

/// Less than what the limit makes of it, because clocks are read at both ends.
const ALMOST: Duration = Duration::from_millis(950);

#[test]
fn a_response_takes_its_time_and_the_connection_goes_on() {
    let backend = media();
    let (_folder, gateway) = start(&[("limit-rate", "10"), ("limit-rate-after", "10")], &backend);
    let mut client = Connection::plain(gateway.http);
    // 10 KiB are free, 10 go in the first second, 10 more in the next one.
    for folder in ["", "/chunked"] {
        assert!(took(&mut client, folder, 30) >= ALMOST, "{folder}");
    }
    // A response is limited by itself: nothing of the rate is left over for the next one, nor missing.
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
fn what_is_free_and_what_is_not_limited_goes_at_once() {
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
