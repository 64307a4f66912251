//! `sluice check` on two typical installations, derived from the public documentation of the
//! software in them: a cluster of many teams with the annotations that their charts and guides
//! recommend, and a cluster behind oauth2-proxy that releases with canaries.
//!
//! The expected result is the table of the report: the number of problems per kind and per
//! annotation or field. `WRITE_DOCS=1` updates it, which is necessary when an annotation becomes
//! supported.

mod objects;
mod releases;
mod teams;

use std::fs;
use std::path::Path;

use crate::harness::Folder;
use crate::harness::gateway::run;

/// Runs the check in all three formats and compares its summary with the stored one.
fn check(name: &str, folder: &Folder, flags: &[&str]) -> String {
    let said = |output: &str| {
        let words = ["check", "--manifests", folder.path().to_str().unwrap(), "-o", output];
        let output = run(&[&words, flags].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        String::from_utf8(output.stdout).unwrap()
    };
    let (text, page, json) = (said("text"), said("markdown"), said("json"));
    if let Some(folder) = std::env::var_os("KEEP_REPORTS") {
        for (ending, report) in [("txt", &text), ("md", &page), ("json", &json)] {
            fs::write(Path::new(&folder).join(format!("{name}.{ending}")), report).unwrap();
        }
    }
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    let problems = answer["problems"].as_array().unwrap();
    for problem in problems {
        for part in ["message", "remedy"] {
            assert!(!problem[part].as_str().unwrap_or_default().is_empty(), "{problem}");
        }
    }
    let groups = answer["groups"].as_array().unwrap();
    let counted: u64 = groups.iter().filter_map(|group| group["problems"].as_u64()).sum();
    assert_eq!(counted, problems.len() as u64, "every problem is in one group");
    // The start of the page with its table, up to the first section.
    let summary = page.split("\n## ").next().unwrap();
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e_installations").join(format!("{name}.md"));
    if std::env::var_os("WRITE_DOCS").is_some() {
        fs::write(&path, summary).unwrap();
    }
    let pinned = fs::read_to_string(&path).unwrap_or_default();
    assert!(pinned == summary, "{} is another now; WRITE_DOCS=1 writes it:\n{summary}", path.display());
    text
}

#[test]
fn a_cluster_of_many_teams_gets_a_report_that_can_be_read() {
    let folder = Folder::with(teams::objects());
    let text = check("teams", &folder, &["--configmap", "ingress-nginx/ingress-nginx-controller"]);
    assert!(text.contains("300 Ingress"), "{text}");
    let lines = text.lines().count();
    assert!(lines < 150, "{lines} lines for 300 Ingresses");
    // The parts that an operator looks for first.
    for part in [
        "configuration-snippet",
        "team-00/",
        "did you mean",
        "the same with other names",
        "HTTPS: without it",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_cluster_behind_oauth2_proxy_that_releases_with_canaries_is_served() {
    let folder = Folder::with(releases::objects());
    let text = check("releases", &folder, &["--configmap", "ingress-nginx/ingress-nginx-controller"]);
    // Supported settings are not mentioned.
    for part in ["auth-signin", "auth-response-headers", "canary-weight]"] {
        assert!(!text.contains(&format!("{part}: ")), "{part}: {text}");
    }
}
