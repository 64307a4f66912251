//! Addresses that must not be endpoints, and the number of connections to endpoints.

use std::net::SocketAddr;

use http::Request;

use crate::harness::manifest::slice;
use crate::harness::{
    Backend, Connection, Folder, Gate, Gateway, Ingress, Reply, await_until, get, h2, service, site,
};

const HOST: &str = "shop.example";
const OWN: &str = "own.example";

/// Returns a site whose only endpoint is this address.
fn leading_to(endpoint: &str, port: u16) -> String {
    Ingress::new("own").path(OWN, "/", "own").text()
        + &service("own")
        + &slice("own", "own", &[endpoint], port)
}

/// Returns an address of this machine other than loopback, if there is one: the source address of a
/// route. No packet is sent.
fn address_of_this_machine() -> Option<String> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then(|| address.to_string())
}

#[test]
fn the_admin_listener_was_reachable_through_a_service() {
    let backend = Backend::echo("shop");
    let objects = site("shop", HOST, &[&backend]);
    let folder = Folder::with(objects.clone());
    let gateway = Gateway::start(&folder);
    type Listener = fn(&Gateway) -> SocketAddr;
    let listeners: [(Listener, &str); 4] = [
        (|gateway| gateway.admin, "--admin-address"),
        (|gateway| gateway.healthz, "--healthz-port"),
        (|gateway| gateway.http, "--http-port"),
        (|gateway| gateway.https, "--https-port"),
    ];
    for (listener, flag) in listeners {
        let port = listener(&gateway).port();
        // The introspection listener has only one address.
        let elsewhere = address_of_this_machine().filter(|_| flag != "--admin-address");
        for address in ["127.0.0.1".to_owned(), "0.0.0.0".to_owned()].into_iter().chain(elsewhere) {
            folder.write("objects.yaml", &(objects.clone() + &leading_to(&address, port)));
            await_until(&format!("a problem with {address}:{port}"), || {
                let problems = gateway.problems();
                problems.contains("Service default/own")
                    && problems.contains(&format!("{address}:{port}"))
                    && problems.contains(flag)
                    && problems.contains("take the address out of its EndpointSlices")
            });
            assert_eq!(get(gateway.http, OWN, "/problems").status, 503, "{address}:{port}");
            assert_eq!(get(gateway.http, HOST, "/").backend(), "shop");
        }
    }
    // An address without a listener of the gateway is a normal endpoint.
    folder.write("objects.yaml", &(objects + &leading_to("127.0.0.1", backend.address.port())));
    await_until("an answer", || get(gateway.http, OWN, "/").status == 200);
    await_until("the problem to be resolved", || !gateway.problems().contains("Service default/own"));
}

/// Limit of open files of the gateway. More concurrent requests go to a silent endpoint than this
/// allows.
const DESCRIPTORS: usize = 256;
const CONNECTIONS: usize = 3;
const STREAMS: usize = 100;

#[test]
fn a_silent_endpoint_and_a_few_clients_of_http2_took_every_descriptor() {
    let gate = Gate::default();
    let silent = Backend::with("silent", {
        let gate = gate.clone();
        move |_| {
            gate.wait();
            Reply::status(200)
        }
    });
    let healthy = Backend::echo("shop");
    let objects = site("shop", HOST, &[&healthy]) + &site("silent", OWN, &[&silent]);
    let gateway = Gateway::with_descriptors(&Folder::with(objects), DESCRIPTORS);
    h2::run(async {
        let mut tasks = Vec::new();
        for _ in 0..CONNECTIONS {
            let connection = std::sync::Arc::new(h2::Connection::plain(gateway.http).await);
            for _ in 0..STREAMS {
                let connection = connection.clone();
                tasks.push(tokio::spawn(async move {
                    let request = Request::get(format!("http://{OWN}/")).body(()).unwrap();
                    connection.send(request, "").await.unwrap().status().as_u16()
                }));
            }
        }
        // Requests beyond the limit are refused immediately or after a short wait.
        let refused = || tasks.iter().filter(|task| task.is_finished()).count();
        while refused() < CONNECTIONS * STREAMS - DESCRIPTORS / 2 {
            tokio::task::yield_now().await;
        }
        let others = tokio::task::spawn_blocking(move || {
            for _ in 0..10 {
                assert_eq!(gateway.health(), Some(200));
                assert_eq!(get(gateway.http, HOST, "/").backend(), "shop");
                assert_eq!(Connection::plain(gateway.http).request("POST", HOST, "/", &[], "x").status, 200);
            }
            assert!(gateway.ask("/backends").text().contains("silent"));
            assert!(
                !gateway.ask("/backends").text().contains("\"ejected\""),
                "{}",
                gateway.ask("/backends").text()
            );
            gateway
        });
        let gateway = others.await.unwrap();
        gate.open();
        let mut served = 0;
        for task in tasks {
            match task.await.unwrap() {
                200 => served += 1,
                status => assert_eq!(status, 503),
            }
        }
        assert!(served > 0, "what fits is served");
        drop(gateway);
    });
}
