//! Checks that the modules of a crate, or those in the folder of one module, do not import each
//! other in a cycle, so that each can be read, tested and moved together with only those below it.
//!
//! The check reads the sources as text: every `crate` or `super` path to such a module outside of
//! comments and tests is an import. Tests may import any module.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The start of a path to another module of the crate.
const ROOT: &str = concat!("crate", "::");

/// The start of a path to a sibling of a module.
const SUPER: &str = concat!("super", "::");

/// The modules that each module imports, each with the path of an importing file.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

/// Panics if two top-level modules of a crate import each other, directly or indirectly.
///
/// `manifest_dir` is the crate's `CARGO_MANIFEST_DIR`.
///
/// # Panics
/// Also if the sources cannot be read, or import an item that is not a module of the crate.
pub fn assert_no_module_cycle(manifest_dir: &str) {
    let imports = read_all(&Path::new(manifest_dir).join("src"), |text, _| names_after(text, ROOT));
    for (module, imported) in &imports {
        for (other, file) in imported {
            assert!(
                imports.contains_key(other),
                "module {module} imports `{other}` from the root of the crate, which is no module: {file}; \
                 write one `use` per module"
            );
        }
    }
    assert_no_cycle(&imports);
}

/// Panics if two modules in the folder of the module `parent`, a path from the root of the crate,
/// import each other, directly or indirectly. Items of `parent` itself may be imported, and the
/// imports of the modules in `exempt` do not count.
///
/// # Panics
/// Also if the sources cannot be read, or an exempt module does not exist.
pub fn assert_no_module_cycle_in(manifest_dir: &str, parent: &str, exempt: &[&str]) {
    let absolute = format!("{ROOT}{parent}::");
    let folder = Path::new(manifest_dir).join("src").join(parent.replace("::", "/"));
    let mut imports = read_all(&folder, |text, depth| {
        [names_after(text, &absolute), names_after(text, &SUPER.repeat(depth))].concat()
    });
    let modules: BTreeSet<String> = imports.keys().cloned().collect();
    for imported in imports.values_mut() {
        imported.retain(|other, _| modules.contains(other));
    }
    for module in exempt {
        imports.get_mut(*module).unwrap_or_else(|| panic!("{parent} has no module {module}")).clear();
    }
    assert_no_cycle(&imports);
}

fn assert_no_cycle(imports: &Imports) {
    if let Some(cycle) = cycle(imports) {
        let step = |i: usize| {
            let other = cycle[(i + 1) % cycle.len()];
            format!("{} imports {other} in {}", cycle[i], imports[cycle[i]][other])
        };
        let steps: Vec<String> = (0..cycle.len()).map(step).collect();
        panic!("module cycle; move the shared code to a module below both:\n{}", steps.join("\n"));
    }
}

/// Returns the imports of all modules in a folder. `names_of` returns the names that a file imports
/// from the parent of these modules, given its code and its depth: 1 for a file of the folder.
fn read_all(folder: &Path, names_of: impl Fn(&str, usize) -> Vec<String>) -> Imports {
    let mut imports = Imports::new();
    read(folder, None, 1, &names_of, &mut imports);
    let count: usize = imports.values().map(BTreeMap::len).sum();
    assert!(count > 0, "no import found in {}: the sources were not read", folder.display());
    imports
}

/// Collects the imports of all files of a folder. Files of the first folder are separate modules;
/// programs are not modules.
fn read(
    folder: &Path,
    module: Option<&str>,
    depth: usize,
    names_of: &impl Fn(&str, usize) -> Vec<String>,
    imports: &mut Imports,
) {
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
            read(&path, Some(module), depth + 1, names_of, imports);
        } else {
            let text = fs::read_to_string(&path).unwrap();
            let file = path.display().to_string();
            let imported = imports.entry(module.to_owned()).or_default();
            for other in names_of(&code(&text), depth).into_iter().filter(|other| other != module) {
                imported.entry(other).or_insert_with(|| file.clone());
            }
        }
    }
}

/// Returns the lines of a file outside of comments and tests.
fn code(text: &str) -> String {
    let program = text.split("mod tests {").next().unwrap_or(text);
    let lines: Vec<&str> = program.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    lines.join("\n")
}

/// Returns the first name of each path that follows `prefix`; all first names of a group in braces.
fn names_after(code: &str, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    for path in code.split(prefix).skip(1) {
        match path.strip_prefix('{') {
            Some(group) => names.extend(group_names(group)),
            None => names.push(first_name(path).to_owned()),
        }
    }
    names
}

/// Returns the first name of each path of a group, without those of groups in it.
fn group_names(group: &str) -> Vec<String> {
    let mut depth = 1;
    let outer = group.chars().take_while(|c| {
        depth += i32::from(*c == '{') - i32::from(*c == '}');
        depth > 0
    });
    let mut inner = 0;
    let flat: String = outer
        .filter(|c| {
            inner += i32::from(*c == '{') - i32::from(*c == '}');
            inner == 0
        })
        .collect();
    flat.split(',').map(|path| first_name(path.trim()).to_owned()).filter(|name| !name.is_empty()).collect()
}

fn first_name(path: &str) -> &str {
    path.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()).next().unwrap_or_default()
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
        assert_eq!(names_after(&code(&text), ROOT), ["io", "tls"]);
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
    fn a_group_imports_each_of_its_modules() {
        let text = ["use ", "{a, b::{c, d},\n    e::f, g as h};"].join(SUPER);
        assert_eq!(names_after(&text, SUPER), ["a", "b", "e", "g"]);
    }

    /// Creates a module `up` with modules `a`, which imports `b`, and `b`.
    fn folder_with(b: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let up = folder.path().join("src/up");
        fs::create_dir_all(up.join("b")).unwrap();
        fs::write(up.join("a.rs"), format!("use {SUPER}{{Item, b::B}};")).unwrap();
        fs::write(up.join("b/c.rs"), b).unwrap();
        folder
    }

    #[test]
    #[should_panic(expected = "module cycle")]
    fn a_folder_with_a_cycle_fails() {
        let folder = folder_with(&format!("use {SUPER}{SUPER}a::A;"));
        assert_no_module_cycle_in(folder.path().to_str().unwrap(), "up", &[]);
    }

    #[test]
    #[should_panic(expected = "module cycle")]
    fn a_folder_with_a_cycle_by_absolute_paths_fails() {
        let folder = folder_with(&format!("use {ROOT}up::a::A;"));
        assert_no_module_cycle_in(folder.path().to_str().unwrap(), "up", &[]);
    }

    #[test]
    #[should_panic(expected = "module cycle")]
    fn a_folder_in_another_one_with_a_cycle_fails() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("src/up/in");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("a.rs"), format!("use {SUPER}b::B;")).unwrap();
        fs::write(inner.join("b.rs"), format!("use {ROOT}up::in::a::A;")).unwrap();
        assert_no_module_cycle_in(folder.path().to_str().unwrap(), "up::in", &[]);
    }

    #[test]
    fn exempt_modules_and_items_of_the_parent_form_no_cycle() {
        let folder = folder_with(&format!("use {ROOT}up::a::A;\nuse {SUPER}a::B;"));
        assert_no_module_cycle_in(folder.path().to_str().unwrap(), "up", &["b"]);
    }

    #[test]
    fn modules_of_this_crate_form_no_cycle() {
        assert_no_module_cycle(env!("CARGO_MANIFEST_DIR"));
    }
}
