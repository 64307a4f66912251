//! `docs/annotations.md`, `docs/configmap.md`, `docs/log-format.md`, `docs/support.md`, `docs/problems.md` and the counts in
//! `README.md` are made from tables. These tests hold the files against them; with `WRITE_DOCS=1` they write the files
//! instead.

use std::fs;
use std::path::Path;

use sluice_controller::translate::{annotations, tuning};

#[test]
fn the_list_of_annotations_is_that_of_the_table() {
    compare(
        "annotations.md",
        "# Annotations\n\nMade from the tables in `controller/src/translate/annotations/`. The prefix is \
         `nginx.ingress.kubernetes.io/` unless\n`--annotations-prefix` says otherwise; names with `sluice.dev/` in front are whole, and Sluice's own. What is not served yet fails \
         closed where it protects or changes answers: its routes\nanswer 503, whatever `annotations-risk-level` \
         says, and `sluice check` says why and what to do; what is harmless warns.\n\nThe column \
         \"unreadable value\" says what is done with a value that cannot be read. Where one thing is named, ingress-nginx \
         does the same.\n\n- *the default*: the value is ignored with a warning.\n- *skips the entry*: the other entries of \
         the list apply, with a warning.\n- *503*: the routes of the Ingress answer 503 until the value is corrected.\n\
         - *rejects the Ingress*: its routes answer 404 until the value is corrected (503 with \
         `--enable-annotation-validation=false`).\n- *ignored*: the annotation has no effect whatever its value.\n- *ignores all of its family*: \
         ingress-nginx then serves without the check or redirect that the annotation belongs to.\n- *ignored \
         without X*: without annotation X the annotation means nothing, whatever its value.\n\nAn Ingress is rejected or \
         closed only where serving it would disable a protection that its owner asked for, or would send\nrequests \
         elsewhere. A value with a word of `annotation-value-word-blocklist` rejects the Ingress too, and so does an\n\
         annotation that is served but has a higher risk than `annotations-risk-level` allows.\n\nA closed Ingress keeps its hosts and \
         paths, and the oldest Ingress still wins: nothing that it covers is served by a\nbroader path, a wildcard \
         host or the catch-all.\n\n",
        &annotations::markdown_table(),
    );
}

#[test]
fn the_list_of_configmap_keys_is_that_of_the_table() {
    compare(
        "configmap.md",
        "# ConfigMap keys\n\nMade from the tables in `controller/src/translate/tuning/`. The ConfigMap is the one that \
         `--configmap namespace/name`\nnames; changes apply live.\n\n\
         The column \"unreadable value\" says what is done with a value that cannot be read. The effect is the same in a \
         running\nprocess and after a restart, and the problem names it. Where one thing is named, ingress-nginx does the \
         same; where it *refuses\nits whole configuration*, nginx does not accept the text: a running process keeps the \
         configuration that it has, and a new one\nhas none. Sluice does not follow that, so that one value neither stops \
         all other changes nor waits for the next restart.\n\n- *the default*: the value is ignored, and the default \
         applies.\n- *skips the entry*: the other entries of the list apply; if none of an allow list can be read, all \
         routes answer 503.\n- *503 for all routes*: the key protects all routes, so that all are closed until the value \
         is corrected.\n- *ignored*: the key has no effect whatever its value.\n\
         - *ignores all of its family*: ingress-nginx then serves without the check that the key belongs to.\n\nA snippet that restricts access (`deny`, \
         `allow`, `return` with 4xx or 5xx, `auth_*`, `limit_*`, `satisfy`, `if`, `location`,\n`include` and the like) \
         closes all routes, because the routes would be open without it.\n\n",
        &tuning::markdown_table(),
    );
}

#[test]
fn what_is_served_is_counted_from_the_tables() {
    let table = format!(
        "## Annotations\n\n{}\n## ConfigMap keys\n\n{}",
        annotations::markdown_support("annotations.md"),
        tuning::markdown_support("configmap.md")
    );
    compare(
        "support.md",
        "# What is served of ingress-nginx's settings\n\nCounted from the tables that the program itself reads them \
         with. `sluice check` says what that means for a given cluster.\n\n",
        &table,
    );
}

#[test]
fn the_list_of_log_variables_is_that_of_the_table() {
    let head = format!(
        "# Format of the access log\n\nThe ConfigMap key `log-format-upstream` says what a line has: text with \
         variables, written `$name` or `${{name}}`. It is what\nstands between the quotes of nginx's `log_format`, so \
         that `\\\"`, `\\'`, `\\\\`, `\\t`, `\\r` and `\\n` mean what they mean there.\nA name that is not in the list \
         is refused, and the default format is in force.\n\nThe default is that of ingress-nginx, byte for \
         byte:\n\n    {}\n\nFor lines of JSON, set `log-format-escape-json` to `true` and write the braces and quotes \
         yourself:\n\n    {{\"time\": \"$time_iso8601\", \"status\": $status, \"path\": \"$uri\", \"took\": \
         $request_time}}\n\nWhere there is no value, a line has `-`; with `log-format-escape-json` or \
         `log-format-escape-none` it has nothing. Values of\nseveral attempts are separated by `, `.\n\n## \
         Variables\n\nMade from the table in `config/src/log_format.rs`.\n\n",
        sluice_config::LogFormat::DEFAULT
    );
    compare("log-format.md", &head, &sluice_config::log_format::markdown_table());
}

/// What people look for first: the README has it between two marks.
#[test]
fn the_readme_has_the_counts() {
    const MARKS: [&str; 2] =
        ["<!-- counts: made by the test of docs/support.md -->\n", "<!-- end of counts -->"];
    let line = |table: &str, of: &str| {
        let count = |support: &str| {
            let row = table.lines().find_map(|line| line.strip_prefix(&format!("| {support} | ")));
            row.and_then(|rest| rest.split(' ').next()).expect("a number").to_owned()
        };
        let counts = ["full", "partial", "ignored", "refused", "no effect"].map(count).join(" | ");
        format!("| {} {of} | {counts} |\n", count("all"))
    };
    let table = format!(
        "| of ingress-nginx's | served | served but for some values | ignored with a warning | refused: a route is closed, a \
         key is a problem | nothing that it could change |\n|---|---|---|---|---|---|\n{}{}",
        line(&annotations::markdown_support(""), "[annotations](docs/annotations.md)"),
        line(&tuning::markdown_support(""), "[ConfigMap keys](docs/configmap.md)"),
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let written = fs::read_to_string(&path).unwrap();
    let (before, rest) = written.split_once(MARKS[0]).expect("the first mark");
    let (_, after) = rest.split_once(MARKS[1]).expect("the second mark");
    let text = format!("{before}{}{table}{}{after}", MARKS[0], MARKS[1]);
    if std::env::var_os("WRITE_DOCS").is_some() {
        fs::write(&path, &text).unwrap();
    } else {
        assert!(
            written == text,
            "README.md has other counts than the tables; run the tests with WRITE_DOCS=1"
        );
    }
}

#[test]
fn the_list_of_problem_codes_is_that_of_the_table() {
    compare(
        "problems.md",
        "# Problems\n\nMade from the table in `config/src/problem/code.rs`. A problem names the object (with its \
         uid), the field, what is wrong\nand how to fix it. Its code never gets another meaning. The same problem goes \
         to the log, `sluice check` (`-o json`),\n`sluice problems` (`-o json`), the admin listener and the metrics \
         `sluice_problems` and `sluice_problems_by_code`.\n\nThe class says who has to do something: `own-fault` the \
         author of the object, `missing-reference` whoever makes what it\nnames, `conflict` the authors of two \
         objects, `not-served` whoever can do without what Sluice does not do, `data-plane`\nand `source` whoever \
         runs the gateway.\n\n",
        &sluice_config::problem::markdown_table(),
    );
}

fn compare(name: &str, head: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    let text = format!("{head}{table}");
    if std::env::var_os("WRITE_DOCS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == text, "docs/{name} is not what the table says; run the tests with WRITE_DOCS=1");
}
