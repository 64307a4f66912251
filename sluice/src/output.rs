//! Output and exit status of a subcommand.

use std::process::ExitCode;

use sluice_config::text::one_line;

/// Prints an error as one line to standard error and returns `status`.
pub(crate) fn fail(error: &dyn std::fmt::Display, status: u8) -> ExitCode {
    eprintln!("sluice: {}", one_line(&error.to_string(), 8192));
    ExitCode::from(status)
}

/// Prints to standard output. A closed pipe (`| head`) is not an error.
pub(crate) fn print(text: &str) -> ExitCode {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(&error, 1),
    }
}
