//! The arguments of `kubectl sluice`. The flags that select the gateway have the names used by the
//! plugin of ingress-nginx and by kubectl, and may appear anywhere; all other flags belong to the
//! subcommand.

use anyhow::{Context, Result, bail, ensure};

/// The subcommands in the order of the help.
pub(crate) const COMMANDS: [&str; 13] = [
    "backends",
    "bundle",
    "certs",
    "check",
    "ingresses",
    "logs",
    "problems",
    "routes",
    "tap",
    "top",
    "trace-next",
    "ui",
    "version",
];

/// Output of `kubectl sluice --help`.
pub(super) const HELP: &str = "\
Look into a running gateway of Sluice.

Usage: kubectl sluice COMMAND [flags]

Commands:
  backends    Pools with the health of their endpoints
  bundle      One archive for a bug report: configuration without secrets, problems, metrics, logs, versions
  certs       Certificates
  check       What would not be served as it asks, in the whole cluster, with the flags of the gateway named below;
              that may be one of ingress-nginx
  ingresses   Ingresses with their hosts, addresses and endpoints (--all-namespaces, --host, --service)
  logs        The access log and the program log; takes the flags of kubectl logs
  problems    What is wrong with the objects that the gateway was given, and how to fix it
  routes      Hosts and rules; with --host NAME --path PATH what one request gets, and why
  tap         Requests of all replicas as they end (--host, --path, --status, --client, --sample)
  top         Rules by requests, errors and latency, added over all replicas; which replica differs
  trace-next  Every step of the next request at any replica (--host, --path)
  ui          Forward a local port to the web page, and print its address
  version     The version of this plugin

Which gateway:
  -n, --namespace NAME    its namespace; without it, all are searched. For ingresses: theirs
      --deployment NAME   a Pod of this Deployment
      --pod NAME          this Pod
  -l, --selector LABELS   a Pod with these labels
                          [default: app.kubernetes.io/name=sluice,app.kubernetes.io/component=controller]
  -c, --container NAME    its container, where a Pod has several

Which cluster:
      --context NAME      a context of the kubeconfig
      --kubeconfig PATH   the kubeconfig

backends, certs, problems, routes, tap, top and trace-next print text, or JSON with -o json. kubectl has to be on the path.
";

/// Output of `kubectl sluice logs --help`.
pub(super) const LOGS_HELP: &str = "\
Print the logs of a Pod of the gateway: the access log and the program log.

Usage: kubectl sluice logs [flags of kubectl logs] [flags that select the gateway]

`kubectl logs --help` lists the flags of kubectl logs, such as --follow and --since.
`kubectl sluice --help` lists those that select the gateway.
";

/// Output of `kubectl sluice ingresses --help`.
pub(super) const INGRESSES_HELP: &str = "\
Print a line for each path of each Ingress, with its backend and the number of ready endpoints.

Usage: kubectl sluice ingresses [flags]

  -A, --all-namespaces    Ingresses of all namespaces
  -n, --namespace NAME    Ingresses of this namespace [default: the namespace of the context]
      --host NAME         Ingresses with this host only
      --service NAME      Ingresses with this Service only
      --context NAME      a context of the kubeconfig
      --kubeconfig PATH   the kubeconfig
";

/// Selects the gateway and the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GatewaySelection {
    /// `-n`, `--namespace`.
    pub(super) namespace: Option<String>,
    /// `--deployment`.
    pub(super) deployment: Option<String>,
    /// `--pod`.
    pub(super) pod: Option<String>,
    /// `-l`, `--selector`.
    pub(super) selector: Option<String>,
    /// `-c`, `--container`.
    pub(super) container: Option<String>,
    /// `--context`.
    pub(super) context: Option<String>,
    /// `--kubeconfig`.
    pub(super) kubeconfig: Option<String>,
}

/// The parsed arguments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PluginArguments {
    /// The subcommand; empty for help.
    pub(crate) command: String,
    /// The selected gateway.
    pub(crate) target: GatewaySelection,
    /// The arguments of the subcommand, in order.
    pub(crate) rest: Vec<String>,
}

impl PluginArguments {
    /// Returns whether the flags of the subcommand include the one for help.
    pub(super) fn has_help_flag(&self) -> bool {
        self.rest.iter().any(|word| matches!(word.as_str(), "-h" | "--help"))
    }

    /// Parses the arguments after the program's name.
    ///
    /// # Errors
    /// A flag has no value, or two flags contradict each other.
    pub(crate) fn read(words: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut read = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            if let Some(place) = read.target.place(name) {
                let value = value.or_else(|| words.next());
                *place = Some(
                    value
                        .filter(|value| !value.is_empty())
                        .with_context(|| format!("{name} needs a value"))?,
                );
            } else if read.command.is_empty() && matches!(word.as_str(), "-h" | "--help") {
                return Ok(Self::default());
            } else if read.command.is_empty() && word == "--version" {
                return Ok(Self { command: "version".to_owned(), ..Self::default() });
            } else if read.command.is_empty() && !word.starts_with('-') {
                read.command = word;
            } else if read.command.is_empty() {
                bail!("unknown flag {word}; `kubectl sluice --help` lists all");
            } else {
                read.rest.push(word);
            }
        }
        let GatewaySelection { deployment, pod, selector, .. } = &read.target;
        let given = [deployment, pod, selector].into_iter().flatten().count();
        ensure!(given < 2, "--deployment, --pod and --selector exclude each other; remove all but one");
        Ok(read)
    }
}

impl GatewaySelection {
    fn place(&mut self, flag: &str) -> Option<&mut Option<String>> {
        Some(match flag {
            "-n" | "--namespace" => &mut self.namespace,
            "--deployment" => &mut self.deployment,
            "--pod" => &mut self.pod,
            "-l" | "--selector" => &mut self.selector,
            "-c" | "--container" => &mut self.container,
            "--context" => &mut self.context,
            "--kubeconfig" => &mut self.kubeconfig,
            _ => return None,
        })
    }
}
