//! Choices by the state of endpoints: response times, open requests, groups, slow start.

use std::num::NonZeroU32;
use std::time::Duration;

use super::*;

const MS: Duration = Duration::from_millis(1);

/// The shares of simultaneous picks, in percent.
fn shares(pool: &Pool, now: Instant, picks: usize) -> HashMap<u16, usize> {
    let request = PickRequest { now, ..request() };
    let counts = count((0..picks).map(|_| number(&pool.pick(&request).unwrap())));
    counts.into_iter().map(|(number, count)| (number, (count * 100 + picks / 2) / picks)).collect()
}

fn share(pool: &Pool, now: Instant, of: u16) -> usize {
    shares(pool, now, 4000).get(&of).copied().unwrap_or(0)
}

#[test]
fn of_two_drawn_endpoints_the_sooner_gets_the_request() {
    let (_fixture, pool) = Fixture::with_pool(Balance::Ewma, &[1, 2, 3, 4]);
    let now = Instant::now();
    for member in 1..=4 {
        // Endpoint 4 takes ten times as long as the others.
        let took = if member == 4 { MS * 100 } else { MS * 10 };
        pool.measure(&endpoint(&pool, member), now - took, now);
    }
    let counts = shares(&pool, now, 4000);
    assert!(!counts.contains_key(&4), "it loses against each of the others: {counts:?}");
    assert!((1..=3).all(|member| (26..=41).contains(&counts[&member])), "{counts:?}");
    // Open requests count as much as response time.
    let busy: Vec<_> = (0..20).map(|_| endpoint(&pool, 1).enter()).collect();
    assert_eq!(share(&pool, now, 1), 0, "fast, and behind twenty others");
    drop(busy);
    // A slow endpoint is tried again after a while.
    assert!((20..=30).contains(&share(&pool, now + Duration::from_secs(300), 4)));
}

#[test]
fn an_endpoint_without_a_response_is_not_run_over() {
    let (fixture, pool) = Fixture::with_pool(Balance::Ewma, &[1, 2]);
    let now = Instant::now();
    for member in [1, 2] {
        pool.measure(&endpoint(&pool, member), now - MS * 50, now);
    }
    fixture.put(&[1, 2, 3]);
    assert!((28..=39).contains(&share(&pool, now, 3)));
    let _busy: Vec<_> = (0..2).map(|_| endpoint(&pool, 3).enter()).collect();
    assert_eq!(share(&pool, now, 3), 0);
}

#[test]
fn response_times_survive_changes_and_affect_no_other_pool() {
    let (fixture, pool) = Fixture::with_pool(Balance::Ewma, &[1, 2]);
    let even = fixture.put_pool(Balance::RoundRobin, "even");
    let now = Instant::now();
    pool.measure(&endpoint(&pool, 1), now - MS * 10, now);
    pool.measure(&endpoint(&pool, 2), now - MS * 90, now);
    fixture.put(&[1, 2, 3]);
    fixture.put(&[1, 2]);
    assert_eq!(share(&pool, now, 2), 0);
    assert_eq!(share(&even, now, 2), 50);
    even.measure(&endpoint(&pool, 1), now - MS * 500, now);
    assert_eq!(share(&pool, now, 2), 0, "a pool that is not balanced by it measures nothing");
}

#[test]
fn a_slow_endpoint_gets_the_request_when_the_sooner_one_is_ejected() {
    let (_fixture, pool) = Fixture::with_pool(Balance::Ewma, &[1, 2]);
    let now = Instant::now();
    pool.measure(&endpoint(&pool, 2), now - MS * 900, now);
    pool.measure(&endpoint(&pool, 1), now - MS, now);
    pool.failed(&endpoint(&pool, 1), now);
    assert_eq!(share(&pool, now, 2), 100);
}

#[test]
fn the_endpoint_with_the_fewest_requests_is_next() {
    let (_fixture, pool) = Fixture::with_pool(Balance::LeastConnections, &[1, 2, 3]);
    assert_eq!(count((0..30).map(|_| pick(&pool))), HashMap::from([(1, 10), (2, 10), (3, 10)]));
    let _busy: Vec<_> = [1, 1, 2].map(|member| endpoint(&pool, member).enter()).into();
    assert_eq!(count((0..30).map(|_| pick(&pool))), HashMap::from([(3, 30)]));
    let mut under_way: Vec<_> = (0..6).map(|_| pool.pick(&request()).unwrap().enter()).collect();
    let load = |member| endpoint(&pool, member).in_flight();
    assert_eq!((load(1), load(2), load(3)), (3, 3, 3));
    let now = Instant::now();
    pool.failed(&endpoint(&pool, 3), now);
    under_way.retain(|request| number(request.endpoint()) != 3);
    assert_eq!(share(&pool, now, 3), 0, "idle, and ejected");
}

#[test]
fn settings_that_a_pool_omits_are_the_current_global_ones() {
    let (fixture, pool) = Fixture::with_pool(Balance::Inherit, &[1, 2]);
    let own = fixture.put_pool(Balance::RoundRobin, "own");
    let _busy = endpoint(&pool, 1).enter();
    assert_eq!(count((0..10).map(|_| pick(&pool))), HashMap::from([(1, 5), (2, 5)]));
    let settings = sluice_config::GlobalSettings { balance: Balance::LeastConnections, ..Default::default() };
    fixture.registry.apply(&Delta { settings: Some(Arc::new(settings)), ..Delta::default() });
    assert_eq!(count((0..10).map(|_| pick(&pool))), HashMap::from([(2, 10)]));
    assert_eq!(count((0..10).map(|_| pick(&own))), HashMap::from([(1, 5), (2, 5)]));
    fixture.registry.apply(&Delta { settings: Some(Arc::default()), ..Delta::default() });
    assert_eq!(pool.balance(), Balance::RoundRobin);
}

#[test]
fn a_key_chooses_a_group_and_any_of_it_gets_the_request() {
    let (_fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1, 2, 3, 4, 5, 6, 7]);
    let size = NonZeroU32::new(3);
    let mut groups = std::collections::BTreeSet::new();
    let picks = |key: &str, now: Instant| {
        let key = PickKey { bytes: key.as_bytes(), subset: size };
        let request = PickRequest { key: Some(key), now, ..request() };
        let mut found: Vec<u16> = (0..100).map(|_| number(&pool.pick(&request).unwrap())).collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    let now = Instant::now();
    for user in 0..60 {
        groups.insert(picks(&format!("user-{user}"), now));
    }
    // The last group is filled up from the beginning.
    assert_eq!(groups.into_iter().collect::<Vec<_>>(), [vec![1, 2, 3], vec![1, 2, 7], vec![4, 5, 6]]);
    let key = (0..60).map(|user| format!("user-{user}")).find(|key| picks(key, now) == [4, 5, 6]).unwrap();
    for member in [4, 5] {
        pool.failed(&endpoint(&pool, member), now);
    }
    assert_eq!(picks(&key, now), [6], "the rest of the group comes first");
    pool.failed(&endpoint(&pool, 6), now);
    assert_eq!(picks(&key, now), [1, 2, 3, 7], "then all others");
}

#[test]
fn a_group_larger_than_the_set_is_the_set() {
    let (_fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1, 2]);
    let key = PickKey { bytes: b"x", subset: NonZeroU32::new(u32::MAX) };
    let keyed = PickRequest { key: Some(key), ..request() };
    assert_eq!(count((0..100).map(|_| number(&pool.pick(&keyed).unwrap()))).len(), 2);
}

const WINDOW: Duration = Duration::from_secs(30);

fn slow_pool(fixture: &Fixture, balance: Balance) -> Arc<Pool> {
    let config = sluice_config::Pool {
        slow_start: Some(WINDOW),
        ..pool_config("web", balance, &format!("slow {balance:?}"))
    };
    let key = config.key.clone();
    fixture
        .registry
        .apply(&Delta { pools: vec![Change::Put(key.clone(), Arc::new(config))], ..Delta::default() });
    fixture.registry.pool(&key).unwrap()
}

#[test]
fn a_new_endpoint_gets_a_growing_share_and_only_where_it_is_asked_for() {
    for balance in [Balance::RoundRobin, Balance::LeastConnections, Balance::Ewma] {
        let (fixture, plain) = Fixture::with_pool(balance, &[1, 2, 3]);
        let slow = slow_pool(&fixture, balance);
        let now = Instant::now();
        assert!(share(&slow, now, 1) >= 25, "where all are new, none has to wait");
        fixture.put(&[1, 2, 3, 4]);
        let at = |seconds| share(&slow, now + Duration::from_secs(seconds), 4);
        let (first, half, late, warm) = (at(0), at(15), at(25), at(31));
        assert!((1..=8).contains(&first), "{balance:?}: {first}");
        assert!(first < half && half < late, "{balance:?}: {first} {half} {late}");
        assert!((20..=30).contains(&warm), "{balance:?}: {warm}");
        assert!((20..=30).contains(&share(&plain, now, 4)), "{balance:?}");
    }
}

#[test]
fn one_that_was_ejected_starts_slowly_too() {
    let (fixture, _plain) = Fixture::with_pool(Balance::RoundRobin, &[1, 2]);
    let slow = slow_pool(&fixture, Balance::RoundRobin);
    let now = Instant::now();
    assert_eq!(share(&slow, now, 2), 50);
    slow.failed(&endpoint(&slow, 2), now);
    let back = now + Duration::from_secs(2);
    endpoint(&slow, 2).succeeded(back);
    assert!((5..=14).contains(&share(&slow, back + MS, 2)));
    assert_eq!(share(&slow, back + WINDOW, 2), 50);
}

#[test]
fn an_endpoint_that_starts_slowly_gets_everything_when_it_is_alone() {
    let (fixture, _plain) = Fixture::with_pool(Balance::RoundRobin, &[1]);
    let slow = slow_pool(&fixture, Balance::RoundRobin);
    fixture.put(&[2]);
    assert_eq!(share(&slow, Instant::now(), 2), 100);
}
