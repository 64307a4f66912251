//! Checks the commands and links of the documents against the flags of the program and of its
//! plugin, the targets of make, the values of the chart, the tests and the headings of other pages.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::chart_names::{ChartNames, NAMED};
use crate::flags;
use crate::plugin::arguments::{COMMANDS, PluginArguments};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the paths of all documents.
fn documents() -> Vec<String> {
    let mut all: Vec<String> = ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned).into();
    for folder in ["docs", "docs/architecture", "docs/decisions", "charts/sluice"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                all.push(format!("{folder}/{name}"));
            }
        }
    }
    all.sort();
    all
}

/// Returns the commands of a document: the lines of its code blocks, without comments, with
/// continuation lines joined.
fn commands(text: &str) -> Vec<String> {
    let (mut all, mut fenced, mut before) = (Vec::new(), None, String::new());
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fenced = match fenced {
                None => Some(language.to_owned()),
                Some(_) => None,
            };
            continue;
        }
        let line = match &fenced {
            Some(language) if language == "sh" => line,
            Some(_) => continue,
            None => match line.strip_prefix("    ") {
                Some(line) => line,
                None => continue,
            },
        };
        let line = line.trim();
        let line = line.split_once(" #").map_or(line, |(line, _)| line).trim_end();
        match line.strip_suffix('\\') {
            Some(part) => before += part,
            None => {
                let whole = std::mem::take(&mut before) + line;
                all.extend(
                    whole.split(" && ").flat_map(|one| one.split(" | ")).map(|one| one.trim().to_owned()),
                );
            }
        }
    }
    all
}

/// Splits a command into words as a shell would, as far as the documents use shell syntax.
fn words(command: &str) -> Vec<String> {
    let (mut all, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in command.chars() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None, c) if c.is_whitespace() => {
                all.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
            }
            _ => word.push(c),
        }
    }
    all.extend(Some(word).filter(|word| !word.is_empty()));
    let variable = |word: &String| {
        word.split_once('=')
            .is_some_and(|(name, _)| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
    };
    let redirected = all.iter().position(|word| word == ">" || word == "&").unwrap_or(all.len());
    all.truncate(redirected);
    all.into_iter().skip_while(variable).collect()
}

/// Returns the error of a command, if its program is one of those that this test covers.
fn fault(command: &str) -> Option<String> {
    let words = words(command);
    let program = words.first()?.as_str();
    let rest = &words[1..];
    match program {
        "sluice" | "target/release/sluice" => asked(rest),
        "kubectl" if rest.first().is_some_and(|word| word == "sluice") => plugin(&rest[1..]),
        "kubectl" => {
            let inside = rest.iter().position(|word| word == "/sluice")?;
            asked(&rest[inside + 1..])
        }
        "make" => {
            let makefiles = read("Makefile") + &read("lab/lab.mk");
            let target = |name: &&String| !name.contains('=') && !name.starts_with('-');
            let missing =
                |name: &&String| !makefiles.lines().any(|line| line.starts_with(&format!("{name}:")));
            rest.iter().filter(target).find(missing).map(|name| format!("make has no target {name}"))
        }
        "helm" if rest.iter().any(|word| word == "charts/sluice") => values(rest),
        "cargo" => {
            let tests = rest.windows(2).filter(|two| two[0] == "--test").map(|two| &two[1]);
            let places = ["lab/tests", "controller/tests", "sluice/tests"];
            let there = |name: &str| {
                places.iter().any(|place| {
                    let place = root().join(place);
                    place.join(format!("{name}.rs")).exists() || place.join(name).join("main.rs").exists()
                })
            };
            let mut tests = tests.filter(|name| !name.contains('*'));
            tests.find(|name| !there(name)).map(|name| format!("there is no test {name}"))
        }
        _ => None,
    }
}

/// Returns the error of parsing these arguments of the program.
fn asked(words: &[String]) -> Option<String> {
    let pod = |name: &str| (name == "POD_NAMESPACE").then(|| "edge".to_owned());
    match flags::parse(words.iter().map(OsString::from), pod) {
        Err(error) => Some(error.to_string()),
        Ok(flags::ParsedCommandLine { command: flags::Command::Check(check), .. }) => {
            check.without_effect.first().map(|(flag, reason)| format!("--{flag}: {reason}"))
        }
        Ok(parsed) => parsed.warnings.into_iter().next(),
    }
}

/// Returns the error of parsing these arguments of the plugin.
fn plugin(words: &[String]) -> Option<String> {
    let read = match PluginArguments::read(words.iter().cloned()) {
        Ok(read) => read,
        Err(error) => return Some(error.to_string()),
    };
    let command = read.command.as_str();
    match command {
        "" | "logs" | "ingresses" | "version" => None,
        "check" => asked(&[&["check".to_owned(), "--kubeconfig=k".to_owned()], &*read.rest].concat()),
        _ if !COMMANDS.contains(&command) => Some(format!("the plugin has no {command}")),
        _ => asked(&[&[command.to_owned()], &*read.rest].concat()),
    }
}

/// Returns the first value that a command sets and the chart does not have.
fn values(words: &[String]) -> Option<String> {
    let schema: Value = serde_json::from_str(&read("charts/sluice/values.schema.json")).unwrap();
    let set = words.windows(2).filter(|two| two[0] == "--set").map(|two| &two[1]);
    let mut paths = set.flat_map(|all| all.split(',')).filter_map(|one| Some(one.split_once('=')?.0));
    let names = ChartNames::read();
    let is_known = |path: &str| {
        let named = path.rsplit_once('.').filter(|(map, _)| NAMED.contains(map));
        match named {
            Some((map, name)) => names.contains(map, name),
            None => path.split('.').try_fold(&schema, |at, key| at["properties"].get(key)).is_some(),
        }
    };
    paths.find(|path| !is_known(path)).map(|path| format!("the chart has no value {path}"))
}

#[test]
fn every_command_of_the_documents_exists() {
    let (mut faults, mut known) = (Vec::new(), 0);
    for document in documents() {
        for command in commands(&read(&document)) {
            let first = command.split_whitespace().next().unwrap_or_default();
            known += usize::from(["sluice", "make", "helm", "cargo", "kubectl"].contains(&first));
            faults.extend(fault(&command).map(|fault| format!("{document}: {command}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(known > 40, "only {known} commands were found");
}

/// Returns the anchors of a document: its headings as GitHub spells them, and explicit ids.
fn anchors(text: &str) -> HashSet<String> {
    let mut fenced = false;
    let mut anchors = HashSet::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if let Some(heading) = line.strip_prefix('#').filter(|_| !fenced) {
            let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
            let heading = heading.trim_start_matches('#').trim().to_lowercase();
            anchors.insert(heading.chars().filter(kept).collect::<String>().replace(' ', "-"));
        }
        let ids = line.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next());
        anchors.extend(ids.map(str::to_owned));
    }
    anchors
}

/// Returns what is wrong with a link of a document, if anything.
fn broken(document: &str, link: &str) -> Option<String> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    if path.contains("://") {
        return None;
    }
    let file = match path {
        "" => root().join(document),
        path => root().join(document).parent().unwrap().join(path),
    };
    if !file.exists() {
        return Some(format!("{document}: {link}: the file does not exist"));
    }
    let known = anchor.is_empty() || anchors(&fs::read_to_string(file).unwrap()).contains(anchor);
    (!known).then(|| format!("{document}: {link}: the page has no such heading"))
}

#[test]
fn every_link_of_the_documents_has_a_target() {
    let (mut faults, mut with_anchor) = (Vec::new(), 0);
    for document in documents() {
        let text = read(&document);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            with_anchor += usize::from(link.contains('#'));
            faults.extend(broken(&document, link));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(with_anchor > 20, "only {with_anchor} links with an anchor were found");
}

#[test]
fn a_link_to_a_missing_file_or_heading_is_reported() {
    assert!(broken("docs/README.md", "nothing.md").is_some());
    assert!(broken("docs/README.md", "install.md#no-such-heading").is_some());
    assert_eq!(broken("docs/README.md", "install.md#important-values"), None);
    let anchors = anchors("# A `b`, c_d: e-f\n```sh\n# comment\n```\n<a id=\"g\"></a>\n");
    assert_eq!(anchors, HashSet::from(["a-b-c_d-e-f".to_owned(), "g".to_owned()]));
}

/// Maximum number of lines of a page that is written by hand. A longer one has several purposes.
const PAGE_LINES: usize = 150;

/// Returns whether a page is generated, as its first lines state, or contains the figures of a run.
fn is_generated(text: &str) -> bool {
    text.lines().take(10).any(|line| line.contains("is generated from"))
        || text.contains("<!-- figures: written by")
}

#[test]
fn pages_written_by_hand_have_at_most_150_lines() {
    let pages: Vec<(String, String)> =
        documents().into_iter().map(|document| (read(&document), document)).collect();
    let by_hand: Vec<_> = pages.iter().filter(|(text, _)| !is_generated(text)).collect();
    let lines = by_hand.iter().map(|(text, document)| (document, text.lines().count()));
    let long: Vec<_> = lines.filter(|(_, lines)| *lines > PAGE_LINES).collect();
    assert!(long.is_empty(), "split by purpose: {long:?}");
    assert!(by_hand.len() > 50, "only {} pages written by hand were found", by_hand.len());
}

#[test]
fn every_page_is_linked_from_an_index() {
    for (folder, index) in [
        ("docs/", "docs/README.md"),
        ("docs/decisions/", "docs/decisions/README.md"),
        ("docs/architecture/", "docs/architecture.md"),
    ] {
        let text = read(index);
        let pages = documents();
        let names = pages.iter().filter_map(|page| page.strip_prefix(folder));
        for name in names.filter(|name| !name.contains('/') && *name != "README.md") {
            assert!(text.contains(&format!("{name})")), "{folder}{name} is not linked from {index}");
        }
    }
}

#[test]
fn the_manifest_of_the_plugin_has_the_version_of_the_workspace() {
    let manifest = read("charts/krew/sluice.yaml");
    assert!(manifest.contains(concat!("\n  version: v", env!("CARGO_PKG_VERSION"), "\n")), "{manifest}");
}

#[test]
fn missing_documents_are_detected() {
    for command in [
        "sluice serve --manifest DIR",
        "make bencj",
        "kubectl sluice rootes",
        "kubectl sluice routes --hots a",
        "kubectl -n a exec deploy/b -- /sluice problem",
        "helm install sluice charts/sluice --set controller.replicaCuont=2",
        "helm install sluice charts/sluice --set controller.extraArgs.update-statsu=false",
        "cargo test --test clusters",
        "sluice serve --manifests m --enable-ssl-chain-completion",
    ] {
        assert!(fault(command).is_some(), "{command}");
    }
    assert_eq!(
        fault("helm install sluice charts/sluice --set controller.extraArgs.update-status=false"),
        None
    );
    assert_eq!(fault("sluice routes --header 'x: y' --host a"), None);
    let commands = commands(
        "```sh\nmake build   # a comment\nsluice check \\\n  --manifests m && make run\n```\n```rust\nmake x\n```\n",
    );
    assert_eq!(commands, ["make build", "sluice check --manifests m", "make run"]);
}
