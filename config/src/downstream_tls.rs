//! TLS to clients: the `ssl-*` keys and annotations of ingress-nginx.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::upstream_tls::TlsVersions;

/// TLS to clients, for all hosts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DownstreamTls {
    /// Offered versions, at least one (`ssl-protocols`).
    pub versions: TlsVersions,
    /// Suites of hosts without their own (`ssl-ciphers`).
    pub suites: CipherSuites,
    /// Groups of the key exchange by number, in order of preference (`ssl-ecdh-curve`); `None` is
    /// the data plane's own selection.
    pub groups: Option<Arc<[u16]>>,
    /// Refuses handshakes for server names that no host has, in place of serving the default
    /// certificate (`ssl-reject-handshake`).
    pub rejects_unknown_names: bool,
    /// Resumption of sessions.
    pub sessions: TlsSessions,
    /// Whether requests in early data of TLS 1.3 are served (`ssl-early-data`).
    pub early_data: bool,
}

/// Cipher suites of TLS 1.2. Those of TLS 1.3 are always offered with that version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CipherSuites {
    /// Suites by number, in order of preference; none disables TLS 1.2. `None` offers all, in the
    /// client's order.
    pub list: Option<Arc<[u16]>>,
    /// Whether the order of the list decides, not that of the client
    /// (`ssl-prefer-server-ciphers`). `None` is yes if there is a list.
    pub server_order: Option<bool>,
}

/// Resumption of TLS sessions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TlsSessions {
    /// Bytes of the session cache that all workers share; 0 keeps none (`ssl-session-cache`,
    /// `ssl-session-cache-size`).
    pub cache: u64,
    /// Time after which a session cannot be resumed (`ssl-session-timeout`).
    pub timeout: Duration,
    /// Whether clients keep their sessions in encrypted tickets (`ssl-session-tickets`).
    pub tickets: bool,
    /// Key of the tickets (`ssl-session-ticket-key`); `None` makes one per process.
    pub ticket_key: Option<TicketKey>,
}

/// A key of session tickets: 48 or 80 bytes. Never printed.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TicketKey(pub Vec<u8>);

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketKey(..)")
    }
}

impl Default for DownstreamTls {
    fn default() -> Self {
        Self {
            versions: TlsVersions { v1_2: true, v1_3: true },
            suites: CipherSuites::default(),
            groups: None,
            rejects_unknown_names: false,
            sessions: TlsSessions {
                cache: 10 * 1024 * 1024,
                timeout: Duration::from_secs(600),
                tickets: false,
                ticket_key: None,
            },
            early_data: false,
        }
    }
}
