//! Generates `docs/flags.md` from the table. A test compares the two; with `WRITE_DOCS=1` the test
//! writes the file instead.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::table;

const HEAD: &str = "# Flags of `sluice serve` and `sluice check`

This page lists the command line flags. It is generated from the table in `sluice/src/flags/table/`. Names and forms are those of
ingress-nginx, and so are defaults, except those of `--election-id` and `--post-shutdown-grace-period`. `--name value` and
`--name=value` are equivalent. A bool is `--name` or `--name=false` and never consumes the next word. Lists are separated by commas or
given by repetition. An unknown flag or an invalid value ends the program with status 2.
";

fn render() -> String {
    let mut text = HEAD.to_owned();
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
    assert!(written == render(), "docs/flags.md differs from the table; run the tests with WRITE_DOCS=1");
}
