//! A lab from `up` to `down`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::{Api, Client};

use crate::addresses::NodeIndex;
use crate::client::connect;
use crate::control_plane::{self, ApiOptions};
use crate::disk;
use crate::images::lab_program;
use crate::layout::{LabSettings, Layout};
use crate::name::LabName;
use crate::network;
use crate::pki;
use crate::process::{self, Process};
use crate::programs::{Unit, search_path};

/// Maximum time for the start of a lab on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The role of the process that starts a lab, during the start.
const STARTER: &str = "up";

/// Options of `up`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The lab's name.
    pub name: LabName,
    /// The settings of the lab.
    pub settings: LabSettings,
    /// A process with which the lab ends, however the process ends.
    pub owner: Option<Process>,
}

/// A running lab.
#[derive(Clone, Debug)]
pub struct Lab {
    layout: Layout,
    settings: LabSettings,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: LabName::default(),
            settings: LabSettings { nodes: 2, dual_stack: false, images: Vec::new() },
            owner: None,
        }
    }
}

impl Lab {
    /// Starts a lab and waits until Pods can be created in it. Remains of a crashed lab of this
    /// name are removed first.
    ///
    /// # Errors
    /// Returns an error if root, a program or Go is missing (the message states what to install),
    /// when a lab of this name is running, or when a part does not start; the parts started before
    /// are then stopped, and the message contains the last lines of the logs.
    pub fn up(options: &Options) -> Result<Self> {
        require_machine()?;
        for unit in Unit::CONTROL_PLANE {
            unit.build()?;
        }
        let layout = Layout::new(options.name.clone());
        claim(&layout)?;
        let lab = Self { layout, settings: options.settings.clone() };
        match lab.start(options) {
            Ok(()) => {
                fs::remove_file(lab.layout.record(STARTER))?;
                Ok(lab)
            }
            Err(error) => {
                let logs = lab.last_words();
                Self::down(&options.name)?;
                Err(error.context(format!("the lab {} did not come up\n{logs}", options.name)))
            }
        }
    }

    /// Returns the running lab of this name.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub fn find(name: &LabName) -> Result<Self> {
        let layout = Layout::new(name.clone());
        let settings = layout.settings()?;
        if process::running(&layout, control_plane::ETCD).is_none() {
            bail!("the lab {name} has crashed: clear it away with `sluice-lab down --name {name}`");
        }
        Ok(Self { layout, settings })
    }

    /// Ends all processes of a lab and removes its namespaces and files. Returns whether there were
    /// any.
    ///
    /// # Errors
    /// Returns an error if something cannot be removed. Calling it again continues from there.
    pub fn down(name: &LabName) -> Result<bool> {
        let layout = Layout::new(name.clone());
        let namespaces = network::all(&layout);
        if !layout.dir().exists() && namespaces.is_empty() {
            return Ok(false);
        }
        // Nodes first: they would restart the processes that are ended below.
        let (nodes, others): (Vec<_>, Vec<_>) =
            process::recorded(&layout).into_iter().partition(|(role, _)| NodeIndex::named(role).is_some());
        for group in [nodes, others] {
            end_all(group.into_iter().map(|(_, process)| process))?;
        }
        // Processes without a record: children of a crashed node, programs of a test or a shell.
        end_all(network::processes(&namespaces).into_iter())?;
        for netns in &namespaces {
            network::delete(netns)?;
        }
        if layout.dir().exists() {
            fs::remove_dir_all(layout.dir())
                .with_context(|| format!("cannot remove {}", layout.dir().display()))?;
        }
        Ok(true)
    }

    /// Returns the lab's paths and names.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the settings of the lab.
    pub fn settings(&self) -> &LabSettings {
        &self.settings
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeIndex> {
        NodeIndex::first(self.settings.nodes)
    }

    /// Returns the administrator's kubeconfig. Its API server is reachable only from inside the
    /// lab.
    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig("admin")
    }

    /// Returns every role with its process, or `None` if that has ended.
    pub fn roles(&self) -> Vec<(String, Option<Process>)> {
        process::recorded(&self.layout)
            .into_iter()
            .map(|(role, p)| (role, p.is_alive().then_some(p)))
            .collect()
    }

    /// Returns a command that runs in the lab's network namespace, with `KUBECONFIG` set and the
    /// lab's programs in its `PATH`.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = network::command(&self.layout.netns(), program.as_ref());
        command.env("PATH", search_path()).env("KUBECONFIG", self.kubeconfig());
        command
    }

    /// Runs a future inside the lab's network namespace, on a new thread.
    ///
    /// # Errors
    /// Returns an error if the namespace cannot be entered, or the future fails.
    pub fn block_on<T: Send>(&self, work: impl AsyncFnOnce() -> Result<T> + Send) -> Result<T> {
        let netns = &self.layout.netns();
        thread::scope(|scope| {
            let thread = scope.spawn(move || {
                network::enter(netns)?;
                tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work())
            });
            thread.join().map_err(|_| anyhow!("a thread inside the lab has panicked"))?
        })
    }

    /// Waits until the API server is ready.
    ///
    /// # Errors
    /// Returns an error if it has ended, or is not ready in time.
    pub async fn api_ready(&self) -> Result<Client> {
        let client = connect(&self.kubeconfig()).await?;
        self.wait("the API server to be ready", &[control_plane::API, control_plane::ETCD], async || {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            Ok(client.request_text(request).await? == "ok")
        })
        .await?;
        Ok(client)
    }

    /// Starts a node's Pod runner.
    pub(crate) fn start_node(&self, node: NodeIndex) -> Result<Process> {
        self.start_own(&node.name(), &["node", "--node", &node.name()])
    }

    fn start(&self, options: &Options) -> Result<()> {
        self.layout.save(&self.settings)?;
        pki::create(&self.layout, &self.settings)?;
        if let Some(owner) = options.owner {
            self.start_guard(owner)?;
        }
        network::create_lab(&self.layout, &self.settings)?;
        control_plane::start_etcd(&self.layout)?;
        control_plane::start_api(&self.layout, &self.settings, ApiOptions::default())?;
        self.block_on(async || {
            let client = self.api_ready().await?;
            control_plane::start_controllers(&self.layout, &self.settings)?;
            for node in self.nodes() {
                self.start_node(node)?;
            }
            self.start_own("balancers", &["balancers"])?;
            self.usable(&client).await
        })
    }

    async fn usable(&self, client: &Client) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
        self.wait("the default ServiceAccount", &[control_plane::CONTROLLERS], async || {
            Ok(accounts.get_opt("default").await?.is_some())
        })
        .await?;
        let nodes: Api<Node> = Api::all(client.clone());
        for node in self.nodes() {
            let name = node.name();
            self.wait("every node to be ready", &[&name], async || {
                Ok(nodes.get_opt(&name).await?.is_some_and(|node| is_ready(&node)))
            })
            .await?;
        }
        Ok(())
    }

    /// Waits for a condition as long as the processes that it depends on are running.
    async fn wait(
        &self,
        what: &str,
        roles: &[&str],
        condition: impl AsyncFn() -> Result<bool>,
    ) -> Result<()> {
        let end = Instant::now() + TIMEOUT;
        let mut last = None;
        while Instant::now() < end {
            match condition().await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => last = Some(error),
            }
            for role in roles {
                if process::running(&self.layout, role).is_none() {
                    bail!("{role} has ended while the lab waited for {what}");
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let last = last.map_or_else(String::new, |error| format!(": {error:#}"));
        bail!("waited {} s for {what}{last}", TIMEOUT.as_secs())
    }

    fn start_own(&self, role: &str, arguments: &[&str]) -> Result<Process> {
        let mut command = network::command(&self.layout.netns(), &lab_program()?);
        command.args(arguments).args(["--name", self.layout.name().as_str()]);
        process::start(&self.layout, role, &mut command)
    }

    fn start_guard(&self, owner: Process) -> Result<()> {
        let record = self.layout.dir().join("owner");
        owner.write(&record)?;
        let mut command = Command::new(lab_program()?);
        command.args(["guard", "--name", self.layout.name().as_str()]);
        process::start(&self.layout, "guard", &mut command)?;
        Ok(())
    }

    /// Returns the last lines of every log, for a lab that did not start.
    fn last_words(&self) -> String {
        let mut words = String::new();
        for (role, _) in process::recorded(&self.layout) {
            let text = fs::read_to_string(self.layout.log(&role)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            for line in &lines[lines.len().saturating_sub(5)..] {
                words += &format!("{role}: {line}\n");
            }
        }
        words
    }
}

/// Waits for the end of the process that owns the lab, then takes the lab down.
///
/// # Errors
/// Returns an error if the lab has no owner, or cannot be taken down.
pub fn guard(name: &LabName) -> Result<()> {
    let layout = Layout::new(name.clone());
    let owner = Process::read(&layout.dir().join("owner"))
        .with_context(|| format!("the lab {name} belongs to no process"))?;
    owner.wait(None)?;
    Lab::down(name)?;
    Ok(())
}

/// Checks the requirements of a lab.
///
/// # Errors
/// Returns an error if something is missing; the message states what to do.
pub fn require_machine() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("a lab makes network namespaces, which takes root: run it with sudo");
    }
    for (program, package) in
        [("ip", "iproute2"), ("nsenter", "util-linux"), ("unshare", "util-linux"), ("setpriv", "util-linux")]
    {
        let found =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        // `ip` has another flag for its version and exits with an error, which is sufficient here.
        if found.is_err() {
            bail!("`{program}` is missing: install the package {package}");
        }
    }
    Ok(())
}

/// Creates the lab's folder, unless a lab of this name is running. Removes a crashed one.
fn claim(layout: &Layout) -> Result<()> {
    fs::create_dir_all(Layout::base())
        .with_context(|| format!("cannot make the folder {}", Layout::base().display()))?;
    disk::require_space(&Layout::base())?;
    let lock = File::open(Layout::base())?;
    lock.lock()?;
    if process::recorded(layout).iter().any(|(_, process)| process.is_alive()) {
        bail!("the lab {} is up already", layout.name());
    }
    Lab::down(layout.name())?;
    layout.create()?;
    // The record marks the lab as running, so that no other process removes it as crashed.
    let own = Process::own().context("/proc is not readable")?;
    Ok(own.write(&layout.record(STARTER))?)
}

fn end_all(processes: impl Iterator<Item = Process>) -> Result<()> {
    let own = Process::own();
    let processes: Vec<Process> = processes.filter(|process| Some(*process) != own).collect();
    for process in &processes {
        process.signal(rustix::process::Signal::KILL)?;
    }
    for process in processes {
        process.end(Duration::ZERO)?;
    }
    Ok(())
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}
