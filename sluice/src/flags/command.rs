//! What the program is asked to do.

use std::net::SocketAddr;

use super::settings::ServeFlags;
use super::webhook_cert::WebhookCert;

/// A subcommand with what it needs.
#[derive(Debug)]
pub(crate) enum Command {
    /// Run the gateway.
    Serve(Box<ServeFlags>),
    /// Translate the manifests, print what is wrong with them, and end.
    Check(Box<Check>),
    /// Print what the running gateway has.
    Show(Show),
    /// Make, renew or announce the certificate of the webhook.
    WebhookCert(WebhookCert),
    /// Print the version.
    Version,
    /// Print this text.
    Help(String),
}

/// What is to be checked, and how that is told.
#[derive(Debug)]
pub(crate) struct Check {
    /// The flags of the gateway that would serve the folder.
    pub(crate) flags: ServeFlags,
    /// In which form.
    pub(crate) output: CheckOutput,
    /// Warnings fail it too.
    pub(crate) strict: bool,
}

/// How the report of a check is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckOutput {
    /// Groups for a terminal.
    Text,
    /// Everything, for programs.
    Json,
    /// A page for people.
    Markdown,
}

/// A question to the running gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Show {
    /// About what.
    pub(crate) view: View,
    /// What becomes of this request, in place of all routes.
    pub(crate) request: Option<Request>,
    /// In which form.
    pub(crate) output: Output,
    /// The gateway's admin listener.
    pub(crate) admin_address: SocketAddr,
}

/// A request that somebody might make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The host, with or without a port.
    pub(crate) host: String,
    /// Path and query.
    pub(crate) path: String,
    /// The method.
    pub(crate) method: String,
    /// Header fields, each `name: value`.
    pub(crate) headers: Vec<String>,
    /// Over https.
    pub(crate) https: bool,
    /// The client's address; empty where none was given.
    pub(crate) client: String,
}

/// A part of the running configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Hosts and rules in the order they are tried.
    Routes,
    /// Pools with their endpoints.
    Backends,
    /// Certificates.
    Certs,
    /// What is wrong with the input.
    Problems,
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Columns for people.
    Table,
    /// For programs: what the admin listener says, unchanged.
    Json,
}

impl View {
    /// All of them, in the order `--help` lists them.
    pub(super) const ALL: [Self; 4] = [Self::Routes, Self::Backends, Self::Certs, Self::Problems];

    /// The subcommand, and the path on the admin listener.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Routes => "routes",
            Self::Backends => "backends",
            Self::Certs => "certs",
            Self::Problems => "problems",
        }
    }

    /// One line of help.
    pub(super) fn about(self) -> &'static str {
        match self {
            Self::Routes => "Print the hosts and rules of the running gateway",
            Self::Backends => "Print its pools with the health of their endpoints",
            Self::Certs => "Print its certificates",
            Self::Problems => "Print what is wrong with the objects it was given",
        }
    }
}
