//! FastCGI records (FastCGI 1.0 §3.3): a header of eight bytes, content and padding.
//!
//! Crates for FastCGI contain clients with sockets and buffers of their own, and keep their records
//! private. The part that is needed here is small.

/// Maximum number of content bytes of a record.
pub(super) const MAX_CONTENT: usize = u16::MAX as usize;
/// Length of a record's header.
pub(super) const HEADER: usize = 8;

const VERSION: u8 = 1;
/// The id of the only request of a connection.
const REQUEST: [u8; 2] = [0, 1];
const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
pub(super) const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const RESPONDER: [u8; 2] = [0, 1];
/// Length of the content of END_REQUEST.
const END_CONTENT: u16 = 8;

/// Returns the header of a record of at most [`MAX_CONTENT`] bytes. Records are not padded: no
/// known endpoint depends on alignment.
pub(super) fn header(kind: u8, content: usize) -> [u8; HEADER] {
    // The caller splits what is longer.
    let [high, low] = u16::try_from(content).unwrap_or(u16::MAX).to_be_bytes();
    [VERSION, kind, REQUEST[0], REQUEST[1], high, low, 0, 0]
}

/// Writes the start of a request. `keeps`: the endpoint keeps the connection after its response.
pub(crate) fn begin(out: &mut Vec<u8>, keeps: bool) {
    out.extend_from_slice(&header(BEGIN_REQUEST, 8));
    out.extend_from_slice(&[RESPONDER[0], RESPONDER[1], u8::from(keeps), 0, 0, 0, 0, 0]);
}

/// Writes a part of the request body.
pub(crate) fn stdin(out: &mut Vec<u8>, content: &[u8]) {
    for part in content.chunks(MAX_CONTENT) {
        out.extend_from_slice(&header(STDIN, part.len()));
        out.extend_from_slice(part);
    }
}

/// Writes the end of the request body.
pub(crate) fn end_stdin(out: &mut Vec<u8>) {
    out.extend_from_slice(&header(STDIN, 0));
}

/// The bytes are not records of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these are not FastCGI records of a response")]
pub(crate) struct BadRecord;

/// Decoder of the records of one response. Accepts what nginx accepts: output, error output and the
/// end of request 1.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordDecoder {
    header: [u8; HEADER],
    /// Bytes of the header that were read.
    read: usize,
    /// Bytes of the content that are missing.
    content: u16,
    /// Bytes of the padding that are missing.
    padding: u8,
}

/// The result of decoding a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DecodedRecords {
    /// Number of bytes of output, at the start of the buffer.
    pub(crate) output: usize,
    /// The output is complete.
    pub(crate) output_ended: bool,
    /// The request is complete: the endpoint sends no more records for it.
    pub(crate) ended: bool,
    /// Whether bytes follow the end of the request.
    pub(crate) excess: bool,
}

impl RecordDecoder {
    /// Decodes `bytes` in place: moves the output to the start of the buffer. `error` receives
    /// error output.
    ///
    /// # Errors
    /// A record is malformed, belongs to another request, or has a type that responses do not have.
    pub(crate) fn decode(
        &mut self,
        bytes: &mut [u8],
        mut error: impl FnMut(&[u8]),
    ) -> Result<DecodedRecords, BadRecord> {
        let (mut decoded, mut at) = (DecodedRecords::default(), 0);
        while at < bytes.len() && !decoded.ended {
            if self.read < HEADER {
                self.header[self.read] = bytes[at];
                self.read += 1;
                at += 1;
                if self.read < HEADER {
                    continue;
                }
                self.check_header()?;
            }
            let length = usize::from(self.content).min(bytes.len() - at);
            match self.header[1] {
                STDOUT => {
                    decoded.output_ended |= self.is_empty();
                    bytes.copy_within(at..at + length, decoded.output);
                    decoded.output += length;
                }
                STDERR => error(&bytes[at..at + length]),
                _ => {}
            }
            at += length;
            self.content -= length as u16;
            let skipped = usize::from(self.padding).min(bytes.len() - at);
            at += skipped;
            self.padding -= skipped as u8;
            if self.content == 0 && self.padding == 0 {
                decoded.ended = self.header[1] == END_REQUEST;
                self.read = 0;
            }
        }
        decoded.excess = at < bytes.len();
        Ok(decoded)
    }

    /// Whether the record has no content.
    fn is_empty(&self) -> bool {
        self.header[4..6] == [0, 0]
    }

    fn check_header(&mut self) -> Result<(), BadRecord> {
        let [version, kind, id_high, id_low, high, low, padding, _] = self.header;
        self.content = u16::from_be_bytes([high, low]);
        self.padding = padding;
        let fits = match kind {
            STDOUT | STDERR => true,
            END_REQUEST => self.content == END_CONTENT,
            _ => false,
        };
        match version == VERSION && [id_high, id_low] == REQUEST && fits {
            true => Ok(()),
            false => Err(BadRecord),
        }
    }
}

#[cfg(test)]
mod tests;
