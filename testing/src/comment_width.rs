//! Checks that comments are at most 100 columns wide, which rustfmt checks only for code.

use std::fs;
use std::path::Path;

/// Columns of a comment, with its indentation.
const WIDTH: usize = 100;

/// Returns the lines of a source that consist of a comment and are too wide, with their numbers.
/// Rows of tables, and lines of a single word such as a link, cannot be wrapped.
fn too_wide(source: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(source.lines()).filter(|(_, line)| {
        let Some(text) = line.trim_start().strip_prefix("//") else { return false };
        let text = text.trim_start_matches(['/', '!']).trim();
        line.chars().count() > WIDTH && !text.starts_with('|') && text.contains(' ')
    })
}

/// Collects the faults of all sources below a folder.
fn check(folder: &Path, faults: &mut Vec<String>, sources: &mut usize) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check(&path, faults, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            *sources += 1;
            let source = fs::read_to_string(&path).unwrap();
            let faults_here =
                too_wide(&source).map(|(number, line)| format!("{}:{number}: {line}", path.display()));
            faults.extend(faults_here);
        }
    }
}

#[test]
fn comments_of_all_crates_have_at_most_100_columns() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut faults, mut sources) = (Vec::new(), 0);
    for entry in fs::read_dir(root).unwrap() {
        let part = entry.unwrap().path();
        for folder in ["src", "tests"].map(|name| part.join(name)) {
            if part.join("Cargo.toml").exists() && folder.exists() {
                check(&folder, &mut faults, &mut sources);
            }
        }
    }
    assert!(sources > 100, "only {sources} sources found in {}", root.display());
    assert!(faults.is_empty(), "comments wider than {WIDTH} columns:\n{}", faults.join("\n"));
}

#[test]
fn only_comments_that_can_be_wrapped_count() {
    let wide = "word ".repeat(30);
    let source =
        format!("// short\n    /// {wide}\n//! | {wide} |\n// {}\nlet x = \"{wide}\";\n", "x".repeat(120));
    assert_eq!(too_wide(&source).map(|(number, _)| number).collect::<Vec<_>>(), [2]);
}
