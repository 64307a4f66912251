//! `sluice-lab`: starts, stops and inspects a Kubernetes API on this machine.

use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use sluice_lab::addresses::NodeIndex;
use sluice_lab::lab::{Lab, Options, guard, require_machine};
use sluice_lab::layout::{LabSettings, Layout};
use sluice_lab::name::LabName;
use sluice_lab::programs::Unit;
use sluice_lab::{allocator, container_root, echo, forwarder, monitor, names, network, node};

/// Default log filter. The client logs every refused call as an error, of which there are many
/// while a lab starts.
const LOGGED: &str = "info,kube_client=off";

#[derive(Parser)]
#[command(name = "sluice-lab", version, about = "A real Kubernetes API on one machine, without containers")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Args)]
struct Named {
    /// The lab's name.
    #[arg(long, default_value_t, env = "SLUICE_LAB")]
    name: LabName,
}

#[derive(Subcommand)]
enum Command {
    /// Start a lab; builds what is missing in the cache first.
    Up {
        #[command(flatten)]
        lab: Named,
        /// How many nodes, each in a zone of its own.
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=i64::from(NodeIndex::MOST)))]
        nodes: u8,
        /// Give Pods and Services IPv6 addresses too.
        #[arg(long)]
        dual_stack: bool,
        /// A program for an image name, before the built-in table. May be given several times.
        #[arg(long = "image", value_name = "NAME=PROGRAM", value_parser = image)]
        images: Vec<(String, PathBuf)>,
    },
    /// End a lab and remove everything it has made, also after a crash.
    Down {
        #[command(flatten)]
        lab: Named,
        /// Every lab on this machine.
        #[arg(long)]
        all: bool,
    },
    /// Show running labs.
    Status,
    /// A shell, or a program, inside the lab's network namespace with KUBECONFIG set.
    Shell {
        #[command(flatten)]
        lab: Named,
        /// The program to run instead of a shell.
        #[arg(trailing_var_arg = true)]
        program: Vec<String>,
    },
    /// Build programs into the cache: the control plane, units by name, or `all`.
    Build {
        /// `all`, or any of kubernetes, etcd, streams, echo-basic, conformance, helm, k6,
        /// cert-manager, prometheus.
        units: Vec<String>,
    },
    /// Run one node's Pods.
    #[command(hide = true)]
    Node {
        #[command(flatten)]
        lab: Named,
        #[arg(long)]
        node: String,
    },
    /// Hand out and answer on load balancer addresses, answer on those of Services, and resolve
    /// names.
    #[command(hide = true)]
    Balancers {
        #[command(flatten)]
        lab: Named,
    },
    /// Take a lab down when the process it belongs to ends.
    #[command(hide = true)]
    Guard {
        #[command(flatten)]
        lab: Named,
    },
    /// Start a container and end as it ends.
    #[command(hide = true)]
    Monitor { plan: PathBuf },
    /// Become a container: build its root and run its program.
    #[command(hide = true)]
    Container { plan: PathBuf },
    /// The echo server of the image `echo`.
    #[command(hide = true)]
    Echo(echo::Options),
}

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| LOGGED.into()),
        )
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    Cli::parse().command.run().unwrap_or_else(|error| {
        eprintln!("sluice-lab: {error:#}");
        ExitCode::FAILURE
    })
}

impl Command {
    fn run(self) -> Result<ExitCode> {
        match self {
            Self::Up { lab, nodes, dual_stack, images } => {
                let settings = LabSettings { nodes, dual_stack, images };
                Lab::up(&Options { name: lab.name.clone(), settings, owner: None })?;
                println!("the lab {0} is up: `sluice-lab shell --name {0}`, then kubectl", lab.name);
            }
            Self::Down { lab, all } => down(lab.name, all)?,
            Self::Status => status(),
            Self::Shell { lab, program } => shell(&lab.name, &program)?,
            Self::Build { units } => build(&units)?,
            Self::Node { lab, node } => {
                let layout = Layout::new(lab.name);
                let index =
                    NodeIndex::named(&node).with_context(|| format!("{node:?} is not the name of a node"))?;
                run(&layout, node::run(layout.clone(), index))?;
            }
            Self::Balancers { lab } => {
                let layout = Layout::new(lab.name);
                let both = async {
                    tokio::try_join!(
                        allocator::run(layout.clone()),
                        forwarder::run(layout.clone()),
                        names::run(layout.clone())
                    )
                };
                run(&layout, both)?;
            }
            Self::Guard { lab } => guard(&lab.name)?,
            Self::Monitor { plan } => return monitor::run(&plan),
            Self::Container { plan } => return Err(container_root::become_container(&plan)),
            Self::Echo(options) => return tokio::runtime::Runtime::new()?.block_on(echo::run(options)),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs a part of a lab inside its network namespace until it fails.
fn run<T>(layout: &Layout, work: impl Future<Output = Result<T>>) -> Result<T> {
    network::enter(&layout.netns())?;
    // Worker threads inherit the namespace of this thread, which starts them.
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(work)
}

fn down(name: LabName, all: bool) -> Result<()> {
    require_machine()?;
    for name in if all { Layout::known() } else { vec![name] } {
        match Lab::down(&name)? {
            true => println!("the lab {name} is down"),
            false => println!("there is no lab called {name}"),
        }
    }
    Ok(())
}

fn shell(name: &LabName, program: &[String]) -> Result<()> {
    let lab = Lab::find(name)?;
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into());
    let (program, arguments) = match program {
        [] => (shell, &[][..]),
        [program, arguments @ ..] => (program.clone(), arguments),
    };
    Err(lab.command(program).args(arguments).exec()).context("cannot run it inside the lab")
}

fn status() {
    let names = Layout::known();
    if names.is_empty() {
        println!("no lab is up");
    }
    for name in names {
        match Lab::find(&name) {
            Err(error) => println!("{error:#}"),
            Ok(lab) => {
                println!("{name}  KUBECONFIG={}", lab.kubeconfig().display());
                for (role, process) in lab.roles() {
                    match process {
                        Some(process) => println!("  {role:<24} pid {}", process.pid()),
                        None => println!("  {role:<24} ended: see {}", lab.layout().log(&role).display()),
                    }
                }
            }
        }
    }
}

fn build(units: &[String]) -> Result<()> {
    let mut chosen = Vec::new();
    for unit in units {
        match (unit.as_str(), Unit::named(unit)) {
            ("all", _) => chosen.extend(Unit::ALL),
            (_, Some(unit)) => chosen.push(unit),
            (other, None) => {
                let known: Vec<&str> = Unit::ALL.into_iter().map(Unit::name).collect();
                bail!("the lab cannot build {other:?}; choose all, {}", known.join(", "));
            }
        }
    }
    if chosen.is_empty() {
        chosen.extend(Unit::CONTROL_PLANE);
    }
    for unit in chosen {
        unit.build()?;
        println!("{} {}: {}", unit.name(), unit.version(), unit.folder().display());
    }
    Ok(())
}

fn image(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, program)) if !name.is_empty() && !program.is_empty() => {
            let program = std::path::absolute(program).map_err(|error| error.to_string())?;
            Ok((name.to_owned(), program))
        }
        _ => Err("NAME=PROGRAM is needed".to_owned()),
    }
}
