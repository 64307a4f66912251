//! Errors of the command line.

use super::table;

/// An invalid command line. Each message states what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FlagError {
    /// A flag that the subcommand does not have.
    #[error("unknown flag {name}{}; `sluice {command} --help` lists all flags", hint(.similar))]
    Unknown {
        /// The flag as given.
        name: String,
        /// A flag with a similar name.
        similar: Option<String>,
        /// The subcommand.
        command: &'static str,
    },
    /// A value of the wrong type.
    #[error("invalid value {value:?} for --{flag}: it needs {expected}")]
    Value {
        /// The flag.
        flag: &'static str,
        /// The value as given.
        value: String,
        /// The expected format.
        expected: &'static str,
    },
    /// A flag without its required value.
    #[error("{flag} needs a value: write {flag} VALUE or {flag}=VALUE")]
    NoValue {
        /// The flag.
        flag: String,
    },
    /// A word that is neither a flag nor a value.
    #[error(
        "unexpected argument {word:?}; values of bool flags are written --flag=false, subcommands come first"
    )]
    Stray {
        /// The word.
        word: String,
    },
    /// An unknown subcommand.
    #[error(
        "unknown subcommand {word:?}; there are serve, check, routes, backends, certs, problems, top, tap, trace-next, bundle, \
         ui, webhook-cert, wait-shutdown, version and help"
    )]
    Subcommand {
        /// The word.
        word: String,
    },
    /// A subcommand without its required subcommand.
    #[error("{command} needs {needs}; see `sluice {command} --help`")]
    Incomplete {
        /// The subcommand.
        command: &'static str,
        /// The possible subcommands.
        needs: &'static str,
    },
    /// A required flag is missing.
    #[error("{command} needs --{flag}; see `sluice {command} --help`")]
    Required {
        /// The subcommand.
        command: &'static str,
        /// The flag.
        flag: &'static str,
    },
    /// Two flags that exclude each other.
    #[error("--{one} and --{other} exclude each other; remove one of them")]
    Exclusive {
        /// The first flag.
        one: &'static str,
        /// The second flag.
        other: &'static str,
    },
    /// A flag that requires another one.
    #[error("--{flag} needs --{other}; {} or remove --{flag}", add(.other))]
    Needs {
        /// The flag.
        flag: &'static str,
        /// The required flag.
        other: &'static str,
    },
    /// Two listeners with the same port.
    #[error("port {port} is already in use by --{one}. Please check the flag --{other}")]
    SamePort {
        /// The port.
        port: u16,
        /// The flag of the first listener.
        one: &'static str,
        /// The flag of the second listener.
        other: &'static str,
    },
    /// `check` without a source.
    #[error("check needs --manifests DIR, a folder of Kubernetes manifests, or --kubeconfig FILE, a cluster")]
    NoSource,
    /// A comparison without requests.
    #[error("--against needs requests to send: add --urls FILE or --access-log FILE")]
    NoRequests,
    /// An argument that is not Unicode.
    #[error("argument {word:?} is not valid UTF-8; write it in UTF-8")]
    Encoding {
        /// The argument, with replacement characters.
        word: String,
    },
    /// Any other error reported by clap.
    #[error("{0}; see `sluice --help`")]
    Other(String),
}

/// Returns what to do about a missing flag.
fn add(name: &str) -> String {
    match table::all().any(|flag| flag.name == name && flag.value.is_bool()) {
        true => format!("set --{name}=true"),
        false => format!("add --{name}"),
    }
}

fn hint(similar: &Option<String>) -> String {
    similar.as_ref().map(|name| format!(" (did you mean {name}?)")).unwrap_or_default()
}
