//! Parses the command line into a [`Command`]. clap splits the words according to the table; all
//! further steps are implemented here, so that an error is one line that states the remedy.

use std::ffi::OsString;

use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use sluice_config::redaction::{HIDDEN, without_user};
use sluice_gateway::state::setting_values::{SettingOrigin, SettingValue};

use super::arguments::{admin_address, defaults, is_on, needs};
use super::command::{Command, ConfigurationView, ExplainRequest, Show};
use super::error::FlagError;
use super::grammar::{CLIENT, HEADER, HOST, HTTPS, METHOD, OTHERS, PATH, VERSION, program};
use super::output::output;
use super::table::{self, Flag};
use super::{check, observe, rules, webhook_cert};

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
        Some((webhook_cert::NAME, matches)) => {
            webhook_cert::parse(matches, environment).map(|parsed| plain(Command::WebhookCert(parsed)))
        }
        Some((VERSION, _)) => Ok(plain(Command::Version)),
        Some((name, matches)) if observe::NAMES.contains(&name) => {
            observe::parse(name, matches).map(|parsed| plain(Command::Observe(parsed)))
        }
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

fn given<'a>(flag: &Flag, matches: &'a ArgMatches) -> Option<impl Iterator<Item = &'a String>> {
    matches.get_many::<String>(flag.name)
}

fn has_value(name: &str, matches: &ArgMatches) -> bool {
    matches.get_many::<String>(name).is_some_and(|mut values| values.any(|value| !value.is_empty()))
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
