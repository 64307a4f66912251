//! `--snapshot-file` of a gateway that starts while the Kubernetes API is unreachable: snapshots
//! that are used, and snapshots that are refused.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sluice_controller::snapshot_file::{SnapshotSettings, SnapshotWriter};
use sluice_controller::source::kube::Cluster;
use sluice_controller::{Controller, Options};
use sluice_testing::program;
use tempfile::TempDir;

use crate::harness::ports;

const SERVED: &str = "serving the last configuration";
const REFUSED: &str = "--snapshot-file cannot be used";

/// A snapshot of an API at an address without a listener.
struct Snapshot {
    folder: TempDir,
    server: String,
}

impl Snapshot {
    /// Creates a snapshot that the API confirmed this long ago.
    fn confirmed(ago: SignedDuration) -> Self {
        let (folder, server) = (TempDir::new().unwrap(), format!("http://127.0.0.1:{}/", ports::reserve()));
        let snapshot = Self { folder, server };
        let at = Timestamp::now() - ago;
        let settings = SnapshotSettings {
            path: snapshot.path(),
            cluster: Cluster { server: snapshot.server.clone(), authority: None },
            known: move || Some(at),
            max_age: std::time::Duration::ZERO,
        };
        let mut delta = Controller::new(Options::default()).startup_delta();
        delta.complete = true;
        SnapshotWriter::start(settings, ()).unwrap().applied(delta);
        snapshot
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("snapshot.json")
    }

    fn edit(&self, edit: impl FnOnce(&mut Value)) {
        let mut value = serde_json::from_slice(&std::fs::read(self.path()).unwrap()).unwrap();
        edit(&mut value);
        std::fs::write(self.path(), value.to_string()).unwrap();
    }

    /// Returns the gateway's log line about the snapshot.
    fn outcome(&self, flags: &[&str]) -> String {
        outcome(&self.path(), &self.server, flags)
    }
}

/// A gateway that ends with the test.
struct Gateway(Child);

impl Drop for Gateway {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a gateway and returns its log line about the snapshot file.
fn outcome(path: &Path, server: &str, flags: &[&str]) -> String {
    let port = || ports::reserve().to_string();
    let child = Command::new(program::find("sluice").unwrap())
        .args(["serve", "--apiserver-host", server, "--snapshot-file", path.to_str().unwrap()])
        .args(["--http-port", &port(), "--https-port", &port(), "--healthz-port", &port()])
        .args(["--admin-address", &format!("127.0.0.1:{}", port())])
        .args(flags)
        .env_remove("RUST_LOG")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut gateway = Gateway(child);
    let lines = BufReader::new(gateway.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut seen = Vec::new();
    for line in lines {
        if line.contains(SERVED) || line.contains(REFUSED) {
            return line;
        }
        seen.push(line);
    }
    panic!("no log line about the file:\n{}", seen.join("\n"));
}

#[test]
fn a_snapshot_of_this_cluster_that_is_new_enough_is_served() {
    let snapshot = Snapshot::confirmed(SignedDuration::from_hours(23));
    let line = snapshot.outcome(&[]);
    assert!(line.contains(SERVED), "{line}");
}

#[test]
fn a_snapshot_of_a_newer_version_is_refused_by_field() {
    let snapshot = Snapshot::confirmed(SignedDuration::ZERO);
    snapshot.edit(|value| {
        value["program"] = "99.0.0".into();
        value["delta"]["settings"]["only_for_friends"] = true.into();
    });
    let line = snapshot.outcome(&[]);
    for part in
        [REFUSED, "Sluice 99.0.0", "delta.settings.only_for_friends", "start the version that wrote it"]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[test]
fn a_snapshot_is_refused_above_the_maximum_age() {
    let snapshot = Snapshot::confirmed(SignedDuration::from_hours(25));
    let line = snapshot.outcome(&[]);
    assert!(line.contains(REFUSED) && line.contains("raise the maximum age"), "{line}");
    for age in ["26h", "0"] {
        let line = snapshot.outcome(&["--snapshot-max-age", age]);
        assert!(line.contains(SERVED), "{age}: {line}");
    }
}

#[test]
fn a_snapshot_of_another_cluster_is_refused() {
    let snapshot = Snapshot::confirmed(SignedDuration::ZERO);
    let other = format!("http://127.0.0.1:{}/", ports::reserve());
    let line = outcome(&snapshot.path(), &other, &[]);
    for part in [REFUSED, "another cluster", &snapshot.server, &other, "its own file"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}
