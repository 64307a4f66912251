//! Passive health and the endpoint of a retry.

use std::time::Duration;

use super::*;

#[test]
fn a_failure_ejects_an_endpoint_for_a_short_growing_time() {
    let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1, 2]);
    let endpoint = endpoint(&pool, 1);
    let mut now = Instant::now();
    let mut expected: f64 = 1.0;
    for failures in 1..=20 {
        pool.failed(&endpoint, now);
        let out = endpoint.ejected_for(now).unwrap().as_secs_f64();
        assert!((expected * 0.79..=(expected * 1.21).min(30.0)).contains(&out), "{out} after {failures}");
        assert_eq!(endpoint.failures(), failures);
        assert!(!endpoint.is_usable(now));
        now += endpoint.ejected_for(now).unwrap();
        assert!(endpoint.is_usable(now));
        expected = (expected * 2.0).min(30.0);
    }
    let reports = fixture.reports.lock().unwrap();
    assert_eq!(reports.len(), 20);
    assert!(matches!(&reports[0], Report::EndpointEjected { set, address: at, duration }
        if *set == set_key("web") && *at == address(1) && *duration < Duration::from_millis(1201)));
}

#[test]
fn failures_of_requests_on_their_way_count_once() {
    let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1, 2]);
    let endpoint = endpoint(&pool, 1);
    let now = Instant::now();
    for _ in 0..100 {
        pool.failed(&endpoint, now);
    }
    assert_eq!(endpoint.failures(), 1);
    assert!(endpoint.ejected_for(now).unwrap() < Duration::from_millis(1201));
    assert_eq!(fixture.reports.lock().unwrap().len(), 1);
}

#[test]
fn only_a_success_that_began_after_the_failure_puts_an_endpoint_back() {
    let (_fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1, 2]);
    let endpoint = endpoint(&pool, 1);
    let began = Instant::now() + Duration::from_secs(1);
    let failed = began + Duration::from_millis(100);
    pool.failed(&endpoint, failed);
    endpoint.succeeded(began);
    assert!(!endpoint.is_usable(failed), "it finishes old requests and refuses new ones");
    endpoint.succeeded(failed + Duration::from_millis(10));
    assert!(endpoint.is_usable(failed));
    assert_eq!(endpoint.failures(), 0);
}

/// Each request to a dead machine waits for its connect timeout. When all requests were admitted at
/// the end of an ejection, half of a cluster's requests waited, some of them three times.
#[test]
fn an_endpoint_that_comes_back_gets_one_request_until_it_has_answered() {
    for balance in [Balance::RoundRobin, Balance::Ring] {
        let (_fixture, pool) = Fixture::with_pool(balance, &[1, 2]);
        let endpoint = endpoint(&pool, 1);
        let pick_at = |now| {
            let keys = (0..40).map(|key| format!("key {key}"));
            count(keys.map(|key| {
                number(
                    &pool.pick(&PickRequest { key: Some(whole(key.as_bytes())), now, ..request() }).unwrap(),
                )
            }))
        };
        let failed = Instant::now();
        pool.failed(&endpoint, failed);
        let back = failed + endpoint.ejected_for(failed).unwrap();
        assert_eq!(pick_at(back), HashMap::from([(1, 1), (2, 39)]), "{balance:?}");
        assert_eq!(pick_at(back + Duration::from_millis(500)), HashMap::from([(2, 40)]));
        assert_eq!(pick_at(back + Duration::from_millis(1001)), HashMap::from([(1, 1), (2, 39)]));

        // The trial request fails although the endpoint is ejected for others: this counts.
        let again = back + Duration::from_millis(1500);
        pool.failed(&endpoint, again);
        assert_eq!(endpoint.failures(), 2);
        let back = again + endpoint.ejected_for(again).unwrap();
        assert_eq!(pick_at(back), HashMap::from([(1, 1), (2, 39)]));
        endpoint.succeeded(back);
        assert_eq!(endpoint.failures(), 0);
        assert!(pick_at(back).contains_key(&1));
    }
}

#[test]
fn every_attempt_gets_an_endpoint_not_yet_tried_the_good_ones_first() {
    for balance in [Balance::RoundRobin, Balance::Ring] {
        let (_fixture, pool) = Fixture::with_pool(balance, &[1, 2, 3, 4]);
        let now = Instant::now();
        for out in [2, 4] {
            pool.failed(&endpoint(&pool, out), now);
        }
        let mut tried = Vec::new();
        for _ in 0..4 {
            let request = PickRequest { key: Some(whole(b"some key")), tried: &tried, now };
            let picked = pool.pick(&request).unwrap();
            tried.push(picked);
        }
        let mut numbers: Vec<u16> = tried.iter().map(|endpoint| number(endpoint)).collect();
        numbers[..2].sort_unstable();
        numbers[2..].sort_unstable();
        assert_eq!(numbers, [1, 3, 2, 4]);
        let request = PickRequest { tried: &tried, now, ..request() };
        assert_eq!(pool.pick(&request).unwrap_err(), PickError::Exhausted);
    }
}

#[test]
fn the_only_endpoint_is_used_even_if_it_is_ejected() {
    let (_fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1]);
    let now = Instant::now();
    pool.failed(&endpoint(&pool, 1), now);
    assert_eq!(number(&pool.pick(&PickRequest { now, ..request() }).unwrap()), 1);
}

#[test]
fn an_endpoint_that_fails_its_checks_is_used_only_when_all_do() {
    let (fixture, other) = Fixture::with_pool(Balance::RoundRobin, &[1, 2]);
    let pool = fixture.put_checked(&checked("web", 9000));
    endpoint(&pool, 1).set_passes(0, false);
    assert_eq!(count((0..10).map(|_| pick(&pool))), HashMap::from([(2, 10)]));
    assert_eq!(
        count((0..10).map(|_| pick(&other))),
        HashMap::from([(1, 5), (2, 5)]),
        "it did not ask for checks"
    );
    endpoint(&pool, 2).set_passes(0, false);
    assert_eq!(count((0..10).map(|_| pick(&pool))), HashMap::from([(1, 5), (2, 5)]));
}

/// An endpoint at capacity ranked as low as a dead one, so requests went to ejected endpoints while
/// healthy ones were at capacity.
#[test]
fn with_all_healthy_endpoints_full_requests_went_to_ejected_ones() {
    for balance in [Balance::RoundRobin, Balance::Ring] {
        let (_fixture, pool) = Fixture::with_pool(balance, &[1, 2, 3, 4]);
        let now = Instant::now();
        for out in [2, 4] {
            pool.failed(&endpoint(&pool, out), now);
        }
        for full in [1, 3] {
            endpoint(&pool, full).fill();
        }
        for key in 0..40 {
            let key = format!("key {key}");
            let mut tried = Vec::new();
            for _ in 0..4 {
                let request = PickRequest { key: Some(whole(key.as_bytes())), tried: &tried, now };
                let picked = pool.pick(&request).unwrap();
                tried.push(picked);
            }
            let mut numbers: Vec<u16> = tried.iter().map(|endpoint| number(endpoint)).collect();
            numbers[..2].sort_unstable();
            numbers[2..].sort_unstable();
            assert_eq!(numbers, [1, 3, 2, 4], "{balance:?}");
        }
    }
}
