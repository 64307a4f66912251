//! Directives of snippets for the rules of an Ingress on a host: those of the Ingress, of the host
//! and of all rules.
//!
//! A server snippet applies to the Ingresses of its namespace on the host, so no Ingress changes
//! the routes of another owner. In ingress-nginx it applies to the whole host, and only the first
//! of several counts; here all of a namespace apply, so that none that restricts access is left
//! out.

use std::borrow::Cow;
use std::sync::Arc;

use sluice_config::{Action, Authorisation, Code, Deny, ExternalAuth, Policies, UpstreamProtocol};

use super::{Builder, ObjectRoutes, object_ref};
use crate::problem::{because, error};
use crate::translate::snippet::{self, Block, TemplateDirectives};

/// The server snippets of each namespace, oldest Ingress first. Copies of one count once.
pub(super) fn of_server(claimants: &[&Arc<ObjectRoutes>]) -> Vec<(Arc<str>, Block)> {
    let mut all: Vec<(Arc<str>, Block)> = Vec::new();
    let mut known: Vec<(&str, &Block)> = Vec::new();
    for routes in claimants.iter().filter(|routes| routes.closed().is_none()) {
        let server = routes.settings.snippets.server.as_deref();
        let namespace = routes.namespace();
        let Some(server) = server.filter(|server| !known.contains(&(&**namespace, *server))) else {
            continue;
        };
        known.push((namespace, server));
        match all.iter_mut().find(|(other, _)| other == namespace) {
            Some((_, block)) => block.extend(server),
            None => all.push((namespace.clone(), server.clone())),
        }
    }
    all
}

impl Builder<'_, '_> {
    /// The service for all rules keeps no fields for the variables of one Ingress.
    fn without_reply(&mut self, routes: &ObjectRoutes) -> Deny {
        let object = object_ref(routes);
        let field = self.view.setting_field(&object, "configuration-snippet");
        let reason = "has auth_request_set, which is translated only beside auth-url of the same Ingress";
        let message = format!("{reason}; the routes of this Ingress answer 503");
        let remedy = "name the service in auth-url, or remove the directive";
        self.add(error(Code::SnippetNotTranslated, &object, field.as_str(), message, remedy));
        Deny { status: 503, reason: because(&object, &field, reason) }
    }

    /// Adds what snippets ask of the authorisation service of an Ingress.
    pub(super) fn extend_authorisation(&self, routes: &ObjectRoutes, auth: &mut ExternalAuth) {
        let own = &routes.settings.snippets;
        if let Some(block) = own.authorisation.as_deref() {
            let settings = routes.settings.external_auth.as_ref();
            let uses_http2 = self.view.snippets().uses_http2;
            let is_separate = settings.is_some_and(|auth| !auth.has_variables_of_location(uses_http2));
            let separated = own.location.as_deref().filter(|_| is_separate);
            auth.fields.extend(block.request_without_variables_of(separated));
        }
        let locations = [own.location.as_ref(), self.view.snippets().location.as_ref()];
        for block in locations.into_iter().flatten() {
            auth.kept.extend_from_slice(block.kept());
        }
    }

    /// The server snippets of a namespace.
    pub(super) fn server_snippet(&self, namespace: &Arc<str>) -> Option<&Block> {
        let of_host = self.server_snippets.iter().find(|(owner, _)| owner == namespace);
        of_host.map(|(_, block)| block)
    }

    /// The policies of a rule with the directives that apply to it.
    pub(super) fn with_snippets(
        &mut self,
        routes: &ObjectRoutes,
        policies: Arc<Policies>,
        action: &Action,
    ) -> Arc<Policies> {
        let global = self.view.snippets();
        let namespace = routes.namespace();
        let of_host = self.server_snippet(namespace);
        let own = &routes.settings.snippets;
        let snippet = own.location.as_deref();
        // In ingress-nginx's template, the server-snippet of the ConfigMap follows the locations.
        let of_all = global.server.as_deref().map(|block| match self.has_expressions {
            true => Cow::Owned(block.behind_expression()),
            false => Cow::Borrowed(block),
        });
        let server = combined([of_host, of_all.as_deref()]);
        let mut location = combined([snippet, global.location.as_deref()]);
        if !own.annotations.is_empty() {
            location.get_or_insert_default().append(&own.annotations);
        }
        if server.is_none() && location.is_none() {
            return policies;
        }
        let has_service = routes.settings.external_auth.is_some();
        let asks_for_all = !has_service
            && global.has_authorisation
            && routes.policies.authorisation == Authorisation::Global;
        let (server, location) = (server.unwrap_or_default(), location.unwrap_or_default());
        let limits = policies.limits.as_deref();
        let template = TemplateDirectives {
            adds_header: has_service || asks_for_all,
            limits_rate: limits.is_some_and(|limits| limits.per_second > 0 || limits.per_minute > 0),
            limits_number: limits.is_some_and(|limits| limits.connections > 0),
            is_expression: self.has_expressions,
            passes_grpc: self.uses_protocol(action, UpstreamProtocol::is_http2),
        };
        let mut policies = (*policies).clone();
        snippet::apply(&server, &location, template, &mut policies);
        if asks_for_all && !location.kept().is_empty() {
            policies.deny = policies.deny.or(Some(self.without_reply(routes)));
        }
        Arc::new(policies)
    }
}

/// Texts of the same level, in the order of ingress-nginx's template.
fn combined<const N: usize>(texts: [Option<&Block>; N]) -> Option<Block> {
    let mut texts = texts.into_iter().flatten();
    let mut block = texts.next()?.clone();
    texts.for_each(|text| block.extend(text));
    Some(block)
}
