//! `custom-http-errors`, `default-backend` and `disable-proxy-intercept-errors`: which responses are replaced, and by
//! whom.

use std::sync::Arc;

use http::StatusCode;
use sluice_config::GlobalSettings;

use super::Target;

/// What a rule says about errors, where it says anything.
#[derive(Debug)]
pub struct ErrorPages {
    /// `None` is the global list.
    pub statuses: Option<Arc<[u16]>>,
    /// Responses of endpoints are left alone; `None` is the global setting.
    pub keeps_responses: Option<bool>,
    /// Who answers instead; `None` is the program's default backend.
    pub backend: Option<Target>,
}

/// Whether an answer with this status is replaced.
pub fn replaces(own: Option<&ErrorPages>, settings: &GlobalSettings, status: StatusCode) -> bool {
    let statuses = own.and_then(|own| own.statuses.as_deref()).unwrap_or(&settings.custom_http_errors);
    statuses.contains(&status.as_u16())
}

/// The rule's own backend for the pages of errors that the rule itself names. Pages for errors that
/// the global list names come from the program's default backend, as in ingress-nginx.
pub fn backend(own: Option<&ErrorPages>) -> Option<&Target> {
    own.filter(|own| own.statuses.is_some())?.backend.as_ref()
}

/// Whether that holds for responses of endpoints too.
pub fn intercepts(own: Option<&ErrorPages>, settings: &GlobalSettings) -> bool {
    !own.and_then(|own| own.keeps_responses).unwrap_or(settings.keeps_error_responses)
}
