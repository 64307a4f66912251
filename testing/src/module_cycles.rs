//! Checks that the top-level modules of a crate do not import each other in a cycle, so that each
//! can be read, tested and moved together with only those below it.
//!
//! The check reads the sources as text: every `crate` path outside of comments and tests is an
//! import. Tests may import any module.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The start of a path to another module of the crate.
const ROOT: &str = concat!("crate", "::");

/// The modules that each module imports, each with the path of an importing file.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

/// Panics if two top-level modules of a crate import each other, directly or indirectly.
///
/// `manifest_dir` is the crate's `CARGO_MANIFEST_DIR`.
///
/// # Panics
/// Also if the sources cannot be read, or import an item that is not a module of the crate.
pub fn assert_no_module_cycle(manifest_dir: &str) {
    let mut imports = Imports::new();
    read(&Path::new(manifest_dir).join("src"), None, &mut imports);
    let count: usize = imports.values().map(BTreeMap::len).sum();
    assert!(count > 0, "no import found in {manifest_dir}: the sources were not read");
    for (module, imported) in &imports {
        for (other, file) in imported {
            assert!(
                imports.contains_key(other),
                "module {module} imports `{other}` from the root of the crate, which is no module: {file}; \
                 write one `use` per module"
            );
        }
    }
    if let Some(cycle) = cycle(&imports) {
        let step = |i: usize| {
            let other = cycle[(i + 1) % cycle.len()];
            format!("{} imports {other} in {}", cycle[i], imports[cycle[i]][other])
        };
        let steps: Vec<String> = (0..cycle.len()).map(step).collect();
        panic!("module cycle; move the shared code to a module below both:\n{}", steps.join("\n"));
    }
}

/// Collects the imports of all files of a folder. Top-level files are separate modules; programs
/// are not modules.
fn read(folder: &Path, module: Option<&str>, imports: &mut Imports) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_source = path.is_dir() || path.extension().is_some_and(|extension| extension == "rs");
        let is_root = module.is_none() && ["lib", "main", "bin"].contains(&name);
        if name == "tests" || is_root || !is_source {
            continue;
        }
        let module = module.unwrap_or(name);
        if path.is_dir() {
            read(&path, Some(module), imports);
        } else {
            let text = fs::read_to_string(&path).unwrap();
            let file = path.display().to_string();
            let imported = imports.entry(module.to_owned()).or_default();
            for other in imported_by(&text).filter(|other| *other != module) {
                imported.entry(other.to_owned()).or_insert_with(|| file.clone());
            }
        }
    }
}

/// Returns the modules that a file refers to, including its own.
fn imported_by(text: &str) -> impl Iterator<Item = &str> {
    let program = text.split("mod tests {").next().unwrap_or(text);
    let code = program.lines().filter(|line| !line.trim_start().starts_with("//"));
    let paths = code.flat_map(|line| line.split(ROOT).skip(1));
    paths.map(|path| path.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()).next().unwrap_or_default())
}

/// Returns the modules of a cycle in order, if there is one. Repeatedly removes modules that import
/// no other, then follows the imports of the remaining ones.
fn cycle(imports: &Imports) -> Option<Vec<&str>> {
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

    #[test]
    fn imports_in_comments_and_tests_do_not_count() {
        let text = ["use ", "io::x;\n// ", "no\n ", "tls::y()\nmod tests {\nuse ", "no;"].join(ROOT);
        assert_eq!(imported_by(&text).collect::<Vec<_>>(), ["io", "tls"]);
    }

    #[test]
    #[should_panic(expected = "module cycle")]
    fn a_crate_with_a_cycle_fails() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("src/a.rs"), format!("use {ROOT}b::B;")).unwrap();
        fs::write(folder.path().join("src/b.rs"), format!("use {ROOT}a::A;")).unwrap();
        assert_no_module_cycle(folder.path().to_str().unwrap());
    }

    #[test]
    fn modules_of_this_crate_form_no_cycle() {
        assert_no_module_cycle(env!("CARGO_MANIFEST_DIR"));
    }
}
