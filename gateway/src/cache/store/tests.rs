//! The store bounds its memory and finds what was stored.

use std::time::SystemTime;

use pingora_cache::CacheMeta;
use pingora_http::ResponseHeader;

use super::*;

const LIMIT: usize = 80_000;
const BODY: usize = 8_000;

fn store() -> (Store, Arc<Budget>) {
    let budget = Budget::new(10 * LIMIT);
    (Store::new(LIMIT, budget.clone()), budget)
}

fn url(path: &str) -> Arc<CachedUrl> {
    Arc::new(CachedUrl { host: "a.example".into(), path: path.into() })
}

fn key(number: u8) -> KeyHash {
    [number; 16]
}

fn head(status: u16) -> StoredHead {
    let header = ResponseHeader::build(status, None).unwrap();
    StoredHead::of(&CacheMeta::new(SystemTime::now(), SystemTime::now(), 0, 0, header))
}

fn put_at(store: &Store, number: u8, path: &str, epoch: Epoch) {
    let (head, body) = (head(200), Bytes::from(vec![number; BODY]));
    let mut memory = store.reservation();
    assert!(memory.try_hold(head.size() + body.len()));
    store.put(NewResponse { key: key(number), url: url(path), head, body, memory, epoch });
}

fn put(store: &Store, number: u8) {
    let path = format!("/{number}");
    put_at(store, number, &path, store.epoch(&url(&path)));
}

fn has(store: &Store, number: u8) -> bool {
    store.get(&key(number), &url(&format!("/{number}"))).is_some()
}

#[test]
fn the_least_recently_used_responses_leave_when_the_store_is_full() {
    let (store, budget) = store();
    let each = head(200).size() + BODY;
    let fits = u8::try_from(LIMIT / each).unwrap();
    (0..fits).for_each(|number| put(&store, number));
    assert_eq!((store.count(), store.evictions()), (usize::from(fits), 0));
    assert!(has(&store, 0), "it counts as used now");
    put(&store, 100);
    assert!(has(&store, 0) && !has(&store, 1) && has(&store, 2) && has(&store, 100));
    assert_eq!((store.count(), store.evictions()), (usize::from(fits), 1));
    assert!(store.bytes() <= LIMIT && budget.taken() == store.bytes());

    store.set_limit(2 * each);
    assert_eq!((store.count(), budget.taken()), (2, 2 * each));
    store.set_limit(0);
    assert_eq!((store.count(), store.bytes(), budget.taken()), (0, 0, 0));
}

#[test]
fn a_response_that_is_read_keeps_its_memory_until_the_end() {
    let (store, budget) = store();
    put(&store, 1);
    let reader = store.get(&key(1), &url("/1")).unwrap();
    assert_eq!(store.purge(&Purge::All), 1);
    assert!(budget.taken() > BODY && reader.body[..] == [1; BODY]);
    drop(reader);
    assert_eq!(budget.taken(), 0);
}

#[test]
fn a_response_replaces_the_one_with_its_key() {
    let (store, budget) = store();
    put(&store, 1);
    put(&store, 1);
    assert_eq!((store.count(), store.bytes()), (1, budget.taken()));
    let before = store.get(&key(1), &url("/1")).unwrap();
    assert!(store.put_head(&key(1), &url("/1"), head(203)));
    let after = store.get(&key(1), &url("/1")).unwrap();
    assert_eq!(after.head.meta().response_header().status, 203);
    assert_eq!((before.body.as_ptr(), before.id), (after.body.as_ptr(), after.id));
    assert!(!store.put_head(&key(2), &url("/2"), head(200)), "it is not stored");
    drop((before, after));
    store.purge(&Purge::All);
    assert_eq!((store.bytes(), budget.taken()), (0, 0));
}

#[test]
fn a_purge_removes_what_it_names() {
    let of = |host: Option<&str>, path: Option<PurgedPath>| Purge::Of { host: host.map(Into::into), path };
    let prefix = |text: &str| Some(PurgedPath::Prefix(text.into()));
    let exact = |text: &str| Some(PurgedPath::Exact(text.into()));
    for (purge, left) in [
        (Purge::All, 0),
        (Purge::Url((*url("/img/a")).clone()), 2),
        (of(Some("a.example"), None), 0),
        (of(Some("b.example"), None), 4),
        (of(None, exact("/img/a")), 2),
        (of(None, exact("/img")), 4),
        (of(Some("a.example"), prefix("/img/")), 1),
        (of(Some("b.example"), prefix("/")), 4),
    ] {
        let (store, budget) = store();
        for (number, path) in [(1, "/img/a"), (2, "/img/a"), (3, "/img/b"), (4, "/")] {
            put_at(&store, number, path, store.epoch(&url(path)));
        }
        assert_eq!(store.purge(&purge), 4 - left, "{purge:?}");
        assert_eq!((store.count(), store.bytes()), (left, budget.taken()), "{purge:?}");
    }
}

#[test]
fn a_response_to_a_request_before_a_purge_is_not_stored() {
    for purge in [Purge::All, Purge::Url((*url("/1")).clone()), Purge::Of { host: None, path: None }] {
        let (store, budget) = store();
        let epoch = store.epoch(&url("/1"));
        store.purge(&purge);
        put_at(&store, 1, "/1", epoch);
        assert_eq!((store.count(), budget.taken()), (0, 0), "{purge:?}");
        put(&store, 1);
        assert_eq!(store.count(), 1);
    }
}

#[test]
fn requests_of_many_threads_leave_a_consistent_store() {
    let (store, budget) = store();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..500_u32 {
                    let number = (round.wrapping_mul(7 + thread) % 23) as u8;
                    match round % 11 {
                        0 => drop(store.purge(&Purge::Url((*url(&format!("/{number}"))).clone()))),
                        1 => drop(store.put_head(&key(number), &url(&format!("/{number}")), head(200))),
                        2..6 => drop(has(store, number)),
                        _ => put(store, number),
                    }
                }
            });
        }
    });
    assert!(store.bytes() <= LIMIT);
    assert_eq!(budget.taken(), store.bytes(), "what is in the maps is in the list, and nothing else");
    store.purge(&Purge::All);
    assert_eq!((store.count(), store.bytes(), budget.taken()), (0, 0, 0));
}
