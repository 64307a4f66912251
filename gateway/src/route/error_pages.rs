//! `custom-http-errors`, `default-backend` and `disable-proxy-intercept-errors`: selects the error
//! responses to replace and the backend that provides the replacement.

use std::sync::Arc;

use http::StatusCode;
use sluice_config::GlobalSettings;

use super::RouteBackend;
use crate::registry::Pool;

/// Error settings of a rule that configures any.
#[derive(Debug)]
pub struct ErrorPages {
    /// The statuses to replace; `None` inherits the global list.
    pub statuses: Option<Arc<[u16]>>,
    /// Whether responses of endpoints are not replaced; `None` inherits the global setting, which
    /// applies to the global list only.
    pub keeps_responses: Option<bool>,
    /// The rule's own default backend; `None` is that of the program.
    pub backend: Option<ErrorBackend>,
}

/// The default backend of a rule.
#[derive(Debug)]
pub struct ErrorBackend {
    /// The pool that provides replacements, with plain HTTP.
    pub pages: Arc<Pool>,
    /// The backend of requests while the rule has no endpoint, with the protocol of the rule.
    pub requests: RouteBackend,
}

/// Returns whether a response with this status is replaced.
pub fn replaces(own: Option<&ErrorPages>, settings: &GlobalSettings, status: StatusCode) -> bool {
    let statuses = own.and_then(|own| own.statuses.as_deref()).unwrap_or(&settings.custom_http_errors);
    statuses.contains(&status.as_u16())
}

/// Returns the rule's own pool for pages of errors in the rule's own list. As in ingress-nginx,
/// pages for errors in the global list come from the program's default backend.
pub fn pool(own: Option<&ErrorPages>) -> Option<&Arc<Pool>> {
    Some(&own.filter(|own| own.statuses.is_some())?.backend.as_ref()?.pages)
}

/// Returns whether responses of endpoints are replaced, too. As in ingress-nginx, the global
/// setting does not apply to a rule's own list.
pub fn intercepts(own: Option<&ErrorPages>, settings: &GlobalSettings) -> bool {
    let has_own_list = own.is_some_and(|own| own.statuses.is_some());
    let keeps_by_default = settings.keeps_error_responses && !has_own_list;
    !own.and_then(|own| own.keeps_responses).unwrap_or(keeps_by_default)
}
