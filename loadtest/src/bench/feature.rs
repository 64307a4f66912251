//! The cost of route features: the features for which people use ingress-nginx, configured alike in
//! Sluice and nginx.
//!
//! Sluice gets the annotations and keys that an operator writes ([`sluice`]); nginx gets the
//! directives that ingress-nginx generates from them ([`nginx`]), as far as nginx's own modules
//! support them (no Lua). gRPC is also compared with HAProxy and Envoy.

pub mod nginx;
pub mod sluice;

/// A feature that a route uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// A typical combination: a rewritten path, CORS, two response headers, an allow list of 1,000
    /// networks and a rate limit per client.
    Policies,
    /// A rewritten path with a capture.
    Rewrite,
    /// Text compressed with gzip at level 1.
    Gzip(TextSize),
    /// Text compressed with brotli at level 4.
    Brotli(TextSize),
    /// Basic authentication (apr1, 1,000 rounds of MD5) with the same credentials in each request.
    BasicAuth,
    /// External authentication of each request.
    ExternalAuth,
    /// A canary that gets one request in ten.
    Canary,
    /// A mirror that gets a copy of each request.
    Mirror,
    /// Buffering of the whole request body before it is forwarded.
    Buffered,
    /// gRPC, over h2c to the endpoint.
    Grpc,
    /// A response of 10 KiB from the cache of the proxy.
    CacheHit,
    /// Traces with a share of 1 % sampled, which nginx does not have.
    Tracing,
    /// A web application firewall with the OWASP core rule set, which enforces.
    Firewall,
    /// The requests of [`Firewall`](Self::Firewall) without a firewall.
    NoFirewall,
}

/// Size of the text to compress.
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

/// Names and values: request fields or keys of a ConfigMap.
pub type Pairs = &'static [(&'static str, &'static str)];

/// The htpasswd file for `user` with the password `secret`.
pub const HTPASSWD: &str = "user:$apr1$k9sBench$Zxli8L7.2h9ejtnNCIgYf.\n";
/// Path and query of requests that a firewall inspects.
const INSPECTED: &str = "/search?q=red+shoes&page=2";
/// The fields of a browser, which the core rule set does not suspect.
const BROWSER: Pairs = &[
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
    ("Accept", "text/html,application/xhtml+xml"),
    ("Accept-Language", "en-GB"),
];
/// The allowed CORS origin of the route with policies.
const PAGE_ORIGIN: &str = "https://shop.example";
/// Response headers that the route with policies adds.
const ADDED: Pairs = &[("X-Frame-Options", "DENY"), ("X-Team", "shop")];
/// Rate limit per client, in requests per second. Higher than any load: the check is measured, not
/// rejections.
const REQUESTS_PER_SECOND: u32 = 1_000_000;

impl Feature {
    /// Returns the path of the requests.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Policies | Self::Rewrite => "/api/item",
            Self::Gzip(size) | Self::Brotli(size) => size.path(),
            Self::Buffered => "/post",
            Self::CacheHit => "/10k",
            Self::Firewall | Self::NoFirewall => INSPECTED,
            Self::BasicAuth
            | Self::ExternalAuth
            | Self::Canary
            | Self::Mirror
            | Self::Grpc
            | Self::Tracing => "/",
        }
    }

    /// Returns the size of the request body in bytes. With 0, requests are GETs without a body.
    pub const fn body(self) -> usize {
        match self {
            Self::Buffered => 64 * 1024,
            _ => 0,
        }
    }

    /// Returns additional fields of the requests.
    pub const fn fields(self) -> Pairs {
        match self {
            Self::Policies => &[("Origin", PAGE_ORIGIN)],
            Self::Gzip(_) => &[("Accept-Encoding", "gzip")],
            Self::Brotli(_) => &[("Accept-Encoding", "br")],
            // user:secret
            Self::BasicAuth => &[("Authorization", "Basic dXNlcjpzZWNyZXQ=")],
            Self::Firewall | Self::NoFirewall => BROWSER,
            _ => &[],
        }
    }

    /// Returns these fields as lines of a request.
    pub(super) fn field_lines(self) -> String {
        self.fields().iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
    }
}

/// Returns 1,000 networks, with the clients' own in the middle.
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
