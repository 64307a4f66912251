//! The authorisation service of a rule, and the rules that need no authentication.

use std::sync::Arc;

use sluice_config::Authorisation;

use crate::policy::ExternalAuth;
use crate::route::Route;
use crate::state::compiled_settings::{CompiledSettings, GlobalAuth};

/// The authorisation service of a rule.
pub(crate) enum AuthService<'r> {
    /// The rule has none.
    None,
    /// The rule has one that is not usable.
    Closed,
    /// Queries this service.
    Usable(&'r Arc<ExternalAuth>),
}

/// Returns the authorisation service for the requests of a rule.
pub(crate) fn service<'r>(route: &'r Route, compiled_settings: &'r CompiledSettings) -> AuthService<'r> {
    if is_exempt(route, compiled_settings) {
        return AuthService::None;
    }
    let compiled = route.compiled.as_deref();
    if let Some(own) = compiled.and_then(|compiled| compiled.external_auth.as_ref()) {
        return AuthService::Usable(own);
    }
    match &compiled_settings.auth {
        GlobalAuth::None => AuthService::None,
        _ if route.policies.authorisation == Authorisation::Off => AuthService::None,
        GlobalAuth::Closed => AuthService::Closed,
        GlobalAuth::Usable(auth) => AuthService::Usable(auth),
    }
}

/// Returns whether `no-auth-locations` exempts a rule from authentication: from passwords, and from
/// the rule's and the global authorisation service.
pub(crate) fn is_exempt(route: &Route, compiled_settings: &CompiledSettings) -> bool {
    let path = &*route.origin.path;
    compiled_settings.settings.no_auth_locations.iter().any(|prefix| path.starts_with(&**prefix))
}
