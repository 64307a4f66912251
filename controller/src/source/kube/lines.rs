//! The lines of a watch, with a limit to the time between two of them.

use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt};

/// Bytes that are kept for the next line. One of a large object needs more, for as long as it is looked at.
const KEPT: usize = 16 * 1024;

/// Reads an answer line by line.
pub(super) struct Lines<R> {
    input: R,
    line: Vec<u8>,
}

/// What one read gives.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineRead<'a> {
    /// A line, without its end.
    Line(&'a [u8]),
    /// The server has ended the answer.
    End,
    /// It broke off.
    Cut,
    /// Nothing came for too long.
    Silence,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, line: Vec::new() }
    }

    /// The next line that is not empty.
    pub(super) async fn next(&mut self, patience: Duration) -> LineRead<'_> {
        loop {
            self.line.clear();
            self.line.shrink_to(KEPT);
            match tokio::time::timeout(patience, self.input.read_until(b'\n', &mut self.line)).await {
                Err(_) => return LineRead::Silence,
                Ok(Err(_)) => return LineRead::Cut,
                Ok(Ok(0)) => return LineRead::End,
                Ok(Ok(_)) => {}
            }
            if self.line.pop() != Some(b'\n') {
                return LineRead::Cut;
            }
            if !self.line.is_empty() {
                break;
            }
        }
        LineRead::Line(&self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &str) -> Vec<String> {
        let mut lines = Lines::new(text.as_bytes());
        let mut all = Vec::new();
        loop {
            match lines.next(Duration::from_secs(60)).await {
                LineRead::Line(line) => all.push(String::from_utf8(line.to_vec()).unwrap()),
                end => {
                    all.push(format!("{end:?}"));
                    return all;
                }
            }
        }
    }

    #[tokio::test]
    async fn whole_lines_come_and_half_ones_do_not() {
        assert_eq!(lines("a\n\nbc\n").await, ["a", "bc", "End"]);
        assert_eq!(lines("a\nhalf").await, ["a", "Cut"]);
        assert_eq!(lines("").await, ["End"]);
    }
}
