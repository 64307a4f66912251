//! The command line of the real program.

use std::net::TcpListener;

use crate::harness::gateway::run;
use crate::harness::{Folder, Gateway, get, ports};

/// Runs the program to its end. Returns its status and standard error.
fn outcome(words: &[&str]) -> (Option<i32>, String) {
    let output = run(words);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_bad_command_line_ends_the_program_with_one_line() {
    let folder = Folder::with("");
    let manifests = folder.path().to_str().unwrap();
    for (words, part) in [
        (vec!["--no-such-flag"], "--no-such-flag"),
        (vec!["--manifests", manifests, "--http-prt", "80"], "--http-port"),
        (vec!["--manifests", manifests, "--http-port", "many"], "\"many\""),
        (vec!["--manifests", manifests, "--publish-service=a/b", "--publish-status-address=c"], "exclude"),
        (vec!["--manifests", manifests, "--watch-namespace-selector", "env in prod"], "label selector"),
        (vec!["check", "--manifests", manifests, "--watch-namespace-selector", "a b"], "label selector"),
        (vec!["serve"], "--manifests"),
        (vec!["fly"], "\"fly\""),
    ] {
        let (status, text) = outcome(&words);
        assert_eq!(status, Some(2), "{words:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{words:?}: {text}");
        assert!(text.contains(part), "{words:?}: {text}");
    }
}

#[test]
fn a_folder_that_is_not_there_ends_the_program_with_one_line() {
    let (status, text) = outcome(&["--manifests", "/no/such/folder"]);
    assert_eq!(status, Some(2), "{text}");
    assert!(text.lines().count() == 1 && text.contains("/no/such/folder"), "{text}");
}

#[test]
fn a_busy_port_ends_the_program_and_names_its_flag() {
    let folder = Folder::with("");
    for busy in ["http-port", "https-port", "healthz-port"] {
        let listener = TcpListener::bind(("0.0.0.0", ports::reserve())).unwrap();
        let taken = listener.local_addr().unwrap().port();
        let mut words = vec!["--manifests".to_owned(), folder.path().display().to_string()];
        for flag in ["http-port", "https-port", "healthz-port"] {
            let port = if flag == busy { taken } else { ports::reserve() };
            words.push(format!("--{flag}={port}"));
        }
        words.push(format!("--admin-address=127.0.0.1:{}", ports::reserve()));
        let (status, text) = outcome(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(status.is_some_and(|status| status != 0), "{busy}: {text}");
        let said = format!("port {taken} is already in use");
        assert!(text.contains(&said) && text.contains(&format!("--{busy}")), "{busy}: {text}");
    }
}

#[test]
fn a_flag_without_effect_is_reported_and_the_program_runs() {
    let gateway = Gateway::with(&Folder::with(""), &["--log_dir=a/b", "--vmodule", "x", "--v=2"]);
    for flag in ["--log_dir", "--vmodule"] {
        let log = gateway.program_log();
        let lines: Vec<&String> = log.iter().filter(|line| line.contains(flag)).collect();
        assert_eq!(lines.len(), 1, "{flag}: {log:?}");
        assert!(lines[0].contains("no effect"), "{lines:?}");
    }
    assert!(!gateway.program_log().iter().any(|line| line.contains("--v ")));
}

#[test]
fn version_and_help_go_to_standard_output() {
    let output = run(&["--version"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, format!("sluice {}\n", env!("CARGO_PKG_VERSION")));
    let output = run(&["--help"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for subcommand in ["serve", "check", "routes", "backends", "certs", "problems"] {
        assert!(text.contains(subcommand), "{text}");
    }
}

#[test]
fn the_health_path_can_be_another() {
    let gateway = Gateway::with(&Folder::with(""), &["--health-check-path", "/ready"]);
    assert_eq!(gateway.probe("/ready").map(|response| response.status), Some(200));
    assert_eq!(gateway.probe("/livez").map(|response| response.status), Some(200));
    assert_eq!(gateway.probe("/nothing").map(|response| response.status), Some(404));
}

/// Load balancers check it at the ports of clients. It stayed at `/healthz` there.
#[test]
fn the_health_path_of_the_client_ports_follows_the_flag() {
    let gateway = Gateway::with(&Folder::with(""), &["--health-check-path", "/lb/Ready"]);
    let status = |path: &str| get(gateway.http, "192.0.2.1", path).status;
    assert_eq!(status("/lb/Ready"), 200);
    assert_eq!(status("/lb/Ready/x"), 200, "a prefix location in ingress-nginx");
    assert_eq!(status("/healthz"), 404);
}
