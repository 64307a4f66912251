//! The store bounds its memory and its files, and finds what was stored.

use std::time::SystemTime;

use pingora_cache::CacheMeta;
use pingora_http::ResponseHeader;
use sluice_testing::wait::await_until;

use super::*;

const LIMIT: usize = 90_000;
const BODY: usize = 8_000;

fn store() -> (&'static Store, Arc<Budget>) {
    store_with(None)
}

fn store_with(files: Option<Arc<Files>>) -> (&'static Store, Arc<Budget>) {
    let budget = Budget::new(10 * LIMIT);
    (Box::leak(Box::new(Store::new(LIMIT, budget.clone(), files))), budget)
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

fn put_at(store: &'static Store, number: u8, path: &str, epoch: Epoch) {
    put_body(store, number, path, epoch, vec![number; BODY]);
}

fn put_body(store: &'static Store, number: u8, path: &str, epoch: Epoch, body: Vec<u8>) {
    let head = head(200);
    let mut memory = store.reservation();
    assert!(memory.try_hold(head.size() + body.len()));
    let body = StoredBody::Memory(body.into());
    store.put(NewResponse { key: key(number), url: url(path), head, body, memory, epoch });
}

fn put(store: &'static Store, number: u8) {
    let path = format!("/{number}");
    put_at(store, number, &path, store.epoch(&url(&path)));
}

fn in_memory(response: &StoredResponse) -> Bytes {
    match &response.body {
        StoredBody::Memory(body) => body.clone(),
        StoredBody::File(_) => panic!("in a file"),
    }
}

/// Replaces the head of a response as a 304 does. Returns false if it is not stored.
fn confirm(store: &Store, number: u8, status: u16) -> bool {
    let Some(response) = store.get(&key(number)) else { return false };
    store.put_head(&key(number), response.id(), head(status))
}

fn has(store: &Store, number: u8) -> bool {
    store.get(&key(number)).is_some()
}

#[test]
fn the_least_recently_used_responses_leave_when_the_store_is_full() {
    let (store, budget) = store();
    let each = head(200).size() + BODY;
    let fits = u8::try_from(LIMIT / each).unwrap();
    (0..fits).for_each(|number| put(store, number));
    assert_eq!((store.count(), store.evictions()), (usize::from(fits), 0));
    assert!(has(store, 0), "it counts as used now");
    put(store, 100);
    assert!(has(store, 0) && !has(store, 1) && has(store, 2) && has(store, 100));
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
    put(store, 1);
    let reader = store.get(&key(1)).unwrap();
    assert_eq!(store.purge(&Purge::All), 1);
    assert!(budget.taken() > BODY && in_memory(&reader)[..] == [1; BODY]);
    drop(reader);
    assert_eq!(budget.taken(), 0);
}

#[test]
fn a_response_replaces_the_one_with_its_key() {
    let (store, budget) = store();
    put(store, 1);
    put(store, 1);
    assert_eq!((store.count(), store.bytes()), (1, budget.taken()));
    let before = store.get(&key(1)).unwrap();
    assert!(confirm(store, 1, 203));
    let after = store.get(&key(1)).unwrap();
    assert_eq!(after.head.meta().response_header().status, 203);
    assert_eq!((in_memory(&before).as_ptr(), before.id), (in_memory(&after).as_ptr(), after.id));
    assert!(!confirm(store, 2, 200), "it is not stored");
    drop((before, after));
    store.purge(&Purge::All);
    assert_eq!((store.bytes(), budget.taken()), (0, 0));
}

#[test]
fn a_late_304_put_the_head_of_an_old_response_on_a_new_body() {
    let (store, _) = store();
    put(store, 1);
    let confirmed = store.get(&key(1)).unwrap();
    put(store, 1);
    assert!(!store.put_head(&key(1), confirmed.id(), head(203)));
    assert_eq!(store.get(&key(1)).unwrap().head.meta().response_header().status, 200);
    store.purge(&Purge::All);
    put(store, 1);
    assert!(!store.put_head(&key(1), confirmed.id(), head(203)), "stored again after a purge");
}

#[test]
fn a_response_under_the_key_of_another_url_was_not_purged() {
    let (store, budget) = store();
    for _ in 0..3 {
        for path in ["/a", "/b"] {
            put_at(store, 1, path, store.epoch(&url(path)));
        }
    }
    assert_eq!((store.count(), store.bytes()), (1, budget.taken()));
    let purge = |path| store.purge(&Purge::Url((*url(path)).clone()));
    assert_eq!((purge("/a"), purge("/b")), (0, 1), "the last request was for the other one");
    assert!(store.shards.iter().all(|shard| lock(shard).keys.is_empty()));
    assert_eq!((store.count(), store.bytes(), budget.taken()), (0, 0, 0));
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
            put_at(store, number, path, store.epoch(&url(path)));
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
        put_at(store, 1, "/1", epoch);
        assert_eq!((store.count(), budget.taken()), (0, 0), "{purge:?}");
        put(store, 1);
        assert_eq!(store.count(), 1);
    }
}

#[test]
fn requests_of_many_threads_leave_a_consistent_store() {
    let (store, budget) = store();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for round in 0..500_u32 {
                    let number = (round.wrapping_mul(7 + thread) % 23) as u8;
                    match round % 11 {
                        0 => drop(store.purge(&Purge::Url((*url(&format!("/{number}"))).clone()))),
                        1 => drop(confirm(store, number, 200)),
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

/// With files for `limit` bytes, once all bodies that leave memory have moved or left.
struct Tiered {
    store: &'static Store,
    budget: Arc<Budget>,
    files: Arc<Files>,
    folder: tempfile::TempDir,
}

fn tiered(limit: u64) -> Tiered {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::open(folder.path()).unwrap();
    files.set_limit(limit);
    let (store, budget) = store_with(Some(files.clone()));
    Tiered { store, budget, files, folder }
}

impl Tiered {
    /// Stores a response, and waits until it has caused all moves.
    fn put(&self, number: u8) {
        put(self.store, number);
        self.settle();
    }

    fn settle(&self) {
        let tier = self.store.tier.as_ref().unwrap();
        await_until("moves", || {
            let is_still = tier.moving() == 0 && self.files.used() == tier.space();
            is_still && self.budget.taken() == self.store.bytes()
        });
    }

    /// The body of a response in a file.
    fn file(&self, number: u8) -> Option<Arc<BodyFile>> {
        let response = self.store.get(&key(number))?;
        match &response.body {
            StoredBody::Memory(_) => None,
            StoredBody::File(file) => Some(file.clone()),
        }
    }

    fn count_on_disk(&self) -> usize {
        let names = std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| !name.to_string_lossy().ends_with(".lock")).count()
    }
}

/// Space of a file with a body.
const SPACE: u64 = 8192;

#[test]
fn bodies_that_memory_has_no_room_for_move_to_files() {
    let tiered = tiered(1 << 20);
    (0..20).for_each(|number| tiered.put(number));
    let store = tiered.store;
    assert_eq!((store.count(), store.evictions()), (20, 0));
    let moved = store.count_in_files();
    assert!(moved > 8 && tiered.count_on_disk() == moved, "{moved}");
    assert_eq!(tiered.files.used(), moved as u64 * SPACE);
    assert!(store.bytes() <= LIMIT && tiered.budget.taken() == store.bytes());
    let file = tiered.file(0).unwrap();
    assert_eq!(file.piece(&file.open().unwrap(), 0).unwrap()[..], [0; BODY]);
    assert!(tiered.file(19).is_none(), "what was stored last is in memory");
    assert!(confirm(store, 0, 203), "it is confirmed");
    assert!(Arc::ptr_eq(&file, &tiered.file(0).unwrap()));
    drop(file);

    assert_eq!(store.purge(&Purge::All), 20);
    tiered.settle();
    assert_eq!((store.count(), store.bytes(), tiered.budget.taken()), (0, 0, 0));
    assert_eq!((tiered.count_on_disk(), tiered.files.used()), (0, 0));
}

#[test]
fn the_least_recently_used_files_leave_when_the_disk_is_full() {
    let tiered = tiered(3 * SPACE);
    let store = tiered.store;
    let in_files = |tiered: &Tiered| (0..40).filter(|n| tiered.file(*n).is_some()).collect::<Vec<_>>();
    let mut number = 0;
    while store.count_in_files() < 3 {
        tiered.put(number);
        number += 1;
    }
    assert_eq!(in_files(&tiered), [0, 1, 2]);
    // To look at so few does not change their order.
    (number..number + 2).for_each(|number| tiered.put(number));
    assert_eq!(in_files(&tiered), [2, 3, 4]);
    assert_eq!((tiered.files.used(), tiered.count_on_disk(), store.evictions()), (3 * SPACE, 3, 2));

    tiered.files.set_limit(SPACE);
    store.shrink_files();
    tiered.settle();
    assert_eq!((in_files(&tiered), tiered.count_on_disk()), (vec![4], 1));
    tiered.files.set_limit(0);
    store.shrink_files();
    tiered.put(100);
    assert_eq!((store.count_in_files(), tiered.count_on_disk()), (0, 0));
    assert_eq!(tiered.files.errors(), crate::cache::FileErrors::default());
}

#[test]
fn heads_of_responses_in_files_leave_room_for_bodies_in_memory() {
    let tiered = tiered(1 << 30);
    let store = tiered.store;
    for number in 0..=255_u8 {
        let path = format!("/{number}");
        put_body(store, number, &path, store.epoch(&url(&path)), vec![number; 2000]);
        tiered.settle();
        assert!(store.bytes() <= LIMIT);
    }
    let heads = store.tier.as_ref().unwrap().memory();
    assert!(heads > LIMIT / 4 && heads <= LIMIT / 2, "{heads}");
    assert!(store.count() > store.count_in_files() + 5, "others are in memory");
    assert_eq!(tiered.budget.taken(), store.bytes());
    store.set_limit(0);
    tiered.settle();
    assert_eq!((store.count(), tiered.count_on_disk(), tiered.budget.taken()), (0, 0, 0));
}

#[test]
fn a_folder_that_fails_is_reported_and_responses_stay_in_memory() {
    let tiered = tiered(1 << 20);
    let faults = tiered.files.faults();
    // Files cannot be created in a folder that is gone, whatever the rights of the tests are.
    std::fs::remove_dir_all(tiered.folder.path()).unwrap();
    (0..20).for_each(|number| tiered.put(number));
    let store = tiered.store;
    assert!(store.count() >= 5 && store.count_in_files() == 0);
    assert!(store.evictions() > 0 && store.bytes() <= LIMIT && tiered.budget.taken() == store.bytes());
    let errors = tiered.files.errors().write;
    assert!((1..10).contains(&errors), "{errors}: it is not tried for each response");
    let problem = faults.borrow().as_ref().unwrap().problem();
    assert_eq!(problem.code, sluice_config::Code::CacheFolderUnusable);
    assert!(has(store, 19));
}

#[test]
fn requests_of_many_threads_leave_consistent_files() {
    let tiered = tiered(10 * SPACE);
    let store = tiered.store;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for round in 0..300_u32 {
                    let number = (round.wrapping_mul(7 + thread) % 37) as u8;
                    match round % 11 {
                        0 => drop(store.purge(&Purge::Url((*url(&format!("/{number}"))).clone()))),
                        1 => drop(confirm(store, number, 200)),
                        2..5 => drop(has(store, number)),
                        5 => drop(store.evict_file_now()),
                        _ => put(store, number),
                    }
                }
            });
        }
    });
    tiered.settle();
    assert!(store.bytes() <= LIMIT && tiered.files.used() <= 10 * SPACE);
    assert_eq!(tiered.budget.taken(), store.bytes());
    assert_eq!(tiered.count_on_disk(), store.count_in_files());
    store.purge(&Purge::All);
    tiered.settle();
    assert_eq!((store.count(), store.bytes(), tiered.budget.taken(), tiered.count_on_disk()), (0, 0, 0, 0));
}
