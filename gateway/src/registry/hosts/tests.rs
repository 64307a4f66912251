use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::*;

fn host(text: &str) -> Option<RequestHost> {
    RequestHost::new(text.as_bytes(), 80, UpstreamProtocol::HttpsUnverified)
}

/// A resolver that counts its look-ups; `nx.` names have no addresses, `slow.` names no answer
/// until they are released.
struct Resolver {
    asked: Arc<AtomicUsize>,
    release: Arc<Notify>,
    hosts: Arc<RequestHosts>,
}

impl Resolver {
    fn new(holds: Duration) -> Self {
        let (asked, release) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let hosts = Arc::new(RequestHosts::new());
        let (count, released) = (asked.clone(), release.clone());
        hosts.set_look_up(Box::new(move |name| {
            count.fetch_add(1, Ordering::Relaxed);
            let released = released.clone();
            Box::pin(async move {
                if name.starts_with("slow.") {
                    released.notified().await;
                }
                let addresses = vec![Ipv4Addr::new(192, 0, 2, 1).into()];
                (!name.starts_with("nx.")).then_some(HostAddresses { addresses, holds })
            })
        }));
        Self { asked, release, hosts }
    }

    async fn pool(&self, name: &str, limit: Duration) -> Option<Arc<Pool>> {
        self.hosts.pool(&host(name).unwrap(), Some(limit), &Arc::default(), |_, _| true).await
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn only_names_and_addresses_are_hosts() {
    for (text, name, server_name) in [
        ("Shop.Example.", "shop.example", Some("shop.example")),
        ("a_b.example", "a_b.example", Some("a_b.example")),
        ("192.0.2.1", "192.0.2.1", None),
        ("[2001:DB8::1]", "2001:db8::1", None),
    ] {
        let host = host(text).unwrap();
        assert_eq!((&*host.name, host.server_name().as_deref()), (name, server_name), "{text}");
    }
    let long = ["a".repeat(64), vec!["abcdefg"; 33].join(".")];
    for bad in ["", ".", "a..b", ".a", "a b", "a:80", "a%20b", "a/b", "::1", "[a]", "[::1", "a@b", "b\u{fc}"]
        .into_iter()
        .chain(long.iter().map(|text| &**text))
    {
        assert_eq!(host(bad), None, "{bad}");
    }
}

#[tokio::test]
async fn a_host_is_looked_up_once_while_its_addresses_hold() {
    let resolver = Resolver::new(MINUTE);
    let one = resolver.pool("a.example", MINUTE).await.unwrap();
    let again = resolver.pool("A.example", MINUTE).await.unwrap();
    assert!(Arc::ptr_eq(&one, &again) && one.len() == 1);
    for _ in 0..2 {
        assert!(resolver.pool("nx.example", MINUTE).await.is_none());
    }
    assert_eq!(resolver.asked(), 2);
}

#[tokio::test]
async fn connections_survive_a_new_look_up_of_the_same_addresses() {
    let resolver = Resolver::new(Duration::ZERO);
    let one = resolver.pool("a.example", MINUTE).await.unwrap();
    let membership = one.set().endpoints()[0].membership();
    let again = resolver.pool("a.example", MINUTE).await.unwrap();
    assert_eq!(resolver.asked(), 2);
    assert_eq!(again.set().endpoints()[0].membership(), membership);
}

#[tokio::test]
async fn requests_share_a_look_up_and_wait_for_a_limited_time() {
    let resolver = Resolver::new(MINUTE);
    let (one, other, waits) =
        tokio::join!(resolver.pool("slow.example", MINUTE), resolver.pool("slow.example", MINUTE), async {
            let waits = resolver.pool("slow.example", Duration::from_millis(20)).await;
            resolver.release.notify_one();
            waits
        });
    assert!(one.is_some() && other.is_some() && waits.is_none());
    assert_eq!(resolver.asked(), 1);
}

#[tokio::test]
async fn many_hosts_cause_a_bounded_number_of_look_ups_and_entries() {
    let resolver = Arc::new(Resolver::new(MINUTE));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..2 * MOST_LOOK_UPS {
        let resolver = resolver.clone();
        tasks.spawn(async move { resolver.pool(&format!("slow.{number}.example"), MINUTE).await.is_some() });
    }
    while resolver.asked() < MOST_LOOK_UPS {
        tokio::task::yield_now().await;
    }
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(resolver.asked(), MOST_LOOK_UPS);
    tasks.abort_all();
    while tasks.join_next().await.is_some() {}
    for number in 0..2 * MOST.get() {
        assert!(resolver.pool(&format!("{number}.example"), MINUTE).await.is_some());
    }
    assert_eq!(resolver.hosts.lock().len(), MOST.get());
}

#[test]
fn addresses_stay_in_use_for_an_hour_after_look_ups_fail() {
    let (host, began) = (host("a.example").unwrap(), Instant::now());
    let mut writer = HostWriter::default();
    let mut update = |found: Option<IpAddr>, after: Duration| {
        let found = found.map(|ip| HostAddresses { addresses: vec![ip], holds: MINUTE });
        let allowed = |_: &EndpointSetKey, address: SocketAddr| !address.ip().is_loopback();
        let known = writer.update(&host, found, began + after, &Arc::default(), allowed);
        (known.pool.is_some(), known.until - began - after)
    };
    let address = Some(IpAddr::from([192, 0, 2, 1]));
    assert_eq!(update(Some(Ipv4Addr::LOCALHOST.into()), Duration::ZERO), (false, FAILURE_HOLDS));
    assert_eq!(update(address, Duration::ZERO), (true, MINUTE));
    assert_eq!(update(None, STALE - MINUTE), (true, FAILURE_HOLDS));
    assert_eq!(update(None, STALE), (false, FAILURE_HOLDS));
    assert_eq!(update(address, STALE), (true, MINUTE));
}
