//! Checks that the modules in each folder of a crate do not import each other in a cycle, so that
//! each can be read, tested and moved together with only those below it.
//!
//! The modules of one folder are compared with each other, at every depth. The module of the folder
//! is above all of them: an item of its own that one of them uses is no import, and an item that it
//! re-exports is an import of the module that the item comes from.

mod cycle;
mod paths;
mod sources;

use std::collections::BTreeMap;
use std::path::Path;

use cycle::{Imports, cycle};
use sources::Sources;

/// Panics if two modules of a folder import each other, directly or indirectly. The imports of the
/// modules in `exempt`, paths from the root of the crate, do not count in their folders.
///
/// `manifest_dir` is the crate's `CARGO_MANIFEST_DIR`.
///
/// # Panics
/// Also if the sources cannot be read, an exempt module does not exist or needs no exemption, or an
/// import hides which module it uses.
pub fn assert_no_module_cycle(manifest_dir: &str, exempt: &[&str]) {
    let folders = imports_by_folder(&Sources::read(&Path::new(manifest_dir).join("src")));
    let cycles = |exempt: &[&str]| -> Vec<String> {
        let left = folders.iter().map(|(folder, imports)| (folder, without(imports, folder, exempt)));
        left.filter_map(|(folder, imports)| describe(folder, &imports)).collect()
    };
    let found = cycles(exempt);
    assert!(
        found.is_empty(),
        "module cycle; move the shared code to a module below both:\n{}",
        found.join("\n")
    );
    for module in exempt {
        let others: Vec<&str> = exempt.iter().copied().filter(|other| other != module).collect();
        assert!(!cycles(&others).is_empty(), "module {module} forms no cycle; remove its exemption");
    }
}

/// Returns the imports between the modules of each folder, by the path of the folder.
fn imports_by_folder(sources: &Sources) -> BTreeMap<String, Imports> {
    let mut folders = BTreeMap::<String, Imports>::new();
    let mut count = 0;
    for (module, source) in sources.modules() {
        let Some((name, folder)) = module.split_last() else { continue };
        folders.entry(folder.join("::")).or_default().entry(name.clone()).or_default();
        for (folder, other) in sources.imports_of(module, source) {
            let own = module[folder.len()].clone();
            let imports = folders.entry(folder.join("::")).or_default().entry(own).or_default();
            imports.entry(other).or_insert_with(|| source.file.clone());
            count += 1;
        }
    }
    assert!(count > 0, "no import found: the sources were not read");
    folders
}

/// Returns the imports of the modules of a folder, except those of exempt modules.
fn without(imports: &Imports, folder: &str, exempt: &[&str]) -> Imports {
    let mut imports = imports.clone();
    for module in exempt {
        let (parent, name) = module.rsplit_once("::").unwrap_or(("", module));
        if parent == folder {
            imports.get_mut(name).unwrap_or_else(|| panic!("there is no module {module}")).clear();
        }
    }
    imports
}

/// Returns the steps of a cycle in a folder, if there is one.
fn describe(folder: &str, imports: &Imports) -> Option<String> {
    let cycle = cycle(imports)?;
    let step = |i: usize| {
        let other = cycle[(i + 1) % cycle.len()];
        format!("  {} imports {other} in {}", cycle[i], imports[cycle[i]][other])
    };
    let steps: Vec<String> = (0..cycle.len()).map(step).collect();
    Some(format!("in src/{}:\n{}", folder.replace("::", "/"), steps.join("\n")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The start of a path from the root of the crate, and from the parent of a module.
    const ROOT: &str = concat!("crate", "::");
    const SUPER: &str = concat!("super", "::");

    /// Checks a crate of these files.
    fn check(files: &[(&str, &str)], exempt: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join("src").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text.replace("root::", ROOT).replace("up::", SUPER)).unwrap();
        }
        assert_no_module_cycle(folder.path().to_str().unwrap(), exempt);
    }

    #[test]
    #[should_panic(expected = "module cycle")]
    fn a_crate_with_a_cycle_fails() {
        check(&[("a.rs", "use root::b::B;"), ("b.rs", "use root::a::A;")], &[]);
    }

    #[test]
    #[should_panic(expected = "in src/x/y:")]
    fn a_folder_at_any_depth_with_a_cycle_fails() {
        check(&[("x/y/a.rs", "use up::{Item, b::B};"), ("x/y/b/c.rs", "fn f() { root::x::y::a::f() }")], &[]);
    }

    #[test]
    #[should_panic(expected = "module cycle")]
    fn a_cycle_by_a_re_export_of_the_folder_fails() {
        let folder = ("x.rs", "mod a;\nmod b;\npub(crate) use a::{A as Renamed, Other};");
        check(&[folder, ("x/a.rs", "use up::b::B;"), ("x/b.rs", "use up::Renamed;")], &[]);
    }

    #[test]
    fn items_of_the_folder_form_no_cycle() {
        let folder = ("x.rs", "mod a;\nmod b;\nuse a::A;\nstruct Item;");
        check(&[folder, ("x/a.rs", "use up::Item;\nuse up::b::B;"), ("x/b.rs", "use root::x::Item;")], &[]);
    }

    #[test]
    fn exempt_modules_and_tests_form_no_cycle() {
        let tests = "#[cfg(test)]\nmod only;\nuse root::a::A;\nmod tests {\nuse root::c::C; }";
        let files = [("a.rs", "use root::b::B;"), ("b.rs", tests), ("b/only.rs", "use root::c::C;")];
        check(&[&files[..], &[("c.rs", "use root::b::B;")]].concat(), &["a"]);
    }

    #[test]
    #[should_panic(expected = "remove its exemption")]
    fn an_exemption_without_need_fails() {
        check(&[("a.rs", "use root::b::B;"), ("b.rs", "")], &["a"]);
    }

    #[test]
    #[should_panic(expected = "hides")]
    fn an_import_of_everything_in_the_folder_fails() {
        check(&[("x.rs", ""), ("x/a.rs", "use up::*;")], &[]);
    }

    #[test]
    fn modules_of_this_crate_form_no_cycle() {
        assert_no_module_cycle(env!("CARGO_MANIFEST_DIR"), &[]);
    }
}
