//! `sluice top`: rules by traffic, added over all replicas.
//!
//! Replicas only count, and the differences between two looks are computed here. So several
//! readers, and the web page, do not affect each other.

mod figures;
mod history;
mod screen;
mod table;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};

use super::Replica;
use crate::flags::{Output, Top};
use crate::output::print;
use figures::TopFigures;
use history::History;
use screen::Screen;

/// Prints tables until the program is interrupted, or one if the output is no terminal.
///
/// # Errors
/// No replica is reachable at the start.
pub(super) fn run(arguments: &Top, replicas: &[Replica]) -> Result<ExitCode> {
    let mut histories: Vec<History> = replicas.iter().map(|replica| History::of(replica.clone())).collect();
    look(&mut histories);
    if let Some(failures) = histories.iter().map(History::failure).collect::<Option<Vec<_>>>() {
        bail!("{}", failures.first().map_or("there is no replica", String::as_str));
    }
    let screen = if arguments.once || arguments.output == Output::Json { None } else { Screen::open() };
    loop {
        pause(arguments.interval);
        look(&mut histories);
        let figures = TopFigures::of(&histories, arguments);
        let Some(screen) = &screen else {
            return Ok(print(&match arguments.output {
                Output::Json => serde_json::to_string_pretty(&figures)? + "\n",
                Output::Table => table::render(&figures, arguments.sort),
            }));
        };
        screen.show(&table::render(&figures, arguments.sort))?;
    }
}

/// Reads the current figures of all replicas at the same time.
fn look(histories: &mut [History]) {
    thread::scope(|scope| {
        for history in histories {
            scope.spawn(move || history.look());
        }
    });
}

#[expect(clippy::disallowed_methods, reason = "the program only waits; no connection depends on it")]
fn pause(time: Duration) {
    thread::sleep(time);
}
