//! Real sockets on loopback.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use sluice_config::Bind;
use sluice_testing::ports;

use super::*;

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn group(id: &str, ports: &[(IpAddr, u16)]) -> Change<GroupId, Arc<ListenerGroup>> {
    of_protocol(id, ports, BindProtocol::Http, true)
}

fn of_protocol(
    id: &str,
    ports: &[(IpAddr, u16)],
    protocol: BindProtocol,
    required: bool,
) -> Change<GroupId, Arc<ListenerGroup>> {
    let id = GroupId(id.into());
    let binds = ports.iter().map(|(address, port)| Bind {
        addresses: vec![*address],
        port: *port,
        declared_port: 80,
        protocol,
        source: "--http-port".into(),
    });
    let group = ListenerGroup {
        id: id.clone(),
        binds: binds.collect(),
        listeners: Vec::new(),
        required,
        stream: None,
    };
    Change::Put(id, Arc::new(group))
}

fn results(reports: &[Report]) -> Vec<(String, Vec<BindResult>)> {
    let binds = reports.iter().map(|report| match report {
        Report::Binds { group, results } => (group.to_string(), results.clone()),
        other => panic!("{other:?}"),
    });
    binds.collect()
}

fn error_of(reports: &[Report]) -> String {
    let results = results(reports);
    let errors: Vec<String> = results
        .iter()
        .flat_map(|(_, all)| all)
        .filter_map(|one| Some(one.error.as_ref()?.to_string()))
        .collect();
    assert_eq!(errors.len(), 1, "{results:?}");
    errors.concat()
}

#[test]
fn a_busy_port_is_reported_with_a_remedy() {
    let busy = TcpListener::bind((LOCALHOST, 0)).unwrap();
    let port = busy.local_addr().unwrap().port();
    let listeners = Listeners::new();
    let reports = listeners.apply(&[group("a", &[(LOCALHOST, port)])]);
    let error = format!("port {port} is already in use; free it or choose another with --http-port");
    assert_eq!(error_of(&reports), error);
    assert!(!listeners.are_serving());
    drop(busy);
    let reports = listeners.apply(&[group("a", &[(LOCALHOST, port)])]);
    assert_eq!(results(&reports)[0].1[0].error, None);
    assert!(listeners.are_serving());
    let other = Listeners::new();
    let foreign = other.apply(&[group("a", &[(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), port)])]);
    assert!(error_of(&foreign).starts_with("the address 192.0.2.1 is not one of this machine; "));
    assert!(!other.are_serving());
}

#[test]
fn a_group_that_is_not_required_leaves_the_others_serving() {
    let busy = TcpListener::bind((LOCALHOST, 0)).unwrap();
    let port = busy.local_addr().unwrap().port();
    let listeners = Listeners::new();
    let optional = of_protocol("tcp/1", &[(LOCALHOST, port)], BindProtocol::Tcp, false);
    listeners.apply(std::slice::from_ref(&optional));
    assert!(!listeners.are_serving(), "no required group");
    let reports = listeners.apply(&[group("a", &[(LOCALHOST, 0)])]);
    assert_eq!(results(&reports).len(), 1, "the other group has no news");
    assert!(listeners.are_serving());
    assert_eq!(listeners.problems().len(), 1);
    drop(busy);
    listeners.again();
    assert!(listeners.problems().is_empty());
    listeners.apply(&[Change::Remove(GroupId("a".into()))]);
    assert!(!listeners.are_serving());
}

#[test]
fn datagrams_and_connections_share_a_port_number() {
    let listeners = Listeners::new();
    let reports = listeners.apply(&[of_protocol("tcp/1", &[(LOCALHOST, 0)], BindProtocol::Tcp, false)]);
    let port = results(&reports)[0].1[0].address.port();
    let both = [
        of_protocol("udp/1", &[(LOCALHOST, port)], BindProtocol::Udp, false),
        of_protocol("udp/2", &[(LOCALHOST, port)], BindProtocol::Udp, false),
    ];
    let error = error_of(&listeners.apply(&both));
    assert!(error.contains("is taken by listener group udp/1"), "{error}");
    listeners.apply(&[Change::Remove(GroupId("udp/1".into()))]);
    assert!(listeners.problems().is_empty(), "its socket is another one's now");
    let sockets = listeners.subscribe();
    let kinds: Vec<_> = sockets.borrow().sockets.values().map(|open| open.socket.transport()).collect();
    assert!(
        kinds.len() == 2
            && kinds.contains(&TransportProtocol::Udp)
            && kinds.contains(&TransportProtocol::Tcp)
    );
}

#[test]
fn sockets_outlive_changes_that_do_not_concern_them() {
    let listeners = Listeners::new();
    let reports = listeners.apply(&[group("a", &[(LOCALHOST, 0)])]);
    let port = results(&reports)[0].1[0].address.port();
    assert_ne!(port, 0);
    let socket = |listeners: &Listeners| {
        let set = listeners.subscribe();
        let sockets: Vec<_> = set.borrow().sockets.values().cloned().collect();
        sockets
    };
    let before = socket(&listeners);
    listeners.apply(&[group("b", &[(LOCALHOST, 0)])]);
    let after = socket(&listeners);
    assert_eq!(after.len(), 2);
    assert!(after.iter().any(|one| one.socket.is(&before[0].socket)));
    listeners.apply(&[Change::Remove(GroupId("b".into()))]);
    assert_eq!(socket(&listeners).len(), 1);
    let moved = Listeners::new();
    let reports = moved.apply(&[group("a", &[(LOCALHOST, port)])]);
    assert!(results(&reports)[0].1[0].error.is_some(), "still held by the first");
    listeners.close();
    drop((before, after));
    let reports = moved.apply(&[group("a", &[(LOCALHOST, port)])]);
    assert_eq!(results(&reports)[0].1[0].error, None, "closed");
}

#[test]
fn a_port_passes_from_one_group_to_another_without_closing() {
    let listeners = Listeners::new();
    let free = ports::reserve();
    listeners.apply(&[group("a", &[(LOCALHOST, free)])]);
    let set = listeners.subscribe();
    let before = set.borrow().sockets.values().next().unwrap().socket.clone();
    let reports = listeners.apply(&[group("b", &[(LOCALHOST, free)])]);
    assert!(error_of(&reports).contains("taken by listener group a"));
    let reports = listeners.apply(&[Change::Remove(GroupId("a".into()))]);
    assert_eq!(
        results(&reports),
        [("b".into(), vec![BindResult { address: (LOCALHOST, free).into(), error: None }])]
    );
    let listening = set.borrow().sockets.values().next().unwrap().clone();
    assert!(listening.socket.is(&before));
    assert_eq!(listening.entry.group, GroupId("b".into()));
}

#[test]
fn both_families_share_a_port() {
    let listeners = Listeners::new();
    let any = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    let free = ports::reserve();
    let Change::Put(id, mut one) = group("a", &[(any[0], free)]) else { unreachable!() };
    Arc::make_mut(&mut one).binds[0].addresses = any.to_vec();
    let reports = listeners.apply(&[Change::Put(id, one)]);
    assert!(results(&reports)[0].1.iter().all(|result| result.error.is_none()), "{reports:?}");
}

const ALL: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Returns the addresses that are open.
fn open(listeners: &Listeners) -> Vec<IpAddr> {
    let set = listeners.subscribe();
    let mut all: Vec<IpAddr> =
        set.borrow().sockets.values().map(|one| one.socket.local_addr().unwrap().ip()).collect();
    all.sort();
    all
}

#[tokio::test]
async fn addresses_that_contain_each_other_pass_into_each_other() {
    let listeners = Listeners::new();
    let port = ports::reserve();
    let bind = |ips: &[IpAddr]| {
        let Change::Put(id, mut one) = group("a", &[(ALL, port)]) else { unreachable!() };
        Arc::make_mut(&mut one).binds[0].addresses = ips.to_vec();
        let reports = listeners.apply(&[Change::Put(id, one)]);
        assert!(results(&reports)[0].1.iter().all(|result| result.error.is_none()), "{reports:?}");
        assert!(listeners.are_serving());
    };
    let second = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    bind(&[ALL]);
    bind(&[LOCALHOST]);
    assert_eq!(
        open(&listeners),
        [ALL, LOCALHOST],
        "handshakes of its clients may be under way at the old one"
    );
    let mut reports = Vec::new();
    let tended = tokio::time::timeout(
        std::time::Duration::from_secs(60),
        listeners.maintain(|news| {
            reports.extend(news);
            assert_eq!(open(&listeners), [LOCALHOST]);
            panic!("closed");
        }),
    );
    let closed = futures::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(tended)).await;
    assert_eq!(*closed.unwrap_err().downcast::<&str>().unwrap(), "closed");
    assert_eq!(reports, [], "nothing that was asked for has changed");
    bind(&[ALL]);
    assert_eq!(open(&listeners), [ALL, LOCALHOST], "closing it would reset connections in its queue");
    bind(&[LOCALHOST, second]);
    bind(&[second]);
    assert_eq!(open(&listeners), [ALL, second], "no listener has replaced that of 127.0.0.1");
}

#[tokio::test]
async fn a_failed_bind_keeps_the_old_socket_and_is_retried() {
    let busy = TcpListener::bind((LOCALHOST, 0)).unwrap();
    let (taken, port) = (busy.local_addr().unwrap().port(), ports::reserve());
    let listeners = Listeners::new();
    listeners.apply(&[group("a", &[(LOCALHOST, port)])]);
    let reports = listeners.apply(&[group("a", &[(LOCALHOST, taken)])]);
    let error = error_of(&reports);
    assert!(
        error.starts_with(&format!("still serving on 127.0.0.1:{port} because port {taken} is already")),
        "{error}"
    );
    assert!(listeners.are_serving(), "the gateway stays ready");
    assert!(TcpStream::connect((LOCALHOST, port)).is_ok());
    let problem = listeners.problems().remove(0);
    assert_eq!(problem.object, sluice_config::ObjectRef::new("Listener", "", &format!("127.0.0.1:{taken}")));
    drop(busy);
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    tokio::select! {
        () = listeners.maintain(|news| news.into_iter().for_each(|one| sender.send(one).unwrap())) => {}
        bound = receiver.recv() => assert_eq!(results(&[bound.unwrap()])[0].1[0].error, None),
    }
    assert_eq!(listeners.problems(), []);
    assert!(TcpStream::connect((LOCALHOST, taken)).is_ok());
    assert!(TcpStream::connect((LOCALHOST, port)).is_err(), "and the old one is closed");
}

/// An address that no machine has (RFC 5737).
const FOREIGN: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// After any sequence of changes, every bindable address is bound, and an address that was
    /// served before and still is never lacked a socket.
    #[test]
    fn no_change_of_addresses_interrupts_service(
        changes in vec(vec(select(&[ALL, LOCALHOST, SECOND, FOREIGN][..]), 1..4), 1..8),
    ) {
        let listeners = Listeners::new();
        let port = ports::reserve();
        listeners.apply(&[group("a", &[(ALL, port)])]);
        let mut set = listeners.subscribe();
        for ips in changes {
            let before: Vec<_> = set.borrow_and_update().sockets.values().map(|one| one.socket.clone()).collect();
            let Change::Put(id, mut one) = group("a", &[(ALL, port)]) else { unreachable!() };
            Arc::make_mut(&mut one).binds[0].addresses = ips.clone();
            let reports = listeners.apply(&[Change::Put(id, one)]);
            let failed: Vec<IpAddr> = results(&reports)[0].1.iter()
                .filter(|one| one.error.is_some()).map(|one| one.address.ip()).collect();
            prop_assert!(failed.iter().all(|ip| *ip == FOREIGN), "{failed:?}");
            prop_assert!(listeners.are_serving());
            let now = open(&listeners);
            let fits = |ip: &IpAddr| *ip == FOREIGN || now.contains(ip);
            prop_assert!(ips.iter().all(fits), "{ips:?} of {now:?}");
            let sockets: Vec<_> = set.borrow_and_update().sockets.values().map(|one| one.socket.clone()).collect();
            for socket in before {
                let closed = !sockets.iter().any(|one| one.is(&socket));
                let ip = socket.local_addr().unwrap().ip();
                prop_assert!(!closed || (!ips.contains(&ALL) && !ips.contains(&ip)), "{ip}, and {ips:?} is to be served");
                prop_assert!(!closed || !ips.contains(&FOREIGN), "{ip} closed before the new one was there");
            }
        }
    }
}
