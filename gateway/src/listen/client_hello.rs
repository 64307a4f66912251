//! The server name of a TLS ClientHello and whether early data follows, read without TLS.
//!
//! A connection may be passed through to its endpoint, which must then receive every byte that the
//! client has sent. So the bytes up to the end of the ClientHello are kept here, and the name is
//! found in them. A ClientHello may be split into records anywhere (RFC 8446 §5.1), and with
//! post-quantum key shares it is larger than one packet. What this parser does not understand is
//! left to rustls, which answers with the proper alert.

use rustls_pki_types::DnsName;

/// Bytes of the largest ClientHello that is read, record headers included. As rustls.
const LONGEST: usize = 0xffff;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const EARLY_DATA: u16 = 42;
const HOST_NAME: u8 = 0;
/// Bytes of the longest record fragment that a peer may send (RFC 5246 §6.2.1).
const LONGEST_FRAGMENT: usize = 1 << 14;
const RECORD_HEADER: usize = 5;
const MESSAGE_HEADER: usize = 4;

/// What the first bytes of a connection are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientHello {
    /// The beginning of a ClientHello.
    Incomplete,
    /// A complete ClientHello.
    Complete(HelloFacts),
    /// Anything else.
    Other,
}

/// What the gateway reads of a ClientHello.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HelloFacts {
    /// The server name in lower case, without a final dot.
    pub(super) server_name: Option<String>,
    /// Whether the client offers early data (RFC 8446 §4.2.10).
    pub(super) offers_early_data: bool,
}

/// Collects the first handshake message. It never needs a byte beyond the record that ends it.
#[derive(Debug, Default)]
pub(super) struct HelloReader {
    /// Everything that was read.
    bytes: Vec<u8>,
    /// Where the record in progress begins.
    record: usize,
    /// The fragments so far, joined.
    message: Vec<u8>,
}

/// The bytes are no ClientHello.
struct NotHello;

impl HelloReader {
    /// Returns how many bytes are missing, at least.
    pub(super) fn missing(&self) -> usize {
        match self.bytes[self.record..].first_chunk() {
            Some(header) => self.record + RECORD_HEADER + fragment(header) - self.bytes.len(),
            None => self.record + RECORD_HEADER - self.bytes.len(),
        }
    }

    /// Adds bytes, no more than [`Self::missing`].
    pub(super) fn push(&mut self, part: &[u8]) -> ClientHello {
        let is_header = self.bytes.len() < self.record + RECORD_HEADER;
        self.bytes.extend_from_slice(part);
        let is_full = self.bytes.len() >= LONGEST;
        let checked = match is_header {
            true => self.check_header().map(|()| None),
            false => self.add(part),
        };
        match checked {
            Ok(None) if is_full => ClientHello::Other,
            Ok(None) => ClientHello::Incomplete,
            Ok(Some(message)) => body(message).map_or(ClientHello::Other, ClientHello::Complete),
            Err(NotHello) => ClientHello::Other,
        }
    }

    /// Returns the bytes that are held, for the memory budget.
    pub(super) fn size(&self) -> usize {
        self.bytes.capacity() + self.message.capacity()
    }

    /// Returns everything that was read.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn check_header(&self) -> Result<(), NotHello> {
        let header = &self.bytes[self.record..];
        let is_handshake = header.first().is_none_or(|kind| *kind == HANDSHAKE);
        let is_version_3 = header.get(1).is_none_or(|major| *major == 3);
        // Empty fragments are forbidden (RFC 8446 §5.1), and a series of them would never end.
        let fits =
            header.first_chunk().is_none_or(|header| (1..=LONGEST_FRAGMENT).contains(&fragment(header)));
        match is_handshake && is_version_3 && fits {
            true => Ok(()),
            false => Err(NotHello),
        }
    }

    /// Adds bytes of a fragment. Returns the body of the message once it is complete.
    fn add(&mut self, part: &[u8]) -> Result<Option<&[u8]>, NotHello> {
        self.message.extend_from_slice(part);
        if self.missing() == 0 {
            self.record = self.bytes.len();
        }
        if self.message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
            return Err(NotHello);
        }
        let Some([_, high, middle, low]) = self.message.first_chunk() else { return Ok(None) };
        let size = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
        if size > LONGEST {
            return Err(NotHello);
        }
        Ok(self.message.get(MESSAGE_HEADER..MESSAGE_HEADER + size))
    }
}

/// The length of the fragment behind a record header.
fn fragment(header: &[u8; RECORD_HEADER]) -> usize {
    usize::from(u16::from_be_bytes([header[3], header[4]]))
}

/// Reads the body of a ClientHello (RFC 8446 §4.1.2, RFC 6066 §3); `None` if it is malformed.
fn body(body: &[u8]) -> Option<HelloFacts> {
    let mut reader = Reader(body);
    reader.take(2 + 32)?;
    let session = reader.byte()?;
    reader.take(session.into())?;
    let suites = reader.number()?;
    reader.take(suites.into())?;
    let compressions = reader.byte()?;
    reader.take(compressions.into())?;
    let mut facts = HelloFacts::default();
    if reader.0.is_empty() {
        return Some(facts);
    }
    let mut extensions = reader.list()?;
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let content = extensions.list()?;
        match kind {
            SERVER_NAME => facts.server_name = Some(server_name(content)?),
            EARLY_DATA => facts.offers_early_data = true,
            _ => {}
        }
    }
    Some(facts)
}

fn server_name(mut extension: Reader<'_>) -> Option<String> {
    let mut names = extension.list()?;
    while !names.0.is_empty() {
        let kind = names.byte()?;
        let name = names.list()?;
        if kind == HOST_NAME {
            let name = str::from_utf8(name.0).ok()?;
            let name = name.strip_suffix('.').unwrap_or(name);
            // A lookup takes a step per label: a name of 65,000 dots would occupy the worker.
            return DnsName::try_from(name).is_ok().then(|| name.to_ascii_lowercase());
        }
    }
    None
}

/// The rest of a vector.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|taken| taken[0])
    }

    fn number(&mut self) -> Option<u16> {
        let taken = self.take(2)?;
        Some(u16::from_be_bytes([taken[0], taken[1]]))
    }

    /// A vector with a length of two bytes.
    fn list(&mut self) -> Option<Self> {
        let length = self.number()?;
        self.take(length.into()).map(Self)
    }
}

/// Reads the bytes that a connection begins with.
#[cfg(any(test, feature = "fuzzing"))]
fn parse(mut bytes: &[u8]) -> ClientHello {
    let mut reader = HelloReader::default();
    loop {
        let (part, rest) = bytes.split_at(reader.missing().min(bytes.len()));
        match reader.push(part) {
            ClientHello::Incomplete if !rest.is_empty() => bytes = rest,
            known => return known,
        }
    }
}

/// For the fuzz target: no input panics, and no beginning of a ClientHello is taken for anything
/// else.
#[cfg(any(test, feature = "fuzzing"))]
pub fn trial(bytes: &[u8]) {
    if matches!(parse(bytes), ClientHello::Complete(_)) {
        for end in 0..bytes.len().min(64) {
            assert!(!matches!(parse(&bytes[..end]), ClientHello::Other), "{end} bytes");
        }
    }
}

#[cfg(test)]
mod tests;
