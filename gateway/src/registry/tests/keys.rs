//! The ring and session cookies.

use proptest::prelude::*;

use super::*;

const KEYS: u32 = 4000;

fn key(number: u32) -> String {
    format!("{}.{}.{}", 1_600_000_000 + number, number % 7, number * 31)
}

fn owners(pool: &Pool) -> Vec<u16> {
    (0..KEYS).map(|n| number(&pool.owner(key(n).as_bytes()).unwrap())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn one_endpoint_more_or_less_moves_its_share_of_the_keys_and_no_other(
        members in prop::collection::btree_set(any::<u16>(), 3..20),
        which in any::<prop::sample::Index>(),
    ) {
        let all: Vec<u16> = members.into_iter().collect();
        let changing = all[which.index(all.len())];
        let without: Vec<u16> = all.iter().copied().filter(|number| *number != changing).collect();
        let (fixture, pool) = Fixture::with_pool(Balance::Ring, &all);
        let before = owners(&pool);
        fixture.put(&without);
        let between = owners(&pool);
        fixture.put(&all);
        prop_assert_eq!(&before, &owners(&pool), "adding is the reverse of removing");
        let others = |(before, between): &(&u16, &u16)| before != between && **before != changing;
        // If points of two endpoints coincide, which rarely happens, either may own the keys before
        // them.
        let others = before.iter().zip(&between).filter(others).count();
        prop_assert!(others <= KEYS as usize / 100, "{} keys of others moved", others);
        let moved = before.iter().filter(|owner| **owner == changing).count() as u32;
        // Shares vary by about a tenth; half more or less is far beyond chance.
        let share = f64::from(KEYS) / all.len() as f64;
        prop_assert!((share * 0.5..=share * 1.5).contains(&f64::from(moved)), "{} of {}", moved, share);
    }
}

#[test]
fn a_key_maps_to_its_owner_or_the_next_while_that_is_ejected() {
    let (_fixture, pool) = Fixture::with_pool(Balance::Ring, &[1, 2, 3, 4, 5]);
    let now = Instant::now();
    let keyed = PickRequest { key: Some(whole(b"somebody")), now, ..request() };
    let owner = pool.owner(b"somebody").unwrap();
    assert!((0..10).all(|_| Arc::ptr_eq(&pool.pick(&keyed).unwrap(), &owner)));
    pool.failed(&owner, now);
    let second = pool.pick(&keyed).unwrap();
    assert!(!Arc::ptr_eq(&second, &owner));
    assert!((0..10).all(|_| Arc::ptr_eq(&pool.pick(&keyed).unwrap(), &second)));
    assert!(Arc::ptr_eq(&pool.owner(b"somebody").unwrap(), &owner), "the owner stays the owner");
    pool.set().endpoints().iter().for_each(|endpoint| pool.failed(endpoint, now));
    assert!(Arc::ptr_eq(&pool.pick(&keyed).unwrap(), &owner), "all are ejected: health is ignored");
}

#[test]
fn a_ring_is_built_only_for_pools_that_ask_and_dropped_with_the_last() {
    let (fixture, plain) = Fixture::with_pool(Balance::RoundRobin, &[1, 2]);
    assert!(plain.owner(b"key").is_none());
    fixture.put(&[1, 2, 3]);
    assert_eq!(fixture.registry.rings_built(), 0);
    let ring = fixture.put_pool(Balance::Ring, "ring");
    let other = fixture.put_pool(Balance::Ring, "ring of another policy");
    assert_eq!(fixture.registry.rings_built(), 1);
    assert!(ring.owner(b"key").is_some());
    fixture.put(&[1, 2, 3, 4]);
    assert_eq!(fixture.registry.rings_built(), 2);
    fixture.remove_pool(&ring);
    assert!(other.owner(b"key").is_some());
    fixture.remove_pool(&other);
    assert!(plain.set().ring.load().is_none());
    fixture.put(&[1, 2]);
    assert_eq!(fixture.registry.rings_built(), 2);
}

#[test]
fn a_stale_ring_skips_endpoints_that_are_gone() {
    let (fixture, pool) = Fixture::with_pool(Balance::Ring, &[1, 2, 3, 4]);
    let before = owners(&pool);
    // The state while a new ring is being built.
    let stale = pool.set().ring.load_full();
    fixture.put(&[2, 4, 5]);
    pool.set().ring.store(stale);
    let after = owners(&pool);
    for (before, after) in before.iter().zip(&after) {
        assert!([2, 4].contains(after), "5 is not on the old ring, 1 and 3 are no members");
        assert!(before == after || [1, 3].contains(before));
    }
    // Without any endpoint of the old ring, round robin decides.
    let stale = pool.set().ring.load_full();
    fixture.put(&[6, 7]);
    pool.set().ring.store(stale);
    assert!(pool.owner(b"key").is_none());
    let keyed = PickRequest { key: Some(whole(b"key")), ..request() };
    assert!([6, 7].contains(&number(&pool.pick(&keyed).unwrap())));
}

#[test]
fn a_big_ring_is_rebuilt_aside_and_the_newest_generation_wins() {
    let many: Vec<u16> = (1..=200).collect();
    let (fixture, pool) = Fixture::with_pool(Balance::Ring, &many);
    assert_eq!(fixture.registry.rings_built(), 1, "the first is there at once");
    for last in 100..200 {
        fixture.put(&many[..last]);
    }
    assert!(pool.owner(b"key").is_some(), "there is a ring at any time");
    // Ends when the last ring of the queue, the newest, is built.
    while pool.set().ring.load().as_ref().is_none_or(|ring| ring.generation != pool.set().current().number) {
        std::thread::yield_now();
    }
    assert!(fixture.registry.rings_built() <= 101);
    assert_eq!(owners(&pool).iter().max(), Some(&199));
}

#[test]
fn a_set_that_was_empty_for_a_moment_gives_keys_back_to_their_owners() {
    let (fixture, pool) = Fixture::with_pool(Balance::Ring, &[1, 2, 3]);
    let before = owners(&pool);
    fixture.put(&[]);
    assert!(pool.owner(b"key").is_none());
    assert_eq!(pool.pick(&request()).unwrap_err(), PickError::NoEndpoints);
    fixture.put(&[1, 2, 3]);
    assert_eq!(owners(&pool), before);
}

#[test]
fn session_cookies_name_their_endpoint_as_the_reference_has_it() {
    let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1, 2]);
    let sessions = pool.sessions("shop-web-80");
    // printf 'shop-web-8010.0.0.1:8080' | md5sum
    let hash = "d6f09bcae656a7f9aea060e3d855df9f";
    assert_eq!(sessions.hash(&endpoint(&pool, 1)), hash);
    assert_eq!(number(&sessions.endpoint(hash).unwrap()), 1);
    assert!(pool.sessions("shop-web-http").endpoint(hash).is_none(), "another backend's cookie");
    fixture.put(&[1, 2, 3]);
    assert_eq!(number(&sessions.endpoint(hash).unwrap()), 1);
    let third = sessions.hash(&endpoint(&pool, 3));
    assert_eq!(number(&sessions.endpoint(&third).unwrap()), 3);
    fixture.put(&[2, 3]);
    assert!(sessions.endpoint(hash).is_none());
    for foreign in ["", "x", &hash.to_uppercase(), &format!("{hash}0"), &"\u{e9}".repeat(16)] {
        assert!(sessions.endpoint(foreign).is_none(), "{foreign}");
    }
}
