//! The paths in the text of a file.

/// The words that begin a path to another module of the crate.
const STARTS: [&str; 2] = [concat!("crate", "::"), concat!("super", "::")];

/// A path, and the name that a `use` gives to what it names.
pub(super) type NamedPath = (Vec<String>, String);

/// Returns the lines of a file outside of comments and tests.
pub(super) fn code(text: &str) -> String {
    let program = text.split("mod tests {").next().unwrap_or(text);
    let mut is_of_tests = false;
    let lines = program.lines().filter(|line| {
        let line = line.trim_start();
        let keeps = !line.starts_with("//") && !is_of_tests;
        is_of_tests = line == "#[cfg(test)]";
        keeps
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the modules of files that a file declares for tests.
pub(super) fn test_modules(text: &str) -> Vec<&str> {
    let after = text.split("#[cfg(test)]\n").skip(1).filter_map(|after| after.lines().next());
    after.filter_map(|line| line.rsplit_once("mod ")?.1.strip_suffix(';')).collect()
}

/// Returns all paths of the code from the root of the crate or from a parent.
pub(super) fn paths(code: &str) -> Vec<NamedPath> {
    let mut found = Vec::new();
    for start in STARTS {
        for (at, _) in code.match_indices(start) {
            let before = &code[..at];
            let continues = before.ends_with(|c: char| c == ':' || is_of_name(c));
            // The path of `pub(in ...)` is no import.
            if !continues && !before.ends_with("(in ") {
                read_tree(&code[at..], &[], &mut found);
            }
        }
    }
    found
}

/// Returns the paths that the `use` declarations of the code bring into scope.
pub(super) fn uses(code: &str) -> Vec<NamedPath> {
    let mut found = Vec::new();
    for (at, word) in code.match_indices("use ") {
        if at == 0 || code[..at].ends_with(char::is_whitespace) {
            read_tree(&code[at + word.len()..], &[], &mut found);
        }
    }
    found
}

/// Reads a path with its groups. Returns the text behind it.
fn read_tree<'c>(text: &'c str, prefix: &[String], found: &mut Vec<NamedPath>) -> &'c str {
    let (mut path, mut rest) = (prefix.to_vec(), text);
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            return read_group(group, &path, found);
        }
        let name = name_at(rest);
        rest = &rest[name.len()..];
        match name {
            "" => break,
            // The parent of a group.
            "self" if !path.is_empty() => break,
            name => path.push(name.to_owned()),
        }
        match rest.strip_prefix("::") {
            Some(further) => rest = further,
            None => break,
        }
    }
    let alias = rest.strip_prefix(" as ").map(name_at);
    let name = alias.map(str::to_owned).or_else(|| path.last().cloned());
    found.extend(name.map(|name| (path, name)));
    rest.strip_prefix(" as ").map_or(rest, |rest| &rest[name_at(rest).len()..])
}

/// Reads the paths of a group. Returns the text behind it.
fn read_group<'c>(group: &'c str, path: &[String], found: &mut Vec<NamedPath>) -> &'c str {
    let mut rest = group;
    loop {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
        match rest.strip_prefix('}') {
            Some(behind) => return behind,
            None if rest.starts_with(|c| c == '*' || is_of_name(c)) => rest = read_tree(rest, path, found),
            None => return rest,
        }
    }
}

fn name_at(text: &str) -> &str {
    if text.starts_with('*') {
        return &text[..1];
    }
    &text[..text.find(|c| !is_of_name(c)).unwrap_or(text.len())]
}

fn is_of_name(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(paths: Vec<NamedPath>) -> Vec<String> {
        paths.into_iter().map(|(path, name)| format!("{} = {name}", path.join("::"))).collect()
    }

    #[test]
    fn paths_in_comments_and_tests_do_not_count() {
        let text =
            ["use ", "io::x;\n// ", "no;\n ", "tls::y()\n#[cfg(test)]\nuse ", "no;\nmod tests { ", "no;"];
        let found = joined(paths(&code(&text.join(STARTS[0]))));
        assert_eq!(found, ["io::x = x", "tls::y = y"].map(|path| format!("crate::{path}")));
    }

    #[test]
    fn a_group_has_the_path_of_each_of_its_items() {
        let [_, up] = STARTS;
        let text = format!("use {up}{{a, b::{{self, c as d}},\n    e::*}};\nfn f() {{ {up}{up}g::<h>() }}");
        let expected = ["a = a", "b = b", "b::c = d", "e::* = *", "super::g = g"];
        assert_eq!(joined(paths(&text)), expected.map(|path| format!("super::{path}")));
        assert_eq!(joined(uses("mod a;\npub use a::{B, c::C};")), ["a::B = B", "a::c::C = C"]);
    }

    #[test]
    fn modules_for_tests_are_found() {
        let text = "mod a;\n#[cfg(test)]\npub(crate) mod b;\n#[cfg(test)]\nfn c() {}\n";
        assert_eq!(test_modules(text), ["b"]);
    }
}
