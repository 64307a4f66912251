//! Commands that observe running replicas: `top`, `tap`, `trace-next`, `bundle` and `ui`.
//!
//! They read the admin listeners of one or several replicas. `sluice` reads the one of this
//! machine; the plugin forwards a local port to each replica, so both run the same code.

mod bundle;
mod live;
mod replica;
mod tap;
mod top;
mod trace_next;
mod ui;

use std::process::ExitCode;

use anyhow::Result;

use crate::flags::{Observation, ObserveArguments};
pub(crate) use bundle::LogSource;
pub(crate) use replica::Replica;

/// Runs a command on the replica of this machine.
///
/// # Errors
/// The replica is unreachable, or its response is invalid.
pub(crate) fn run(observe: &ObserveArguments) -> Result<ExitCode> {
    run_on(&observe.action, &[Replica::here(observe.admin_address)], &bundle::LogFile)
}

/// Runs a command on these replicas.
///
/// # Errors
/// No replica is reachable, or a response is invalid.
pub(crate) fn run_on(action: &Observation, replicas: &[Replica], log: &dyn LogSource) -> Result<ExitCode> {
    match action {
        Observation::Top(arguments) => top::run(arguments, replicas),
        Observation::Tap(arguments) => tap::run(arguments, replicas),
        Observation::TraceNext(arguments) => trace_next::run(arguments, replicas),
        Observation::Bundle(arguments) => bundle::run(arguments, replicas, log),
        Observation::Ui(_) => ui::run(replicas),
    }
}
