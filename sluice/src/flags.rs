//! The command line: parses subcommands and flags into types.
//!
//! Flags have ingress-nginx's names and pflag's forms (`--name value`, `--name=value`; a bool never
//! takes the next word). All properties of a flag are defined in one place, [`table`]: its name,
//! type, default, destination and help text. The parser, `--help`, the defaults and the warnings
//! about flags without effect are derived from that table.

mod arguments;
mod check;
mod command;
mod error;
mod grammar;
mod observe;
mod output;
mod parse;
mod rules;
mod settings;
mod table;
mod value;
mod webhook_cert;

pub(crate) use check::{
    CheckArguments, CheckOutput, ComparisonArguments, ControllerAddress, RequestArguments,
};
pub(crate) use command::{Command, ConfigurationView, ExplainRequest, Show};
pub(crate) use observe::{
    ArchiveDestination, Bundle, LiveRequests, Observation, ObserveArguments, TapArguments, Top, TopOrder,
    TraceNext,
};
pub(crate) use output::Output;
#[cfg(test)]
pub(crate) use parse::ParsedCommandLine;
pub(crate) use parse::parse;
pub(crate) use settings::{ClusterFlags, GatewayFlags, GeoipFlags, ServeFlags};
pub(crate) use value::bool as parse_bool;
pub(crate) use webhook_cert::{WebhookCert, WebhookCertAction};

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
