use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::*;

const ANY_V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const ANY_V6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// A loopback address of the test's own, so that no other test or program takes a port on it that was just
/// let go.
fn local() -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, fastrand::u8(1..255), fastrand::u8(..), fastrand::u8(1..255)))
}

type GroupChange = Change<GroupId, Arc<ListenerGroup>>;

fn id(name: &str) -> GroupId {
    GroupId(name.into())
}

fn bind(ip: IpAddr, port: u16, source: &str) -> Bind {
    let protocol = if source == "--https-port" { BindProtocol::Https } else { BindProtocol::Http };
    Bind { addresses: vec![ip], port, declared_port: port, protocol, source: source.into() }
}

fn put(name: &str, binds: Vec<Bind>) -> GroupChange {
    Change::Put(id(name), Arc::new(ListenerGroup { id: id(name), binds, listeners: Vec::new() }))
}

fn results(reports: &[Report]) -> Vec<BindResult> {
    let results = reports.iter().map(|report| match report {
        Report::Binds { results, .. } => results.clone(),
        other => panic!("{other:?}"),
    });
    results.flatten().collect()
}

fn error(reports: &[Report]) -> String {
    let results = results(reports);
    results.into_iter().find_map(|result| result.error).expect("an error")
}

fn listed(sockets: &Sockets) -> BoundSockets {
    sockets.subscribe().borrow().clone()
}

/// Accepts one connection that the kernel has taken already or is about to.
fn accept(listener: &TcpListener) -> TcpStream {
    let began = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => return stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                assert!(began.elapsed() < Duration::from_secs(60), "nothing to accept");
                std::thread::yield_now();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn any_port_becomes_a_real_one_that_takes_connections() {
    let local = local();
    let mut sockets = Sockets::new();
    let changes = [put("ingress", vec![bind(local, 0, "--http-port"), bind(local, 0, "--https-port")])];
    let results = results(&sockets.apply(&changes));
    assert_eq!(results.len(), 2);
    assert!(sockets.all_bound());
    let list = listed(&sockets);
    for result in &results {
        assert_eq!(result.error, None);
        let socket = list.iter().find(|socket| socket.address == result.address).unwrap();
        assert_ne!(socket.address.port(), 0);
        assert_eq!(socket.declared_port, socket.address.port());
        let _client = TcpStream::connect(socket.address).unwrap();
        accept(&socket.listener);
    }
    assert_ne!(list[0].protocol, list[1].protocol);
}

#[test]
fn what_does_not_change_is_kept_and_not_reported_again() {
    let local = local();
    let mut sockets = Sockets::new();
    let http = bind(local, 0, "--http-port");
    sockets.apply(&[put("ingress", vec![http.clone()])]);
    let mut updates = sockets.subscribe();
    let before = updates.borrow_and_update().clone();
    assert_eq!(sockets.apply(&[put("ingress", vec![http.clone()])]), []);
    assert_eq!(sockets.apply(&[]), []);
    assert!(!updates.has_changed().unwrap());

    let reports = sockets.apply(&[put("ingress", vec![http, bind(local, 0, "--https-port")])]);
    assert_eq!(results(&reports).len(), 2);
    let after = updates.borrow_and_update().clone();
    assert_eq!(after.len(), 2);
    assert!(after.iter().any(|socket| Arc::ptr_eq(socket, &before[0])));
}

#[test]
fn a_removed_group_leaves_the_list_and_its_queue_to_the_workers() {
    let local = local();
    let mut sockets = Sockets::new();
    sockets.apply(&[put("ingress", vec![bind(local, 0, "--http-port")])]);
    let socket = listed(&sockets)[0].clone();
    let worker = socket.listener.try_clone().unwrap();
    let _client = TcpStream::connect(socket.address).unwrap();

    let reports = sockets.apply(&[Change::Remove(id("ingress"))]);
    assert_eq!(reports, [Report::Binds { group: id("ingress"), results: Vec::new() }]);
    assert!(listed(&sockets).is_empty());
    let address = socket.address;
    drop(socket);
    accept(&worker);
    drop(worker);
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn closing_closes_everything() {
    let local = local();
    let mut sockets = Sockets::new();
    sockets.apply(&[put("ingress", vec![bind(local, 0, "--http-port")])]);
    let address = listed(&sockets)[0].address;
    sockets.close();
    assert!(listed(&sockets).is_empty());
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_busy_port_is_named_and_bound_once_it_is_free() {
    let local = local();
    let holder = TcpListener::bind((local, 0)).unwrap();
    let port = holder.local_addr().unwrap().port();
    let mut sockets = Sockets::new();
    let reports = sockets.apply(&[put("ingress", vec![bind(local, port, "--http-port")])]);
    assert_eq!(
        error(&reports),
        format!("port {port} is already in use on {local}; free it or choose another with --http-port")
    );
    assert!(!sockets.all_bound());
    assert!(listed(&sockets).is_empty());
    assert_eq!(sockets.apply(&[]), [], "the same failure is not news");

    drop(holder);
    assert_eq!(results(&sockets.apply(&[]))[0].error, None);
    assert!(sockets.all_bound());
    assert_eq!(listed(&sockets).len(), 1);
}

#[test]
fn a_port_moves_to_another_group_with_its_queue() {
    let local = local();
    let mut sockets = Sockets::new();
    sockets.apply(&[put("old", vec![bind(local, 0, "--http-port")])]);
    let address = listed(&sockets)[0].address;
    // From a port of any number to the same port by its number: first let it go, then take it by name.
    let holder = listed(&sockets)[0].clone();
    sockets.apply(&[Change::Remove(id("old"))]);
    drop(holder);
    sockets.apply(&[put("old", vec![bind(local, address.port(), "--http-port")])]);
    let before = listed(&sockets)[0].clone();
    let _client = TcpStream::connect(address).unwrap();

    sockets.apply(&[Change::Remove(id("old")), put("new", vec![bind(local, address.port(), "Gateway a/b")])]);
    let list = listed(&sockets);
    assert_eq!(list.len(), 1);
    assert_eq!((&list[0].group, list[0].address), (&id("new"), address));
    assert!(!Arc::ptr_eq(&list[0], &before));
    drop(before);
    accept(&list[0].listener);
}

#[test]
fn an_address_that_workers_still_drain_is_taken_over_when_asked_for_again() {
    let local = local();
    let mut sockets = Sockets::new();
    let ingress = || put("ingress", vec![bind(local, 0, "--http-port")]);
    sockets.apply(&[ingress()]);
    let draining = listed(&sockets)[0].clone();
    sockets.apply(&[Change::Remove(id("ingress"))]);
    sockets.apply(&[ingress()]);
    let list = listed(&sockets);
    assert_eq!(list[0].address, draining.address);
    assert!(!Arc::ptr_eq(&list[0], &draining), "workers see a new socket while they drop the old one");
    drop(draining);
    let _client = TcpStream::connect(list[0].address).unwrap();
    accept(&list[0].listener);
}

#[test]
fn two_who_want_one_address_are_told_apart() {
    let local = local();
    let free = TcpListener::bind((local, 0)).unwrap().local_addr().unwrap().port();
    let mut sockets = Sockets::new();
    let reports = sockets.apply(&[
        put("a", vec![bind(local, free, "--http-port")]),
        put("b", vec![bind(local, free, "Gateway infra/web")]),
    ]);
    assert_eq!(results(&reports)[0].error, None);
    assert_eq!(
        error(&reports),
        format!("port {free} is asked for by --http-port already; choose another in Gateway infra/web")
    );
    // When the first goes, the second gets it.
    let reports = sockets.apply(&[Change::Remove(id("a"))]);
    assert_eq!(results(&reports).iter().filter(|result| result.error.is_some()).count(), 0);
    assert_eq!(listed(&sockets)[0].group, id("b"));
}

#[test]
fn ipv4_and_ipv6_share_a_port() {
    let local = local();
    let Ok(v6) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else { return };
    let port = v6.local_addr().unwrap().port();
    drop(v6);
    let mut sockets = Sockets::new();
    let v6 = bind(IpAddr::V6(Ipv6Addr::LOCALHOST), port, "--http-port");
    let both = Bind { addresses: vec![local, IpAddr::V6(Ipv6Addr::LOCALHOST)], ..v6 };
    assert_eq!(results(&sockets.apply(&[put("ingress", vec![both])])).len(), 2);
    assert!(sockets.all_bound());
    for socket in listed(&sockets).iter() {
        let _client = TcpStream::connect(socket.address).unwrap();
        accept(&socket.listener);
    }
}

#[test]
fn an_ipv6_wildcard_leaves_ipv4_alone() {
    let local = local();
    let Ok(wildcard) = listener::open(SocketAddr::new(ANY_V6, 0)) else { return };
    let port = wildcard.local_addr().unwrap().port();
    // Fails with "in use" where the first socket took IPv4 too.
    listener::open(SocketAddr::new(local, port)).unwrap();
}

#[test]
fn an_address_of_another_host_is_named() {
    let elsewhere = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let reports = Sockets::new().apply(&[put("ingress", vec![bind(elsewhere, 8080, "--http-port")])]);
    assert_eq!(
        error(&reports),
        "cannot listen on 192.0.2.1:8080 (--http-port): the address is not on this host; bind one that is, or \
         all with 0.0.0.0 and [::]"
    );
}

#[test]
fn a_missing_permission_says_what_is_needed() {
    let local = local();
    let mut sockets = Sockets::with_opener(|_| Err(ErrorKind::PermissionDenied.into()));
    assert_eq!(
        error(&sockets.apply(&[put("ingress", vec![bind(local, 80, "--http-port")])])),
        "no permission to bind port 80; it needs the capability NET_BIND_SERVICE or a port above 1023 with \
         --http-port"
    );
}

fn without_ipv6(address: SocketAddr) -> io::Result<TcpListener> {
    if address.is_ipv6() {
        return Err(io::Error::from_raw_os_error(rustix::io::Errno::AFNOSUPPORT.raw_os_error()));
    }
    listener::open(address)
}

#[test]
fn a_machine_without_ipv6_serves_ipv4_without_complaint() {
    let mut sockets = Sockets::with_opener(without_ipv6);
    let all = Bind { addresses: vec![ANY_V6, ANY_V4], ..bind(ANY_V4, 0, "--http-port") };
    let results = results(&sockets.apply(&[put("ingress", vec![all])]));
    assert_eq!(results, [BindResult { address: listed(&sockets)[0].address, error: None }]);
    assert!(sockets.all_bound());
}

#[test]
fn a_machine_without_ipv6_says_so_when_nothing_else_is_asked_for() {
    let mut sockets = Sockets::with_opener(without_ipv6);
    assert_eq!(
        error(&sockets.apply(&[put("ingress", vec![bind(ANY_V6, 8080, "--http-port")])])),
        "cannot listen on [::]:8080 (--http-port): this machine has no IPv6; bind other addresses"
    );
    assert!(!sockets.all_bound());
}
