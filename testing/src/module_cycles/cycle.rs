//! A cycle among the modules of a folder.

use std::collections::{BTreeMap, BTreeSet};

/// The modules that each module of a folder imports, each with an importing file.
pub(super) type Imports = BTreeMap<String, BTreeMap<String, String>>;

/// Returns the modules of a cycle in order, if there is one. Repeatedly removes modules that import
/// no other, then follows the imports of the remaining ones.
pub(super) fn cycle(imports: &Imports) -> Option<Vec<&str>> {
    let mut left: BTreeSet<&str> = imports.keys().map(String::as_str).collect();
    while let Some(module) = left.iter().copied().find(|module| next(imports, module, &left).is_none()) {
        left.remove(module);
    }
    let mut path = vec![*left.first()?];
    loop {
        let module = next(imports, path[path.len() - 1], &left)?;
        if let Some(start) = path.iter().position(|before| *before == module) {
            return Some(path.split_off(start));
        }
        path.push(module);
    }
}

/// Returns the first of `among` that a module imports.
fn next<'i>(imports: &'i Imports, module: &str, among: &BTreeSet<&str>) -> Option<&'i str> {
    imports[module].keys().map(String::as_str).find(|other| among.contains(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_found_and_a_graph_without_one_passes() {
        let imports = |all: &[(&str, &[&str])]| -> Imports {
            let imported =
                |others: &[&str]| others.iter().map(|other| ((*other).to_owned(), String::new())).collect();
            all.iter().map(|(module, others)| ((*module).to_owned(), imported(others))).collect()
        };
        assert_eq!(cycle(&imports(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])), None);
        let found = imports(&[("a", &["b"]), ("b", &["c", "d"]), ("c", &["b"]), ("d", &[])]);
        assert_eq!(cycle(&found), Some(vec!["b", "c"]));
    }
}
