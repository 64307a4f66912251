//! Output and exit status of a subcommand.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use sluice_config::text::one_line;

/// Prints an error as one line to standard error and returns `status`.
pub(crate) fn fail(error: &dyn fmt::Display, status: u8) -> ExitCode {
    note(format_args!("sluice: {}", one_line(&error.to_string(), 8192)));
    ExitCode::from(status)
}

/// Prints a line to standard error. One that is full or closed is ignored, where `eprintln!` would
/// panic and replace the exit status.
pub(crate) fn note(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints to standard output. A closed pipe (`| head`) is not an error.
pub(crate) fn print(text: &str) -> ExitCode {
    print_bytes(text.as_bytes())
}

/// Like [`print()`].
pub(crate) fn print_bytes(bytes: &[u8]) -> ExitCode {
    let mut stdout = io::stdout();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(&error, 1),
    }
}
