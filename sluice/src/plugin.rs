//! `kubectl sluice`: the same program called as `kubectl-sluice`. It finds a gateway's Pod and has it asked there, by its
//! own subcommands, so that no port has to be opened.
//!
//! The cluster is reached through `kubectl`, which whoever uses a plugin has: so everything that logs people in, and every
//! proxy in between, works as it does for them every day.

pub(crate) mod arguments;
mod ingresses;
mod kubectl;
mod pods;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use crate::check;
use crate::flags::{self, Command};
use crate::output::print;
use crate::show::table;
use arguments::{HELP, PluginArguments};
use kubectl::Kubectl;

/// The name of the program as kubectl looks for it.
const NAME: &str = "kubectl-sluice";
/// Where the program is in its image.
const PROGRAM: &str = "/sluice";

/// Whether the program was called by the plugin's name, whatever a system adds to names of programs.
pub(crate) fn is_asked(mut words: impl Iterator<Item = impl AsRef<OsStr>>) -> bool {
    let program = words.next();
    program.is_some_and(|path| Path::new(path.as_ref()).file_stem() == Some(NAME.as_ref()))
}

/// Does what the words after the program's name say, and gives the status to end with.
///
/// # Errors
/// They make no sense, kubectl fails, or there is no gateway.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let words = words
        .map(|word| {
            word.into_string().map_err(|word| anyhow::anyhow!("argument {word:?} is not valid UTF-8"))
        })
        .collect::<Result<Vec<String>>>()?;
    let PluginArguments { command, target, rest } = PluginArguments::read(words)?;
    let kubectl = Kubectl::new(&target);
    match command.as_str() {
        "" | "help" => Ok(print(HELP)),
        "version" => Ok(print(concat!("kubectl-sluice ", env!("CARGO_PKG_VERSION"), "\n"))),
        "routes" | "backends" | "certs" | "problems" => {
            let question: Vec<OsString> =
                std::iter::once(&command).chain(&rest).map(OsString::from).collect();
            // A mistake is found here, and not in a Pod.
            match flags::parse(question, |_| None)?.command {
                Command::Show(_) => {}
                Command::Help(text) => return Ok(print(&text)),
                _ => bail!("kubectl sluice {command} does not take these flags"),
            }
            let pod = pods::find(&kubectl, &target)?;
            let mut arguments =
                vec!["exec".to_owned(), pod.name.clone(), "--namespace".into(), pod.namespace.clone()];
            arguments
                .extend(target.container.iter().flat_map(|name| ["--container".to_owned(), name.clone()]));
            arguments.extend(["--".to_owned(), PROGRAM.to_owned(), command]);
            arguments.extend(rest);
            kubectl.run(&arguments)
        }
        "logs" => {
            let pod = pods::find(&kubectl, &target)?;
            let mut arguments =
                vec!["logs".to_owned(), pod.name.clone(), "--namespace".into(), pod.namespace.clone()];
            arguments
                .extend(target.container.iter().flat_map(|name| ["--container".to_owned(), name.clone()]));
            arguments.extend(rest);
            kubectl.run(&arguments)
        }
        "ingresses" | "ingress" | "ing" => {
            let wanted = ingresses::Wanted::read(&rest)?;
            Ok(print(&table::render(&ingresses::lines(&kubectl, &target, &wanted)?)))
        }
        "check" => checked(&kubectl, &target, rest),
        other => bail!("unknown subcommand {other:?}; there are {}", arguments::COMMANDS.join(", ")),
    }
}

/// Checks the cluster as the gateway that was named would serve it: with the flags of its Pod. It may be one of
/// ingress-nginx.
fn checked(kubectl: &Kubectl, target: &arguments::Target, rest: Vec<String>) -> Result<ExitCode> {
    let pod = pods::find(kubectl, target)?;
    let kubeconfig = kubectl.kubeconfig()?;
    let mut all = vec!["check".to_owned()];
    all.extend(pod.flags());
    all.extend(["--kubeconfig".to_owned(), kubeconfig.path().display().to_string()]);
    all.extend(rest);
    let parsed = flags::parse(all.into_iter().map(OsString::from), |_| None)
        .with_context(|| format!("the flags of Pod {}/{}", pod.namespace, pod.name))?;
    for warning in &parsed.warnings {
        eprintln!("kubectl-sluice: {warning}");
    }
    match parsed.command {
        Command::Check(wanted) => {
            ensure!(
                wanted.flags.manifests.is_none(),
                "--manifests is for `sluice check`; a plugin checks a cluster"
            );
            let checked = check::check(*wanted)?;
            let printed = print(&checked.text);
            Ok(if checked.failed { ExitCode::FAILURE } else { printed })
        }
        Command::Help(text) => Ok(print(&text)),
        _ => bail!("kubectl sluice check takes the flags of `sluice check`"),
    }
}

#[cfg(test)]
mod tests;
