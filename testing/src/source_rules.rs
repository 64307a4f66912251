//! Checks rules for sources that rustfmt and clippy do not check: comments have at most 100
//! columns, and names of tests at most 70 characters.

use std::fs;
use std::path::Path;

/// Columns of a comment, with its indentation.
const COMMENT_WIDTH: usize = 100;
/// Characters of the name of a test.
const NAME_LENGTH: usize = 70;

/// Returns the lines of a source that break a rule, with their numbers.
fn faults(source: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_fault = |line: &str| is_wide_comment(line) || has_long_name(line);
    (1..).zip(source.lines()).filter(move |(_, line)| is_fault(line))
}

/// Returns whether a line consists of a comment that is too wide. Rows of tables, and lines of a
/// single word such as a link, cannot be wrapped.
fn is_wide_comment(line: &str) -> bool {
    let Some(text) = line.trim_start().strip_prefix("//") else { return false };
    let text = text.trim_start_matches(['/', '!']).trim();
    line.chars().count() > COMMENT_WIDTH && !text.starts_with('|') && text.contains(' ')
}

/// Returns whether a line declares a function whose name is too long, as only those of tests are.
fn has_long_name(line: &str) -> bool {
    let name = line.split_once("fn ").and_then(|(_, declaration)| declaration.split_once('('));
    name.is_some_and(|(name, _)| name.len() > NAME_LENGTH && !name.contains(' '))
}

/// Collects the faults of all sources below a folder.
fn check(folder: &Path, found: &mut Vec<String>, sources: &mut usize) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check(&path, found, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            *sources += 1;
            let source = fs::read_to_string(&path).unwrap();
            found
                .extend(faults(&source).map(|(number, line)| format!("{}:{number}: {line}", path.display())));
        }
    }
}

#[test]
fn comments_and_names_of_tests_are_not_too_long() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut found, mut sources) = (Vec::new(), 0);
    for entry in fs::read_dir(root).unwrap() {
        let part = entry.unwrap().path();
        for folder in ["src", "tests"].map(|name| part.join(name)) {
            if part.join("Cargo.toml").exists() && folder.exists() {
                check(&folder, &mut found, &mut sources);
            }
        }
    }
    assert!(sources > 100, "only {sources} sources found in {}", root.display());
    assert!(found.is_empty(), "too long:\n{}", found.join("\n"));
}

#[test]
fn only_comments_that_can_be_wrapped_count() {
    let wide = "word ".repeat(30);
    let source =
        format!("// short\n    /// {wide}\n//! | {wide} |\n// {}\nlet x = \"{wide}\";\n", "x".repeat(120));
    assert_eq!(faults(&source).map(|(number, _)| number).collect::<Vec<_>>(), [2]);
}

#[test]
fn names_of_71_characters_are_too_long() {
    let source = ["x".repeat(70), "y".repeat(71)].map(|name| format!("    fn {name}() {{"));
    assert_eq!(source.each_ref().map(|line| has_long_name(line)), [false, true]);
}
