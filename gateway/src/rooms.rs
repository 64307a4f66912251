//! Holds that the rooms of this crate, its modules at the top, use one another in no circle, so that each can be read,
//! tested and moved with nothing but those below it.
//!
//! Text is what is looked at: every `crate::room` outside of comments and tests, which may use what they like.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What each room uses, and where.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

fn read(folder: &Path, room: Option<&str>, uses: &mut Uses) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if name == "tests" || (room.is_none() && ["lib", "rooms"].contains(&name)) {
            continue;
        }
        let room = room.unwrap_or(name);
        if path.is_dir() {
            read(&path, Some(room), uses);
        } else {
            let text = fs::read_to_string(&path).unwrap();
            let place = path.display().to_string();
            let used = uses.entry(room.to_owned()).or_default();
            for other in used_by(&text).filter(|other| *other != room) {
                used.entry(other.to_owned()).or_insert_with(|| place.clone());
            }
        }
    }
}

/// The rooms that a file names, itself among them.
fn used_by(text: &str) -> impl Iterator<Item = &str> {
    let program = text.split("mod tests {").next().unwrap_or(text);
    let code = program.lines().filter(|line| !line.trim_start().starts_with("//"));
    let after = code.flat_map(|line| line.split("crate::").skip(1));
    after.map(|rest| rest.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()).next().unwrap_or_default())
}

/// The rooms of a circle in their order, if there is one: what is left when rooms that use no other are taken away until
/// none does, followed from one to the next.
fn circle(uses: &Uses) -> Option<Vec<&str>> {
    let mut left: BTreeSet<&str> = uses.keys().map(String::as_str).collect();
    while let Some(room) = left.iter().copied().find(|room| next(uses, room, &left).is_none()) {
        left.remove(room);
    }
    let mut way = vec![*left.first()?];
    loop {
        let room = next(uses, way[way.len() - 1], &left)?;
        if let Some(start) = way.iter().position(|before| *before == room) {
            return Some(way.split_off(start));
        }
        way.push(room);
    }
}

/// A room among these that a room uses.
fn next<'u>(uses: &'u Uses, room: &str, among: &BTreeSet<&str>) -> Option<&'u str> {
    uses[room].keys().map(String::as_str).find(|other| among.contains(other))
}

#[test]
fn rooms_used_one_another_in_circles() {
    let mut uses = Uses::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), None, &mut uses);
    assert!(uses["engine"].contains_key("pipeline"), "the sources were not read: {uses:?}");
    for (room, used) in &uses {
        for (other, place) in used {
            assert!(uses.contains_key(other), "{room} uses crate::{other}, which is no room: {place}");
        }
    }
    if let Some(circle) = circle(&uses) {
        let step = |i: usize| {
            let other = circle[(i + 1) % circle.len()];
            format!("{} uses {other} in {}", circle[i], uses[circle[i]][other])
        };
        let steps: Vec<String> = (0..circle.len()).map(step).collect();
        panic!("a circle; move what is shared to a room below:\n{}", steps.join("\n"));
    }
}

#[test]
fn a_circle_is_found_and_a_way_without_one_is_none() {
    let uses = |all: &[(&str, &[&str])]| -> Uses {
        let used = |used: &[&str]| used.iter().map(|other| ((*other).to_owned(), String::new())).collect();
        all.iter().map(|(room, others)| ((*room).to_owned(), used(others))).collect()
    };
    assert_eq!(circle(&uses(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])), None);
    let found = uses(&[("a", &["b"]), ("b", &["c", "d"]), ("c", &["b"]), ("d", &[])]);
    assert_eq!(circle(&found), Some(vec!["b", "c"]));
    assert_eq!(
        used_by("use crate::io::x;\n// crate::no\n    crate::tls::y()").collect::<Vec<_>>(),
        ["io", "tls"]
    );
}
