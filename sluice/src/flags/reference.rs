//! `docs/flags.md`, made from the table. A test holds the file against it, so that neither can go without the
//! other; with `WRITE_DOCS=1` the test writes the file instead.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::table;

fn render() -> String {
    let mut text = "# Flags of `sluice serve` and `sluice check`\n\nMade from the table in `sluice/src/flags/table/`; \
                    names, forms and defaults are ingress-nginx's. `--name value` and\n`--name=value` are the same; \
                    a bool is `--name` or `--name=false` and never takes the next word; lists are given by commas\n\
                    or by repetition. An unknown flag or a bad value ends the program with status 2.\n"
        .to_owned();
    for group in table::GROUPS {
        write!(text, "\n## {}\n\n| flag | type | default | meaning |\n|---|---|---|---|\n", group.heading)
            .unwrap();
        for flag in group.flags {
            let default = if flag.default.is_empty() { String::new() } else { format!("`{}`", flag.default) };
            let effect = flag.value.without_effect();
            let effect = effect.map(|reason| format!(". **No effect**: {reason}")).unwrap_or_default();
            let kind = flag.value.type_name().to_lowercase();
            writeln!(text, "| `--{}` | {kind} | {default} | {}{effect} |", flag.name, flag.help).unwrap();
        }
    }
    text
}

#[test]
fn the_document_is_that_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/flags.md");
    if std::env::var_os("WRITE_DOCS").is_some() {
        fs::write(&path, render()).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == render(), "docs/flags.md is not what the table says; run the tests with WRITE_DOCS=1");
}
