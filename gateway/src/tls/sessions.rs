//! Resumption of sessions: by a cache in memory or by tickets, each profile with its own sessions.

mod cache;
mod expiring;
mod ticketer;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, ProducesTickets};
use sluice_config::TlsSessions;

use super::error::TlsError;
use cache::{ProfileCache, SessionCache};
use expiring::Expiring;
use ticketer::{TicketKeys, Ticketer};

/// Tickets per handshake of TLS 1.3, as with OpenSSL: a client uses each for one connection.
const TICKETS: usize = 2;

/// Sessions in the cache per handshake of TLS 1.3. Unlike a ticket, each takes memory here until it
/// is used or expires, and a connection that resumes one adds the next.
const CACHED: usize = 1;

/// What separates the sessions of a profile from those of all others, for as long as the profile
/// exists. No session of one profile is resumed under another.
#[derive(Clone, Debug)]
pub(super) struct SessionSpace {
    /// Identity of the profile in the cache.
    id: u64,
    /// Keys of tickets where the operator gives none. rustls makes and rotates them.
    own_keys: Arc<OnceLock<Arc<dyn ProducesTickets>>>,
}

impl SessionSpace {
    /// Creates a space that no other profile has.
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Relaxed), own_keys: Arc::default() }
    }

    fn own_keys(&self) -> Result<Arc<dyn ProducesTickets>, TlsError> {
        if let Some(keys) = self.own_keys.get() {
            return Ok(keys.clone());
        }
        let made = rustls::crypto::aws_lc_rs::Ticketer::new()?;
        Ok(self.own_keys.get_or_init(|| made).clone())
    }
}

/// The sessions of all profiles.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    settings: TlsSessions,
    cache: Arc<SessionCache>,
    keys: Option<Arc<TicketKeys>>,
}

impl Sessions {
    pub(super) fn new(settings: &TlsSessions) -> Self {
        Self {
            settings: settings.clone(),
            cache: Arc::new(SessionCache::new(settings.cache, settings.timeout)),
            keys: settings.ticket_key.as_ref().map(|key| Arc::new(TicketKeys::new(key, settings.timeout))),
        }
    }

    /// Puts settings in force. Sessions are kept if neither size nor lifetime changes, and those of
    /// the key before are accepted until they expire.
    pub(super) fn set(&mut self, settings: &TlsSessions) {
        let before = std::mem::replace(&mut self.settings, settings.clone());
        if (before.cache, before.timeout) != (settings.cache, settings.timeout) {
            self.cache = Arc::new(SessionCache::new(settings.cache, settings.timeout));
        }
        if (&before.ticket_key, before.timeout) != (&settings.ticket_key, settings.timeout) {
            let previous = self.keys.take();
            self.keys = settings
                .ticket_key
                .as_ref()
                .map(|key| Arc::new(TicketKeys::replacing(previous.as_deref(), key, settings.timeout)));
        }
    }

    /// Makes the sessions of a profile resumable. `name` is the same on all replicas, so that they
    /// accept each other's tickets.
    pub(super) fn install(
        &self,
        config: &mut ServerConfig,
        space: &SessionSpace,
        name: Option<&[u8]>,
    ) -> Result<(), TlsError> {
        if self.settings.cache > 0 {
            config.session_storage = Arc::new(ProfileCache::new(self.cache.clone(), space.id));
        } else {
            config.session_storage = Arc::new(NoServerSessionStorage {});
        }
        if self.settings.tickets {
            let keys: Arc<dyn ProducesTickets> = match (&self.keys, name) {
                (Some(keys), Some(name)) => Arc::new(Ticketer::new(keys, name)),
                _ => space.own_keys()?,
            };
            config.ticketer = Arc::new(Expiring::new(keys, self.settings.timeout));
        }
        config.send_tls13_tickets = match (self.settings.tickets, self.settings.cache) {
            (true, _) => TICKETS,
            (false, 0) => 0,
            (false, _) => CACHED,
        };
        Ok(())
    }
}
