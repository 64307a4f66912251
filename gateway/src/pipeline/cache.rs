//! The use of stored responses by a request that has passed all checks.

use std::sync::Arc;

use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderValue};
use sluice_config::Cache;

use super::exchange::Exchange;
use crate::cache::{CacheStatus, CachedUrl, Purge, RequestKey, ResponseStore};
use crate::message::request_head::RequestHead;
use crate::policy::cache::{KeyInput, MethodUse, bypasses};
use crate::policy::forwarded;
use crate::route::Route;
use crate::router::{host_of, normalise};
use crate::state::compiled_settings::CompiledSettings;

/// A request that may be answered with a stored response, or whose response may be stored.
#[derive(Clone, Debug)]
pub(crate) struct CachedRequest {
    /// Where responses are stored.
    pub(crate) store: &'static ResponseStore,
    /// The identity of the response.
    pub(crate) key: RequestKey,
    /// Which responses are stored.
    pub(crate) rules: Arc<Cache>,
}

/// Properties of a request that its head view does not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestShape {
    pub(crate) has_body: bool,
    pub(crate) upgrades: bool,
}

/// Returns whether endpoints get an `Authorization` that the rule or the settings make of the
/// request. Such a request has credentials as one whose client sends them (RFC 9111 §3.5).
pub(crate) fn sets_credentials(route: &Route, compiled_settings: &CompiledSettings) -> bool {
    let directives = route.compiled.as_deref().and_then(|compiled| compiled.directives.as_deref());
    let global = compiled_settings.headers.as_deref().and_then(|global| global.request.as_deref());
    directives.is_some_and(|directives| directives.own.sets_credentials())
        || global.is_some_and(|slot| slot.load().as_ref().is_some_and(|set| set.sets_credentials()))
}

impl Exchange {
    /// Returns whether the rule has a cache.
    pub(crate) fn has_cache(&self) -> bool {
        self.route.as_deref().is_some_and(|route| route.cache().is_some())
    }

    /// Returns the use of the cache; `None` if the request bypasses it. Requires a rule that
    /// forwards, and that all checks have been made.
    pub(crate) fn cached_request(
        &mut self,
        head: &RequestHead<'_>,
        shape: RequestShape,
    ) -> Option<CachedRequest> {
        let route = self.route.clone()?;
        let policy = route.cache()?;
        self.cache_status = Some(CacheStatus::Bypass);
        let path = normalise(head.path()).ok()?;
        let host: Box<str> = host_of(head.authority).into();
        let url = CachedUrl { host, path: (&*path).into() };
        match policy.method_use(head.method) {
            MethodUse::Reads => {}
            MethodUse::Passes => return None,
            MethodUse::Invalidates => {
                self.extras.get_or_insert_default().invalidates = Some(url);
                return None;
            }
        }
        let is_authorised = sets_credentials(&route, self.compiled_settings())
            || self.left_location_sets_credentials()
            || self.authorised_fields().iter().any(|(name, _)| *name.get() == AUTHORIZATION);
        let is_other = shape.has_body || shape.upgrades || self.fallback.is_some() || self.speaks_fastcgi();
        if is_other || is_authorised || bypasses(head.headers) || self.pool().is_none() {
            return None;
        }
        let store = self.state().cache.store()?;
        let scope = self.scope_of_directives().to_le_bytes();
        let left = self.client_fields_of_left_locations(head);
        let left_parts = left.len().to_le_bytes();
        let key = {
            let backend = self.backend.as_deref();
            let identity = self.client_identity();
            let certificate = identity.and_then(|identity| identity.presented());
            let fingerprint = certificate.map(|certificate| &*certificate.text().fingerprint);
            let authorised = self.authorised_fields().iter().flat_map(|(name, value)| {
                [name.get().as_str().as_bytes(), value.as_ref().map_or(&[][..], |value| value.as_bytes())]
            });
            let of_directives = self.directive_values_of_client().map(HeaderValue::as_bytes);
            let configured = self.configured_values_of_client();
            let configured = configured.map(|value| value.map_or(&[][..], HeaderValue::as_bytes));
            let client: Vec<&[u8]> = [&scope[..], fingerprint.unwrap_or_default().as_bytes(), &left_parts]
                .into_iter()
                .chain(left.iter().map(|part| &part[..]))
                .chain(authorised)
                .chain(of_directives)
                .chain(configured)
                .collect();
            policy.key(
                url,
                &KeyInput {
                    head,
                    backend: backend.map_or(["", ""], |backend| [&backend.name, &backend.alternative]),
                    scheme: forwarded::access_scheme(&self.connection, head.headers, self.client),
                    host: forwarded::access_host(head.authority, head.headers, self.client),
                    rewritten: self.outgoing.as_ref().map(|outgoing| outgoing.target()),
                    client: &client,
                },
            )
        };
        self.cache_status = Some(CacheStatus::Miss);
        Some(CachedRequest { store, key, rules: policy.rules().clone() })
    }

    /// Records the outcome of the cache.
    pub(crate) fn set_cache_status(&mut self, status: CacheStatus) {
        self.cache_status = Some(status);
    }

    /// Returns an exchange that fetches the response again after the client of this one got a stale
    /// one. It chooses endpoints as this one, and is neither counted nor logged. Its head is
    /// prepared with [`upstream_request`](super::Originator::upstream_request) of this one.
    pub(crate) fn refresh(&self) -> Box<Self> {
        let mut exchange = Self::unrecorded(self.snapshot.clone(), &self.connection, self.client);
        exchange.head_was_read = true;
        exchange.version = self.version;
        exchange.authority = self.authority.clone();
        exchange.route.clone_from(&self.route);
        exchange.backend.clone_from(&self.backend);
        Box::new(exchange)
    }

    /// Counts the outcome. Removes what was stored of the URL that the request has changed while
    /// its own response was under way.
    pub(super) fn end_cache(&self, status: Option<StatusCode>) {
        if let Some(status) = self.cache_status {
            self.state().telemetry.cached(status);
        }
        if let Some(status) = status {
            self.invalidate(status);
        }
    }

    /// Removes responses that the request has made invalid, if this status of its response is a
    /// success (RFC 9111 §4.4). A client that has the response may ask for the changed resource at
    /// once, so it is called before the response is sent, too.
    pub(super) fn invalidate(&self, status: StatusCode) {
        let url = self.extras.as_ref().and_then(|extras| extras.invalidates.as_ref());
        if let Some(url) = url.filter(|_| status.is_success() || status.is_redirection()) {
            self.state().cache.purge(&Purge::Url(url.clone()));
        }
    }
}
