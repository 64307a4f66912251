//! The heads of a response: interim ones, then the final one.

use http::Method;

use crate::message::response::Response;
use crate::pipeline::{FailureKind, MOST_INTERIM};

/// Counts interim (1xx) responses over all attempts of a request.
#[derive(Debug, Default)]
pub(super) struct InterimCounter {
    interims: u32,
}

impl InterimCounter {
    /// Reads the next HTTP/1.1 head at the start of `bytes`. Returns its length, or `None` while it
    /// is incomplete.
    pub(super) fn read(
        &mut self,
        response: &mut Response,
        bytes: &[u8],
        method: &Method,
        may_switch: bool,
    ) -> Result<Option<usize>, FailureKind> {
        let Some(length) = response.read(bytes, method).map_err(|_| FailureKind::InvalidHead)? else {
            return Ok(None);
        };
        self.take(response, may_switch)?;
        Ok(Some(length))
    }

    /// Checks the next head. `may_switch`: the request asked for another protocol.
    pub(super) fn take(&mut self, response: &Response, may_switch: bool) -> Result<(), FailureKind> {
        self.interims += u32::from(response.is_interim());
        match self.interims > MOST_INTERIM || response.switches() && !may_switch {
            true => Err(FailureKind::InvalidHead),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(heads: &mut InterimCounter, head: &[u8], may_switch: bool) -> Result<Option<usize>, FailureKind> {
        heads.read(&mut Response::default(), head, &Method::GET, may_switch)
    }

    #[test]
    fn interim_heads_have_an_end() {
        let mut heads = InterimCounter::default();
        let hints = b"HTTP/1.1 103 Early Hints\r\n\r\n";
        for _ in 0..MOST_INTERIM {
            assert_eq!(read(&mut heads, &hints[..9], false), Ok(None));
            assert_eq!(read(&mut heads, hints, false), Ok(Some(hints.len())));
        }
        assert_eq!(read(&mut heads, hints, false), Err(FailureKind::InvalidHead));
    }

    #[test]
    fn no_endpoint_switches_protocols_unrequested() {
        let switch = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";
        assert_eq!(read(&mut InterimCounter::default(), switch, false), Err(FailureKind::InvalidHead));
        assert_eq!(read(&mut InterimCounter::default(), switch, true), Ok(Some(switch.len())));
    }
}
