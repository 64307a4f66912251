//! `/wait-shutdown`, the preStop hook of ingress-nginx: terminates the gateway of its container and
//! returns when it has ended. In the image, the program also has this name.
//!
//! The hook is optional, because the gateway drains on SIGTERM. With the hook, draining takes place
//! during the hook.

use std::ffi::OsStr;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Name of the program and of the subcommand.
pub(crate) const NAME: &str = "wait-shutdown";

/// Returns whether the program was called by this name, or with it as its only argument.
pub(crate) fn is_called(mut words: impl Iterator<Item = impl AsRef<OsStr>>) -> bool {
    let program = words.next();
    let called = program.is_some_and(|path| Path::new(path.as_ref()).file_name() == Some(NAME.as_ref()));
    called || (words.next().is_some_and(|word| word.as_ref() == NAME) && words.next().is_none())
}

/// Terminates the container's first process, if it is this program, and waits for its end. The hook
/// ends with it, because a container ends with its first process.
#[expect(clippy::disallowed_methods, reason = "a program of its own, which has nothing else to do")]
pub(crate) fn run() -> Result<()> {
    let ours = std::fs::read_link("/proc/self/exe").context("/proc/self/exe cannot be read")?;
    let first = std::fs::read_link("/proc/1/exe").context("the program of process 1 cannot be read")?;
    if first != ours {
        bail!(
            "process 1 is {}, not the gateway: {NAME} is a preStop hook of the gateway's own container, and does nothing \
             where processes are shared; remove the hook, since SIGTERM drains as well",
            first.display()
        );
    }
    kill_process(Pid::INIT, Signal::TERM).context("cannot send SIGTERM to the gateway")?;
    loop {
        sleep(Duration::from_secs(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_name_or_the_only_argument_selects_it() {
        for (words, asked) in [
            (&["/wait-shutdown"][..], true),
            (&["wait-shutdown", "serve"], true),
            (&["/sluice", "wait-shutdown"], true),
            (&["/sluice", "serve", "wait-shutdown"], false),
            (&["/sluice", "wait-shutdown", "--now"], false),
            (&["/sluice"], false),
            (&[], false),
        ] {
            assert_eq!(is_called(words.iter()), asked, "{words:?}");
        }
    }

    /// Outside of a gateway's container, no process may be terminated.
    #[test]
    fn it_ends_no_first_process_but_the_gateway() {
        let refused = run().unwrap_err().to_string();
        assert!(refused.contains("process 1"), "{refused}");
    }
}
