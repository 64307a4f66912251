//! The policies of an object's rules on a host, with the objects that they refer to.

use std::sync::Arc;

use sluice_config::{
    Action, Authorisation, Code, Deny, ErrorBackend, HostPattern, ObjectRef, Policies, ResourceKey,
    UpstreamProtocol,
};

use super::endpoint_tls::InheritedTls;
use super::{Builder, MISNAMED, object_ref, paths};
use crate::problem::{because, error, warning};
use crate::store::{ObjectKey, RoutePath};
use crate::translate::backend;
use crate::translate::routes::{ObjectRoutes, REJECTED, UNABLE};

const REMEDY_FOR_GROUPS: &str =
    "put the group into the path, such as /app(/|$)(.*) for $2, or take it out of the target";

impl Builder<'_, '_> {
    /// Returns the policies of a path. An unreadable path, or one that cannot be rewritten, is
    /// closed.
    pub(super) fn open_path(
        &mut self,
        object: &ObjectRef,
        field: &str,
        routes: &ObjectRoutes,
        path: &str,
        asks: bool,
    ) -> Arc<Policies> {
        let field = format!("{field}.path");
        if let Some(reason) = asks.then(|| paths::unreadable(path, self.view.expressions())).flatten() {
            let reason = format!("{path:?} is a regular expression that cannot be read ({reason})");
            let message = match routes.closed() {
                None => format!("{reason}; requests that it may match get {UNABLE} until it is corrected"),
                Some(_) => format!("{reason}; every request it may match is refused until it is corrected"),
            };
            let remedy = "correct it, or write it as several paths";
            self.problems.push(error(Code::ExpressionInvalid, object, field.clone(), message, remedy));
            return routes.policies_of_closed(&field, &reason, UNABLE);
        }
        match routes.rewrite(path, self.view.expressions()) {
            Ok(None) => routes.policies(path),
            Ok(Some((rewrite, lacking))) => {
                if let Some(number) = lacking {
                    self.problems.push(warning(
                        Code::RewriteGroupMissing,
                        object,
                        field,
                        format!(
                            "rewrite-target or x-forwarded-prefix names ${number}, and the path {path:?} has no such \
                             group: it becomes an empty text"
                        ),
                        REMEDY_FOR_GROUPS,
                    ));
                }
                Arc::new(Policies { rewrite: Some(rewrite), ..(*routes.policies(path)).clone() })
            }
            Err(fault) => {
                let message = match routes.closed() {
                    None => format!("{fault}; it answers {UNABLE} until one of the two is corrected"),
                    Some(_) => format!("{fault}; it stays closed until one of the two is corrected"),
                };
                self.problems.push(error(
                    Code::RewriteInvalid,
                    object,
                    field.clone(),
                    message,
                    REMEDY_FOR_GROUPS,
                ));
                routes.policies_of_closed(&field, &fault.to_string(), UNABLE)
            }
        }
    }

    /// Returns the policies of what is below a path, if only that is rewritten; `open` are those of
    /// the path.
    pub(super) fn below_path(
        &self,
        field: &str,
        routes: &ObjectRoutes,
        path: &RoutePath,
        open: &Arc<Policies>,
    ) -> Option<Arc<Policies>> {
        if open.deny.is_some() || !routes.settings.rewriting.rewrites_below(path) {
            return None;
        }
        // It needs no groups of the path: the target is the path.
        match routes.rewrite(&format!("{}/", path.path), self.view.expressions()) {
            Ok(rewrite) => {
                let rewrite = rewrite.map(|(rewrite, _)| rewrite);
                Some(Arc::new(Policies { rewrite, ..(**open).clone() }))
            }
            Err(fault) => {
                Some(routes.policies_of_closed(&format!("{field}.path"), &fault.to_string(), UNABLE))
            }
        }
    }

    /// Returns the policies of a rule. If a required Secret or ConfigMap is unusable, the rule is
    /// closed until it is usable. A rule that is closed already is checked too, to report all
    /// problems at once.
    pub(super) fn guarded(
        &mut self,
        routes: &ObjectRoutes,
        policies: Arc<Policies>,
        action: &Action,
    ) -> Arc<Policies> {
        if policies.deny.is_none() {
            return self.resolved(routes, policies, action);
        }
        // A closed rule uses nothing.
        let uses = self.uses.clone();
        self.resolved(routes, policies.clone(), action);
        self.uses = uses;
        policies
    }

    fn resolved(
        &mut self,
        routes: &ObjectRoutes,
        mut policies: Arc<Policies>,
        action: &Action,
    ) -> Arc<Policies> {
        let object = object_ref(routes);
        policies = self.with_snippets(routes, policies, action);
        policies = self.with_firewall(routes, policies);
        let mut deny = policies.deny.clone();
        for (key, field) in &routes.settings.needs {
            let digest = policies.digest_auth.as_ref().filter(|digest| digest.credentials == *key);
            let resource = self.view.resource(key);
            let fault = resource.fault(key, self.view.options);
            let fault = fault.or_else(|| resource.lacks_realm(key, &digest?.realm));
            let Some(fault) = fault else {
                self.uses.resource(key);
                continue;
            };
            let reason = because(&object, field, &fault.reason);
            deny.get_or_insert(Deny { status: 503, reason });
            let message = format!("{}; {}", fault.reason, effect_on_routes(routes));
            let problem = error(fault.code, &object, &**field, message, fault.remedy);
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        if let Some(InheritedTls { tls, secret, owner }) = self.inherited_tls(routes) {
            if let Some(key) = secret {
                let fault = self.inherited_secret(routes, &key, &owner, self.speaks_tls(action, &policies));
                deny = deny.or(fault);
            }
            policies = Arc::new(Policies { upstream_tls: Some(tls), ..(*policies).clone() });
        }
        if let Some(tls) = self.named_tls(routes, &policies, action) {
            policies = Arc::new(Policies { upstream_tls: Some(tls), ..(*policies).clone() });
        }
        let global_auth = match policies.authorisation {
            Authorisation::Global => self.view.auth_of_hosts(),
            _ => None,
        };
        if !routes.has_own_services() && global_auth.is_none() {
            return match deny {
                Some(deny) => Arc::new(Policies { deny: Some(deny), ..(*policies).clone() }),
                None => policies,
            };
        }
        let mut policies = Policies { deny, ..(*policies).clone() };
        let host = match self.served {
            HostPattern::Exact(name) => Some(name.as_str()),
            _ => None,
        };
        if let Some(auth) = routes.settings.external_auth.as_ref().or(global_auth) {
            // An expression need not bound the domain, such as `server-alias: "app.*"`.
            if auth.needs_host() && matches!(self.served, HostPattern::Any | HostPattern::Regex(_)) {
                policies.deny = policies.deny.or(Some(self.close_on_any_host(routes)));
            } else if let Some(mut auth) = auth.policy(self.view, &mut self.uses, host) {
                self.extend_authorisation(routes, &mut auth);
                policies.authorisation = Authorisation::Own(Arc::new(auth));
            }
        }
        if let Some(mirror) = &routes.settings.mirror {
            policies.mirror = mirror.policy(self.view, &mut self.uses, host).map(Arc::new);
        }
        policies.error_pages.backend = self.error_backend(routes);
        Arc::new(policies)
    }

    /// Uses the Secret that another object names for the whole host. An unusable one closes the
    /// rules with TLS to endpoints.
    fn inherited_secret(
        &mut self,
        routes: &ObjectRoutes,
        key: &ResourceKey,
        owner: &ObjectKey,
        speaks_tls: bool,
    ) -> Option<Deny> {
        let Some(fault) = self.view.resource(key).fault(key, self.view.options) else {
            self.uses.resource(key);
            return None;
        };
        if !speaks_tls {
            return None;
        }
        let object = object_ref(routes);
        let field = self.view.setting_field(&object, "proxy-ssl-secret");
        let reason = format!("{}, and {owner} names it for host {}", fault.reason, self.served);
        let message = format!("{reason}; {}", effect_on_routes(routes));
        self.add(error(fault.code, &object, field.as_str(), message, fault.remedy));
        Some(Deny { status: 503, reason: because(&object, &field, &reason) })
    }

    /// Closes a rule for all hosts, or for an expression, whose authorisation service is at the
    /// host of the request: a client would choose it.
    fn close_on_any_host(&mut self, routes: &ObjectRoutes) -> Deny {
        let object = object_ref(routes);
        let field = match routes.settings.external_auth {
            Some(_) => self.view.setting_field(&object, "auth-url"),
            None => "global-auth-url".to_owned(),
        };
        let (hosts, remedy) = match self.served {
            HostPattern::Regex(alias) => (
                format!("the server-alias {} may match hosts of any domain", alias.text),
                "name the host of the authorisation service, or name the hosts in server-alias (a wildcard such as \
                 *.example.com is enough)",
            ),
            _ => (
                "the rule serves every host".to_owned(),
                "name the host of the authorisation service, or give the rule a host (a wildcard is enough)",
            ),
        };
        let reason = format!(
            "has $host as its host, and {hosts}; a client that sends a host of its own would choose the service that \
             admits it"
        );
        self.add(error(
            Code::AuthorisationByAnyHost,
            &object,
            field.clone(),
            format!("{reason}; on this host {}", effect_on_routes(routes)),
            remedy,
        ));
        Deny { status: 503, reason: because(&object, &field, &reason) }
    }

    /// Returns the pools of `default-backend`; without it the program's default backend applies, as
    /// in ingress-nginx, which requests error pages with plain HTTP whatever `backend-protocol` is.
    fn error_backend(&mut self, routes: &ObjectRoutes) -> Option<ErrorBackend> {
        let name = routes.in_namespace(routes.settings.error_backend.as_deref()?);
        let protocol = routes.settings.protocol.unwrap_or(UpstreamProtocol::Http);
        let mut pool = |protocol| backend::replacement_service(self.view, &name, protocol, &mut self.uses);
        let pools = pool(UpstreamProtocol::Http).and_then(|pages| Ok((pages, pool(protocol)?)));
        match pools {
            Ok(((pages, service), (requests, _))) => Some(ErrorBackend { service, pages, requests }),
            Err(fault) => {
                let field = self.view.setting_field(&object_ref(routes), "default-backend");
                self.add(warning(
                    fault.code(),
                    &object_ref(routes),
                    field,
                    format!("{fault}; the program's default backend is used in its place"),
                    "create the Service with a TCP port, or name another one of the same namespace",
                ));
                None
            }
        }
    }
}

/// Returns the effect of a fault on the routes, which another fault may have closed.
fn effect_on_routes(routes: &ObjectRoutes) -> String {
    let kind = routes.object.kind.as_str();
    match routes.closed() {
        None => format!("the routes of this {kind} answer 503"),
        Some(_) => format!("this alone would close the routes of this {kind} with 503"),
    }
}

/// Returns the policies for requests that no path matches. As in ingress-nginx, they have the
/// settings of the object.
pub(super) fn of_rest(routes: &ObjectRoutes, pattern: &HostPattern) -> Arc<Policies> {
    match routes.rules_of(pattern) {
        // The host is invalid for an object: it is closed as a whole.
        [first, others @ ..] if first.is_misnamed && others.iter().all(|rule| rule.is_misnamed) => {
            routes.policies_of_closed(&format!("spec.rules[{}].host", first.index), MISNAMED, REJECTED)
        }
        _ => routes.policies("/"),
    }
}
