use super::*;

fn addresses(ips: &[&str]) -> Vec<Address> {
    ips.iter().map(|ip| Address { ip: (*ip).into(), hostname: Box::default() }).collect()
}

fn name(name: &str) -> NamespacedName {
    NamespacedName::new("shop", name)
}

fn seen_at(ingress: &str, ips: &[&str], version: u64) -> IngressChange {
    let (name, uid) = (name(ingress), Some(Uid::new(ingress)));
    IngressChange::Seen { name, uid, addresses: addresses(ips).into(), version: Some(version), edited: true }
}

fn seen(ingress: &str, ips: &[&str]) -> IngressChange {
    seen_at(ingress, ips, 1)
}

fn table(ingresses: &[&str], now: Instant) -> Table {
    let mut table = Table::default();
    for ingress in ingresses {
        table.take(seen(ingress, &[]), now);
        table.take(IngressChange::Served(name(ingress), true), now);
    }
    table
}

/// Returns the writes that are due, and marks them as sent.
fn due(table: &mut Table, now: Instant) -> Vec<String> {
    let due = table.due(now).0.into_iter();
    due.map(|write| table.begin(&write.name, now).unwrap().name.name.to_string()).collect()
}

fn written(table: &mut Table, ingress: &str, version: u64, now: Instant) {
    let (name, addresses) = (name(ingress), table.wanted().clone());
    table.written(&Write { name, uid: Some(Uid::new(ingress)), addresses }, Some(version), now);
}

#[test]
fn only_changed_statuses_are_written_once_until_seen() {
    let now = Instant::now();
    let mut table = table(&["a", "b"], now);
    table.take(seen("other", &[]), now);
    assert!(due(&mut table, now).is_empty(), "no address is known");
    table.want(addresses(&["1.2.3.4"]));
    assert_eq!(due(&mut table, now), ["a", "b"]);
    assert!(due(&mut table, now + LONGEST).is_empty(), "under way");
    written(&mut table, "a", 5, now);
    written(&mut table, "b", 6, now);
    assert!(due(&mut table, now).is_empty(), "confirmed and not seen yet");
    table.take(seen_at("a", &["1.2.3.4"], 5), now);
    table.take(seen_at("b", &["1.2.3.4"], 6), now);
    assert!(due(&mut table, now + LONGEST).is_empty());
    assert!(!table.want(addresses(&["1.2.3.4"])), "nothing new");
    table.want(addresses(&["1.2.3.4", "5.6.7.8"]));
    assert_eq!(due(&mut table, now + LONGEST), ["a", "b"]);
    table.take(IngressChange::Gone(name("a")), now);
    table.take(IngressChange::Served(name("b"), false), now);
    assert!(due(&mut table, now + 3 * LONGEST).is_empty());
    table.take(IngressChange::Served(name("a"), false), now);
    assert_eq!(table.entries.len(), 2, "what is gone is forgotten");
}

#[test]
fn a_watch_that_is_late_causes_no_second_write_and_no_contest() {
    let now = Instant::now();
    let mut table = table(&["a"], now);
    table.want(addresses(&["1.2.3.4"]));
    assert_eq!(due(&mut table, now), ["a"]);
    written(&mut table, "a", 9, now);
    for version in 2..9 {
        table.take(seen_at("a", &[], version), now);
        assert!(due(&mut table, now + LONGEST / 2).is_empty(), "an edit from before the write");
    }
    table.take(seen_at("a", &["1.2.3.4"], 9), now);
    assert!(due(&mut table, now + 2 * LONGEST).is_empty() && table.contested().next().is_none());
}

#[test]
fn obsolete_writes_are_not_sent() {
    let now = Instant::now();
    let mut table = table(&["a", "b"], now);
    table.want(addresses(&["1.2.3.4"]));
    let (writes, _) = table.due(now);
    table.take(seen_at("a", &["1.2.3.4"], 2), now);
    assert_eq!(table.begin(&writes[0].name, now), None, "its watch event arrived first");
    assert!(table.begin(&writes[1].name, now).is_some());
}

#[test]
fn a_contest_with_another_writer_slows_down_and_is_reported() {
    let mut now = Instant::now();
    let mut table = table(&["a"], now);
    table.want(addresses(&["1.2.3.4"]));
    let (mut waits, mut version) = (Vec::new(), 1);
    for _ in 0..10 {
        let begin = now;
        while due(&mut table, now).is_empty() {
            now = table.due(now).1.unwrap();
        }
        waits.push(now - begin);
        version += 2;
        written(&mut table, "a", version, now);
        table.take(seen_at("a", &["1.2.3.4"], version), now);
        assert!(due(&mut table, now).is_empty());
        table.take(seen_at("a", &["9.9.9.9"], version + 1), now);
    }
    assert_eq!(waits[0], Duration::ZERO);
    assert!(waits.windows(2).all(|two| two[0] <= two[1]) && waits[9] == LONGEST, "{waits:?}");
    assert_eq!(table.contested().count(), 1);
    table.take(seen_at("a", &["1.2.3.4"], version + 2), now);
    assert_eq!(table.due(now), (vec![], Some(now + LONGEST)));
    assert_eq!(table.contested().count(), 1, "it may not last");
    assert!(due(&mut table, now + LONGEST).is_empty());
    assert_eq!(table.contested().count(), 0, "it has lasted");
}

#[test]
fn an_overwrite_that_is_seen_before_our_write_is_confirmed_is_a_contest() {
    let mut now = Instant::now();
    let mut table = table(&["a"], now);
    table.want(addresses(&["1.2.3.4"]));
    for contest in 0..u64::from(CONTESTED) {
        assert_eq!(due(&mut table, now), ["a"]);
        table.take(seen_at("a", &["1.2.3.4"], 10 * contest + 2), now);
        assert!(due(&mut table, now).is_empty(), "under way");
        table.take(seen_at("a", &["9.9.9.9"], 10 * contest + 3), now);
        written(&mut table, "a", 10 * contest + 2, now);
        assert!(due(&mut table, now).is_empty(), "it waits");
        now += wait(contest as u32 + 1);
    }
    assert_eq!(table.contested().count(), 1);
}

#[test]
fn one_change_by_another_writer_a_day_is_no_contest() {
    let mut now = Instant::now();
    let mut table = table(&["a"], now);
    table.want(addresses(&["1.2.3.4"]));
    for version in 1..20 {
        assert_eq!(due(&mut table, now), ["a"], "and it is mended at once");
        written(&mut table, "a", 2 * version, now);
        table.take(seen_at("a", &["1.2.3.4"], 2 * version), now);
        now += 2 * LONGEST;
        table.take(seen_at("a", &["9.9.9.9"], 2 * version + 1), now);
    }
    assert_eq!(table.contested().count(), 0);
}

#[test]
fn refused_writes_counted_as_a_contest() {
    let mut now = Instant::now();
    let mut table = table(&["a"], now);
    table.want(addresses(&["1.2.3.4"]));
    for _ in 0..3 * CONTESTED {
        assert_eq!(due(&mut table, now), ["a"]);
        table.postpone(&name("a"), now + FIRST);
        assert!(due(&mut table, now).is_empty());
        now += FIRST;
    }
    assert_eq!(table.contested().count(), 0);
    assert_eq!(due(&mut table, now), ["a"], "it waits no longer than requested");
}

#[test]
fn a_recreated_ingress_does_not_wait_for_the_write_to_the_old_one() {
    let now = Instant::now();
    let again = |uid: &str| IngressChange::Seen {
        name: name("a"),
        uid: Some(Uid::new(uid)),
        addresses: Arc::default(),
        version: Some(7),
        edited: true,
    };
    for is_shown_first in [true, false] {
        let mut table = table(&["a"], now);
        table.want(addresses(&["1.2.3.4"]));
        let (writes, _) = table.due(now);
        let write = table.begin(&writes[0].name, now).unwrap();
        table.take(IngressChange::Gone(name("a")), now);
        if is_shown_first {
            table.take(again("new"), now);
        }
        table.gone(&write, now + LONGEST);
        if !is_shown_first {
            table.take(again("new"), now);
        }
        assert_eq!(due(&mut table, now), ["a"], "shown first: {is_shown_first}");
    }
}

#[test]
fn a_deleted_ingress_is_not_written_again_before_the_watch_shows_it() {
    let now = Instant::now();
    let mut table = table(&["a"], now);
    table.want(addresses(&["1.2.3.4"]));
    let (writes, _) = table.due(now);
    let write = table.begin(&writes[0].name, now).unwrap();
    table.gone(&write, now + LONGEST);
    assert_eq!(table.due(now), (vec![], Some(now + LONGEST)));
}

#[test]
fn only_our_own_addresses_are_cleared() {
    let now = Instant::now();
    let mut table = table(&["a", "b"], now);
    table.want(addresses(&["1.2.3.4"]));
    table.take(seen("a", &["1.2.3.4"]), now);
    table.take(seen("b", &["9.9.9.9"]), now);
    let cleared: Vec<_> = table.ours().into_iter().map(|write| write.name).collect();
    assert_eq!(cleared, [name("a")]);
    assert_eq!(table.published(), addresses(&["9.9.9.9"]), "the last of as many");
}
