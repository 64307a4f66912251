//! The grammar of the command line: subcommands and their arguments, in clap's types.

use clap::builder::StyledStr;
use clap::{Arg, ArgAction};

use super::command::ConfigurationView;
use super::table::{self, Flag};
use super::{check, observe, webhook_cert};
use crate::wait_shutdown;

pub(super) const ADMIN: &str = "admin-address";
pub(super) const OUTPUT: &str = "output";
pub(super) const HOST: &str = "host";
pub(super) const PATH: &str = "path";
pub(super) const METHOD: &str = "method";
pub(super) const HEADER: &str = "header";
pub(super) const HTTPS: &str = "https";
pub(super) const CLIENT: &str = "client";

pub(super) const VERSION: &str = "version";
const HELP: &str = "help";

/// The subcommands beside those of [`ConfigurationView`] and [`observe`].
pub(super) const OTHERS: [&str; 6] =
    ["serve", "check", webhook_cert::NAME, wait_shutdown::NAME, VERSION, HELP];

/// Returns the grammar of the program.
pub(super) fn program() -> clap::Command {
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
