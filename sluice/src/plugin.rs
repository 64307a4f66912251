//! `kubectl sluice`: this program, called as `kubectl-sluice`. It finds a Pod of the gateway and
//! runs its own subcommands there, so that no port needs to be exposed.
//!
//! The cluster is accessed through `kubectl`, which every user of a plugin has. All methods of
//! authentication, and proxies in between, therefore work without configuration.

pub(crate) mod arguments;
mod children;
mod forward;
mod ingresses;
mod kubectl;
mod pods;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::check;
use crate::flags::{self, Command, Observation, ObserveArguments};
use crate::observe::{self, LogSource, Replica};
use crate::output::{note, print};
use crate::show::table;
use arguments::{HELP, INGRESSES_HELP, LOGS_HELP, PluginArguments};
use forward::{Forward, Forwards, STARTS_WITHIN};
use kubectl::Kubectl;

/// Name under which kubectl finds the program.
const NAME: &str = "kubectl-sluice";
/// Path of the program in its image.
const PROGRAM: &str = "/sluice";
/// Number of lines of the log of a Pod in a bundle.
const LOG_LINES: &str = "2000";

/// Returns whether the program was called by the plugin's name, with or without a file extension.
pub(crate) fn is_called(mut words: impl Iterator<Item = impl AsRef<OsStr>>) -> bool {
    let program = words.next();
    program.is_some_and(|path| Path::new(path.as_ref()).file_stem() == Some(NAME.as_ref()))
}

/// Executes the given arguments, without the program's name, and returns the exit status.
///
/// # Errors
/// The arguments are invalid, kubectl fails, or there is no gateway.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let words = words
        .map(|word| {
            word.into_string().map_err(|word| anyhow::anyhow!("argument {word:?} is not valid UTF-8"))
        })
        .collect::<Result<Vec<String>>>()?;
    let read = PluginArguments::read(words)?;
    let has_help_flag = read.has_help_flag();
    let PluginArguments { command, target, rest } = read;
    let kubectl = Kubectl::new(&target);
    match command.as_str() {
        "version" if has_help_flag => Ok(print(HELP)),
        "logs" if has_help_flag => Ok(print(LOGS_HELP)),
        "ingresses" | "ingress" | "ing" if has_help_flag => Ok(print(INGRESSES_HELP)),
        "" | "help" => Ok(print(HELP)),
        "version" => Ok(print(concat!("kubectl-sluice ", env!("CARGO_PKG_VERSION"), "\n"))),
        "check" if has_help_flag => {
            let words = [command, "--help".to_owned()].map(OsString::from);
            match flags::parse(words, |_| None)?.command {
                Command::Help(text) => Ok(print(&text)),
                _ => bail!("kubectl sluice check has no help"),
            }
        }
        "routes" | "backends" | "certs" | "problems" => {
            let question: Vec<OsString> =
                std::iter::once(&command).chain(&rest).map(OsString::from).collect();
            // Errors are detected here rather than in a Pod.
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
        "top" | "tap" | "trace-next" | "bundle" | "ui" => {
            let words = std::iter::once(&command).chain(&rest).map(OsString::from);
            match flags::parse(words, |_| None)?.command {
                Command::Observe(wanted) => observed(&kubectl, &target, &wanted),
                Command::Help(text) => Ok(print(&text)),
                _ => bail!("kubectl sluice {command} does not take these flags"),
            }
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

/// Observes all replicas, or for the web page one, through ports that are forwarded.
fn observed(
    kubectl: &Kubectl,
    target: &arguments::GatewaySelection,
    wanted: &ObserveArguments,
) -> Result<ExitCode> {
    let (action, admin) = (&wanted.action, wanted.admin_address.port());
    if let Observation::Ui(ui) = action {
        let mut forward = Forward::start(kubectl, &pods::find(kubectl, target)?, ui.port, admin)?;
        let replica = forward.replica(Instant::now() + STARTS_WITHIN);
        let shown = observe::run_on(action, &[replica], &PodLogs { kubectl, target })?;
        note(format_args!("kubectl-sluice: the address works until this program ends"));
        forward.wait()?;
        return Ok(shown);
    }
    let forwards = Forwards::to(kubectl, &pods::all(kubectl, target)?, admin, STARTS_WITHIN)?;
    observe::run_on(action, &forwards.replicas, &PodLogs { kubectl, target })
}

/// The logs of Pods, as far as the cluster keeps them.
struct PodLogs<'k> {
    kubectl: &'k Kubectl,
    target: &'k arguments::GatewaySelection,
}

impl LogSource for PodLogs<'_> {
    fn tail(&self, replica: &Replica) -> Result<Option<String>> {
        let Some((namespace, name)) = replica.name.split_once('/') else { return Ok(None) };
        let mut arguments = vec!["logs", name, "--namespace", namespace, "--tail", LOG_LINES];
        arguments.extend(self.target.container.iter().flat_map(|name| ["--container", name]));
        self.kubectl.text(&arguments).map(Some)
    }
}

/// Checks the cluster with the flags of the selected gateway's Pod, which may be one of
/// ingress-nginx.
fn checked(kubectl: &Kubectl, target: &arguments::GatewaySelection, rest: Vec<String>) -> Result<ExitCode> {
    let pod = pods::find(kubectl, target)?;
    let kubeconfig = kubectl.kubeconfig()?;
    let mut all = vec!["check".to_owned()];
    all.extend(pod.flags());
    all.extend(["--kubeconfig".to_owned(), kubeconfig.path().display().to_string()]);
    all.extend(rest);
    let parsed = flags::parse(all.into_iter().map(OsString::from), |_| None)
        .with_context(|| format!("the flags of Pod {}/{}", pod.namespace, pod.name))?;
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
