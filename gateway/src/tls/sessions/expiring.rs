//! Tickets that end after `ssl-session-timeout`, whatever encrypts them.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::server::ProducesTickets;

/// Adds the time of its end to each session that is encrypted.
#[derive(Debug)]
pub(super) struct Expiring {
    inner: Arc<dyn ProducesTickets>,
    timeout: Duration,
}

impl Expiring {
    pub(super) fn new(inner: Arc<dyn ProducesTickets>, timeout: Duration) -> Self {
        Self { inner, timeout }
    }

    fn decrypt_at(&self, ticket: &[u8], now: u64) -> Option<Vec<u8>> {
        let plain = self.inner.decrypt(ticket)?;
        let (end, session) = plain.split_first_chunk()?;
        (u64::from_be_bytes(*end) > now).then(|| session.to_vec())
    }
}

impl ProducesTickets for Expiring {
    fn enabled(&self) -> bool {
        self.inner.enabled()
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(self.timeout.as_secs()).unwrap_or(u32::MAX).min(self.inner.lifetime())
    }

    fn encrypt(&self, session: &[u8]) -> Option<Vec<u8>> {
        let end = seconds().saturating_add(self.timeout.as_secs());
        self.inner.encrypt(&[&end.to_be_bytes()[..], session].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.decrypt_at(ticket, seconds())
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_expires_with_the_timeout_of_its_issue() {
        let inner = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
        let tickets = Expiring::new(inner.clone(), Duration::from_secs(600));
        assert_eq!(tickets.lifetime(), 600, "that of rustls is longer");
        let ticket = tickets.encrypt(b"session").unwrap();
        assert_eq!(tickets.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(tickets.decrypt_at(&ticket, seconds() + 700), None);
        // A longer timeout extends no ticket.
        let longer = Expiring::new(inner, Duration::from_secs(6000));
        assert_eq!(longer.decrypt_at(&ticket, seconds() + 700), None);
        assert_eq!(longer.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
    }
}
