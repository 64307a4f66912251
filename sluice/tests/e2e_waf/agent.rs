//! The real agent of the web application firewall, built from `waf-agent/` once for each content.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use sluice_testing::gateway::suspend;

use crate::harness::{Connection, await_until, ports};

/// The program; `None` without Go.
static PROGRAM: LazyLock<Option<PathBuf>> = LazyLock::new(build);

/// A running agent; killed when it is dropped.
pub(super) struct Agent {
    pub(super) address: SocketAddr,
    child: Child,
    log: Arc<Mutex<String>>,
}

impl Agent {
    /// Starts an agent. `None` without Go, which is reported.
    pub(super) fn start() -> Option<Self> {
        let [address] = ports::addresses();
        Self::start_at(address)
    }

    /// Starts an agent at this address.
    pub(super) fn start_at(address: SocketAddr) -> Option<Self> {
        let Some(program) = &*PROGRAM else {
            eprintln!("go is not installed, so this was NOT tested (install it from https://go.dev/dl/)");
            return None;
        };
        let mut child = Command::new(program)
            .args(["--listen", &address.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (lines, collected) = (BufReader::new(child.stderr.take().unwrap()).lines(), log.clone());
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut log = collected.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        let agent = Self { address, child, log };
        await_until("the agent to listen", || Connection::try_plain(address).is_ok());
        Some(agent)
    }

    /// The flag of the gateway for this agent.
    pub(super) fn flag(&self) -> String {
        format!("--waf-agent={}", self.address)
    }

    /// The log so far.
    pub(super) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Stops or continues the process, as a program that hangs. All its threads have stopped then.
    pub(super) fn hang(&self, hangs: bool) {
        match hangs {
            true => suspend(&self.child),
            false => kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap(),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn build() -> Option<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../waf-agent");
    Command::new("go").arg("version").output().ok()?;
    let mut files: Vec<PathBuf> =
        fs::read_dir(&sources).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut hasher = DefaultHasher::new();
    files.iter().for_each(|file| fs::read(file).unwrap().hash(&mut hasher));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = folder.join(format!("waf-agent-{:016x}", hasher.finish()));
    if program.exists() {
        return Some(program);
    }
    // Another test program may build at the same time.
    let partial = program.with_extension(std::process::id().to_string());
    let built = Command::new("go")
        .args(["build", "-trimpath", "-buildvcs=false", "-o", partial.to_str().unwrap(), "."])
        .env("CGO_ENABLED", "0")
        .current_dir(&sources)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    fs::rename(&partial, &program).unwrap();
    Some(program)
}
