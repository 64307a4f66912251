//! The features as annotations, ConfigMap keys and objects.

use std::net::SocketAddr;

use sluice_testing::manifest::{self, service};

use super::{ADDED, Feature, PAGE_ORIGIN, Pairs, REQUESTS_PER_SECOND, allowed_networks};
use crate::manifest::{ingress_of, slice};

/// The ConfigMap with the response headers of the route with policies.
const HEADERS: &str = "default/bench-headers";
/// The Service of the canary.
const CANARY: &str = "canary";

impl Feature {
    /// Returns the annotations of the Ingress. Names without a prefix have that of ingress-nginx.
    pub fn annotations(self, origin: SocketAddr) -> Vec<(&'static str, String)> {
        match self {
            Self::Policies => vec![
                ("use-regex", "true".into()),
                ("rewrite-target", "/$2".into()),
                ("enable-cors", "true".into()),
                ("cors-allow-origin", PAGE_ORIGIN.into()),
                ("custom-headers", HEADERS.into()),
                ("allowlist-source-range", allowed_networks().join(",")),
                ("limit-rps", REQUESTS_PER_SECOND.to_string()),
            ],
            Self::Rewrite => vec![("use-regex", "true".into()), ("rewrite-target", "/$2".into())],
            Self::BasicAuth => vec![("auth-type", "basic".into()), ("auth-secret", "users".into())],
            Self::ExternalAuth => vec![("auth-url", format!("http://{origin}/auth"))],
            Self::Mirror => vec![("mirror-target", format!("http://{origin}$request_uri"))],
            Self::Buffered => vec![("proxy-request-buffering", "on".into())],
            Self::Grpc => vec![("backend-protocol", "GRPC".into())],
            Self::CacheHit => {
                vec![("sluice.dev/cache", "true".into()), ("sluice.dev/cache-ttl", "1h".into())]
            }
            Self::Gzip(_)
            | Self::Brotli(_)
            | Self::Canary
            | Self::Tracing
            | Self::Firewall
            | Self::NoFirewall => Vec::new(),
        }
    }

    /// Returns the path of the Ingress and its type.
    pub const fn route(self) -> (&'static str, &'static str) {
        match self {
            Self::Policies | Self::Rewrite => ("/api(/|$)(.*)", "ImplementationSpecific"),
            _ => ("/", "Prefix"),
        }
    }

    /// Returns the keys of the ConfigMap.
    pub const fn keys(self) -> Pairs {
        match self {
            Self::Policies => &[("global-allowed-response-headers", "X-Frame-Options,X-Team")],
            Self::Gzip(_) => &[("use-gzip", "true"), ("gzip-level", "1"), ("gzip-types", "text/plain")],
            Self::Brotli(_) => {
                &[("enable-brotli", "true"), ("brotli-level", "4"), ("brotli-types", "text/plain")]
            }
            Self::Tracing => &[
                ("enable-opentelemetry", "true"),
                ("otel-sampler", "TraceIdRatioBased"),
                ("otel-sampler-ratio", "0.01"),
            ],
            Self::Firewall => &[
                ("enable-modsecurity", "true"),
                ("enable-owasp-modsecurity-crs", "true"),
                ("modsecurity-snippet", "SecRuleEngine On"),
            ],
            _ => &[],
        }
    }

    /// Returns the URL of the collector that gets spans: the origin, which drops them.
    pub fn collector(self, origin: SocketAddr) -> Option<String> {
        (self == Self::Tracing).then(|| format!("http://{origin}/"))
    }

    /// Returns whether Sluice needs the agent of the firewall.
    pub fn needs_agent(self) -> bool {
        self == Self::Firewall
    }

    /// Returns additional objects as one text.
    pub fn objects(self, host: &str, origin: SocketAddr) -> String {
        match self {
            Self::Policies => manifest::config_map(HEADERS, ADDED),
            Self::Canary => {
                let canary = ingress_of("canary", self.route(), &[host], CANARY, None)
                    .annotation("ssl-redirect", "false")
                    .annotation("canary", "true")
                    .annotation("canary-weight", "10");
                format!("{}{}{canary}", service(CANARY), slice(CANARY, &[origin.ip()], origin.port()))
            }
            _ => String::new(),
        }
    }
}
