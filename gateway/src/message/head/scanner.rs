//! Finding the end of a head as bytes arrive, within the limits of its size.

use sluice_config::GlobalSettings;

use super::HeadFault;

/// Size limits of a request head in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadLimits {
    /// The request line; 414 if exceeded.
    pub(crate) request_line: usize,
    /// The line of one field; 400 if exceeded.
    pub(crate) field_line: usize,
    /// The whole head, with HTTP/1 without the bytes of `first_buffer`; 400 if exceeded.
    pub(crate) head: usize,
    /// The beginning of a head of HTTP/1 to which the other limits do not apply: nginx reads it
    /// into its first buffer, and only what does not fit there into large ones, which it counts.
    pub(crate) first_buffer: usize,
}

/// Finds the end of a head as bytes arrive, and reads each byte once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scanner {
    position: usize,
    line_start: usize,
    lines: usize,
}

impl HeadLimits {
    /// Returns the limits that the settings configure.
    pub(crate) fn of(settings: &GlobalSettings) -> Self {
        let buffers = settings.large_client_header_buffers;
        Self {
            request_line: buffers.size,
            field_line: buffers.size,
            head: buffers.total(),
            first_buffer: settings.client_header_buffer,
        }
    }

    /// Returns whether a head of HTTP/1 of this length is too long.
    fn are_exceeded_by(&self, length: usize) -> bool {
        length > self.first_buffer.saturating_add(self.head)
    }
}

impl Scanner {
    /// Returns whether no byte was read yet.
    pub(crate) fn is_new(&self) -> bool {
        self.position == 0
    }

    /// Reads the new bytes of `bytes`, which start with the head. Returns the head's length once it
    /// is complete.
    pub(crate) fn scan(&mut self, bytes: &[u8], limits: &HeadLimits) -> Result<Option<usize>, HeadFault> {
        // A client that speaks TLS or another protocol gets its error at once and not at the
        // deadline.
        if bytes
            .first()
            .is_some_and(|byte| !byte.is_ascii_alphanumeric() && !b"!#$%&'*+-.^_`|~".contains(byte))
        {
            return Err(HeadFault::bad("this does not begin with a method"));
        }
        while let Some(found) = memchr::memchr(b'\n', &bytes[self.position..]) {
            let end = self.position + found;
            if end == 0 || bytes[end - 1] != b'\r' {
                return Err(HeadFault::bad("a line ends without a carriage return"));
            }
            self.check_line(end + 1, limits)?;
            self.position = end + 1;
            if end - 1 == self.line_start {
                return match limits.are_exceeded_by(self.position) {
                    true => Err(HeadFault::TOO_LARGE),
                    false => Ok(Some(self.position)),
                };
            }
            self.lines += 1;
            self.line_start = self.position;
        }
        self.position = bytes.len();
        self.check_line(bytes.len(), limits)?;
        match limits.are_exceeded_by(bytes.len()) {
            true => Err(HeadFault::TOO_LARGE),
            false => Ok(None),
        }
    }

    /// Checks the length of the current line up to `end`.
    fn check_line(&self, end: usize, limits: &HeadLimits) -> Result<(), HeadFault> {
        let is_beyond = end > limits.first_buffer;
        match (self.lines, end - self.line_start) {
            (0, length) if length > limits.request_line && is_beyond => Err(HeadFault::TOO_LONG_LINE),
            (1.., length) if length > limits.field_line && is_beyond => Err(HeadFault::TOO_LONG_FIELD),
            _ => Ok(()),
        }
    }
}
