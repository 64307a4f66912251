//! Sluice, a Kubernetes ingress gateway: the program. It parses the command line, connects the
//! control plane to the data plane and waits for shutdown. All other functions are in the other
//! crates.

mod admin_client;
mod cgroup;
mod chart_names;
mod check;
mod critical_parts;
#[cfg(test)]
mod documents;
mod flags;
mod geoip;
mod limits;
mod logging;
mod memory;
#[cfg(test)]
mod module_cycles;
mod observe;
mod output;
mod plugin;
mod serve;
mod show;
mod signals;
mod source;
mod wait_shutdown;
mod webhook_cert;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

use flags::{CheckArguments, Command, ServeFlags};
use output::{fail, note, print};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit status for an invalid command line or a failed start (as in ingress-nginx's flag parser).
const USAGE: u8 = 2;

fn main() -> ExitCode {
    if wait_shutdown::is_called(std::env::args_os()) {
        return match wait_shutdown::run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&format_args!("{error:#}"), 1),
        };
    }
    if plugin::is_called(std::env::args_os()) {
        return plugin::run(std::env::args_os().skip(1))
            .unwrap_or_else(|error| fail(&format_args!("{error:#}"), USAGE));
    }
    let parsed = match flags::parse(std::env::args_os().skip(1), |name| std::env::var(name).ok()) {
        Ok(parsed) => parsed,
        Err(error) => return fail(&error, USAGE),
    };
    for warning in &parsed.warnings {
        note(format_args!("sluice: {warning}"));
    }
    match parsed.command {
        Command::Help(text) => print(&text),
        Command::Version => print(concat!("sluice ", env!("CARGO_PKG_VERSION"), "\n")),
        Command::Show(question) => match show::show(question) {
            Ok(text) => print(&text),
            Err(error) => fail(&error, 1),
        },
        Command::Observe(wanted) => {
            observe::run(&wanted).unwrap_or_else(|error| fail(&format_args!("{error:#}"), 1))
        }
        Command::WebhookCert(wanted) => match webhook_cert::run(&wanted) {
            Ok(done) => print(&format!("{done}\n")),
            Err(error) => fail(&format_args!("{error:#}"), 1),
        },
        Command::Serve(flags) => serve(*flags),
        Command::Check(wanted) => check(*wanted),
    }
}

/// Exit status after the failure of a part of the program.
const DIED: u8 = 1;

/// Runs the gateway until SIGTERM.
fn serve(flags: ServeFlags) -> ExitCode {
    let log = match logging::start(flags.verbosity) {
        Ok(log) => log,
        Err(error) => return fail(&error, USAGE),
    };
    critical_parts::log_panics();
    if let Err(error) = limits::raise_open_files() {
        tracing::warn!(%error, "cannot raise the limit of open files; raise it with ulimit -n");
    }
    let served = catch_unwind(AssertUnwindSafe(|| serve::serve(flags, log.clone())));
    let is_written = log.flush(serve::FLUSH);
    // A panic is in the log already.
    let error = match served.unwrap_or_else(|panic| resume_unwind(panic)) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(error) => error,
    };
    // Any other error occurs at the start and is addressed to the author of the command line.
    let status = if error.is::<critical_parts::PartEnded>() { DIED } else { USAGE };
    match is_written {
        true => fail(&format_args!("{error:#}"), status),
        // The output is not read: another line would wait for it without a limit.
        false => ExitCode::from(status),
    }
}

/// Prints all problems of a folder or a cluster.
fn check(wanted: CheckArguments) -> ExitCode {
    match check::check(wanted) {
        Ok(checked) => {
            let printed = print(&checked.text);
            if checked.failed { ExitCode::FAILURE } else { printed }
        }
        Err(error) => fail(&format_args!("{error:#}"), USAGE),
    }
}
