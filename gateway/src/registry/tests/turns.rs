//! Round robin.

use std::thread;

use proptest::prelude::*;

use super::*;

#[test]
fn picks_are_exactly_even() {
    let (_fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1, 2, 3, 4, 5]);
    let counts = count((0..5 * 20).map(|_| pick(&pool)));
    assert_eq!(counts, (1..=5).map(|number| (number, 20)).collect());
}

#[test]
fn picks_are_exactly_even_over_all_threads_and_pools_of_a_set() {
    let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1, 2, 3, 4, 5, 6, 7]);
    let other = fixture.put_pool(Balance::RoundRobin, "other");
    let threads: Vec<_> = (0..7)
        .map(|number| if number % 2 == 0 { pool.clone() } else { other.clone() })
        .map(|pool| thread::spawn(move || (0..1000).map(|_| pick(&pool)).collect::<Vec<_>>()))
        .collect();
    let counts = count(threads.into_iter().flat_map(|thread| thread.join().unwrap()));
    assert_eq!(counts, (1..=7).map(|number| (number, 1000)).collect());
}

#[test]
fn the_others_stay_exactly_even_while_one_is_ejected() {
    let (_fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1, 2, 3, 4]);
    let now = Instant::now();
    pool.failed(&endpoint(&pool, 3), now);
    let request = PickRequest { now, ..request() };
    let counts = count((0..30).map(|_| number(&pool.pick(&request).unwrap())));
    assert_eq!(counts, HashMap::from([(1, 10), (2, 10), (4, 10)]));
}

#[test]
fn endpoints_that_are_all_ejected_are_used_evenly() {
    for size in 1..=6 {
        let members: Vec<u16> = (1..=size).collect();
        let (_fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &members);
        let now = Instant::now();
        pool.set().endpoints().iter().for_each(|endpoint| pool.failed(endpoint, now));
        let request = PickRequest { now, ..request() };
        let counts = count((0..10 * size).map(|_| number(&pool.pick(&request).unwrap())));
        assert_eq!(counts, members.iter().map(|number| (*number, 10)).collect());
    }
}

/// Ten endpoints. Every change removes another one and restores the previous one, at one change per
/// one to three requests.
#[test]
fn rolling_changes_leave_every_endpoint_its_share() {
    for picks_per_change in 1..=3 {
        let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &(1..=10).collect::<Vec<_>>());
        let mut picks = Vec::new();
        for change in 0..3000 {
            let members: Vec<u16> = (1..=10).filter(|number| *number != change % 10 + 1).collect();
            fixture.put(&members);
            picks.extend((0..picks_per_change).map(|_| pick(&pool)));
        }
        let total = picks.len();
        for (number, share) in count(picks) {
            let percent = share as f64 * 100.0 / total as f64;
            assert!((8.0..=12.0).contains(&percent), "{number} got {percent} % at {picks_per_change}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Endpoints that stay get the same number of requests, whatever happens to the others.
    #[test]
    fn endpoints_that_stay_are_even_through_any_changes(
        changes in prop::collection::vec((prop::collection::btree_set(0u16..40, 0..12), 0usize..6), 1..200),
    ) {
        let stay: Vec<u16> = (0..10).map(|number| number * 4 + 1).collect();
        let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &stay);
        let mut picks = Vec::new();
        for (others, requests) in changes {
            let members: std::collections::BTreeSet<u16> = others.into_iter().chain(stay.clone()).collect();
            fixture.put(&members.into_iter().collect::<Vec<_>>());
            picks.extend((0..requests).map(|_| pick(&pool)));
        }
        let counts = count(picks);
        let counts: Vec<usize> = stay.iter().map(|number| counts.get(number).copied().unwrap_or(0)).collect();
        prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{:?}", counts);
    }

    /// Ten endpoints, any of which may be absent for one change: at two requests per change each
    /// gets a tenth.
    #[test]
    fn random_absences_leave_every_endpoint_its_share(seed in any::<u64>()) {
        let mut random = fastrand::Rng::with_seed(seed);
        let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1]);
        let mut picks = Vec::new();
        for _ in 0..2000 {
            let away = random.u16(1..=10);
            fixture.put(&(1..=10).filter(|number| *number != away).collect::<Vec<_>>());
            picks.extend((0..2).map(|_| pick(&pool)));
        }
        let total = picks.len();
        for (number, share) in count(picks) {
            let percent = share as f64 * 100.0 / total as f64;
            prop_assert!((8.0..=12.0).contains(&percent), "{} got {} %", number, percent);
        }
    }
}
