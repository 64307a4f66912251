//! Cross-origin resource sharing (the CORS protocol of the Fetch standard): ingress-nginx
//! `enable-cors` and `cors-*`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// CORS settings of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cors {
    /// Allowed origins.
    pub origins: AllowedOrigins,
    /// `Access-Control-Allow-Credentials: true`; without it the field is not sent.
    pub credentials: bool,
    /// `Access-Control-Allow-Methods`.
    pub methods: Arc<str>,
    /// `Access-Control-Allow-Headers`.
    pub headers: Arc<str>,
    /// `Access-Control-Expose-Headers`; `None` sends none.
    pub expose: Option<Arc<str>>,
    /// `Access-Control-Max-Age` in seconds. Browsers do not cache if the value is negative.
    pub max_age: i32,
}

/// The allowed origins of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AllowedOrigins {
    /// Every origin: the field has the value `*`.
    Any,
    /// These origins: the field repeats the origin of the request. An empty list allows none.
    These(Arc<[AllowedOrigin]>),
}

/// An allowed origin in lower case. Origins are compared without regard to case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AllowedOrigin {
    /// This origin exactly: `https://shop.example:8443`, or `null`.
    Exact(Arc<str>),
    /// Subdomains with exactly one more label: `https://*.shop.example:8443`.
    Subdomain {
        /// Text before the label: `https://`.
        scheme: Arc<str>,
        /// Text after the label: `.shop.example:8443`.
        parent: Arc<str>,
    },
}
