//! The harness of cluster tests.
//!
//! A test runs inside a lab's network namespace: its threads and programs reach Pods, the API
//! server and load balancer addresses directly, and nothing outside. Tests of one binary share a
//! lab unless they inject faults into it; each test has a Kubernetes namespace of its own.
//! [`Provider`] defines the requirements for clusters other than labs.
//!
//! ```no_run
//! use sluice_lab::harness::{deployment, shared};
//!
//! # fn main() {
//! shared(async |cluster| {
//!     cluster.apply(&deployment("web", 3)).await?;
//!     cluster.available("web", 3).await?;
//!     let ready = cluster.endpoints("web", |all| all.iter().filter(|e| e.ready).count() == 3);
//!     let pods = ready.await?;
//!     let answer = cluster.get((pods[0].address, 8080), "web.example", "/").await?;
//!     assert_eq!(answer.status(), 200);
//!     Ok(())
//! });
//! # }
//! ```

mod account;
mod cluster;
mod conformance;
mod gateway;
mod ingress;
pub mod load;
mod manifests;
mod program;
mod provider;
mod tls;

pub use cluster::{Cluster, EndpointState, is_ready, restarts};
pub use conformance::{Conformance, Conformed};
pub use gateway::{GatewayPods, GatewayProcess};
pub use ingress::{TestClass, pod_of, status_of};
pub use manifests::{deployment, graceful_deployment};
pub use program::Program;
pub use provider::{Foreign, Provider};
pub use tls::{client_of, client_of_pem, handshake, shows};

use std::env;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use anyhow::{Context, Result};

use crate::disk;
use crate::lab::{Lab, Options};
use crate::layout::{LabSettings, Layout};
use crate::name::LabName;
use crate::process::Process;

/// Runs a test in the cluster shared by the tests of this binary: that of `SLUICE_TEST_KUBECONFIG`
/// if set, else the lab named by `SLUICE_LAB`, else a lab that the first test starts and that ends
/// with the test process.
///
/// # Panics
/// Panics if the test fails, or no lab can be started.
pub fn shared(test: impl AsyncFnOnce(&Cluster) -> Result<()>) {
    match Foreign::from_environment() {
        Some(cluster) => run(cluster, test),
        None => run(shared_lab().clone(), test),
    }
}

/// Runs a test in the shared lab, for tests that need a lab but do not disturb others. Skipped in
/// other clusters.
///
/// # Panics
/// Panics if the test fails, or there can be no lab.
pub fn in_lab(test: impl AsyncFnOnce(&Cluster, &Lab) -> Result<()>) {
    if skipped() {
        return;
    }
    let lab = shared_lab();
    run(lab.clone(), async |cluster: &Cluster| test(cluster, lab).await);
}

/// Runs a test in a lab of its own, for tests that inject faults. One such test runs at a time,
/// because a lab is a whole cluster. Skipped in other clusters.
///
/// # Panics
/// Panics if the test fails, or there can be no lab.
pub fn own(settings: LabSettings, test: impl AsyncFnOnce(&Cluster, &Lab) -> Result<()>) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if skipped() {
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let lab = start(settings).unwrap_or_else(|error| panic!("{error:#}"));
    let down = Down(lab.layout().name().clone());
    run(lab.clone(), async |cluster: &Cluster| test(cluster, &lab).await);
    drop(down);
}

/// Returns whether a test must be skipped because it needs a lab, and prints the reason.
fn skipped() -> bool {
    let skipped = Foreign::from_environment().is_some();
    if skipped {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        eprintln!("skipped: {test} needs what only a lab has, such as faults of the API server or of a node");
    }
    skipped
}

fn shared_lab() -> &'static Lab {
    static SHARED: OnceLock<Result<Lab, String>> = OnceLock::new();
    let lab = SHARED.get_or_init(|| {
        let lab = match env::var("SLUICE_LAB") {
            Ok(name) => name.parse::<LabName>().map_err(Into::into).and_then(|name| Lab::find(&name)),
            Err(_) => start(Options::default().settings),
        };
        lab.map_err(|error| format!("{error:#}"))
    });
    lab.as_ref().unwrap_or_else(|error| panic!("{error}"))
}

/// Takes a lab down when dropped, whatever the result of its test.
struct Down(LabName);

impl Drop for Down {
    fn drop(&mut self) {
        if let Err(error) = Lab::down(&self.0) {
            eprintln!("the lab {} is not down: {error:#}", self.0);
        }
    }
}

/// Starts a lab that ends with this process.
fn start(settings: LabSettings) -> Result<Lab> {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    let owner = Process::own().context("/proc is not readable")?;
    let name = format!("t{}-{}", owner.pid(), COUNT.fetch_add(1, Ordering::Relaxed)).parse()?;
    Lab::up(&Options { name, settings, owner: Some(owner) })
}

fn run(provider: impl Provider + 'static, test: impl AsyncFnOnce(&Cluster) -> Result<()>) {
    let outcome = provider.enter().and_then(|()| {
        // Worker threads inherit the namespace of this thread, which starts them.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            let cluster = Cluster::new(provider).await?;
            let outcome = test(&cluster).await;
            if outcome.is_err() {
                eprintln!("{}", cluster.describe());
                if let Err(error) = disk::require_space(&Layout::base()) {
                    eprintln!("{error:#}");
                }
            }
            cluster.leave(outcome.is_ok()).await;
            outcome
        })
    });
    if let Err(error) = outcome {
        panic!("{error:?}");
    }
}
