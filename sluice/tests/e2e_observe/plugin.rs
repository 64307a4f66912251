//! The same commands as the plugin, with a substitute for kubectl whose Pods are two gateways.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use sluice_testing::program;
use tempfile::TempDir;

use super::{HOST, Reader, files, text};
use crate::harness::manifest::service_with;
use crate::harness::{Backend, Folder, Gateway, Ingress, await_until, get};

/// Two replicas, of which the second has another rule and lacks one of the first.
struct Cluster {
    folder: TempDir,
    _backend: Backend,
    _manifests: [Folder; 2],
    gateways: [Gateway; 2],
}

impl Cluster {
    fn start() -> Self {
        let backend = Backend::echo("shop");
        let manifests = [&["/", "/new"][..], &["/"]].map(|paths| {
            let ingress = Ingress::new("shop");
            let ingress = paths.iter().fold(ingress, |ingress, path| ingress.path(HOST, path, "shop"));
            Folder::with(ingress.text() + &service_with("shop", &[&backend]))
        });
        let gateways = [0, 1].map(|at| Gateway::with(&manifests[at], &["--enable-metrics"]));
        let folder = tempfile::tempdir().unwrap();
        symlink(program::find("sluice").unwrap(), folder.path().join("kubectl-sluice")).unwrap();
        let pod = |name: &str, ready: &str| {
            json!({
                "metadata": {"namespace": "edge", "name": name},
                "spec": {"containers": [{"name": "controller", "args": ["serve", "--admin-address=127.0.0.1:9999"]}]},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
            })
        };
        let pods = json!({"items": [pod("a", "True"), pod("b", "False")]});
        fs::write(folder.path().join("pods.json"), pods.to_string()).unwrap();
        let [a, b] = gateways.each_ref().map(|gateway| gateway.admin);
        let script = format!(
            "#!/bin/sh\necho \"$*\" >> {0}/calls\ncase \"$*\" in\n\
             'get pods'*) cat {0}/pods.json ;;\n\
             'port-forward pod/a'*) echo $$ > {0}/forward; echo 'Forwarding from {a} -> 9999'; exec sleep 30 ;;\n\
             'port-forward pod/b'*) echo 'Forwarding from {b} -> 9999'; exec sleep 30 ;;\n\
             'logs a'*) echo 'GET /?token=hunter2 HTTP/1.1' ;;\n\
             *) echo \"error: $*\" >&2; exit 1 ;;\nesac\n",
            folder.path().display()
        );
        let kubectl = folder.path().join("kubectl");
        fs::write(&kubectl, script).unwrap();
        fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder, _backend: backend, _manifests: manifests, gateways }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.folder.path().join("kubectl-sluice"));
        let path = std::env::var("PATH").unwrap_or_default();
        command.args(words).env("PATH", format!("{}:{path}", self.folder.path().display()));
        command.current_dir(self.folder.path());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.folder.path().join("calls")).unwrap()
    }
}

#[test]
fn top_adds_replicas_and_names_the_one_that_differs() {
    let cluster = Cluster::start();
    let top = cluster.command(&["top", "--all", "--interval", "2s", "-o", "json"]);
    let mut top = { top }.stdout(Stdio::piped()).spawn().unwrap();
    let mut asked = 0;
    while top.try_wait().unwrap().is_none() {
        for gateway in &cluster.gateways {
            asked += u64::from(get(gateway.http, HOST, "/").status == 200);
        }
    }
    let figures: Value = serde_json::from_str(&text(&top.wait_with_output().unwrap())).unwrap();
    let rules = figures["rules"].as_array().unwrap();
    let requests = rules.iter().find(|rule| rule["path"] == "/").unwrap()["requests"].as_u64().unwrap();
    assert!(requests > 0 && requests <= asked, "{requests} of {asked}");
    let replicas = figures["replicas"].as_array().unwrap();
    let rates: Vec<f64> = replicas.iter().map(|one| one["requestsPerSecond"].as_f64().unwrap()).collect();
    let names: Vec<&Value> = replicas.iter().map(|one| &one["name"]).collect();
    assert!(names == ["edge/a", "edge/b"] && rates.iter().all(|rate| *rate > 0.0), "{figures:#}");
    assert_eq!((&replicas[0]["differs"], &replicas[1]["differs"]), (&false.into(), &true.into()));
    assert_eq!(replicas[1]["lacks"][0]["path"], "/new", "{figures:#}");

    let table = text(&cluster.run(&["top", "--once", "--interval", "500ms"]));
    assert!(table.contains(&format!("\nedge/b lacks {HOST}/new (default/shop)\n")), "{table}");
    assert!(table.contains(" differs "), "{table}");
    let calls = cluster.calls();
    assert!(calls.contains("port-forward pod/b --namespace edge --address 127.0.0.1 :9999"), "{calls}");
}

#[test]
fn tap_and_trace_next_read_all_replicas() {
    let cluster = Cluster::start();
    let reader = Reader::start(cluster.command(&["tap", "--count", "2", "-o", "json"]));
    cluster.gateways.iter().for_each(|gateway| assert_eq!(get(gateway.http, HOST, "/").status, 200));
    let lines = text(&reader.end());
    for name in ["edge/a", "edge/b"] {
        assert!(lines.contains(&format!("\"replica\":\"{name}\"")), "{lines}");
    }
    let reader = Reader::start(cluster.command(&["trace-next", "--path", "/cart"]));
    get(cluster.gateways[1].http, HOST, "/cart");
    let shown = text(&reader.end());
    assert!(shown.lines().next().unwrap().ends_with(" at edge/b"), "{shown}");
}

#[test]
fn a_bundle_has_a_folder_for_each_replica_with_the_log_of_its_pod() {
    let cluster = Cluster::start();
    let said = text(&cluster.run(&["bundle", "-o", "b.tar.gz"]));
    assert!(said.starts_with("b.tar.gz: 18 documents"), "{said}");
    let files = files(&cluster.folder.path().join("b.tar.gz"));
    let file = |name: &str| &files.iter().find(|(other, _)| other == name).expect(name).1;
    assert_eq!(file("edge_a/log.txt"), "GET /?token=(hidden) HTTP/1.1\n");
    assert!(file("edge_a/routes.json").contains("/new") && !file("edge_b/routes.json").contains("/new"));
    assert!(file("errors.txt").contains("edge_b/log.txt: kubectl: error: logs b"), "{}", file("errors.txt"));
}

#[test]
fn a_port_was_forwarded_after_a_signal_had_ended_the_plugin() {
    let cluster = Cluster::start();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut ui = cluster.command(&["ui"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(ui.stdout.take().unwrap()), &mut line)
            .unwrap();
        let forward = fs::read_to_string(cluster.folder.path().join("forward")).unwrap();
        let forward = Pid::from_raw(forward.trim().parse().unwrap()).unwrap();
        test_kill_process(forward).unwrap();
        kill_process(Pid::from_child(&ui), signal).unwrap();
        assert_eq!(ui.wait().unwrap().code(), Some(128 + signal.as_raw()));
        await_until("the end of kubectl", || test_kill_process(forward).is_err());
    }
}

#[test]
fn ui_forwards_a_port_to_one_replica() {
    let cluster = Cluster::start();
    let mut ui = cluster.command(&["ui", "--port", "8080"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(ui.stdout.take().unwrap()), &mut line).unwrap();
    assert_eq!(line, format!("http://{}/ui/ (edge/a)\n", cluster.gateways[0].admin));
    assert!(cluster.calls().contains("--address 127.0.0.1 8080:9999"), "{}", cluster.calls());
    assert!(ui.try_wait().unwrap().is_none(), "it forwards until it is ended");
    ui.kill().unwrap();
    ui.wait().unwrap();
}
