//! The compared proxies as columns of tables: their order and their names.

/// The proxies that Sluice is compared with, in order.
pub(super) const PEERS: [&str; 6] = ["haproxy", "envoy", "nghttpx", "vanilla", "tuned", "nginx"];

/// Returns the name of a peer in charts and documents.
pub(super) fn display(peer: &str) -> &str {
    match peer {
        "sluice" => "Sluice",
        "unprofiled" => "Sluice, no profile",
        "haproxy" => "HAProxy",
        "envoy" => "Envoy",
        "vanilla" => "Pingora",
        "tuned" => "Pingora, tuned",
        name => name,
    }
}
