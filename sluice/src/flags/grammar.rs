//! The grammar of the command line: subcommands and their arguments, in clap's types.

use clap::{Arg, ArgAction};

use super::arguments::{admin_arguments, arguments, switch};
use super::command::ConfigurationView;
use super::output::output_argument;
use super::{check, observe, webhook_cert};
use crate::wait_shutdown;

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
            "Print every problem of a folder of manifests or of a cluster (--kubeconfig) without changing anything, and what \
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
