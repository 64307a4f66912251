//! Checks rules that rustfmt and clippy do not check: comments have at most 100 columns, in Rust,
//! Go, JavaScript, scripts, YAML, TOML and templates of the chart, and names of tests at most 70
//! characters.

use std::fs;
use std::path::Path;

/// Columns of a comment, with its indentation.
const COMMENT_WIDTH: usize = 100;
/// Characters of the name of a test.
const NAME_LENGTH: usize = 70;

/// Folders below which nothing is checked: output of builds, and inputs of fuzz targets.
const SKIPPED: [&str; 4] = ["target", "seeds", "corpus", "artifacts"];

/// How a file marks the lines of a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommentSyntax {
    /// `//`.
    Slashes,
    /// `#`; in templates of the chart also from `/*` to `*/`.
    Hash,
}

impl CommentSyntax {
    /// Returns that of a file, if its comments are checked.
    fn of(file: &Path) -> Option<Self> {
        match file.extension().map(|extension| extension.to_str()) {
            Some(Some("rs" | "go" | "js" | "mod" | "proto")) => Some(Self::Slashes),
            // Scripts, Makefile and Containerfile have no extension.
            Some(Some("toml" | "yaml" | "tpl" | "mk")) | None => Some(Self::Hash),
            Some(_) => None,
        }
    }

    /// Returns the text of a line that consists of a comment.
    fn text(self, line: &str) -> Option<&str> {
        let line = line.trim_start();
        match self {
            Self::Slashes => line.strip_prefix("//").map(|text| text.trim_start_matches(['/', '!'])),
            Self::Hash => line.strip_prefix('#'),
        }
    }
}

/// Returns the lines of a source that break a rule, with their numbers.
fn faults(source: &str, syntax: CommentSyntax) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    (1..).zip(source.lines()).filter(move |(_, line)| {
        let action = line.strip_prefix("{{").filter(|_| syntax == CommentSyntax::Hash);
        let opens = action.is_some_and(|action| action.trim_start_matches(['-', ' ']).starts_with("/*"));
        let is_block = in_block || opens;
        in_block = is_block && !line.contains("*/");
        let text = if is_block { Some(*line) } else { syntax.text(line) };
        text.is_some_and(|text| is_too_wide(line, text.trim())) || has_long_name(line)
    })
}

/// Returns whether the line of a comment is too wide. Rows of tables, and lines of a single word
/// such as a link, cannot be wrapped.
fn is_too_wide(line: &str, text: &str) -> bool {
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
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if SKIPPED.contains(&&*name) || name.starts_with('.') && name != ".ci" {
            continue;
        }
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            check(&path, found, sources);
        } else if let Some(syntax) = CommentSyntax::of(&path) {
            // A file that is not text has no comments.
            let Ok(source) = fs::read_to_string(&path) else { continue };
            *sources += 1;
            let faults = faults(&source, syntax);
            found.extend(faults.map(|(number, line)| format!("{}:{number}: {line}", path.display())));
        }
    }
}

#[test]
fn comments_and_names_of_tests_are_not_too_long() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut found, mut sources) = (Vec::new(), 0);
    check(root, &mut found, &mut sources);
    assert!(sources > 100, "only {sources} sources found in {}", root.display());
    assert!(found.is_empty(), "too long:\n{}", found.join("\n"));
}

#[test]
fn only_comments_that_can_be_wrapped_count() {
    let wide = "word ".repeat(30);
    let source =
        format!("// short\n    /// {wide}\n//! | {wide} |\n// {}\nlet x = \"{wide}\";\n", "x".repeat(120));
    assert_eq!(numbers(&source, CommentSyntax::Slashes), [2]);
}

#[test]
fn comments_of_scripts_and_templates_count() {
    let wide = "word ".repeat(30);
    let source =
        format!("  # {wide}\nrun {wide}\n{{{{- /*\n{wide}\n*/}}}}\n{{{{ x \"/*\" }}}}\n{wide}\n// {wide}\n");
    assert_eq!(numbers(&source, CommentSyntax::Hash), [1, 4]);
    let syntax = |name: &str| CommentSyntax::of(Path::new(name));
    assert_eq!(syntax("Makefile"), Some(CommentSyntax::Hash));
    assert_eq!(syntax("charts/sluice/templates/_names.tpl"), Some(CommentSyntax::Hash));
    assert_eq!(syntax("docs/README.md"), None);
}

fn numbers(source: &str, syntax: CommentSyntax) -> Vec<usize> {
    faults(source, syntax).map(|(number, _)| number).collect()
}

#[test]
fn names_of_71_characters_are_too_long() {
    let source = ["x".repeat(70), "y".repeat(71)].map(|name| format!("    fn {name}() {{"));
    assert_eq!(source.each_ref().map(|line| has_long_name(line)), [false, true]);
}
