//! Lines of a watch response, with a time limit between two lines.

use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt};

/// Buffer size in bytes that is kept between lines. A line with a large object uses more while it
/// is parsed.
const KEPT: usize = 16 * 1024;

/// Reads a response line by line.
pub(super) struct Lines<R> {
    input: R,
    line: Vec<u8>,
}

/// The result of one read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineRead<'a> {
    /// A line without its terminator.
    Line(&'a [u8]),
    /// The server ended the response.
    End,
    /// The connection broke.
    Cut,
    /// The time limit expired.
    Silence,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, line: Vec::new() }
    }

    /// Returns the next line that is not empty.
    pub(super) async fn next(&mut self, time_limit: Duration) -> LineRead<'_> {
        loop {
            self.line.clear();
            self.line.shrink_to(KEPT);
            match tokio::time::timeout(time_limit, self.input.read_until(b'\n', &mut self.line)).await {
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
