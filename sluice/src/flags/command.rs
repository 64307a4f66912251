//! The parsed command line.

use std::net::SocketAddr;

use super::check::CheckArguments;
use super::observe::ObserveArguments;
use super::output::Output;
use super::settings::ServeFlags;
use super::webhook_cert::WebhookCert;

/// A subcommand with its arguments.
#[derive(Debug)]
pub(crate) enum Command {
    /// Runs the gateway.
    Serve(Box<ServeFlags>),
    /// Translates the manifests, prints their problems, and exits.
    Check(Box<CheckArguments>),
    /// Prints a part of the running gateway's state.
    Show(Show),
    /// Observes running replicas.
    Observe(ObserveArguments),
    /// Creates or renews the certificate of the webhook, or configures the API server to trust it.
    WebhookCert(WebhookCert),
    /// Prints the version.
    Version,
    /// Prints this help text.
    Help(String),
}

/// A query to the running gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Show {
    /// The part of the state to print.
    pub(crate) view: ConfigurationView,
    /// The request to explain, instead of all routes.
    pub(crate) request: Option<ExplainRequest>,
    /// The output format.
    pub(crate) output: Output,
    /// The gateway's admin listener.
    pub(crate) admin_address: SocketAddr,
}

/// A request to explain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExplainRequest {
    /// The host, with or without a port.
    pub(crate) host: String,
    /// Path and query.
    pub(crate) path: String,
    /// The method.
    pub(crate) method: String,
    /// Header fields, each `name: value`.
    pub(crate) headers: Vec<String>,
    /// Whether the request uses https.
    pub(crate) https: bool,
    /// The client's address; empty if not given.
    pub(crate) client: String,
}

/// A part of the running configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfigurationView {
    /// Hosts and rules in evaluation order.
    Routes,
    /// Pools with their endpoints.
    Backends,
    /// Certificates.
    Certs,
    /// Problems of the configuration.
    Problems,
}

impl ConfigurationView {
    /// All views in the order of `--help`.
    pub(super) const ALL: [Self; 4] = [Self::Routes, Self::Backends, Self::Certs, Self::Problems];

    /// Returns the subcommand, which is also the path on the admin listener.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Routes => "routes",
            Self::Backends => "backends",
            Self::Certs => "certs",
            Self::Problems => "problems",
        }
    }

    /// Returns one line of help.
    pub(super) fn about(self) -> &'static str {
        match self {
            Self::Routes => "Print the hosts and rules of the running gateway",
            Self::Backends => "Print its pools with the health of their endpoints",
            Self::Certs => "Print its certificates",
            Self::Problems => "Print the problems of all objects, and how to fix them",
        }
    }
}
