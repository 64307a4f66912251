//! Answers in place of errors: ingress-nginx `custom-http-errors`, `default-backend` and
//! `disable-proxy-intercept-errors`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::name::ServiceRef;
use crate::pool::PoolKey;

/// What a rule says about errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ErrorPages {
    /// Responses with these statuses are replaced; `None` is the Tuning's list.
    pub statuses: Option<Arc<[u16]>>,
    /// Responses of endpoints are left alone; `None` is the Tuning's.
    pub keeps_responses: Option<bool>,
    /// Who answers instead, and takes all requests while there is no endpoint; `None` is the program's default
    /// backend, which does the first only.
    pub backend: Option<(PoolKey, ServiceRef)>,
}

impl ErrorPages {
    /// Whether nothing is said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
