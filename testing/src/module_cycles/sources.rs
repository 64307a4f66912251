//! The modules of a crate: their files, and what they import.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::paths::{NamedPath, code, paths, test_modules, uses};

/// The path of a module from the root of the crate, which has an empty one.
type ModulePath = Vec<String>;

/// The modules of a crate, without those for tests, and without programs beside it.
pub(super) struct Sources(BTreeMap<ModulePath, Source>);

/// A module.
#[derive(Default)]
pub(super) struct Source {
    /// Its file; empty for a folder without one.
    pub(super) file: String,
    paths: Vec<ModulePath>,
    /// The items that it has from elsewhere, by name.
    names: BTreeMap<String, ModulePath>,
}

/// The most re-exports by which an item reaches a module.
const MOST_RE_EXPORTS: usize = 8;

impl Sources {
    /// Reads the files below a folder.
    pub(super) fn read(folder: &Path) -> Self {
        let mut texts = BTreeMap::from([(Vec::new(), (String::new(), String::new()))]);
        read_folder(folder, &[], &mut texts);
        let mut of_tests = BTreeSet::new();
        for (module, (_, text)) in &texts {
            of_tests.extend(test_modules(text).into_iter().map(|name| child(module, name)));
        }
        texts.retain(|module, _| !(1..=module.len()).any(|depth| of_tests.contains(&module[..depth])));
        let modules: BTreeSet<ModulePath> = texts.keys().cloned().collect();
        let source = |(module, (file, text)): (ModulePath, (String, String))| {
            let code = code(&text);
            let absolute = |path| absolute(&module, path, &modules);
            let paths = paths(&code).into_iter().filter_map(|(path, _)| absolute(path)).collect();
            let named = |(path, name): NamedPath| Some((name, absolute(path)?));
            let names = uses(&code).into_iter().filter_map(named).collect();
            (module, Source { file, paths, names })
        };
        Self(texts.into_iter().map(source).collect())
    }

    /// Returns all modules.
    pub(super) fn modules(&self) -> impl Iterator<Item = (&ModulePath, &Source)> {
        self.0.iter()
    }

    /// Returns the imports of a module from modules beside it or beside one that contains it: the
    /// folder that contains both, and the module in it.
    pub(super) fn imports_of<'s>(
        &'s self,
        module: &'s [String],
        source: &'s Source,
    ) -> impl Iterator<Item = (&'s [String], String)> {
        source.paths.iter().filter_map(|path| self.import(module, path.clone(), &source.file))
    }

    fn import<'m>(
        &self,
        module: &'m [String],
        mut path: ModulePath,
        file: &str,
    ) -> Option<(&'m [String], String)> {
        for _ in 0..=MOST_RE_EXPORTS {
            let common = module.iter().zip(&path).take_while(|(one, other)| one == other).count();
            if common == module.len() {
                return None;
            }
            let name = path.get(common).map_or("", String::as_str);
            assert!(
                !["", "*"].contains(&name),
                "the import of `{}` hides which module is used: {file}; import the items",
                path.join("::")
            );
            if self.0.contains_key(&path[..=common]) {
                return Some((&module[..common], name.to_owned()));
            }
            match self.0[&path[..common]].names.get(name) {
                Some(origin) => path = [&origin[..], &path[common + 1..]].concat(),
                None => {
                    // The root of a crate only declares its modules and its interface.
                    assert!(common > 0, "`{name}` is no module of the crate: {file}; move it to one");
                    return None;
                }
            }
        }
        panic!("`{}` is re-exported too often: {file}", path.join("::"))
    }
}

/// Reads the files of a folder: file and text by module.
fn read_folder(folder: &Path, parent: &[String], texts: &mut BTreeMap<ModulePath, (String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_root = parent.is_empty() && ["lib", "main"].contains(&name);
        if name == "tests" || parent.is_empty() && name == "bin" {
            continue;
        }
        let module = if is_root { Vec::new() } else { child(parent, name) };
        if path.is_dir() {
            texts.entry(module.clone()).or_default();
            read_folder(&path, &module, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            texts.insert(module, (path.display().to_string(), text));
        }
    }
}

/// Returns the path from the root of the crate; `None` for one that begins in another crate.
fn absolute(module: &[String], path: ModulePath, modules: &BTreeSet<ModulePath>) -> Option<ModulePath> {
    let first = path.first()?;
    let ups = path.iter().take_while(|name| *name == "super").count();
    match &**first {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        "super" => Some([&module[..module.len().checked_sub(ups)?], &path[ups..]].concat()),
        first => modules.contains(&child(module, first)).then(|| [module, &path].concat()),
    }
}

fn child(parent: &[String], name: &str) -> ModulePath {
    [parent, &[name.to_owned()]].concat()
}
