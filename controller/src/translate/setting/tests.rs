//! Of all entries of both tables: what is written about an entry holds.

use super::*;
use crate::translate::global_settings;
use crate::translate::ingress::annotations;

fn hold<S: Default>(table: &Table<S>) {
    for entry in table.entries() {
        let name = entry.name;
        assert!(entry.doc.ends_with('.'), "{name}");
        assert!(!entry.words.is_empty(), "{name}");
        assert!(
            entry.names().all(|alias| table.get(alias).is_some_and(|found| found.name == name)),
            "{name}"
        );
        if !entry.default.is_empty() {
            let read = entry.apply(entry.default, &Author::OPERATOR, &mut S::default());
            assert_eq!(read, Ok(()), "{name}");
            assert!(entry.is_idle(entry.default), "{name}");
        }
        let leniency = entry.leniency;
        let needs_reason = !leniency.is_same()
            && !matches!(leniency.reference, ReferenceTreatment::RefuseAll | ReferenceTreatment::Absent);
        assert_eq!(!leniency.reason.is_empty(), needs_reason, "{name} {leniency:?}");
        let nonsense = "\u{0}\n\"";
        if let Err(Wrong::Invalid(reason)) = entry.apply(nonsense, &Author::OPERATOR, &mut S::default()) {
            assert!(!reason.is_empty(), "{name} gives no reason why it refuses {nonsense:?}");
        }
    }
    let documentation = markdown(table);
    let rows = documentation.lines().filter(|line| line.starts_with("| <a id="));
    assert_eq!(rows.count(), table.entries().count(), "one line each");
    assert_eq!(table.families().map(|(_, family)| family.len()).sum::<usize>(), table.entries().count());
}

#[test]
fn every_entry_is_described_and_accepts_its_default() {
    hold(&annotations::TABLE);
    hold(&global_settings::TABLE);
}

#[test]
fn values_equal_to_the_default_have_no_effect() {
    let idle = |name: &str, text| annotations::TABLE.get(name).unwrap().is_idle(text);
    assert!(
        idle("proxy-body-size", "1024k") && idle("enable-cors", "0") && idle("proxy-redirect-from", "OFF")
    );
    assert!(!idle("proxy-body-size", "2m") && !idle("enable-cors", "1") && !idle("limit-rps", "nonsense"));
}
