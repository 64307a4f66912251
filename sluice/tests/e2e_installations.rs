//! `sluice check` on three typical installations, derived from the public documentation of the
//! software in them: a shop, a cluster of many teams with the annotations that their charts and
//! guides recommend, and a cluster behind oauth2-proxy that releases with canaries.
//!
//! The expected result is the start of the report: the number of problems per kind and per
//! annotation or field, and of responses per kind; for the shop, also the table of responses.
//! `WRITE_DOCS=1` updates it, which is necessary when an annotation becomes supported.

mod objects;
mod releases;
mod shop;
mod teams;

use std::fs;
use std::path::Path;

use crate::harness::Folder;
use crate::harness::gateway::run;

const SETTINGS: [&str; 2] = ["--configmap", "ingress-nginx/ingress-nginx-controller"];

/// Runs the check in all formats and compares its summary with the stored one. `requests` is
/// the flag for a file of requests, and its content; `status` the expected exit status.
fn check(name: &str, folder: &Folder, (flag, requests): (&str, String), status: i32) -> String {
    folder.write("requests", requests);
    let file = folder.file("requests");
    let said = |output: &str| {
        let words = [
            "check",
            "--manifests",
            folder.path().to_str().unwrap(),
            flag,
            file.to_str().unwrap(),
            "-o",
            output,
        ];
        let output = run(&[&words[..], &SETTINGS].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{error}");
        String::from_utf8(output.stdout).unwrap()
    };
    let (text, page, json, html) = (said("text"), said("markdown"), said("json"), said("html"));
    if let Some(folder) = std::env::var_os("KEEP_REPORTS") {
        for (ending, report) in [("txt", &text), ("md", &page), ("json", &json), ("html", &html)] {
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
    // The start of the page, its table of groups, and the table of responses if it is short.
    let mut sections = page.split("\n## ");
    let mut summary = sections.next().unwrap().to_owned();
    let responses = sections.find(|section| section.starts_with("Responses\n")).unwrap();
    if responses.lines().count() < 50 {
        summary += &format!("\n## {responses}");
    }
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e_installations").join(format!("{name}.md"));
    if std::env::var_os("WRITE_DOCS").is_some() {
        fs::write(&path, &summary).unwrap();
    }
    let pinned = fs::read_to_string(&path).unwrap_or_default();
    assert!(pinned == summary, "{} is another now; WRITE_DOCS=1 writes it:\n{summary}", path.display());
    text
}

#[test]
fn a_shop_gets_what_its_access_log_shows() {
    let folder = Folder::with(shop::objects());
    let text = check("shop", &folder, ("--access-log", shop::access_log()), 0);
    assert!(text.contains("0 different"), "{text}");
    assert!(text.contains("the request had a password, which the log does not contain"), "{text}");
}

#[test]
fn a_cluster_of_many_teams_gets_a_report_that_can_be_read() {
    let folder = Folder::with(teams::objects());
    let text = check("teams", &folder, ("--urls", teams::urls()), 1);
    assert!(text.contains("300 Ingress"), "{text}");
    let (_, problems) = text.split_once("\nerror ").unwrap();
    let lines = problems.lines().count();
    assert!(lines < 150, "{lines} lines of problems for 300 Ingresses");
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
    let text = check("releases", &folder, ("--urls", releases::urls()), 1);
    // Supported settings are not mentioned.
    for part in ["auth-signin", "auth-response-headers", "canary-weight]"] {
        assert!(!text.contains(&format!("{part}: ")), "{part}: {text}");
    }
}
