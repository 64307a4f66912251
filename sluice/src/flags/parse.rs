//! Parses the command line into a [`Command`]. clap splits the words according to the table; all
//! further steps are implemented here, so that an error is one line that states the remedy.

use std::ffi::OsString;
use std::net::SocketAddr;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};
use sluice_config::redaction::{HIDDEN, without_user};
use sluice_gateway::state::setting_values::{SettingOrigin, SettingValue};

use super::check;
use super::command::{Command, ConfigurationView, ExplainRequest, Output, Show};
use super::observe;
use super::rules;
use super::settings::ServeFlags;
use super::table::{self, Flag};
use super::{value, webhook_cert};
use crate::wait_shutdown;

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

/// The parsed command line.
#[derive(Debug)]
pub(crate) struct ParsedCommandLine {
    /// The command to execute.
    pub(crate) command: Command,
    /// One line for each given flag that has no effect. Those of a check are in its report.
    pub(crate) warnings: Vec<String>,
}

/// Parses the arguments after the program's name. `environment` looks up environment variables.
pub(crate) fn parse(
    words: impl IntoIterator<Item = OsString>,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<ParsedCommandLine, FlagError> {
    let mut words = words.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
    let first = words.first().map_or("", String::as_str);
    if first.is_empty() || (first.starts_with('-') && !matches!(first, "-h" | "--help")) {
        words.insert(0, "serve".to_owned());
    }
    let mut names = ConfigurationView::ALL.iter().map(|view| view.name()).chain(observe::NAMES).chain(OTHERS);
    let command: &'static str = names.find(|name| *name == words[0]).unwrap_or("serve");
    let matches = match program().try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(error) => return refused(&error, command).map(plain),
    };
    match matches.subcommand() {
        Some((name @ ("serve" | "check"), matches)) => {
            let name = if name == "serve" { "serve" } else { "check" };
            serve(name, matches, environment)
        }
        Some((webhook_cert::NAME, matches)) => webhook_cert::parse(matches, environment).map(plain),
        Some((VERSION, _)) => Ok(plain(Command::Version)),
        Some((name, matches)) if observe::NAMES.contains(&name) => observe::parse(name, matches).map(plain),
        Some((name, matches)) => match ConfigurationView::ALL.into_iter().find(|view| view.name() == name) {
            Some(view) => show(view, matches).map(plain),
            None => Err(FlagError::Subcommand { word: name.to_owned() }),
        },
        None => Err(FlagError::Subcommand { word: words[0].clone() }),
    }
}

fn text(word: OsString) -> Result<String, FlagError> {
    word.into_string().map_err(|word| FlagError::Encoding { word: word.to_string_lossy().into_owned() })
}

fn plain(command: Command) -> ParsedCommandLine {
    ParsedCommandLine { command, warnings: Vec::new() }
}

/// Applies the defaults, then the given values.
fn serve(
    name: &'static str,
    matches: &ArgMatches,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<ParsedCommandLine, FlagError> {
    let mut flags = defaults();
    let (mut without_effect, mut names) = (Vec::new(), Vec::new());
    for flag in table::all() {
        let Some(given) = given(flag, matches) else { continue };
        names.push(flag.name);
        flag.value.clear(&mut flags);
        for value in given {
            flag.value.put(value, &mut flags).map_err(|expected| FlagError::Value {
                flag: flag.name,
                value: value.clone(),
                expected,
            })?;
        }
        if let Some(reason) = flag.value.without_effect() {
            without_effect.push((flag.name, reason));
        }
    }
    if flags.version {
        return Ok(plain(Command::Version));
    }
    for (one, other) in rules::EXCLUSIVE {
        if has_value(one, matches) && has_value(other, matches) {
            return Err(FlagError::Exclusive { one, other });
        }
    }
    rules::check(&flags)?;
    let taken = rules::ports(&flags).into_iter().filter(|(_, port)| *port != 0);
    flags.controller.reserved_ports = taken.map(|(flag, port)| (port, format!("--{flag}"))).collect();
    // Without a folder, `serve` uses a cluster, which is determined at the start.
    let cluster = flags.cluster.kubeconfig.is_some() || flags.cluster.apiserver_host.is_some();
    if flags.manifests.is_none() && !cluster && name == "check" {
        return Err(FlagError::NoSource);
    }
    flags.values = values(matches);
    flags.gateway.pod_name = environment("POD_NAME").unwrap_or_default();
    flags.gateway.pod_namespace = environment("POD_NAMESPACE").unwrap_or_default();
    flags.controller.node_name = environment("NODE_NAME").filter(|name| !name.is_empty());
    if name == "check" {
        // The location of the check does not determine the zone of the gateway.
        flags.controller.enable_topology_aware_routing = false;
        let check = check::read(matches, flags, names, without_effect)?;
        return Ok(plain(Command::Check(Box::new(check))));
    }
    let warning = |(flag, reason)| format!("flag --{flag} has no effect: {reason}");
    let warnings = without_effect.into_iter().map(warning).collect();
    Ok(ParsedCommandLine { command: Command::Serve(Box::new(flags)), warnings })
}

/// Returns all flags with their values as text, without secrets.
fn values(matches: &ArgMatches) -> Vec<SettingValue> {
    let value = |flag: &Flag| {
        let given: Option<Vec<&str>> =
            given(flag, matches).map(|values| values.map(String::as_str).collect());
        let origin = if given.is_some() { SettingOrigin::Flag } else { SettingOrigin::Default };
        let value = match given {
            Some(_) if flag.is_secret => HIDDEN.to_owned(),
            Some(given) => without_user(&given.join(",")),
            None => flag.default.to_owned(),
        };
        SettingValue { name: format!("--{}", flag.name), value, origin }
    };
    table::all().map(value).collect()
}

/// Returns all flags with their defaults.
pub(super) fn defaults() -> ServeFlags {
    let mut flags = ServeFlags::empty();
    for flag in table::all().filter(|flag| !flag.default.is_empty()) {
        flag.value.put(flag.default, &mut flags).expect("a test puts every default of the table");
    }
    flags
}

pub(super) fn output(matches: &ArgMatches) -> Result<Output, FlagError> {
    match matches.get_one::<String>(OUTPUT).map_or("", String::as_str) {
        "json" => Ok(Output::Json),
        "table" => Ok(Output::Table),
        other => Err(FlagError::Value { flag: OUTPUT, value: other.to_owned(), expected: "json or table" }),
    }
}

/// Returns the admin listener to query.
pub(super) fn admin_address(matches: &ArgMatches) -> Result<SocketAddr, FlagError> {
    let mut flags = defaults();
    if let Some(values) = matches.get_many::<String>(ADMIN) {
        let flag = table::all().find(|flag| flag.name == ADMIN).expect("the table has --admin-address");
        for value in values {
            flag.value.put(value, &mut flags).map_err(|expected| FlagError::Value {
                flag: ADMIN,
                value: value.clone(),
                expected,
            })?;
        }
    }
    Ok(flags.gateway.admin_address)
}

fn show(view: ConfigurationView, matches: &ArgMatches) -> Result<Command, FlagError> {
    let (output, admin_address) = (output(matches)?, admin_address(matches)?);
    let request = if view == ConfigurationView::Routes { request(matches)? } else { None };
    Ok(Command::Show(Show { view, request, output, admin_address }))
}

fn request(matches: &ArgMatches) -> Result<Option<ExplainRequest>, FlagError> {
    needs(matches, &[PATH, METHOD, HEADER, HTTPS, CLIENT].map(|flag| (flag, HOST)))?;
    let one = |name| matches.get_one::<String>(name).cloned();
    let Some(host) = one(HOST) else { return Ok(None) };
    Ok(Some(ExplainRequest {
        host,
        path: one(PATH).unwrap_or_default(),
        method: one(METHOD).unwrap_or_default(),
        headers: matches.get_many::<String>(HEADER).into_iter().flatten().cloned().collect(),
        https: is_on(matches, HTTPS)?,
        client: one(CLIENT).unwrap_or_default(),
    }))
}

/// Checks that none of these flags is given without the one that it needs.
pub(super) fn needs(matches: &ArgMatches, flags: &[(&'static str, &'static str)]) -> Result<(), FlagError> {
    let is_given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
    let lacking = flags.iter().find(|(flag, other)| is_given(flag) && !is_given(other));
    lacking.map_or(Ok(()), |&(flag, other)| Err(FlagError::Needs { flag, other }))
}

/// Returns the value of a [`switch`].
pub(super) fn is_on(matches: &ArgMatches, name: &'static str) -> Result<bool, FlagError> {
    let Some(text) = matches.get_many::<String>(name).and_then(Iterator::last) else { return Ok(false) };
    value::bool(text).map_err(|expected| FlagError::Value { flag: name, value: text.clone(), expected })
}

fn given<'a>(flag: &Flag, matches: &'a ArgMatches) -> Option<impl Iterator<Item = &'a String>> {
    matches.get_many::<String>(flag.name)
}

fn has_value(name: &str, matches: &ArgMatches) -> bool {
    matches.get_many::<String>(name).is_some_and(|mut values| values.any(|value| !value.is_empty()))
}

const ADMIN: &str = "admin-address";
const OUTPUT: &str = "output";
const HOST: &str = "host";
const PATH: &str = "path";
const METHOD: &str = "method";
const HEADER: &str = "header";
const HTTPS: &str = "https";
const CLIENT: &str = "client";

const VERSION: &str = "version";
const HELP: &str = "help";

/// The subcommands beside those of [`ConfigurationView`] and [`observe`].
const OTHERS: [&str; 6] = ["serve", "check", webhook_cert::NAME, wait_shutdown::NAME, VERSION, HELP];

/// Returns the grammar of the program.
fn program() -> clap::Command {
    let serve = clap::Command::new("serve")
        .about("Serve a cluster or a folder of manifests (the default subcommand)")
        .args(arguments(|_| true));
    let check = clap::Command::new("check")
        .about(
            "Print every problem of a folder of manifests or of a cluster (--kubeconfig), of which nothing is changed, and what \
             requests get; exits with 1 when one is an error, or when responses differ, with 0 otherwise, and with 2 when the \
             source or the flags cannot be read",
        )
        .args(arguments(|_| true))
        .args(check::arguments());
    let shows = ConfigurationView::ALL.map(|view| {
        clap::Command::new(view.name())
            .about(view.about())
            .args(admin_arguments())
            .arg(output_argument())
            .args(if view == ConfigurationView::Routes { request_arguments() } else { Vec::new() })
    });
    clap::Command::new("sluice")
        .about("A Kubernetes ingress gateway")
        .no_binary_name(true)
        .bin_name("sluice")
        .subcommands([serve, check])
        .subcommands(shows)
        .subcommands(observe::grammars())
        .subcommand(webhook_cert::grammar())
        .subcommand(clap::Command::new(wait_shutdown::NAME).about(
            "End the gateway of this container and wait until it has ended, as a preStop hook; takes no flags",
        ))
        .subcommand(clap::Command::new(VERSION).about("Print the version"))
}

/// Returns the arguments of `routes` that describe a request.
fn request_arguments() -> Vec<Arg> {
    let argument = |name: &'static str, value, help| Arg::new(name).long(name).value_name(value).help(help);
    let about_a_request = |argument: Arg| argument.help_heading("What one request gets, and why");
    let host = argument(
        HOST,
        "NAME",
        "explain the response to a request for this host, and why no other rule applies",
    );
    vec![
        host.help_heading("What one request gets, and why"),
        about_a_request(argument(PATH, "PATH", "its path, with its query").default_value("/")),
        about_a_request(argument(METHOD, "METHOD", "its method").default_value("GET")),
        about_a_request(argument(HEADER, "'NAME: VALUE'", "a header field; may be given several times"))
            .action(ArgAction::Append),
        about_a_request(switch(HTTPS, "over https")),
        about_a_request(argument(CLIENT, "ADDRESS", "the client's address, for address lists and limits")),
    ]
}

/// Returns the argument that names the admin listener.
pub(super) fn admin_arguments() -> Vec<Arg> {
    arguments(|flag| flag.name == ADMIN)
}

pub(super) fn output_argument() -> Arg {
    Arg::new(OUTPUT).short('o').long(OUTPUT).value_name("FORMAT").default_value("table").help("json or table")
}

fn arguments(wanted: fn(&Flag) -> bool) -> Vec<Arg> {
    let groups = table::GROUPS.iter();
    groups
        .flat_map(|group| group.flags.iter().map(move |flag| (group.heading, flag)))
        .filter(|(_, flag)| wanted(flag))
        .map(|(heading, flag)| argument(heading, flag))
        .collect()
}

/// Converts a flag to clap's type, with pflag's forms.
fn argument(heading: &'static str, flag: &'static Flag) -> Arg {
    let mut help = flag.help.to_owned();
    if !flag.default.is_empty() {
        help.push_str(&format!(" [default: {}]", flag.default));
    }
    if let Some(reason) = flag.value.without_effect() {
        help.push_str(&format!(" (no effect: {reason})"));
    }
    let argument = Arg::new(flag.name)
        .long(flag.name)
        .value_name(flag.value.type_name())
        .action(ArgAction::Append)
        .help_heading(heading)
        .help(StyledStr::from(help));
    // pflag also accepts a single dash for one-letter flags of Go's flag package.
    let argument = match flag.name {
        "v" => argument.short('v'),
        _ => argument,
    };
    if flag.value.is_bool() { bool(argument) } else { argument.num_args(1).allow_hyphen_values(true) }
}

/// Makes an argument a bool with pflag's forms: `--name` and `--name=false`.
fn bool(argument: Arg) -> Arg {
    argument.num_args(0..=1).require_equals(true).default_missing_value("true")
}

/// Returns a bool argument that is off by default.
pub(super) fn switch(name: &'static str, help: &'static str) -> Arg {
    bool(Arg::new(name).long(name).value_name("BOOL").action(ArgAction::Append).help(help))
}

/// Converts clap's error to one line. clap reports help and version as errors, too.
fn refused(error: &clap::Error, command: &'static str) -> Result<Command, FlagError> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    let argument = context(ContextKind::InvalidArg);
    Err(match (error.kind(), argument) {
        (ErrorKind::DisplayHelp, _) => return Ok(Command::Help(error.to_string())),
        (ErrorKind::UnknownArgument, Some(name)) if name.starts_with('-') => {
            FlagError::Unknown { name, similar: context(ContextKind::SuggestedArg), command }
        }
        (ErrorKind::UnknownArgument, Some(word)) => FlagError::Stray { word },
        (ErrorKind::MissingSubcommand, _) => FlagError::Incomplete { command, needs: "create or patch" },
        (ErrorKind::InvalidSubcommand, _) => {
            FlagError::Subcommand { word: context(ContextKind::InvalidSubcommand).unwrap_or_default() }
        }
        (ErrorKind::InvalidValue, Some(usage)) => {
            FlagError::NoValue { flag: usage.split([' ', '=', '[']).next().unwrap_or_default().to_owned() }
        }
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            FlagError::Other(line.trim_start_matches("error: ").to_owned())
        }
    })
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
