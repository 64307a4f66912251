//! Addresses of the listeners, and changes of `bind-address`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use crate::harness::epoll::TcpState;
use crate::harness::gateway::run;
use crate::harness::{
    Backend, Connection, Folder, Gateway, await_until, config_map, get, pause, ports, site,
};

const HOST: &str = "shop.example";
const NAME: &str = "ingress-nginx/controller";

/// Starts a gateway with this `bind-address`; an empty one is omitted. One without IPv6 has
/// `disable-ipv6`, so that no problem reports that IPv6 is closed.
fn start(backend: &Backend, addresses: &str) -> (Folder, Gateway) {
    let folder = Folder::with(site("shop", HOST, &[backend]));
    bind(&folder, addresses);
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    (folder, gateway)
}

fn bind(folder: &Folder, addresses: &str) {
    let data = [("bind-address", addresses), ("disable-ipv6", "true")];
    let data = match addresses {
        "" => &[],
        _ if addresses.contains(':') => &data[..1],
        _ => &data[..],
    };
    folder.write("config.yaml", config_map(NAME, data));
}

/// Returns the same port on the second loopback address.
fn second(gateway: &Gateway) -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, 2), gateway.http.port()).into()
}

fn is_open(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_ok()
}

#[test]
fn requests_are_served_while_the_bind_address_changes() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend, "");
    let (stop, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let (stop, served, gateway) = (&stop, &served, &gateway);
                scope.spawn(move || {
                    let mut kept = Connection::plain(gateway.http);
                    let mut rounds = 0;
                    while !stop.load(Relaxed) {
                        let response = match client {
                            0 => kept.try_request("GET", HOST, "/", &[], ""),
                            _ => Connection::try_plain(gateway.http)
                                .and_then(|mut once| once.try_request("GET", HOST, "/", &[], "")),
                        };
                        let status = response.map(|answer| answer.map(|answer| answer.status));
                        assert!(matches!(status, Ok(Some(200))), "round {rounds} of {client}: {status:?}");
                        served.fetch_add(1, Relaxed);
                        rounds += 1;
                        // One connection carries at most keep-alive-requests.
                        if client == 0 && rounds % 500 == 0 {
                            kept = Connection::plain(gateway.http);
                        }
                        pause();
                    }
                })
            })
            .collect();
        for _ in 0..3 {
            for (addresses, open) in
                [("127.0.0.1", false), ("127.0.0.1,127.0.0.2", true), ("127.0.0.1", false), ("", true)]
            {
                bind(&folder, addresses);
                await_until(&format!("bind-address {addresses:?}"), || is_open(second(&gateway)) == open);
                let before = served.load(Relaxed);
                await_until("requests", || {
                    served.load(Relaxed) > before + 40 || clients.iter().any(|client| client.is_finished())
                });
            }
        }
        stop.store(true, Relaxed);
    });
    assert_eq!(gateway.health(), Some(200));
}

#[test]
fn an_initial_bind_address_is_never_accompanied_by_another() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend, "127.0.0.1");
    assert_eq!(get(gateway.http, HOST, "/").status, 200);
    assert!(!is_open(second(&gateway)));
    let listening = || {
        let log = gateway.program_log().into_iter();
        log.filter(|line| line.contains("listening")).collect::<Vec<String>>()
    };
    await_until("both sockets in the log", || listening().len() == 2);
    assert!(listening().iter().all(|line| line.contains("127.0.0.1:")), "{:?}", listening());
}

#[test]
fn an_address_that_cannot_be_bound_leaves_the_old_one_serving_and_ready() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend, "127.0.0.1");
    bind(&folder, "192.0.2.1");
    let because =
        format!("still serving on {} because the address 192.0.2.1 is not one of this machine", gateway.http);
    await_until("the problem", || gateway.problems().contains(&because));
    assert_eq!(gateway.health(), Some(200), "a load balancer should keep it");
    assert_eq!(get(gateway.http, HOST, "/").status, 200);
    assert!(gateway.program_log().iter().any(|line| line.contains(&because)));
    bind(&folder, "127.0.0.2");
    await_until("the repair", || is_open(second(&gateway)) && !is_open(gateway.http));
    await_until("no problem", || gateway.problems().is_empty());
    assert_eq!(get(second(&gateway), HOST, "/").status, 200);
}

#[test]
fn a_busy_port_is_bound_as_soon_as_it_becomes_free() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend, "127.0.0.1");
    let busy = TcpListener::bind(second(&gateway)).unwrap();
    bind(&folder, "127.0.0.2");
    await_until("the problem", || gateway.problems().contains("is already in use"));
    assert_eq!(get(gateway.http, HOST, "/").status, 200);
    drop(busy);
    await_until("the port", || is_open(second(&gateway)) && gateway.problems().is_empty());
    assert_eq!(get(second(&gateway), HOST, "/").status, 200);
    await_until("the old socket to go", || !is_open(gateway.http));
    assert_eq!(gateway.health(), Some(200));
}

#[test]
fn a_gateway_without_its_address_is_alive_and_not_ready() {
    let folder = Folder::with("");
    bind(&folder, "192.0.2.1");
    let [http, https, health, admin] = [(); 4].map(|()| ports::reserve());
    let flags = [
        format!("--http-port={http}"),
        format!("--https-port={https}"),
        format!("--healthz-port={health}"),
        format!("--admin-address=127.0.0.1:{admin}"),
        format!("--configmap={NAME}"),
    ];
    let mut gateway = Gateway::unready(&folder, &flags, (Ipv4Addr::LOCALHOST, health).into());
    await_until("an answer", || {
        gateway.probe("/healthz").is_some_and(|answer| {
            answer.status == 500 && answer.text().contains("not all listeners are bound")
        })
    });
    assert_eq!(gateway.probe("/livez").map(|answer| answer.status), Some(200));
    bind(&folder, "127.0.0.1");
    await_until("readiness", || gateway.health() == Some(200));
    assert!(gateway.is_running());
}

#[test]
fn a_second_gateway_gets_an_error_that_the_port_is_in_use() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend, "");
    for (addresses, open) in [("127.0.0.1", false), ("", true), ("127.0.0.1", false)] {
        bind(&folder, addresses);
        await_until(&format!("bind-address {addresses:?}"), || is_open(second(&gateway)) == open);
    }
    let (alone, bound) = (Folder::with(""), Folder::with(""));
    bind(&bound, "127.0.0.1");
    for other in [alone, bound] {
        let output = run(&[
            "--manifests",
            other.path().to_str().unwrap(),
            &format!("--http-port={}", gateway.http.port()),
            &format!("--https-port={}", ports::reserve()),
            &format!("--healthz-port={}", ports::reserve()),
            &format!("--admin-address=127.0.0.1:{}", ports::reserve()),
            &format!("--configmap={NAME}"),
        ]);
        let text = String::from_utf8(output.stderr).unwrap();
        let said = format!("port {} is already in use; free it", gateway.http.port());
        assert!(output.status.code() == Some(2) && text.contains(&said), "{text}");
    }
    assert_eq!(get(gateway.http, HOST, "/").status, 200);
}

#[test]
fn ipv6_addresses_are_left_out_if_configured() {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        println!("this machine has no IPv6: disable-ipv6 was NOT tried");
        return;
    }
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend, "");
    let six = SocketAddr::from((Ipv6Addr::LOCALHOST, gateway.http.port()));
    assert!(is_open(six));
    folder.write("config.yaml", config_map(NAME, &[("disable-ipv6", "true")]));
    await_until("it to be closed", || !is_open(six));
    assert_eq!(get(gateway.http, HOST, "/").status, 200);
    folder.write("config.yaml", config_map(NAME, &[]));
    await_until("it to be open", || is_open(six));
    assert_eq!(get(six, HOST, "/").status, 200);
}

/// With all workers at the socket, a new connection woke each of them, and all but one found no
/// connection to accept.
#[test]
fn a_new_connection_woke_every_worker() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    let gateway = Gateway::with(&folder, &[]);
    for address in [gateway.http, gateway.https] {
        assert_eq!(gateway.watched(address, TcpState::Listening), [1], "one worker waits");
    }
    let workers = thread::available_parallelism().unwrap().get();
    let connections: Vec<_> = (0..2 * workers)
        .map(|_| {
            let mut connection = Connection::plain(gateway.http);
            assert_eq!(connection.request("GET", HOST, "/", &[], "").status, 200);
            connection
        })
        .collect();
    assert_eq!(gateway.watched(gateway.http, TcpState::Established), vec![2; workers]);
    drop(connections);
}
