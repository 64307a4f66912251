//! The terminal, whose content is replaced in place.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write, stdout};

use rustix::termios::tcgetwinsize;

/// A terminal.
#[derive(Debug)]
pub(super) struct Screen;

impl Screen {
    /// Returns the terminal; `None` if the output is not one.
    pub(super) fn open() -> Option<Self> {
        stdout().is_terminal().then_some(Self)
    }

    /// Replaces the content with the lines that fit.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn show(&self, text: &str) -> std::io::Result<()> {
        // Without a size, every terminal has so much.
        let (rows, columns) =
            tcgetwinsize(stdout()).map_or((24, 80), |size| (size.ws_row.into(), size.ws_col.into()));
        let mut out = stdout().lock();
        out.write_all(frame(text, rows, columns).as_bytes())?;
        out.flush()
    }
}

/// Returns the control sequences and lines that replace the content of a terminal of this size. The
/// last row stays free for the cursor.
fn frame(text: &str, rows: usize, columns: usize) -> String {
    let mut frame = "\x1b[H".to_owned();
    for line in text.lines().take(rows.saturating_sub(1)) {
        let line: String = line.chars().take(columns).collect();
        // The rest of the row is cleared after the line, so nothing flickers.
        let _ = write!(frame, "{line}\x1b[K\r\n");
    }
    frame + "\x1b[J"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_to_the_terminal() {
        assert_eq!(frame("one\ntwo\nthree\n", 3, 2), "\x1b[Hon\x1b[K\r\ntw\x1b[K\r\n\x1b[J");
    }
}
