//! Settings of the `auth-url` family, from annotations or ConfigMap keys, and the resulting policy.
//!
//! A URL whose host cannot be resolved has no endpoints, so the routes answer 500, as in nginx.

mod values;

use std::sync::Arc;
use std::time::Duration;

use sluice_config::{
    AuthCache, AuthKeepAlive, ExternalAuth, NamespacedName, ResourceKey, ResourceKind, Template, is_own_field,
};

use super::backend::Uses;
use super::remote::Remote;
use super::snippet::Block;
use super::template;
use super::view::View;

pub(crate) use values::{SignIn, cache_duration, method, parameter, response_headers, sign_in_url};

/// Parsed settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSettings {
    /// `auth-url`.
    pub(crate) url: Option<Remote>,
    pub(crate) method: Option<Arc<str>>,
    pub(crate) sign_in: Option<SignIn>,
    pub(crate) redirect_param: Arc<str>,
    pub(crate) response_headers: Vec<Arc<str>>,
    pub(crate) request_redirect: Option<Template>,
    /// `auth-proxy-set-headers`: a ConfigMap.
    pub(crate) set_headers: Option<NamespacedName>,
    pub(crate) always_set_cookie: bool,
    pub(crate) cache_key: Option<Template>,
    /// Statuses, or none for any, each with the time for which replies with it are cached. `None`:
    /// each reply is cached for the time that it states.
    pub(crate) cache_valid: Option<Vec<(Vec<u16>, Duration)>>,
    /// Whether the next two apply, as in nginx: not if it is 0.
    pub(crate) keep_alive: u32,
    pub(crate) keep_alive_requests: u32,
    pub(crate) keep_alive_timeout: Duration,
    /// `auth-keepalive-share-vars`
    pub(crate) shares_variables: bool,
    /// `global-auth-snippet`
    pub(crate) snippet: Option<Arc<Block>>,
}

impl Default for AuthSettings {
    fn default() -> Self {
        Self {
            url: None,
            method: None,
            sign_in: None,
            redirect_param: "rd".into(),
            response_headers: Vec::new(),
            request_redirect: None,
            set_headers: None,
            always_set_cookie: false,
            cache_key: None,
            cache_valid: Some(vec![(vec![200, 202, 401], Duration::from_secs(300))]),
            keep_alive: 0,
            keep_alive_requests: 1000,
            keep_alive_timeout: Duration::from_secs(60),
            shares_variables: false,
            snippet: None,
        }
    }
}

impl AuthSettings {
    /// Returns the cache settings; `None` if the key contains an unsupported variable, because
    /// requests that the key is meant to separate would share a reply.
    fn cache(&self) -> Option<AuthCache> {
        let key = self.cache_key.as_ref().filter(|key| !template::has_unserved(key))?;
        Some(AuthCache { key: key.clone(), valid: self.cache_valid.clone() })
    }

    /// Returns the key of the ConfigMap that the settings need.
    pub(crate) fn resource(&self) -> Option<ResourceKey> {
        let name = self.set_headers.clone().filter(|_| self.url.is_some())?;
        Some(ResourceKey { kind: ResourceKind::Headers, name })
    }

    /// Returns whether the service depends on the host of the request.
    pub(crate) fn needs_host(&self) -> bool {
        self.url.as_ref().is_some_and(Remote::needs_host)
    }

    /// Returns the policy for requests to `host`, or to any host if that is `None`; `None` without
    /// a URL.
    pub(crate) fn policy(
        &self,
        view: &View<'_>,
        uses: &mut Uses,
        host: Option<&str>,
    ) -> Option<ExternalAuth> {
        let url = self.url.as_ref()?;
        Some(ExternalAuth {
            to: url.resolve(view, uses, host),
            target: url.target.clone(),
            method: self.method.clone(),
            sign_in: self.sign_in.as_ref().map(|url| url.leading_back(&self.redirect_param)),
            response_headers: self.others_fields().cloned().collect(),
            request_redirect: self.request_redirect.clone(),
            set_headers: self.resource(),
            fields: self.snippet.iter().flat_map(|block| block.request(false)).collect(),
            kept: Vec::new(),
            always_set_cookie: self.always_set_cookie,
            cache: self.cache(),
            keep_alive: self.keeps_alive().then_some(AuthKeepAlive {
                requests: self.keep_alive_requests,
                idle: self.keep_alive_timeout,
            }),
        })
    }

    /// As in ingress-nginx, a value that is not positive disables all three.
    fn keeps_alive(&self) -> bool {
        self.keep_alive > 0 && self.keep_alive_requests > 0 && !self.keep_alive_timeout.is_zero()
    }

    /// Returns whether the authorisation request has the variables that the location assigns.
    /// ingress-nginx makes the request with Lua, which can separate them, only for connections of
    /// `auth-keepalive` to a host without variables, and without HTTP/2.
    pub(crate) fn has_variables_of_location(&self, uses_http2: bool) -> bool {
        let has_fixed_host = self.url.as_ref().is_some_and(Remote::has_fixed_host);
        self.shares_variables || uses_http2 || !self.keeps_alive() || !has_fixed_host
    }

    /// Returns the reply fields that are passed to endpoints.
    fn others_fields(&self) -> impl Iterator<Item = &Arc<str>> {
        self.response_headers.iter().filter(|name| !is_own_field(name))
    }

    /// Returns why some reply fields are not passed to endpoints, if any.
    pub(crate) fn own_fields(&self) -> Option<String> {
        let own: Vec<_> = self.response_headers.iter().filter(|name| is_own_field(name)).collect();
        (!own.is_empty())
            .then(|| format!("has {own:?}, which the gateway itself sets; the others are in force"))
    }
}
