//! Header fields from settings and rules: `proxy-set-headers`, `add-headers`, `custom-headers`,
//! `upstream-vhost`, `connection-proxy-header` and `hide-headers`; and replacements in cookies and
//! redirects.
//!
//! Values with variables are filled in once, when the request is known, because their sources are
//! gone when a response arrives. All others are looked up when a head is changed.

use std::cell::LazyCell;

use http::StatusCode;
use http::header::HeaderValue;

use super::checks::host_of_url;
use super::exchange::Exchange;
use super::filled_sets::{FilledSets, HostForEndpoint};
use super::stages::{StageInput, Step};
use crate::message::accel;
use crate::message::edit::{Edit, EditableName, HeadMut};
use crate::policy::BackendHeaders;
use crate::policy::header_set::{FilledHeaders, HeaderSet};
use crate::policy::redirect::{self, LocationInput};
use crate::policy::replacements::{InForce, Replacements};
use crate::policy::resources::ResourceSlot;
use crate::policy::template::{Template, TemplateContext};
use crate::route::Route;
use crate::variable::HeadValues;

static X_ORIGINAL_URI: EditableName = EditableName::from_static("x-original-uri");

impl Exchange {
    /// Fills in values that depend on the request. Must be called before the first stage.
    pub(super) fn fill_headers(&mut self, route: Option<&Route>, input: &StageInput<'_>) {
        let global = input.compiled_settings.headers.as_deref();
        let own = route.and_then(backend_headers);
        let replaced = [route.and_then(replacements), global.and_then(|global| global.replacements.as_ref())];
        if global.is_none() && own.is_none() && replaced[0].is_none() {
            return;
        }
        let filled = {
            // Most rules have no variables.
            let context = LazyCell::new(|| self.template_context(route, input));
            // Fields inform their receivers, so they have the path that the client sent.
            let of_client = LazyCell::new(|| {
                let context = self.template_context(route, input);
                let head = HeadValues { received: input.head.received, ..context.head };
                TemplateContext { head, ..context }
            });
            let fill = |slot: &ResourceSlot<HeaderSet>| {
                let set = slot.load();
                set.as_ref().filter(|set| set.has_variables()).map(|set| set.fill(&of_client))
            };
            let host = |template: &Template| HostForEndpoint::fill(template, &context, input.head.authority);
            FilledSets {
                original_uri: global
                    .filter(|global| global.adds_original_uri)
                    .and_then(|_| HeaderValue::from_bytes(input.head.received_target().as_bytes()).ok()),
                request: global.and_then(|global| global.request.as_deref()).and_then(fill),
                response: global.and_then(|global| global.response.as_deref()).and_then(fill),
                own: own.and_then(|own| own.response.as_deref()).and_then(fill),
                host: own.and_then(BackendHeaders::host_template).map(host).unwrap_or_default(),
                replacements: replaced.map(|one| {
                    let with_variables = one.filter(|one| one.has_variables())?;
                    Some(Box::new(with_variables.fill(&context)))
                }),
            }
        };
        if filled.is_needed() {
            self.extras.get_or_insert_default().headers = Some(Box::new(filled));
        }
    }

    /// Returns whether the rule's response fields are missing, for which it is closed.
    pub(super) fn lacks_headers(&self, route: &Route) -> bool {
        let own = backend_headers(route).and_then(|own| own.response.as_deref());
        own.is_some_and(|slot| slot.load().is_none())
    }

    /// Answers 400 if the host for the endpoint is none.
    pub(super) fn check_host_for_endpoint(&self) -> Step {
        match self.filled_sets().map(|filled| &filled.host) {
            Some(HostForEndpoint::Invalid) => Step::Break(self.refused(StatusCode::BAD_REQUEST)),
            _ => Step::Continue(()),
        }
    }

    /// Sets the configured fields of requests to endpoints.
    pub(super) fn set_request_headers(&self, head: &mut Edit<'_, impl HeadMut>) {
        let Some(global) = self.compiled_settings().headers.as_deref() else { return };
        let filled = self.filled_sets();
        if let Some(target) = filled.and_then(|filled| filled.original_uri.as_ref()) {
            head.set(&X_ORIGINAL_URI, target);
        }
        apply(global.request.as_deref(), filled.and_then(|filled| filled.request.as_ref()), head);
    }

    /// Returns the values of configured fields for endpoints that only this client may have, and
    /// the host that depends on the request; `None` for an empty value.
    pub(super) fn configured_values_of_client(&self) -> impl Iterator<Item = Option<&HeaderValue>> {
        let filled = self.filled_sets();
        let host = filled.and_then(|filled| match &filled.host {
            HostForEndpoint::Filled(host) => Some(Some(host)),
            _ => None,
        });
        let request = filled.and_then(|filled| filled.request.as_ref());
        host.into_iter().chain(request.into_iter().flat_map(FilledHeaders::values_of_client))
    }

    /// Sets the rule's own fields. Must be called last: `Host` and `Connection` override all
    /// others.
    pub(super) fn set_backend_headers(&self, head: &mut impl HeadMut) {
        let Some(own) = self.route.as_deref().and_then(backend_headers) else { return };
        let host = match self.filled_sets().map(|filled| &filled.host) {
            Some(HostForEndpoint::Filled(host)) => Some(host),
            _ => None,
        };
        own.request(head.fields(), host);
    }

    /// Removes the fields with which an endpoint controls the proxy, unless the rule shows them.
    pub(super) fn hide_accel_fields(&self, head: &mut Edit<'_, impl HeadMut>) {
        for name in accel::HIDDEN.iter().filter(|name| !self.passes_field(name.get())) {
            head.remove(name);
        }
    }

    /// Removes the hidden fields from an endpoint's response.
    pub(super) fn hide_headers(&self, head: &mut Edit<'_, impl HeadMut>) {
        let Some(global) = self.compiled_settings().headers.as_deref() else { return };
        for name in global.hidden.iter().filter(|name| !self.passes_field(name.get())) {
            head.remove(name);
        }
    }

    /// Sets the operator's fields of all responses.
    pub(super) fn set_operator_headers(&self, status: StatusCode, head: &mut Edit<'_, impl HeadMut>) {
        if let Some(global) = self.compiled_settings().headers.as_deref() {
            let filled = self.filled_sets().and_then(|filled| filled.response.as_ref());
            self.set_headers(global.response.as_deref(), filled, status, head);
        }
    }

    /// Sets the rule's own fields of responses.
    pub(super) fn set_own_headers(&self, status: StatusCode, head: &mut Edit<'_, impl HeadMut>) {
        if let Some(own) = self.route.as_deref().and_then(backend_headers) {
            let filled = self.filled_sets().and_then(|filled| filled.own.as_ref());
            self.set_headers(own.response.as_deref(), filled, status, head);
        }
    }

    fn set_headers(
        &self,
        slot: Option<&ResourceSlot<HeaderSet>>,
        filled: Option<&FilledHeaders>,
        status: StatusCode,
        head: &mut Edit<'_, impl HeadMut>,
    ) {
        apply(slot, filled, head);
        if let Some(filled) = filled.filter(|filled| filled.late().next().is_some()) {
            self.with_response_context(status, |context| filled.apply_late(context, head));
        }
    }

    /// Values of the operator's and the rule's fields that are known with the response.
    pub(super) fn late_headers(&self) -> impl Iterator<Item = &Template> {
        self.filled_sets().into_iter().flat_map(FilledSets::of_responses).flat_map(FilledHeaders::late)
    }

    /// Applies replacements to cookies and redirects of an endpoint's response.
    pub(super) fn replace(&self, head: &mut Edit<'_, impl HeadMut>) {
        let own = self.route.as_deref().and_then(replacements);
        let of_all =
            self.compiled_settings().headers.as_deref().and_then(|global| global.replacements.as_ref());
        if own.is_none() && of_all.is_none() {
            return;
        }
        let filled = self.filled_sets().map(|filled| &filled.replacements);
        let [own, of_all] = [(own, 0), (of_all, 1)].map(|(compiled, at)| {
            let filled = filled.and_then(|filled| filled[at].as_deref());
            filled.or(compiled).unwrap_or(&Replacements::NONE)
        });
        InForce::new(own, of_all).response(head, |path| self.absolute(path));
    }

    /// Returns a path of this host as a URL, where nginx would return one.
    pub(super) fn absolute(&self, path: &str) -> Option<String> {
        let settings = self.settings();
        let own = self.route.as_deref().map(|route| &route.policies.locations);
        let relative = own.and_then(|own| own.relative).unwrap_or(settings.relative_redirects);
        let names_port = own.and_then(|own| own.port).unwrap_or(settings.port_in_redirects);
        self.url_of_path(path, relative, names_port)
    }

    /// The same outside of the rule's location. In ingress-nginx, the settings of the Ingress for
    /// redirects do not apply there, and no setting names the port.
    pub(super) fn absolute_outside_location(&self, path: &str) -> Option<String> {
        self.url_of_path(path, self.settings().relative_redirects, false)
    }

    /// Returns the Location of the sign-in page, which ingress-nginx has in a location of its own.
    pub(super) fn sign_in_location(&self, url: Vec<u8>) -> Vec<u8> {
        let path = str::from_utf8(&url).ok().filter(|url| url.starts_with('/'));
        let absolute = path.and_then(|path| self.absolute_outside_location(path));
        absolute.map_or(url, String::into_bytes)
    }

    fn url_of_path(&self, path: &str, relative: bool, names_port: bool) -> Option<String> {
        let authority = self.authority.to_str().ok().filter(|authority| !authority.is_empty())?;
        let source = LocationInput {
            scheme: self.connection.scheme(),
            host: host_of_url(authority),
            authority,
            declared_port: self.connection.declared_port,
            port: self.connection.port,
            target: path,
            relative,
            names_port,
        };
        Some(redirect::as_nginx(&source, &[path]))
    }

    fn filled_sets(&self) -> Option<&FilledSets> {
        self.extras.as_ref()?.headers.as_deref()
    }
}

fn replacements(route: &Route) -> Option<&Replacements> {
    route.compiled.as_deref()?.replacements.as_ref()
}

/// Returns the rule's settings for heads.
pub(super) fn backend_headers(route: &Route) -> Option<&BackendHeaders> {
    route.compiled.as_deref()?.headers.as_ref()
}

fn apply(
    slot: Option<&ResourceSlot<HeaderSet>>,
    filled: Option<&FilledHeaders>,
    head: &mut Edit<'_, impl HeadMut>,
) {
    match filled {
        Some(filled) => filled.apply(head),
        None => {
            let Some(slot) = slot else { return };
            if let Some(set) = slot.load().as_ref() {
                set.fixed().apply(head);
            }
        }
    }
}
