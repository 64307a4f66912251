//! What a program writes to its error stream: logged, as nginx does, and bounded.

use std::net::SocketAddr;

/// Bytes of one attempt that are logged.
const LOGGED: usize = 2 * 1024;

/// The error output of one attempt. Logged when it is dropped.
#[derive(Debug)]
pub(super) struct ErrorOutput {
    address: SocketAddr,
    text: Vec<u8>,
    /// Bytes that were received.
    length: u64,
}

impl ErrorOutput {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, text: Vec::new(), length: 0 }
    }

    /// Adds a part.
    pub(super) fn push(&mut self, part: &[u8]) {
        let room = LOGGED - self.text.len();
        self.text.extend_from_slice(&part[..room.min(part.len())]);
        self.length += part.len() as u64;
    }

    /// The part that is logged, without line ends around it.
    fn logged(&self) -> String {
        String::from_utf8_lossy(self.text.trim_ascii()).into_owned()
    }
}

impl Drop for ErrorOutput {
    fn drop(&mut self) {
        if self.length > 0 {
            // As a debug value, because that escapes line ends and control characters.
            tracing::warn!(
                endpoint = %self.address,
                bytes = self.length,
                text = ?self.logged(),
                "a FastCGI endpoint wrote to its error stream"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_error_output_is_kept_and_all_of_it_counted() {
        let mut output = ErrorOutput::new(([127, 0, 0, 1], 9000).into());
        output.push(b"PHP message: x\n");
        assert_eq!(output.logged(), "PHP message: x");
        for _ in 0..100 {
            output.push(&[b'y'; 1000]);
        }
        assert_eq!((output.text.len(), output.length), (LOGGED, 100_015));
    }
}
