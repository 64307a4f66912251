//! A real php-fpm with scripts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Connection, Folder, await_until, ports};

/// A running php-fpm; ended when it is dropped.
pub(super) struct Php {
    pub(super) address: SocketAddr,
    child: Child,
    folder: Folder,
}

impl Php {
    /// Starts php-fpm with two processes and these scripts. `None` if it is not installed, which is
    /// reported.
    pub(super) fn start(scripts: &[(&str, &str)]) -> Option<Self> {
        let Some(program) = program() else {
            eprintln!("php-fpm is not installed, so this was not tested (Debian: apt-get install php-fpm)");
            return None;
        };
        let [address] = ports::addresses();
        let folder = Folder::empty();
        for (name, text) in scripts {
            folder.write(name, text);
        }
        let root = folder.path().to_str().unwrap();
        folder.write(
            "fpm.conf",
            format!(
                "[global]\nerror_log = {root}/fpm.log\ndaemonize = no\n[www]\nuser = root\ngroup = root\n\
                 listen = {address}\npm = static\npm.max_children = 2\n"
            ),
        );
        let child = Command::new(program)
            .args(["-F", "-R", "-n", "-y", folder.file("fpm.conf").to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let php = Self { address, child, folder };
        await_until("php-fpm to listen", || Connection::try_plain(address).is_ok());
        Some(php)
    }

    /// The folder of the scripts.
    pub(super) fn root(&self) -> String {
        self.folder.path().to_str().unwrap().to_owned()
    }
}

/// Debian's program has its version in its name.
fn program() -> Option<PathBuf> {
    let is_fpm = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("php-fpm"))
    };
    let entries =
        ["/usr/sbin", "/usr/local/sbin"].into_iter().filter_map(|folder| std::fs::read_dir(folder).ok());
    entries.flatten().filter_map(|entry| Some(entry.ok()?.path())).find(is_fpm)
}

impl Drop for Php {
    fn drop(&mut self) {
        // Unlike SIGKILL, the signal reaches the processes of the pool, too. The program may have
        // ended already.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}
