//! Start of a container's process from its specification.

use std::collections::HashMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;
use rustix::process::Signal;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::NodeContext;
use super::environment::{PodFields, environment, expand, sources};
use super::log_files::{LogFile, copy};
use super::probe::ProbeTarget;
use super::volumes::fetch;
use crate::addresses::GATEWAY;
use crate::container_root::{Mount, Privileges, RootPlan};
use crate::images::{self, lab_program};
use crate::network;
use crate::process::Process;

/// The user of an image that must not run as root if the Pod specifies none: the one of distroless
/// images.
const IMAGE_USER: i64 = 65532;

/// Resources shared by all containers of a Pod.
#[derive(Debug)]
pub struct Sandbox {
    /// The Pod.
    pub pod: Arc<Pod>,
    /// The Pod's folder on this machine.
    pub dir: PathBuf,
    /// The network namespace.
    pub netns: String,
    /// The Pod's addresses.
    pub addresses: Vec<IpAddr>,
    /// The path of each volume.
    pub volumes: HashMap<String, PathBuf>,
}

/// A container's process.
pub struct Running {
    /// The target of probes and hooks.
    pub target: ProbeTarget,
    child: Child,
}

/// Starts a container.
///
/// # Errors
/// Returns an error if its image, its environment or one of its volumes is unavailable; it may
/// become available later.
pub async fn launch(
    node: &NodeContext,
    sandbox: &Sandbox,
    container: &Container,
    run: i32,
) -> Result<Running, LaunchError> {
    let image = images::resolve(container.image.as_deref().unwrap_or_default(), &node.settings)
        .map_err(LaunchError::Image)?;
    start(node, sandbox, container, run, image).await.map_err(LaunchError::Configuration)
}

/// Why a container could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Its image is unknown.
    #[error("{0:#}")]
    Image(anyhow::Error),
    /// Any other reason.
    #[error("{0:#}")]
    Configuration(anyhow::Error),
}

async fn start(
    node: &NodeContext,
    sandbox: &Sandbox,
    container: &Container,
    run: i32,
    image: images::Image,
) -> Result<Running> {
    let namespace = sandbox.pod.namespace().unwrap_or_default();
    let contents = fetch(node, &namespace, sources(container)).await?;
    let fields = PodFields {
        pod: &sandbox.pod,
        addresses: &sandbox.addresses,
        node_address: node.index.address().into(),
    };
    let environment = environment(&fields, container, &contents)?;
    let plan = plan(sandbox, container, image, environment.clone())?;
    for folder in ["plans", "processes"] {
        fs::create_dir_all(sandbox.dir.join(folder))?;
    }
    fs::create_dir_all(&plan.root)?;
    if plan.record.exists() {
        fs::remove_file(&plan.record)?;
    }
    let plan_file = sandbox.dir.join("plans").join(&container.name);
    fs::write(&plan_file, serde_json::to_vec(&plan)?)?;

    let mut child = Command::new("nsenter")
        .arg(format!("--net={}", network::path(&sandbox.netns).display()))
        .args(["--", "unshare", "--mount", "--pid", "--uts", "--ipc", "--"])
        .arg(lab_program()?)
        .arg("monitor")
        .arg(&plan_file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("cannot start the container's process")?;
    let log = LogFile::create(&sandbox.dir, &container.name, run)?;
    let output = child.stdout.take().zip(child.stderr.take());
    if let Some((output, errors)) = output {
        tokio::spawn(copy(log, output, errors));
    }
    let process = recorded(&mut child, &plan.record).await?;
    Ok(Running { target: ProbeTarget { address: pod_address(&fields), process, environment }, child })
}

/// Waits until the container's process has recorded itself.
async fn recorded(child: &mut Child, record: &Path) -> Result<Process> {
    loop {
        if let Some(process) = Process::read(record) {
            return Ok(process);
        }
        if let Some(status) = child.try_wait()? {
            bail!("the container's process ended before it began ({status}): see the container's log");
        }
        sleep(Duration::from_millis(2)).await;
    }
}

impl Running {
    /// Waits for the end of the process.
    pub async fn wait(&mut self) -> ExitStatus {
        // An error means that the child was already reaped, so its status is unknown.
        self.child.wait().await.unwrap_or_default()
    }

    /// Sends SIGTERM to the program.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills the program and all its child processes.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Err(error) = self.target.process.signal(signal) {
            tracing::warn!(%error, pid = self.target.process.pid(), "a signal to a container");
        }
    }
}

fn plan(
    sandbox: &Sandbox,
    container: &Container,
    image: images::Image,
    environment: Vec<(String, String)>,
) -> Result<RootPlan> {
    let spec = sandbox.pod.spec.as_ref().context("the Pod has no spec")?;
    let named = container.command.clone().filter(|command| !command.is_empty());
    let arguments = container.args.clone().unwrap_or_default();
    let command = match named {
        Some(command) => command.into_iter().chain(arguments),
        None => image.entrypoint.into_iter().chain(arguments),
    };
    let context = container.security_context.as_ref();
    let hostname = spec.hostname.clone().unwrap_or_else(|| sandbox.pod.name_any());
    Ok(RootPlan {
        root: sandbox.dir.join("roots").join(&container.name),
        record: sandbox.dir.join("processes").join(&container.name),
        program: image.program.map(|program| (image.name, program)),
        mounts: mounts(sandbox, container)?,
        etc: etc(sandbox, &hostname),
        command: command.map(|part| expand(&part, &environment)).collect(),
        environment,
        folder: container
            .working_dir
            .clone()
            .filter(|dir| !dir.is_empty())
            .unwrap_or_else(|| "/".into())
            .into(),
        read_only: context.and_then(|context| context.read_only_root_filesystem).unwrap_or(false),
        privileges: privileges(&sandbox.pod, container)?,
        hostname: hostname.chars().take(63).collect(),
    })
}

fn mounts(sandbox: &Sandbox, container: &Container) -> Result<Vec<Mount>> {
    let mut mounts = Vec::new();
    for wanted in container.volume_mounts.iter().flatten() {
        let volume = sandbox
            .volumes
            .get(&wanted.name)
            .with_context(|| format!("the Pod has no volume {:?}", wanted.name))?;
        mounts.push(Mount {
            source: volume.clone(),
            target: Path::new("/").join(&wanted.mount_path),
            read_only: wanted.read_only.unwrap_or(false),
        });
    }
    Ok(mounts)
}

/// Returns the files of `/etc` that programs need.
fn etc(sandbox: &Sandbox, hostname: &str) -> Vec<(String, String)> {
    let mut hosts = format!(
        "127.0.0.1 localhost\n::1 localhost\n{GATEWAY} kubernetes.default.svc kubernetes.default kubernetes\n"
    );
    for address in &sandbox.addresses {
        hosts += &format!("{address} {hostname}\n");
    }
    let spec = sandbox.pod.spec.as_ref();
    for alias in spec.into_iter().flat_map(|spec| spec.host_aliases.iter().flatten()) {
        hosts += &format!(
            "{} {}\n",
            alias.ip,
            alias.hostnames.iter().flatten().cloned().collect::<Vec<_>>().join(" ")
        );
    }
    [
        ("hosts", hosts),
        ("hostname", format!("{hostname}\n")),
        ("resolv.conf", crate::names::resolver(&sandbox.pod.namespace().unwrap_or_default())),
        ("nsswitch.conf", "hosts: files dns\n".to_owned()),
        ("passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n".to_owned()),
        ("group", "root:x:0:\nnogroup:x:65534:\n".to_owned()),
    ]
    .map(|(file, content)| (file.to_owned(), content))
    .to_vec()
}

fn privileges(pod: &Pod, container: &Container) -> Result<Privileges> {
    let own = container.security_context.as_ref();
    let shared = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let user = own.and_then(|own| own.run_as_user).or_else(|| shared.and_then(|shared| shared.run_as_user));
    let no_root =
        own.and_then(|own| own.run_as_non_root).or_else(|| shared.and_then(|shared| shared.run_as_non_root));
    let user = match (no_root, user) {
        // A real image specifies a user, which applies if the Pod specifies none.
        (Some(true), None) => Some(IMAGE_USER),
        (Some(true), Some(0)) => bail!("runAsNonRoot is set, and runAsUser is 0"),
        (_, user) => user,
    };
    let groups =
        shared.map(|shared| shared.fs_group.iter().chain(shared.supplemental_groups.iter().flatten()));
    let capabilities = own.and_then(|own| own.capabilities.as_ref());
    let names = |list: Option<&Vec<String>>| list.cloned().unwrap_or_default();
    let dropped = names(capabilities.and_then(|capabilities| capabilities.drop.as_ref()));
    let added = names(capabilities.and_then(|capabilities| capabilities.add.as_ref()));
    Ok(Privileges {
        user: user.filter(|user| *user != 0),
        group: own.and_then(|own| own.run_as_group).or_else(|| shared.and_then(|shared| shared.run_as_group)),
        groups: groups.into_iter().flatten().copied().collect(),
        no_new_privileges: own.and_then(|own| own.allow_privilege_escalation) == Some(false),
        drop_all: dropped.iter().any(|name| name == "ALL"),
        kept: added.iter().map(|name| name.to_ascii_lowercase()).collect(),
    })
}

/// Returns the first address. A Pod has one before its first container starts.
fn pod_address(fields: &PodFields<'_>) -> IpAddr {
    fields.addresses.first().copied().unwrap_or(fields.node_address)
}
