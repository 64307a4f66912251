//! Cross-origin resource sharing (the Fetch standard's CORS protocol): ingress-nginx `enable-cors` and `cors-*`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Which pages of other origins may read the responses of a rule, and what they may send.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cors {
    /// Who may.
    pub origins: AllowedOrigins,
    /// `Access-Control-Allow-Credentials: true`; without it the field is not sent.
    pub credentials: bool,
    /// `Access-Control-Allow-Methods`.
    pub methods: Arc<str>,
    /// `Access-Control-Allow-Headers`.
    pub headers: Arc<str>,
    /// `Access-Control-Expose-Headers`; `None` sends none.
    pub expose: Option<Arc<str>>,
    /// `Access-Control-Max-Age`, seconds; browsers take a negative one for "do not cache".
    pub max_age: i32,
}

/// The origins that are accepted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AllowedOrigins {
    /// All: the field says `*`, whatever the request says.
    Any,
    /// These, and the field says the request's own. An empty list is nobody.
    These(Arc<[AllowedOrigin]>),
}

/// An origin that is accepted, in lower case: origins are compared without regard to case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AllowedOrigin {
    /// Exactly this: `https://shop.example:8443`, or `null`.
    Exact(Arc<str>),
    /// Exactly one label more: `https://*.shop.example:8443`.
    Subdomain {
        /// What comes before the label: `https://`.
        scheme: Arc<str>,
        /// What comes after it: `.shop.example:8443`.
        parent: Arc<str>,
    },
}
