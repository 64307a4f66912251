//! What a dressed route costs: features configured alike in Sluice and in nginx, which is what people come from.
//!
//! Sluice gets the annotations and keys that an operator writes ([`sluice`]); nginx gets the directives that
//! ingress-nginx makes of them ([`nginx`]), as far as its own modules go (no Lua). gRPC is held against HAProxy and
//! Envoy too.

pub mod nginx;
pub mod sluice;

/// A feature that a route uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// What many routes have at once: a rewritten path, CORS, two response headers, an allow list of a thousand
    /// networks and a limit on the rate of each client.
    Dressed,
    /// A path with a capture, rewritten.
    Rewrite,
    /// Text compressed with gzip at level 1.
    Gzip(TextSize),
    /// Text compressed with brotli at level 4.
    Brotli(TextSize),
    /// A user name and a password (apr1, a thousand rounds of MD5), the same with every request.
    BasicAuth,
    /// Another program is asked about each request.
    ExternalAuth,
    /// One request in ten goes to another Service.
    Canary,
    /// Each request goes to a second endpoint too.
    Mirror,
    /// The body is taken in whole before the endpoint is asked.
    Buffered,
    /// gRPC over h2c to the endpoint.
    Grpc,
}

/// How much text is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextSize {
    /// 10 KiB.
    Medium,
    /// 100 KiB.
    Large,
}

impl TextSize {
    const fn path(self) -> &'static str {
        match self {
            Self::Medium => "/text",
            Self::Large => "/text-100k",
        }
    }
}

/// Names and values: the fields that requests carry, or keys of a ConfigMap.
pub type Pairs = &'static [(&'static str, &'static str)];

/// The htpasswd file for `user` with the password `secret`.
pub const HTPASSWD: &str = "user:$apr1$k9sBench$Zxli8L7.2h9ejtnNCIgYf.\n";
/// The origin of pages that may read what the dressed route answers.
const PAGE_ORIGIN: &str = "https://shop.example";
/// What the dressed route adds to each response.
const ADDED: Pairs = &[("X-Frame-Options", "DENY"), ("X-Team", "shop")];
/// Requests a second of a client, which is more than it can send: what the limit costs is measured, not what it refuses.
const REQUESTS_PER_SECOND: u32 = 1_000_000;

impl Feature {
    /// What is asked for.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Dressed | Self::Rewrite => "/api/item",
            Self::Gzip(size) | Self::Brotli(size) => size.path(),
            Self::Buffered => "/post",
            Self::BasicAuth | Self::ExternalAuth | Self::Canary | Self::Mirror | Self::Grpc => "/",
        }
    }

    /// Bytes of the body that requests have; they are GETs without one.
    pub const fn body(self) -> usize {
        match self {
            Self::Buffered => 64 * 1024,
            _ => 0,
        }
    }

    /// What requests carry besides.
    pub const fn fields(self) -> Pairs {
        match self {
            Self::Dressed => &[("Origin", PAGE_ORIGIN)],
            Self::Gzip(_) => &[("Accept-Encoding", "gzip")],
            Self::Brotli(_) => &[("Accept-Encoding", "br")],
            // user:secret
            Self::BasicAuth => &[("Authorization", "Basic dXNlcjpzZWNyZXQ=")],
            _ => &[],
        }
    }
}

/// A thousand networks, the clients' own in the middle.
fn allowed_networks() -> Vec<String> {
    let network = |number: u32| match number {
        500 => "127.0.0.0/8".to_owned(),
        number => format!("10.{}.{}.0/24", number / 250, number % 250),
    };
    (0..1000).map(network).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_different_networks_are_allowed() {
        let mut networks = allowed_networks();
        networks.sort();
        networks.dedup();
        assert_eq!(networks.len(), 1000);
        assert!(networks.contains(&"127.0.0.0/8".to_owned()));
    }
}
