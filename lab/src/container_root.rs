//! Setup of a container's process: builds its root folder, moves into it and executes the program.
//!
//! Runs as a separate instance of this program ([`crate::monitor`]), in new mount, PID, UTS and IPC
//! namespaces (by `unshare`) and in the Pod's network namespace (by `nsenter`). The root is a small
//! writable tmpfs with the machine's `/usr` read-only, its own `/proc`, `/dev` and `/etc`, the
//! image's program and the Pod's volumes. It isolates tests from each other but is not a security
//! boundary.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Error, Result, bail};
use rustix::mount::{MountFlags, mount, mount_bind, mount_bind_recursive, mount_remount};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use crate::process::Process;

/// The configuration of a container's process, written by the node and read by the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RootPlan {
    /// An empty folder that becomes the root.
    pub root: PathBuf,
    /// The file in which the process records itself.
    pub record: PathBuf,
    /// The host name.
    pub hostname: String,
    /// The image's name and its program on this machine.
    pub program: Option<(String, PathBuf)>,
    /// Mounts, in this order.
    pub mounts: Vec<Mount>,
    /// Files of `/etc` with their content.
    pub etc: Vec<(String, String)>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The whole environment.
    pub environment: Vec<(String, String)>,
    /// The working directory.
    pub folder: PathBuf,
    /// Whether only volumes are writable.
    pub read_only: bool,
    /// The privileges of the program.
    pub privileges: Privileges,
}

/// A folder or file of this machine to mount in the container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// The path on this machine.
    pub source: PathBuf,
    /// The absolute path in the container.
    pub target: PathBuf,
    /// Whether it is read-only.
    pub read_only: bool,
}

/// The part of a security context that applies to a plain process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Privileges {
    /// The user ID; `None` for root.
    pub user: Option<i64>,
    /// The group ID.
    pub group: Option<i64>,
    /// Supplementary groups.
    pub groups: Vec<i64>,
    /// Whether set-user-ID programs gain no privileges.
    pub no_new_privileges: bool,
    /// Whether all capabilities except `kept` are dropped.
    pub drop_all: bool,
    /// Capabilities that are kept or added, in lower case without `CAP_`.
    pub kept: Vec<String>,
}

/// Becomes the container described by the file `plan`. Returns only on failure.
pub fn become_container(plan: &Path) -> Error {
    match prepare(plan) {
        Ok(mut command) => {
            let program = command.get_program().to_owned();
            Error::new(command.exec()).context(format!("cannot run {}", program.display()))
        }
        Err(error) => error,
    }
}

fn prepare(plan: &Path) -> Result<Command> {
    let plan: RootPlan = serde_json::from_slice(&fs::read(plan)?)?;
    // The container ends with its parent. Programs that change their user lose this setting; `down`
    // finds them in other ways.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Process::own().context("/proc is not readable")?.write(&plan.record)?;
    rustix::system::sethostname(plan.hostname.as_bytes())?;
    // As in container runtimes, so that programs without root can listen on port 80. The value is
    // specific to the Pod.
    fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")?;
    plan.build_root().context("cannot build the container's root")?;
    std::env::set_current_dir(&plan.root)?;
    rustix::process::chroot(".")?;
    std::env::set_current_dir(&plan.folder)
        .with_context(|| format!("the working folder {} is not there", plan.folder.display()))?;
    plan.command()
}

impl RootPlan {
    fn build_root(&self) -> Result<()> {
        mount("tmpfs", &self.root, "tmpfs", MountFlags::NOSUID, c"mode=0755")?;
        for folder in ["etc", "proc", "dev", "tmp", "run", "var/run", "root", "image"] {
            fs::create_dir_all(self.root.join(folder))?;
        }
        fs::set_permissions(self.root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
        self.machine_folders()?;
        mount("proc", self.root.join("proc"), "proc", MountFlags::NOSUID | MountFlags::NODEV, None)?;
        self.devices()?;
        for (file, content) in &self.etc {
            fs::write(self.root.join("etc").join(file), content)?;
        }
        if let Some((name, program)) = &self.program {
            let target = Path::new("/image").join(name);
            self.bind(&Mount { source: program.clone(), target: target.clone(), read_only: true })?;
            let short = self.root.join(name);
            if !short.exists() {
                symlink(&target, short)?;
            }
        }
        for mount in &self.mounts {
            self.bind(mount).with_context(|| format!("cannot mount {}", mount.target.display()))?;
        }
        if self.read_only {
            mount_remount(&self.root, MountFlags::BIND | MountFlags::RDONLY, "")?;
        }
        Ok(())
    }

    /// Mounts `/usr`, and the folders that are links into it on most machines and separate folders
    /// on others.
    fn machine_folders(&self) -> Result<()> {
        ["usr", "bin", "sbin", "lib", "lib64"]
            .iter()
            .try_for_each(|name| self.machine_path(&Path::new("/").join(name)))
    }

    /// Mounts a path of the machine read-only. A folder into which the Pod mounts something is
    /// recreated with the machine's content instead, because mount points cannot be created in the
    /// machine's own folder.
    fn machine_path(&self, path: &Path) -> Result<()> {
        let Ok(kind) = path.symlink_metadata() else { return Ok(()) };
        let target = self.root.join(path.strip_prefix("/")?);
        if kind.is_symlink() {
            symlink(fs::read_link(path)?, target)?;
        } else if self.mounts.iter().any(|mount| mount.target != path && mount.target.starts_with(path)) {
            fs::create_dir(&target)?;
            for entry in fs::read_dir(path)? {
                self.machine_path(&entry?.path())?;
            }
        } else {
            self.bind(&Mount { source: path.to_owned(), target: path.to_owned(), read_only: true })?;
        }
        Ok(())
    }

    fn devices(&self) -> Result<()> {
        let dev = self.root.join("dev");
        mount("tmpfs", &dev, "tmpfs", MountFlags::NOSUID, c"mode=0755")?;
        for device in ["null", "zero", "full", "random", "urandom"] {
            File::create(dev.join(device))?;
            mount_bind(Path::new("/dev").join(device), dev.join(device))?;
        }
        for (link, target) in [
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
        ] {
            symlink(target, dev.join(link))?;
        }
        fs::create_dir(dev.join("shm"))?;
        fs::set_permissions(dev.join("shm"), fs::Permissions::from_mode(0o1777))?;
        Ok(())
    }

    fn bind(&self, wanted: &Mount) -> Result<()> {
        if wanted.target.components().any(|part| part == Component::ParentDir) {
            bail!("{} leads out of the container", wanted.target.display());
        }
        let target = self.root.join(wanted.target.strip_prefix("/").unwrap_or(&wanted.target));
        let kind = fs::metadata(&wanted.source)
            .with_context(|| format!("{} is not there", wanted.source.display()))?;
        if kind.is_dir() {
            fs::create_dir_all(&target)?;
        } else {
            fs::create_dir_all(target.parent().unwrap_or(&self.root))?;
            File::options().create(true).append(true).open(&target)?;
        }
        mount_bind_recursive(&wanted.source, &target)?;
        if wanted.read_only {
            // Flags that the mount must inherit from its filesystem are not known here. Nothing in
            // a lab relies on them.
            mount_remount(&target, MountFlags::BIND | MountFlags::RDONLY, "")?;
        }
        Ok(())
    }

    fn command(&self) -> Result<Command> {
        let [program, arguments @ ..] = self.command.as_slice() else {
            bail!("the container names no command")
        };
        let mut command = match self.privileges.arguments() {
            plain if plain.is_empty() => Command::new(program),
            needed => {
                let mut command = Command::new("/usr/bin/setpriv");
                command.args(needed).arg("--").arg(program);
                command
            }
        };
        command.args(arguments).env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }
}

impl Privileges {
    /// Returns the arguments for `setpriv`. Empty if the program runs unchanged.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.user.is_some() || self.group.is_some() || !self.groups.is_empty() {
            let (user, group) = (self.user.unwrap_or(0), self.group.unwrap_or(0));
            arguments.extend([format!("--reuid={user}"), format!("--regid={group}")]);
            match self.groups.as_slice() {
                [] => arguments.push("--clear-groups".to_owned()),
                groups => {
                    let groups: Vec<String> = groups.iter().map(i64::to_string).collect();
                    arguments.push(format!("--groups={}", groups.join(",")));
                }
            }
        }
        if self.no_new_privileges {
            arguments.push("--no-new-privs".to_owned());
        }
        if self.drop_all {
            let kept: String = self.kept.iter().map(|capability| format!(",+{capability}")).collect();
            arguments.extend([format!("--inh-caps=-all{kept}"), format!("--bounding-set=-all{kept}")]);
        }
        arguments
    }
}

/// Assigns a folder and its content to a group (`fsGroup`).
pub(crate) fn give_group(path: &Path, group: u32) -> Result<()> {
    let metadata = path.symlink_metadata()?;
    if metadata.gid() != group {
        std::os::unix::fs::lchown(path, None, Some(group))?;
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            give_group(&entry?.path(), group)?;
        }
    }
    Ok(())
}
