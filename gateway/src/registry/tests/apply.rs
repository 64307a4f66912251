//! Deltas and handles.

use super::*;

#[test]
fn a_change_of_endpoints_publishes_one_set_however_many_pools_share_it() {
    let fixture = Fixture::new();
    fixture.put(&[1, 2]);
    fixture.registry.apply(&put_set("other", &[7]));
    let pools: Vec<_> =
        (0..100).map(|number| fixture.put_pool(Balance::RoundRobin, &format!("policy {number}"))).collect();
    let before = fixture.registry.published();
    fixture.put(&[2, 3]);
    assert_eq!(fixture.registry.published() - before, 1);
    assert_eq!(fixture.registry.rings_built(), 0);
    for pool in &pools {
        let members: Vec<u16> = pool.set().endpoints().iter().map(|one| number(one)).collect();
        assert_eq!(members, [2, 3], "handles see the change");
    }
    fixture.put(&[2, 3]);
    assert_eq!(fixture.registry.published() - before, 1, "nothing changed");
}

#[test]
fn endpoints_survive_generations() {
    let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1, 2]);
    let stays = endpoint(&pool, 1);
    let leaves = endpoint(&pool, 2);
    pool.failed(&leaves, Instant::now());
    fixture.put(&[1, 3]);
    assert!(Arc::ptr_eq(&stays, &endpoint(&pool, 1)));
    fixture.put(&[1]);
    fixture.put(&[1, 2, 3]);
    assert!(Arc::ptr_eq(&leaves, &endpoint(&pool, 2)), "its failure is not forgotten");
    assert_eq!(endpoint(&pool, 2).failures(), 1);
}

#[test]
fn an_address_that_returns_begins_another_membership() {
    let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1, 2]);
    let (stays, leaves) = (endpoint(&pool, 1), endpoint(&pool, 2));
    let before = [stays.membership(), leaves.membership()];
    assert!(before[0] != before[1] && !before.contains(&0), "{before:?}");
    // Gives the endpoint a memory, so that the same object returns.
    pool.failed(&leaves, Instant::now());
    fixture.put(&[1]);
    assert_eq!([stays.membership(), leaves.membership()], [before[0], 0]);
    fixture.registry.apply(&put_set("other", &[2]));
    fixture.put(&[1, 2]);
    assert!(Arc::ptr_eq(&leaves, &endpoint(&pool, 2)) && leaves.membership() > before[1]);
    fixture.remove_set();
    fixture.remove_pool(&pool);
    assert_eq!([stays.membership(), leaves.membership()], [0, 0], "the set is gone");
}

#[test]
fn an_address_in_another_zone_is_another_endpoint() {
    let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1]);
    let before = endpoint(&pool, 1);
    let endpoints = vec![sluice_config::Endpoint { address: address(1), zone: Some("east".into()) }];
    let key = set_key("web");
    let set = Arc::new(sluice_config::EndpointSet { key: key.clone(), endpoints });
    fixture.registry.apply(&Delta { endpoint_sets: vec![Change::Put(key, set)], ..Delta::default() });
    assert!(!Arc::ptr_eq(&before, &endpoint(&pool, 1)));
    assert_eq!(before.membership(), 0, "its connections serve no other pool");
    assert_eq!(endpoint(&pool, 1).zone().map(|zone| &**zone), Some("east"));
}

#[test]
fn members_that_come_unsorted_or_twice_count_once() {
    let (_fixture, pool) = Fixture::with_pool(Balance::Ring, &[3, 1, 3, 2, 1]);
    let members: Vec<u16> = pool.set().endpoints().iter().map(|one| number(one)).collect();
    assert_eq!(members, [1, 2, 3]);
}

#[test]
fn pools_and_sets_may_come_and_go_in_any_order() {
    let fixture = Fixture::new();
    let pool = fixture.put_pool(Balance::RoundRobin, "early");
    assert_eq!(pool.pick(&request()).unwrap_err(), PickError::NoEndpoints);
    fixture.put(&[1]);
    assert_eq!(pick(&pool), 1);
    fixture.remove_set();
    assert_eq!(pool.pick(&request()).unwrap_err(), PickError::NoEndpoints);
    fixture.put(&[2]);
    assert_eq!(pick(&pool), 2, "the old handle is good again");
    fixture.remove_pool(&pool);
    assert!(fixture.registry.pool(pool.key()).is_none());
    assert_eq!(pick(&pool), 2, "requests on their way keep their handle");
    let again = fixture.put_pool(Balance::RoundRobin, "early");
    assert!(Arc::ptr_eq(again.set(), pool.set()));
    fixture.remove_set();
    fixture.remove_pool(&again);
    assert!(fixture.registry.endpoint_set(&set_key("web")).is_none(), "nothing is left");
    assert!(fixture.registry.describe().is_empty());
}

#[test]
fn the_same_pool_again_keeps_its_handle() {
    let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1]);
    assert!(Arc::ptr_eq(&pool, &fixture.put_pool(Balance::RoundRobin, "test")));
    let other = fixture.put_pool(Balance::Ring, "test");
    assert_eq!(other.balance(), Balance::Ring);
    fixture.remove_set();
    fixture.remove_pool(&other);
    assert!(fixture.registry.endpoint_set(&set_key("web")).is_none(), "the replaced pool does not count");
}

#[test]
fn puts_are_applied_first_and_removals_only_when_asked_for() {
    let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1]);
    let delta = Delta {
        endpoint_sets: vec![Change::Remove(set_key("web"))],
        pools: vec![Change::Remove(pool.key().clone())],
        ..Delta::default()
    };
    fixture.registry.apply(&delta);
    assert_eq!(pick(&fixture.registry.pool(pool.key()).unwrap()), 1);
    fixture.registry.remove(&delta);
    assert!(fixture.registry.pool(pool.key()).is_none());
}

#[test]
fn a_request_between_its_route_and_its_endpoint_survives_their_removal() {
    let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1]);
    let delta = Delta {
        endpoint_sets: vec![Change::Remove(set_key("web"))],
        pools: vec![Change::Remove(pool.key().clone())],
        ..Delta::default()
    };
    fixture.registry.remove(&delta);
    assert_eq!(pick(&pool), 1, "it got 503, once in 40,000 under changes");
    assert!(fixture.registry.endpoint_set(&set_key("web")).is_none(), "nothing is left");
}

#[test]
fn the_description_has_health_and_load() {
    let (fixture, pool) = Fixture::with_pool(Balance::Ring, &[1, 2, 3]);
    fixture.put_pool(Balance::RoundRobin, "another");
    fixture.put_checked(&checked("web", 9000));
    pool.failed(&endpoint(&pool, 2), Instant::now());
    endpoint(&pool, 3).set_passes(0, false);
    let guard = endpoint(&pool, 1).enter();
    let described = fixture.registry.describe();
    let names: Vec<&str> = described.iter().map(|pool| &*pool.pool).collect();
    assert_eq!(names, ["shop/web:http (another)", "shop/web:http (checked at 9000)", "shop/web:http (test)"]);
    assert_eq!(described[2].endpoints[2].health, Health::Healthy, "the other pools did not ask for checks");
    let endpoints = &described[1].endpoints;
    let health: Vec<Health> = endpoints.iter().map(|endpoint| endpoint.health).collect();
    assert_eq!(health, [Health::Healthy, Health::Ejected, Health::Failing]);
    assert_eq!((endpoints[0].in_flight, endpoints[1].failures), (1, 1));
    assert!(endpoints[1].ejected_for_ms.is_some());
    let counts = HealthCounts { healthy: 1, ejected: 1, failing: 1 };
    assert_eq!(fixture.registry.health(), counts, "each endpoint counts once, whatever its pools");
    let json = serde_json::to_value(&described).unwrap();
    assert_eq!(json[1]["endpoints"][1]["health"], "ejected");
    drop(guard);
    assert_eq!(endpoint(&pool, 1).in_flight(), 0);
}

#[test]
fn listeners_of_our_own_are_left_out_of_their_sets_whenever_they_come() {
    let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1, 2]);
    let own =
        |address: std::net::SocketAddr| OwnListener { address, name: "a listener".into(), is_public: true };
    let addresses = || pool.set().endpoints().iter().map(|endpoint| endpoint.address()).collect::<Vec<_>>();
    let all = addresses();
    fixture.registry.set_own_listeners(vec![own(all[0])]);
    assert_eq!(addresses(), all[1..], "one that was there");
    let refused = fixture.registry.own_endpoints().unwrap();
    assert_eq!(refused.iter().map(|own| own.address).collect::<Vec<_>>(), all[..1]);
    assert!(fixture.registry.own_endpoints().is_none(), "nothing new");
    fixture.put(&[1]);
    assert!(pool.is_empty(), "one that comes");
    fixture.registry.set_own_listeners(Vec::new());
    assert_eq!(addresses(), all[..1], "one that is no longer ours");
    assert_eq!(fixture.registry.own_endpoints(), Some(Vec::new()));
    fixture.registry.set_own_listeners(vec![own(all[0])]);
    fixture.put(&[2]);
    assert_eq!(fixture.registry.own_endpoints(), Some(Vec::new()), "no set names it any more");
    fixture.put(&[1]);
    fixture.remove_set();
    assert_eq!(fixture.registry.own_endpoints(), Some(Vec::new()));
}

#[test]
fn only_a_changed_endpoint_is_looked_up_in_the_kernel() {
    thread_local! {
        static ASKED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }
    fn ask(_: std::net::IpAddr) -> Option<bool> {
        ASKED.set(ASKED.get() + 1);
        Some(false)
    }
    let fixture = Fixture::new();
    fixture.registry.lock().own.is_local = ask;
    let own = |ip: [u8; 4]| OwnListener {
        address: (ip, address(0).port()).into(),
        name: "a listener".into(),
        is_public: true,
    };
    fixture.registry.set_own_listeners(vec![own([0; 4])]);
    let mut members: Vec<u16> = (1..=20_000).collect();
    fixture.put(&members);
    assert_eq!(ASKED.replace(0), 20_000, "once for each");
    members.push(30_000);
    fixture.put(&members);
    assert_eq!(ASKED.replace(0), 1);
    fixture.registry.apply(&put_set("other", &members[..10]));
    ASKED.set(0);
    fixture.registry.set_own_listeners(vec![own([0; 4]), own([192, 0, 2, 1])]);
    assert_eq!(ASKED.get(), 20_001, "what is in two sets is asked of once");
}

#[test]
fn an_endpoint_that_cannot_be_looked_up_keeps_its_state() {
    let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1, 2]);
    let own = OwnListener {
        address: ([0; 4], address(0).port()).into(),
        name: "a listener".into(),
        is_public: true,
    };
    let members = || pool.set().endpoints().iter().map(|one| number(one)).collect::<Vec<_>>();
    fixture.registry.lock().own.is_local = |ip| Some(ip == address(1).ip());
    fixture.registry.set_own_listeners(vec![own.clone()]);
    assert_eq!(members(), [2]);
    fixture.registry.lock().own.is_local = |_| None;
    fixture.put(&[1, 2, 3]);
    assert_eq!(members(), [2, 3], "it was ours, and the others are not known to be");
    assert_eq!(fixture.registry.own_endpoints().unwrap().len(), 1, "it is still reported");
    fixture.registry.lock().own.is_local = |ip| Some(ip == address(3).ip());
    fixture.put(&[1, 2, 3, 4]);
    assert_eq!(members(), [1, 2, 4], "they are asked of again as soon as that can be");
}
