//! The arguments of clap for the flags of the table, and those that several subcommands have.

use std::net::SocketAddr;

use clap::builder::StyledStr;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};

use super::error::FlagError;
use super::settings::ServeFlags;
use super::table::{self, Flag};
use super::value;

const ADMIN: &str = "admin-address";

/// Returns all flags with their defaults.
pub(super) fn defaults() -> ServeFlags {
    let mut flags = ServeFlags::empty();
    for flag in table::all().filter(|flag| !flag.default.is_empty()) {
        flag.value.put(flag.default, &mut flags).expect("a test puts every default of the table");
    }
    flags
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

/// Returns the argument that names the admin listener.
pub(super) fn admin_arguments() -> Vec<Arg> {
    arguments(|flag| flag.name == ADMIN)
}

/// Returns the arguments for these flags.
pub(super) fn arguments(wanted: fn(&Flag) -> bool) -> Vec<Arg> {
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
